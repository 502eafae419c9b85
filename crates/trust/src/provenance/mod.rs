//! Where the arguments of a call come from, and what follows from it.
//!
//! A run that has read what a stranger wrote may be acting for the stranger. It cannot be known by looking at the
//! text; but it can be known of each value that decides something whether the owner said it, whether the system says
//! it of the thing that the owner named, or whether it is from elsewhere. So the run goes on unasked with what the
//! owner chose, and the owner is asked about what somebody else may have chosen.
//!
//! | module | what lives there |
//! |---|---|
//! | [`manifest`] | what a tool's owner declares of it: what a call does, what its arguments decide, who speaks |
//! | `words` | the owner's words, and when a value counts as one of them |
//! | `seen` | what the run has taken in, and its taint |
//! | `origin` | where a value comes from |
//!
//! Everything is a function of what it is given. More of a stranger's text never turns *ask* into *allow*.

pub mod manifest;
mod origin;
mod seen;
mod words;

use std::collections::BTreeSet;

use domain::Verdict;
use domain::label::Label;

pub use self::manifest::{Act, Fault, Manifest, Role, Tool, Voice};
pub use self::origin::{Origin, Traced};
pub use self::seen::{Call, Seen};
use self::words::links;

/// The tools that a run said it would need before it read anything: the acts that its lease names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan(BTreeSet<String>);

/// What is said of a call, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// The rule that decided, in words for the owner.
    pub rule: String,
    /// Where each value comes from.
    pub arguments: Vec<Traced>,
}

impl FromIterator<String> for Plan {
    fn from_iter<I: IntoIterator<Item = String>>(tools: I) -> Self {
        Self(tools.into_iter().collect())
    }
}

/// Judges a call by where its arguments come from. With a plan, an act that the plan does not name is asked as well.
#[must_use]
pub fn judge(manifest: &Manifest, seen: &Seen, plan: Option<&Plan>, call: &Call) -> Judgement {
    let Some(tool) = manifest.tool(&call.tool) else {
        let rule = format!("no manifest declares what {} does", call.tool);
        return Judgement { verdict: Verdict::Deny, rule, arguments: Vec::new() };
    };
    let arguments = origin::trace(tool, seen, call);
    let doubt = unplanned(tool, plan, call).or_else(|| doubt(tool, seen, call, &arguments));
    let (verdict, rule) = match doubt {
        Some(rule) => (Verdict::Ask, rule),
        None => (Verdict::Allow, "whatever decides something is the owner's choice".to_owned()),
    };
    Judgement { verdict, rule, arguments }
}

fn unplanned(tool: &Tool, plan: Option<&Plan>, call: &Call) -> Option<String> {
    let is_planned = plan.is_none_or(|plan| plan.0.contains(&call.tool));
    (tool.act != Act::Read && !is_planned)
        .then(|| format!("{} is not in the plan that was made before anything was read", call.tool))
}

/// What speaks against a call, if anything does.
fn doubt(tool: &Tool, seen: &Seen, call: &Call, arguments: &[Traced]) -> Option<String> {
    if tool.act == Act::Read || !seen.taint().has(Label::EXTERNAL) {
        return None;
    }
    let reaches = arguments.iter().any(|it| it.role == Role::Destination && it.origin != Origin::Harmless);
    let is_outward = reaches || matches!(tool.act, Act::Fetch | Act::Send | Act::Grant | Act::Commit);
    if is_outward && seen.taint().has(Label::SENSITIVE) {
        return Some(
            "the run has read a stranger's text and sensitive data, and this leaves the house".into(),
        );
    }
    if tool.act == Act::Destroy {
        return Some("the run has read a stranger's text, and this removes something".into());
    }
    if tool.act == Act::Commit && seen.made.contains(call) {
        return Some("the run has done exactly this before".into());
    }
    let decides =
        |it: &Traced| !matches!(it.role, Role::Content | Role::Bounded) && it.origin != Origin::Harmless;
    if !arguments.iter().any(decides) {
        return Some("nothing in it is the owner's choice".into());
    }
    let own_words =
        arguments.iter().filter(|it| it.role == Role::Content).all(|it| it.origin <= Origin::Composed);
    let chosen = arguments.iter().find(|it| !is_good(tool.act, it, own_words));
    if let Some(it) = chosen {
        return Some(format!("`{}` is not the owner's choice: {}", it.argument, it.origin.in_words()));
    }
    let texts = arguments.iter().filter(|it| matches!(it.role, Role::Content | Role::Name));
    let link = texts.flat_map(|it| links(&it.text)).find(|link| !seen.words.hold(link));
    link.filter(|_| is_outward).map(|link| format!("it carries a link that the owner did not give: {link}"))
}

/// Whether a value may decide what it decides.
fn is_good(act: Act, value: &Traced, own_words: bool) -> bool {
    let limit = match (value.role, act) {
        (Role::Content, _) => return true,
        (Role::Setting, _) | (Role::Destination, Act::Commit | Act::Account | Act::Destroy) => Origin::Owner,
        // A link of a member's, where the owner sent the run, is followed; nothing is added to it.
        (Role::Destination, Act::Fetch) => return matches!(value.origin, Origin::Owner | Origin::Linked),
        (Role::Destination, Act::Grant | Act::Read) => Origin::Derived,
        // The owner's own words may go to whoever is known in the house; other words only where the owner said.
        (Role::Destination, Act::Send | Act::Write) if own_words => {
            return value.origin <= Origin::Derived || value.origin == Origin::Listed;
        }
        (Role::Destination, Act::Send | Act::Write) => Origin::Owner,
        (Role::Name | Role::Bounded, _) => Origin::Composed,
        (Role::Target | Role::Amount | Role::Key, _) => Origin::Derived,
    };
    value.origin <= limit
}

impl Origin {
    fn in_words(self) -> &'static str {
        match self {
            Self::Harmless => "it is empty",
            Self::Owner => "the owner said it",
            Self::Derived => "the system says it of what the owner named",
            Self::Composed => "it is made of the owner's words and names",
            Self::Linked => "it is a link in what a member wrote",
            Self::Listed => "it exists, and something else chose it among others",
            Self::Foreign => "it stands in a text that somebody else wrote",
            Self::Unknown => "nobody said it",
        }
    }
}
