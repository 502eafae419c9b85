//! `regie audit verify`: the record, link by link. `regie audit who-changed`: where a line comes from. `regie audit acts`:
//! what was done outside of any run. `regie audit who-read` and `reads`: see [`reads`].

pub(super) mod reads;

use std::path::{Path, PathBuf};

use control::api::{Changed, WhoChanged};

use super::{Context, lease};
use crate::failure::{Exit, Failure};
use crate::screen::{self, clock, style, text};

pub(super) async fn acts(context: &Context) -> Result<Exit, Failure> {
    let acts = context.connect().await?.act_list().await?;
    if context.json {
        screen::put_json(&acts)?;
        return Ok(Exit::Done);
    }
    let shown: String = acts.iter().map(|act| format!("{}\n", text::line(&lease::act_line(act)))).collect();
    screen::put(if acts.is_empty() { "nothing was done outside of runs\n" } else { &shown })?;
    Ok(Exit::Done)
}

pub(super) async fn verify(context: &Context) -> Result<Exit, Failure> {
    let audit = context.connect().await?.audit_verify().await?;
    let exit = if audit.intact { Exit::Done } else { Exit::Failed };
    if context.json {
        screen::put_json(&audit)?;
        return Ok(exit);
    }
    let size =
        format!("{} of {}", text::of(audit.events, "event", "events"), text::of(audit.runs, "run", "runs"));
    let mut shown = if audit.intact {
        format!("{} every link holds  {}\n", style::ok("✓"), style::dim(&size))
    } else {
        format!("{} the record was changed  {}\n", style::failed("✗"), style::dim(&size))
    };
    if audit.erased > 0 {
        let erased = text::of(audit.erased, "content", "contents");
        shown.push_str(&format!("  intact, {erased} erased on the owner's order; their links hold\n"));
    }
    for broken in &audit.broken {
        let (run, what) = (text::line(&broken.run), text::line(&broken.what));
        shown.push_str(&match broken.seq {
            0 => format!("  {what}; the one before was of {run}\n"),
            seq => format!("  {run} event {seq}: {what}\n"),
        });
    }
    screen::put(&shown)?;
    if !audit.intact {
        screen::hint("keep a copy of the home as it is, and compare it with your last backup")?;
    }
    Ok(exit)
}

pub(super) async fn who_changed(context: &Context, place: &str) -> Result<Exit, Failure> {
    let (path, line) = parted(place);
    let (project, path) = placed(&path)?;
    let wanted = WhoChanged { project, path, line };
    let changed = context.connect().await?.who_changed(&wanted).await?;
    if context.json {
        screen::put_json(&changed)?;
        return Ok(Exit::Done);
    }
    screen::put(&changed.iter().map(shown).collect::<String>())?;
    Ok(Exit::Done)
}

/// The repository of here, and a file's path below its root.
fn placed(path: &str) -> Result<(String, String), Failure> {
    let here = std::env::current_dir().map_err(|error| Failure::new(format!("where is this? {error}")))?;
    let owner = store::Tree::inspect(&here).map_err(|error| Failure::new(error.to_string()))?;
    let whole = std::path::absolute(path).map_err(|error| Failure::new(format!("{path}: {error}")))?;
    let outside = || Failure::new(format!("{path} is not below {}", owner.root.display()));
    let below = resolved(&whole).strip_prefix(&owner.root).map(Path::to_owned).map_err(|_| outside())?;
    let named = |path: PathBuf| path.into_os_string().into_string().map_err(|_| outside());
    Ok((named(owner.root.clone())?, named(below)?))
}

/// The path with its directory as it is on disk: the root of a repository is given so, too.
fn resolved(path: &Path) -> PathBuf {
    let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
    match (parent, path.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => path.to_owned(),
    }
}

/// A file, and the line after the last colon where there is a number.
fn parted(place: &str) -> (String, Option<u64>) {
    let parts = place.rsplit_once(':').and_then(|(path, line)| Some((path, line.parse().ok()?)));
    match parts {
        Some((path, line)) if line > 0 && !path.is_empty() => (path.to_owned(), Some(line)),
        _ => (place.to_owned(), None),
    }
}

fn shown(changed: &Changed) -> String {
    let last = changed.first.saturating_add(changed.lines).saturating_sub(1);
    let lines = match changed.lines {
        1 => format!("line {last}"),
        _ => format!("lines {}-{last}", changed.first),
    };
    let subject = text::short(&text::line(&changed.subject), 60);
    let commit = text::short_hash(&changed.commit);
    let mut shown =
        format!("{}  {commit}  {} UTC  {subject}\n", style::bold(&lines), clock::moment(changed.at));
    let Some(origin) = &changed.origin else {
        shown.push_str(&format!("  by {}; no run of this home has it on record\n", text::line(&changed.by)));
        return shown;
    };
    let who = format!("{} for {}", text::line(&origin.principal), text::line(&origin.on_behalf_of));
    shown.push_str(&format!("  by {who}, {}, {}\n", text::line(&origin.run), text::line(&origin.lease)));
    shown.push_str(&match (&origin.gate, &origin.approved_by, &origin.rule) {
        (Some(gate), Some(by), _) => format!("  approved by {} at {}\n", text::line(by), text::line(gate)),
        (_, _, Some(rule)) => format!("  merged by rule: {}\n", text::line(rule)),
        _ => "  not merged yet\n".to_owned(),
    });
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_file_and_maybe_a_line() {
        let parted = |place| parted(place);
        assert_eq!(parted("a/b.rs:12"), ("a/b.rs".into(), Some(12)));
        for whole in ["a/b.rs", "a:b", "a:0", ":7", "a:-1", "a:", "C:x"] {
            assert_eq!(parted(whole), (whole.into(), None));
        }
    }
}
