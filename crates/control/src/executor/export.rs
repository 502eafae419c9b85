//! The export gate's look at a checkpoint: the store gives what differs, trust says what of it counts.

use std::path::Path;

use store::{Commit, Tree};
use trust::export::{Change, Content, Report, Rules, Side, Survey};

/// What of the changes from `base` to `head` others would execute or trust. `hooks`: a folder of the tree
/// that the owner's git takes hooks from.
pub(super) fn report(
    tree: &Tree,
    base: &Commit,
    head: &Commit,
    hooks: Option<&Path>,
    rules: Rules,
) -> Result<Report, store::Error> {
    let mut survey = Survey::new(rules);
    if let Some(hooks) = hooks {
        survey = survey.with_hooks_at(&hooks.to_string_lossy());
    }
    tree.alterations(base, head, |alteration| {
        survey.see(&Change {
            path: &alteration.path,
            before: alteration.before.as_ref().map(side),
            after: alteration.after.as_ref().map(side),
        });
    })?;
    if survey.needs_names() {
        tree.each_name(head, |name| survey.hold(name))?;
    }
    Ok(survey.close())
}

fn side(entry: &store::Entry) -> Side<'_> {
    let content = match &entry.content {
        store::Content::Whole(bytes) => Content::Whole(bytes),
        store::Content::Unread => Content::Unread,
        store::Content::Elsewhere => Content::Elsewhere,
    };
    Side { mode: entry.mode, id: &entry.id, content }
}
