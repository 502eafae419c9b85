//! The keys: what each means and where it may stand. The written files, the refusals and `regie config
//! explain` all come from this one table.

use domain::budget::{Caps, DOLLAR};
use models::{Wire, catalogue};
use serde::Serialize;

use super::value::{Kind, Value};
use super::{owner, roles};

/// What all missions of one UTC day may cost together unless the owner says otherwise.
const DAY_NANODOLLARS: u64 = 10 * DOLLAR;

/// How long the workspace of a run that has ended is kept, in milliseconds: two weeks.
const KEEP_MILLIS: u64 = 14 * 86_400_000;
/// How long the branch of a run that has ended stays one, in milliseconds: thirty days.
const KEEP_BRANCHES_MILLIS: u64 = 30 * 86_400_000;
/// How long the bin keeps what is in it, in milliseconds: ninety days.
const KEEP_BIN_MILLIS: u64 = 90 * 86_400_000;
/// What all caches may take, in bytes.
const KEEP_BYTES: u64 = 10 << 30;

/// Whose words a file holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// A repository's `regie.toml`.
    #[default]
    Project,
    /// The owner's `config.toml`.
    Installation,
}

/// A key of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Done,
    Model,
    Effort,
    Batch,
    MaxDollars,
    MaxTurns,
    MaxTokens,
    MaxTime,
    DayMaxDollars,
    LocalUrl,
    DeliverySign,
    DeliveryHooks,
    Setup,
    LeaseTools,
    LeaseRead,
    LeaseWrite,
    NotifyDesktop,
    NotifyWebhook,
    NotifyEvents,
    NotifySecretEnv,
    KeepWorkspaces,
    KeepCaches,
    KeepBranches,
    KeepBin,
    LimitMemory,
    LimitProcesses,
    LimitDisk,
    LimitFiles,
    ExportAllow,
    ExportAsk,
    ExportDeny,
}

/// All keys, in the order in which files and `explain` have them.
pub(crate) const KEYS: [Key; 31] = [
    Key::Done,
    Key::Model,
    Key::Effort,
    Key::Batch,
    Key::MaxDollars,
    Key::MaxTurns,
    Key::MaxTokens,
    Key::MaxTime,
    Key::DayMaxDollars,
    Key::LocalUrl,
    Key::DeliverySign,
    Key::DeliveryHooks,
    Key::Setup,
    Key::LeaseTools,
    Key::LeaseRead,
    Key::LeaseWrite,
    Key::NotifyDesktop,
    Key::NotifyWebhook,
    Key::NotifyEvents,
    Key::NotifySecretEnv,
    Key::KeepWorkspaces,
    Key::KeepCaches,
    Key::KeepBranches,
    Key::KeepBin,
    Key::LimitMemory,
    Key::LimitProcesses,
    Key::LimitDisk,
    Key::LimitFiles,
    Key::ExportAllow,
    Key::ExportAsk,
    Key::ExportDeny,
];

impl Key {
    /// The table that it stands in, and its name there.
    pub(crate) const fn path(self) -> (&'static str, &'static str) {
        match self {
            Self::Done => ("mission", "done"),
            Self::Model => ("mission", "model"),
            Self::Effort => ("mission", "effort"),
            Self::Batch => ("mission", "batch"),
            Self::MaxDollars => ("mission", "max_dollars"),
            Self::MaxTurns => ("mission", "max_turns"),
            Self::MaxTokens => ("mission", "max_tokens"),
            Self::MaxTime => ("mission", "max_time"),
            Self::DayMaxDollars => ("day", "max_dollars"),
            Self::LocalUrl => ("local", "base_url"),
            Self::DeliverySign => ("delivery", "sign"),
            Self::DeliveryHooks => ("delivery", "hooks"),
            Self::Setup => ("run", "setup"),
            Self::LeaseTools => ("lease", "tools"),
            Self::LeaseRead => ("lease", "read"),
            Self::LeaseWrite => ("lease", "write"),
            Self::NotifyDesktop => ("notify", "desktop"),
            Self::NotifyWebhook => ("notify", "webhook"),
            Self::NotifyEvents => ("notify", "events"),
            Self::NotifySecretEnv => ("notify", "webhook_secret_env"),
            Self::KeepWorkspaces => ("keep", "workspaces"),
            Self::KeepCaches => ("keep", "caches"),
            Self::KeepBranches => ("keep", "branches"),
            Self::KeepBin => ("keep", "bin"),
            Self::LimitMemory => ("limits", "memory"),
            Self::LimitProcesses => ("limits", "processes"),
            Self::LimitDisk => ("limits", "disk"),
            Self::LimitFiles => ("limits", "files"),
            Self::ExportAllow => ("export", "allow"),
            Self::ExportAsk => ("export", "ask"),
            Self::ExportDeny => ("export", "deny"),
        }
    }

    /// Its full name, as `mission.max_dollars`.
    pub(crate) fn name(self) -> String {
        let (table, name) = self.path();
        format!("{table}.{name}")
    }

    /// What it means, a sentence or two for the comment above it.
    pub(crate) const fn about(self) -> &'static str {
        match self {
            Self::Done => {
                "Commands that must exit with 0 before a mission counts as done, whatever the agent says.\n\
                 They run in the jail, on the files of the proposal. `--done` replaces them."
            }
            Self::Model => {
                "The model of the main loop; otherwise the default of a vendor whose key is there. In a regie.toml:\n\
                 one whose price Regie knows."
            }
            Self::Effort => {
                "How much work the model puts into an answer, the first lever on cost: \"low\", \"medium\", \"high\",\n\
                 \"xhigh\" or \"max\". Without it the vendor's own default holds."
            }
            Self::Batch => {
                "Whether the model is asked by its vendor's batch queue: half the price, answers take minutes to hours."
            }
            Self::MaxDollars => "A mission ends before it spends more, in dollars.",
            Self::MaxTurns => "A mission ends after this many turns of the model.",
            Self::MaxTokens => "A mission ends before it uses more tokens.",
            Self::MaxTime => "A mission ends after this much active time, as \"90s\", \"30m\" or \"1h30m\".",
            Self::DayMaxDollars => {
                "What all missions of one UTC day may spend together, in dollars.\n\
                 Only the owner sets it, here; a change counts from the next model call on."
            }
            Self::LocalUrl => {
                "Where models named `local/…` are served: Ollama, LM Studio, llama.cpp, vLLM, or a gateway that\n\
                 speaks chat completions."
            }
            Self::DeliverySign => {
                "Whether a delivery signs as your git is configured to (commit.gpgSign): with a merge in your name.\n\
                 Where that does not work unattended, the branch is left alone and the command is printed."
            }
            Self::DeliveryHooks => {
                "Whether your own post-merge hook runs after a delivery. One that lies in the tree never does.\n\
                 What your hook starts in the tree may be an agent's work, and runs outside the jail."
            }
            Self::LeaseTools => {
                "The tools that agents have here, by name; all where this is left out. `--tools` can name fewer."
            }
            Self::LeaseRead => {
                "The files that agents may read here, as patterns; all where this is left out. It can only narrow what\n\
                 `--read` and `--write` say."
            }
            Self::LeaseWrite => {
                "The files that agents may write here. Tools that write beside the sources need a pattern of theirs."
            }
            Self::NotifyDesktop => "Whether gates and ends show on your desktop, through `notify-send`.",
            Self::NotifyWebhook => {
                "An address, or a list of them, that gates and ends are posted to as JSON: https, or http on\n\
                 loopback. `regie notify test` tries it."
            }
            Self::NotifyEvents => {
                "What you are told of: a gate that asks, a run that has ended, one that rests."
            }
            Self::NotifySecretEnv => {
                "The variable in the daemon's environment whose value signs what is posted (HMAC-SHA256)."
            }
            Self::KeepWorkspaces => {
                "How long the workspace of a run that has ended is kept, as \"14d\" or \"12h\". What was in it\n\
                 stays in Regie's git directory."
            }
            Self::KeepCaches => "What the caches of all projects may take together; the least used go first.",
            Self::KeepBranches => {
                "How long the branch of a run that has ended stays one. Then it goes into the bin (`regie bin`)."
            }
            Self::KeepBin => "How long what is in the bin stays there.",
            Self::LimitMemory => {
                "Memory of one step with all that it starts, and of each of its processes: half of this machine's\n\
                 unless you say otherwise."
            }
            Self::LimitProcesses => "Processes and threads of one step at once.",
            Self::LimitDisk => {
                "What one step may write to disk, and never more than nine tenths of what is free there."
            }
            Self::LimitFiles => "Files that one step may make.",
            Self::ExportAllow => {
                "What a merge may change of what others execute or trust without being asked about: kinds, as\n\
                 \"build\", or paths, as \"scripts/\". All else of that is asked about, also with `--yes`."
            }
            Self::ExportAsk => "What of that is asked about all the same.",
            Self::ExportDeny => "What of that is never merged: the branch is kept, and the merge refused.",
            Self::Setup => {
                "The command that prepares a fresh checkout, as \"npm ci\". It has the network of this machine, so you\n\
                 are asked before it runs; what it makes is kept, and later runs start with it."
            }
        }
    }

    /// What its values look like.
    pub(super) const fn kind(self) -> Kind {
        match self {
            Self::Done => Kind::Commands,
            Self::Model | Self::LocalUrl | Self::Setup => Kind::Text,
            Self::Effort => Kind::Effort,
            Self::MaxDollars | Self::DayMaxDollars => Kind::Dollars,
            Self::MaxTurns | Self::MaxTokens | Self::LimitProcesses | Self::LimitFiles => Kind::Count,
            Self::MaxTime => Kind::Span,
            Self::Batch | Self::DeliverySign | Self::DeliveryHooks | Self::NotifyDesktop => Kind::Switch,
            Self::NotifyWebhook => Kind::Addresses,
            Self::NotifyEvents => Kind::Events,
            Self::NotifySecretEnv => Kind::Text,
            Self::KeepWorkspaces | Self::KeepBranches | Self::KeepBin => Kind::Age,
            Self::KeepCaches | Self::LimitMemory | Self::LimitDisk => Kind::Size,
            Self::ExportAllow | Self::ExportAsk | Self::ExportDeny => Kind::Findings,
            Self::LeaseTools => Kind::Tools,
            Self::LeaseRead | Self::LeaseWrite => Kind::Patterns,
        }
    }

    /// Whether it may stand in a file of this level.
    pub(crate) const fn may_stand(self, level: Level) -> bool {
        match self {
            Self::Done | Self::Setup | Self::LeaseTools | Self::LeaseRead | Self::LeaseWrite => {
                matches!(level, Level::Project)
            }
            Self::LocalUrl
            | Self::DayMaxDollars
            | Self::DeliverySign
            | Self::DeliveryHooks
            | Self::NotifyDesktop
            | Self::NotifyWebhook
            | Self::NotifyEvents
            | Self::NotifySecretEnv
            | Self::KeepWorkspaces
            | Self::KeepCaches
            | Self::KeepBranches
            | Self::KeepBin
            | Self::LimitMemory
            | Self::LimitProcesses
            | Self::LimitDisk
            | Self::LimitFiles
            | Self::ExportAllow
            | Self::ExportAsk
            | Self::ExportDeny => matches!(level, Level::Installation),
            _ => true,
        }
    }

    /// The variable that overrides it for one command.
    pub(crate) const fn env(self) -> Option<&'static str> {
        match self {
            Self::Model => Some("REGIE_MODEL"),
            Self::Effort => Some("REGIE_EFFORT"),
            Self::MaxDollars => Some("REGIE_MAX_DOLLARS"),
            Self::MaxTurns => Some("REGIE_MAX_TURNS"),
            Self::MaxTokens => Some("REGIE_MAX_TOKENS"),
            Self::MaxTime => Some("REGIE_MAX_TIME"),
            Self::LocalUrl => Some(Wire::Chat.url_env()),
            _ => None,
        }
    }

    /// The option of `regie run` that overrides it.
    pub(crate) const fn flag(self) -> Option<&'static str> {
        match self {
            Self::Done => Some("--done"),
            Self::Model => Some("--model"),
            Self::Effort => Some("--effort"),
            Self::Batch => Some("--batch"),
            Self::MaxDollars => Some("--max-dollars"),
            Self::MaxTurns => Some("--max-turns"),
            Self::MaxTokens => Some("--max-tokens"),
            Self::MaxTime => Some("--max-time"),
            _ => None,
        }
    }

    /// What holds when nobody says anything.
    pub(crate) fn built_in(self) -> Value {
        let caps = Caps::default();
        match self {
            Self::Done => Value::Commands(Vec::new()),
            Self::Model => Value::Text(catalogue::DEFAULT_MODEL.into()),
            Self::MaxDollars => Value::Dollars(caps.nanodollars),
            Self::MaxTurns => Value::Count(caps.turns),
            Self::MaxTokens => Value::Count(caps.tokens),
            Self::MaxTime => Value::Span(caps.millis),
            Self::DayMaxDollars => Value::Dollars(DAY_NANODOLLARS),
            Self::LocalUrl => Value::Text(Wire::Chat.default_url().into()),
            Self::DeliverySign => Value::Switch(true),
            Self::DeliveryHooks => Value::Switch(false),
            Self::Effort | Self::Setup | Self::NotifySecretEnv => Value::Text(String::new()),
            Self::Batch | Self::NotifyDesktop => Value::Switch(false),
            Self::NotifyWebhook | Self::ExportAllow | Self::ExportAsk | Self::ExportDeny => {
                Value::Names(Vec::new())
            }
            Self::LeaseTools => Value::Names(Vec::new()),
            Self::LeaseRead | Self::LeaseWrite => Value::Names(vec!["**".into()]),
            Self::NotifyEvents => Value::Names(owner::EVENTS.map(str::to_owned).into()),
            Self::KeepWorkspaces => Value::Age(KEEP_MILLIS),
            Self::KeepCaches => Value::Size(KEEP_BYTES),
            Self::KeepBranches => Value::Age(KEEP_BRANCHES_MILLIS),
            Self::KeepBin => Value::Age(KEEP_BIN_MILLIS),
            Self::LimitMemory => Value::Size(sandbox::Limits::of_this_machine().memory_bytes),
            Self::LimitProcesses => Value::Count(sandbox::Limits::default().processes),
            Self::LimitDisk => Value::Size(sandbox::Limits::default().disk_bytes),
            Self::LimitFiles => Value::Count(sandbox::Limits::default().disk_files),
        }
    }
}

/// The known key or table that is nearest to a name that is not known, when one is near.
pub(super) fn nearest(unknown: &str) -> Option<String> {
    let last = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    let tables = KEYS.iter().map(|key| key.path().0.to_owned());
    let named = KEYS.iter().map(|key| key.name()).chain(tables).chain(roles::names());
    let scored = named.map(|name| {
        let whole = distance(unknown, &name);
        let own = distance(&last(unknown), &last(&name)).saturating_add(1);
        (whole.min(own), name)
    });
    let (far, name) = scored.min_by_key(|(far, _)| *far)?;
    (far <= 2.max(last(unknown).chars().count() / 3)).then_some(name)
}

/// The one of some names that is nearest to a text, when it is near.
pub(super) fn near<'a>(text: &str, names: &[&'a str]) -> Option<&'a str> {
    let (far, name) = names.iter().map(|name| (distance(text, name), *name)).min()?;
    (far <= 2).then_some(name)
}

/// How many letters have to be added, taken or changed to make one of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, a) in one.chars().enumerate() {
        let mut fresh = vec![line + 1];
        for ((b, pair), left) in other.iter().zip(row.windows(2)).zip(0..) {
            let (&[diagonal, above], Some(&before)) = (pair, fresh.get(left)) else { continue };
            fresh.push((above + 1).min(before + 1).min(diagonal + usize::from(a != *b)));
        }
        row = fresh;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant_is_found() {
        let near = |text| nearest(text).unwrap_or_default();
        assert_eq!(near("mission.max_dolars"), "mission.max_dollars");
        assert_eq!(near("max_turns"), "mission.max_turns");
        assert_eq!(near("missions.done"), "mission.done");
        assert_eq!(near("misson"), "mission");
        assert_eq!(near("run.set_up"), "run.setup");
        assert_eq!(near("roles.workr"), "roles.worker");
        assert_eq!(near("roles.evaluator.modle"), "roles.evaluator.model");
        assert_eq!(near("mission.colour"), "");
        assert_eq!(distance("", "abc"), 3);
    }
}
