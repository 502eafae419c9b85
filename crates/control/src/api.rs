//! The requests and views of `/api/v1`.
//!
//! Identifiers are strings, money is integer nanodollars, times are milliseconds since the Unix
//! epoch. A view shows what is on record; what is not known is `null`, never invented.

use std::collections::BTreeMap;

pub use domain::{Effort, Instead, Service};
use serde::{Deserialize, Serialize};

pub use crate::archive::{Carried, Export, Import};
pub use crate::catalogue::view::{Endpoint, Model, Models, ReadModels};
pub use crate::gates::{Asked, AskedBy, GateReport};
pub use crate::keep::view::{
    Binned, BinnedShown, EmptyBin, Forget, Forgotten, ForgottenRun, Restored, Sweep, Swept, Usage,
};
pub use crate::leases::view::{
    Act, Decided, Halt, Lease, LeaseRecord, LeaseWanted, MintLease, Minted, RaiseHalt, RecentRun, Role,
};
pub use crate::policy::view::{
    AskWhy, Explain, Explained, Held, Judged, Policy, PolicyFile, PolicyRule, Why,
};
pub use crate::proposals::{Labelled, Proposal};
pub use crate::readers::{Manifest, ManifestEntry, ReadSummary, Reader, Tainted, WhoRead};
pub use crate::reads::What;
pub use crate::whose::{Changed, WhoChanged, Whose};

/// The version of the API. A client and a daemon of different versions refuse each other.
pub const VERSION: u32 = 1;

/// How long a mission may take that goes by a vendor's batch queue, in milliseconds, unless somebody says
/// otherwise: waiting counts.
pub const BATCH_TIME: u64 = 7 * 24 * 60 * 60 * 1000;

/// What a daemon says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`].
    pub api: u32,
    /// The version of Regie.
    pub version: String,
    /// The daemon's process id.
    pub pid: u32,
    /// The home that it serves.
    pub home: String,
    /// The position of the last durable event.
    pub position: u64,
    /// Whether everything is halted, or cannot be told not to be.
    #[serde(default)]
    pub is_halted: bool,
}

/// Asks for a mission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartMission {
    /// The owner's words.
    pub goal: String,
    /// A path in the owner's repository.
    pub project: String,
    /// Commands that must exit with 0 before the mission may end as done.
    #[serde(default)]
    pub done: Vec<String>,
    /// The model of the main loop; otherwise the default one of a vendor whose key is handed over.
    #[serde(default)]
    pub model: Option<String>,
    /// Others, in their order, for when the first choice cannot be asked as the mission begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub or: Vec<String>,
    /// How much work the model puts into an answer; the vendor's default otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Whether model calls may wait in the vendor's batch queue, for half the price.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub batch: bool,
    /// Bounds; what is absent takes the default.
    #[serde(default)]
    pub caps: CapsWanted,
    /// The owner approves in advance the merge of a proposal whose criteria pass.
    #[serde(default)]
    pub approve_merge: bool,
    /// Start even where the operating system cannot jail steps, with a warning in every output.
    #[serde(default)]
    pub allow_unjailed: bool,
    /// Start from the working tree with its uncommitted changes, and not from HEAD.
    #[serde(default)]
    pub dirty: bool,
    /// The run that this mission follows: its agent then knows what that run has done. The project is that
    /// run's, and so are the criteria where none are given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow: Option<String>,
    /// The command that sets a fresh checkout of the project up. It is asked for at a gate before it runs.
    #[serde(default)]
    pub setup: Option<Setup>,
    /// What runs beside the commands.
    #[serde(default)]
    pub services: Vec<Service>,
    /// Where a recording of the run is made: a directory that is empty or not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
    /// What the run may do; what is absent is everything, or for a mission that follows what the other run may.
    #[serde(default, skip_serializing_if = "LeaseWanted::is_blank")]
    pub lease: LeaseWanted,
    /// The vendor's key and address. Held in memory only.
    #[serde(default)]
    pub vendor: Vendor,
}

/// Asks for a run of the same mission that goes on from where another one stood.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fork {
    /// The step whose result is the last that counts; the last one with a result otherwise.
    #[serde(default)]
    pub at: Option<u64>,
    /// What the agent reads first; calls that have no result there are then not made. Empty: they are
    /// made anew.
    #[serde(default)]
    pub words: String,
    /// Bounds; what is absent is that of the other run. Nothing that it has spent counts.
    #[serde(default)]
    pub caps: CapsWanted,
    /// The owner approves in advance the merge of a proposal whose criteria pass.
    #[serde(default)]
    pub approve_merge: bool,
    /// Start even where the operating system cannot jail steps, with a warning in every output.
    #[serde(default)]
    pub allow_unjailed: bool,
    /// Where a recording of the run is made: a directory that is empty or not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
    /// What the run may do, more or less than the other one; what that one may when nothing is said.
    #[serde(default, skip_serializing_if = "LeaseWanted::is_blank")]
    pub lease: LeaseWanted,
    /// The vendor's key and address. Held in memory only.
    #[serde(default)]
    pub vendor: Vendor,
}

/// What a run goes on from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The other run.
    pub run: String,
    /// The step of it whose result is the last that counts.
    pub step: u64,
    /// `fork`, the same mission on another way, or `follow_up`, a new mission.
    pub purpose: String,
}

/// A project's setup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// The shell line.
    pub command: String,
    /// Where it comes from, as `regie.toml:3`.
    pub from: String,
    /// Variables of the owner's environment that it is given, by name.
    #[serde(default)]
    pub sees: Vec<String>,
    /// What stands for the other variables that it is given: a digest, as values are in no request.
    #[serde(default)]
    pub variables: String,
}

/// The environment that a project's setup makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// The hash of all that it depends on.
    pub hash: String,
    /// Whether it was kept from an earlier run; the setup is asked for at a gate otherwise.
    pub kept: bool,
}

/// Bounds that an owner asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapsWanted {
    /// Money in nanodollars.
    pub nanodollars: Option<u64>,
    /// Model tokens.
    pub tokens: Option<u64>,
    /// Model turns.
    pub turns: Option<u64>,
    /// Active time in milliseconds.
    pub millis: Option<u64>,
}

/// The vendors' keys and addresses, as the client's environment names them. The run's model says which of
/// them is used; the others are dropped.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vendor {
    /// `ANTHROPIC_API_KEY`.
    pub api_key: Option<String>,
    /// `ANTHROPIC_AUTH_TOKEN`.
    pub auth_token: Option<String>,
    /// `ANTHROPIC_BASE_URL`.
    pub base_url: Option<String>,
    /// `OPENAI_API_KEY`.
    #[serde(default)]
    pub openai_api_key: Option<String>,
    /// `OPENAI_BASE_URL`.
    #[serde(default)]
    pub openai_base_url: Option<String>,
    /// `REGIE_LOCAL_API_KEY`; most servers of one's own need none.
    #[serde(default)]
    pub local_api_key: Option<String>,
    /// `REGIE_LOCAL_BASE_URL`.
    #[serde(default)]
    pub local_base_url: Option<String>,
    /// How the client's network wants vendors to be reached, by [`models::network::VARIABLES`]. A proxy's address
    /// may hold a password: as the keys, none of it is ever written.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub network: BTreeMap<String, String>,
}

impl Vendor {
    /// The variables that are handed over, but for those of the network.
    pub const VARIABLES: [&str; 7] = [
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "REGIE_LOCAL_API_KEY",
        "REGIE_LOCAL_BASE_URL",
    ];

    /// Reads them through a lookup; what is blank counts as unset.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name| lookup(name).filter(|value| !value.trim().is_empty());
        Self {
            api_key: set("ANTHROPIC_API_KEY"),
            auth_token: set("ANTHROPIC_AUTH_TOKEN"),
            base_url: set("ANTHROPIC_BASE_URL"),
            openai_api_key: set("OPENAI_API_KEY"),
            openai_base_url: set("OPENAI_BASE_URL"),
            local_api_key: set("REGIE_LOCAL_API_KEY"),
            local_base_url: set("REGIE_LOCAL_BASE_URL"),
            network: models::network::VARIABLES
                .into_iter()
                .filter_map(|name| Some((name.to_owned(), set(name)?)))
                .collect(),
        }
    }

    /// All keys and tokens.
    pub(crate) fn keys(&self) -> Vec<String> {
        let keys = [&self.api_key, &self.auth_token, &self.openai_api_key, &self.local_api_key];
        keys.into_iter().flatten().map(|key| key.trim().to_owned()).filter(|key| !key.is_empty()).collect()
    }

    /// The value of one of [`Vendor::VARIABLES`] or of the network's.
    pub fn get(&self, name: &str) -> Option<String> {
        let value = match name {
            "ANTHROPIC_API_KEY" => &self.api_key,
            "ANTHROPIC_AUTH_TOKEN" => &self.auth_token,
            "ANTHROPIC_BASE_URL" => &self.base_url,
            "OPENAI_API_KEY" => &self.openai_api_key,
            "OPENAI_BASE_URL" => &self.openai_base_url,
            "REGIE_LOCAL_API_KEY" => &self.local_api_key,
            "REGIE_LOCAL_BASE_URL" => &self.local_base_url,
            _ => return self.network.get(name).cloned(),
        };
        value.clone()
    }
}

impl std::fmt::Debug for Vendor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |secret: &Option<String>| secret.as_ref().map(|_| "***");
        f.debug_struct("Vendor")
            .field("api_key", &shown(&self.api_key))
            .field("auth_token", &shown(&self.auth_token))
            .field("base_url", &self.base_url)
            .field("openai_api_key", &shown(&self.openai_api_key))
            .field("openai_base_url", &self.openai_base_url)
            .field("local_api_key", &shown(&self.local_api_key))
            .field("local_base_url", &self.local_base_url)
            .field("network", &self.network.keys())
            .finish()
    }
}

/// A mission that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The mission.
    pub mission: String,
    /// Its root run.
    pub run: String,
    /// The run's branch.
    pub branch: String,
    /// The owner's branch that it started from.
    pub line: String,
    /// The commit that it started from.
    pub base: String,
    /// The model of the main loop.
    pub model: String,
    /// How much work it puts into an answer; the vendor's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// What the owner should know: uncommitted changes that are left out, a missing jail, an unknown
    /// price.
    pub warnings: Vec<String>,
    /// The environment, when the project has a setup.
    #[serde(default)]
    pub environment: Option<Environment>,
    /// The position before the run's first event: a stream from here shows all of it.
    pub position: u64,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Its id.
    pub run: String,
    /// Its mission.
    pub mission: String,
    /// The goal, in the owner's words.
    pub goal: String,
    /// The owner's repository.
    pub repository: String,
    /// The owner's branch.
    pub line: String,
    /// The run's branch.
    pub branch: String,
    /// The model.
    pub model: String,
    /// How much work it puts into an answer; the vendor's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// The first choice, when it could not be asked as the run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<Instead>,
    /// `active`, `waiting` (at a gate), `parked` or `ended`.
    pub status: String,
    /// How it ended, as `done`.
    pub end: Option<String>,
    /// Why it ended or rests, in words.
    pub reason: Option<String>,
    /// A stable code of why it rests, as `model.key_missing`.
    pub code: Option<String>,
    /// When it started.
    pub started_at: u64,
    /// When its last event was written.
    pub updated_at: u64,
    /// Model turns so far.
    pub turns: u64,
    /// What it has used.
    pub spent: Spent,
    /// Gates that wait for an answer.
    pub gates: Vec<String>,
    /// The end of its chain.
    pub head: String,
    /// The number of its events.
    pub events: u64,
    /// What it goes on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked: Option<Origin>,
}

/// What was used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Model tokens.
    pub tokens: u64,
    /// Money whose price is known, in nanodollars.
    pub nanodollars: u64,
    /// Calls whose price is unknown: their money is not counted.
    pub unpriced: u64,
}

/// An event as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The cursor of the live stream.
    pub position: u64,
    /// The run.
    pub run: String,
    /// Its number in the run.
    pub seq: u64,
    /// When it was decided.
    pub at: u64,
    /// Where it comes from.
    pub source: String,
    /// What it states: the fact with its tag `fact`.
    pub fact: serde_json::Value,
    /// Its content: JSON where it is JSON, a string otherwise; `null` where there is none or it was
    /// forgotten.
    pub content: serde_json::Value,
    /// The link of the chain.
    pub hash: String,
    /// One readable line for a timeline; `null` for bookkeeping.
    pub line: Option<Line>,
}

/// One line of a timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The step.
    pub step: Option<u64>,
    /// What kind of line, as `model`, `tool`, `verdict`, `gate`, `merge`, `end`, `note`.
    pub kind: String,
    /// `started`, `ok`, `failed`, `waiting` or `info`.
    pub mark: String,
    /// The line itself, without newlines.
    pub title: String,
    /// More, shown below it; may have several lines.
    pub detail: Option<String>,
    /// The image that the step gave to look at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
}

/// An image. Its bytes are the artifact of its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// The digest of its bytes, as `GET /artifacts/{digest}` takes it.
    pub artifact: String,
    /// Its media type, as `image/png`.
    pub media_type: String,
    /// Its width in pixels.
    pub width: u32,
    /// Its height in pixels.
    pub height: u32,
}

/// What arrives before it is on record. Ephemeral: after a reconnect it is not sent again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delta {
    /// The run.
    pub run: String,
    /// The step.
    pub step: u64,
    /// `text`, `thinking`, `tool`, `output`, `retry`, `waiting` or `queue`.
    pub kind: String,
    /// The piece; of `queue` the time since when the call waits in the vendor's batch queue.
    pub text: String,
}

/// A gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// Its id.
    pub gate: String,
    /// Its run.
    pub run: String,
    /// The goal of the run.
    pub goal: String,
    /// The step that waits.
    pub step: u64,
    /// `approve` or `was_it_done`.
    pub question: String,
    /// The question in words.
    pub title: String,
    /// The rule that asks.
    pub reason: Option<String>,
    /// The effect class of the action.
    pub effect: String,
    /// The risk class of the action.
    pub risk: String,
    /// The tool.
    pub tool: String,
    /// The exact request.
    pub request: serde_json::Value,
    /// The hash of the exact action; an answer names it.
    pub action: String,
    /// The rule that `approve_always` writes, as it will stand in the owner's file for this project; `null` where this
    /// cannot be allowed always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always: Option<String>,
    /// What of a proposal others would execute or trust: to be shown before everything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export: Option<trust::export::Report>,
    /// What the run has read, while the gate waits; `null` in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<ReadSummary>,
    /// Files that a proposal changes.
    pub files: Vec<File>,
    /// Whether the criteria passed, one line each; empty when nothing was checked.
    pub checks: Vec<String>,
    /// When it was opened.
    pub opened_at: u64,
    /// When no answer becomes a refusal.
    pub expires_at: u64,
    /// The answer, once there is one.
    pub answer: Option<String>,
    /// Who answered.
    pub by: Option<String>,
}

/// A changed file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Its path; bytes that are not UTF-8 are replaced.
    pub path: String,
    /// `added`, `modified`, `deleted`, `type_changed`.
    pub status: String,
    /// Lines added; `null` for a binary file.
    pub added: Option<u64>,
    /// Lines removed; `null` for a binary file.
    pub removed: Option<u64>,
}

/// Answers a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerGate {
    /// `approve`, `approve_always`, `refuse`, `was_done` or `repeat`.
    pub answer: String,
    /// The hash of the action that was shown.
    pub action: String,
    /// The vendor's key, when the daemon has lost it to a restart.
    #[serde(default)]
    pub vendor: Vendor,
}

/// Lets a run go on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// Where a recording of the run is made: a directory that is empty or not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
    /// The vendor's key and address, as the daemon holds them in memory only.
    #[serde(default)]
    pub vendor: Vendor,
}

/// The changes of a run's branch against its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diff {
    /// The run.
    pub run: String,
    /// The commit that it started from.
    pub base: String,
    /// The head of its branch; `null` when the diff is that of the workspace as it is.
    pub head: Option<String>,
    /// The changed files.
    pub files: Vec<File>,
    /// A patch in git's form; bytes that are not UTF-8 are replaced.
    pub patch: String,
}

/// What a verification of all chains found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// Whether every link holds.
    pub intact: bool,
    /// Runs looked at.
    pub runs: u64,
    /// Events looked at.
    pub events: u64,
    /// Payloads that were forgotten on purpose.
    pub erased: u64,
    /// The first broken link of each broken run.
    pub broken: Vec<Broken>,
}

/// A broken link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broken {
    /// The run.
    pub run: String,
    /// The event.
    pub seq: u64,
    /// What is wrong.
    pub what: String,
}

/// A failed request, after RFC 9457.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// A stable code, as `run.not_found`.
    pub code: String,
    /// What is wrong and where, one line.
    pub detail: String,
    /// How to mend it, one line.
    pub hint: Option<String>,
}

/// A merge that was taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undone {
    /// The run whose merge it was.
    pub run: String,
    /// Its mission.
    pub mission: String,
    /// What the mission was for.
    pub goal: String,
    /// The owner's branch.
    pub line: String,
    /// The merge.
    pub merge: String,
    /// The commit on Regie's line that takes it back.
    pub commit: String,
    /// What that changes.
    pub files: Vec<File>,
    /// What became of the owner's branch.
    pub delivered: engine::host::Delivered,
}

/// Says something to the agent of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Say {
    /// The words.
    pub text: String,
    /// Interrupt what runs, so that it is read at once.
    #[serde(default)]
    pub now: bool,
}

/// What costs are added up by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// One row a run.
    #[default]
    Run,
    /// One row a mission.
    Mission,
    /// One row a day (UTC).
    Day,
    /// One row a model.
    Model,
}

/// What was spent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Costs {
    /// What a row stands for.
    pub by: By,
    /// The rows, the newest first.
    pub rows: Vec<Cost>,
    /// All of them together.
    pub total: Cost,
    /// Missions that have ended as done. What all of them cost, the others included, bought these.
    #[serde(default)]
    pub finished: u64,
}

/// What one row spent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// The run, mission, day (`2026-03-01`) or model.
    pub key: String,
    /// The goal, for a run or a mission.
    pub title: Option<String>,
    /// Calls to models, lost ones included, and to tools that cost money.
    pub calls: u64,
    /// Tokens that were booked; those of a lost call are its whole reservation.
    pub tokens: u64,
    /// The tokens of the answers that told them apart; `null` when none did.
    pub told: Option<Tokens>,
    /// Money whose price is known, in nanodollars; `null` when no price is known.
    pub nanodollars: Option<u64>,
    /// Calls whose price is unknown: their money is not counted.
    pub unpriced: u64,
}

/// Tokens, told apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Sent, and neither read from nor written to the vendor's cache.
    pub input: u64,
    /// Received.
    pub output: u64,
    /// Sent, and read from the vendor's cache.
    pub cache_read: u64,
    /// Sent, and written to the vendor's cache.
    pub cache_write: u64,
}

/// A recorded text that has the words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hit {
    /// The run.
    pub run: String,
    /// The event.
    pub seq: u64,
    /// When it was recorded.
    pub at: u64,
    /// The step.
    pub step: Option<u64>,
    /// `goal`, `said`, `answer`, `call`, `output`, `checkpoint` or `end`.
    pub kind: String,
    /// A piece of the text, cut where matches begin and end.
    pub excerpt: Vec<Piece>,
}

/// A piece of an excerpt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The words.
    pub text: String,
    /// Whether they are what was looked for.
    pub is_match: bool,
}
