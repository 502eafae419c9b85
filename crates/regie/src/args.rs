//! The commands and their options.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::commands::{Count, Halt, Lease, Policy, Reach, Sandbox};
use crate::config::{age, dollars, effort, span};

/// Agents on your own machines: durable, jailed, under leases and gates.
#[derive(Debug, Parser)]
#[command(
    name = "regie",
    version,
    propagate_version = true,
    max_term_width = 100,
    after_help = "A RUN is a full id, the end of one, or `last`.\n\
        Exit codes: 0 ok, 1 failed, 2 usage, 3 waiting at a gate, 4 denied, 5 budget exhausted, \
        130 interrupted."
)]
pub(crate) struct Args {
    /// Where everything of this installation lies [default: the user's data directory]
    #[arg(long, global = true, env = "REGIE_HOME", hide_env_values = true, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Print JSON: one document, or one a line for what goes on
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// What to do
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a mission and follow it
    Run(Run),
    /// List runs
    Runs(Runs),
    /// Show a run and its timeline
    Show(Show),
    /// Print a run's events
    Log(Log),
    /// Print what a run has changed, as a patch
    Diff(OneRun),
    /// Replay a recording: offline, without the project, every request and event against the record
    Replay(Replay),
    /// Say something to a run's agent: read when the running tool calls have ended
    Say(Say),
    /// Let a run that rests go on, and follow it
    Resume(Resume),
    /// Start a run that goes on from where another one stood after a step, with other words
    Fork(Fork),
    /// Let a run rest when what runs has ended; it can be resumed
    Pause(OneRun),
    /// Interrupt what runs and let the run rest; it can be resumed
    Stop(OneRun),
    /// End a run for good
    Cancel(OneRun),
    /// Show what runs propose to merge
    #[command(subcommand)]
    Proposal(Proposal),
    /// Take the merge of a run or a mission back, with a new commit
    Undo(Undo),
    /// Destroy what a run, a mission or a step was about; that it ran stays on record
    Forget(Forget),
    /// Show what was spent
    Costs(Costs),
    /// Write an artifact's bytes to stdout
    Cat(Cat),
    /// Find words in all missions
    Search(Search),
    /// List and answer gates
    #[command(subcommand)]
    Gate(Gate),
    /// Look at the rules that decide, test them, and ask why
    #[command(subcommand)]
    Policy(Policy),
    /// Show, grant and take back what runs and bearers of a token may do
    #[command(subcommand)]
    Lease(Lease),
    /// Show who acts here: each role with its leases and its latest runs
    Roles,
    /// Stop everything at once: take all leases back, and let nothing begin until it is lifted
    Halt(Halt),
    /// Verify the record
    #[command(subcommand)]
    Audit(Audit),
    /// Show what lies in the home, and what takes how much
    Du,
    /// Take away what has served its time; what a run left unmerged is recorded first
    Gc(Gc),
    /// What runs left that is no branch any more: look at it, bring it back, or let it go
    #[command(subcommand)]
    Bin(Bin),
    /// Write a project's files, history and provenance in a form that needs no Regie to be read
    Export(Export),
    /// Bring an exported project into this home
    Import(Import),
    /// Try how you are told of gates and ends
    #[command(subcommand)]
    Notify(Notify),
    /// Look at a repository and this machine, and write a commented regie.toml
    Init(Init),
    /// Look at the configuration
    #[command(subcommand)]
    Config(Config),
    /// List the models of your vendors and servers, or check whether some work
    Models(Models),
    /// Say what this machine lacks, and how to mend it
    Doctor,
    /// Run any program in a jail, or show what it would get
    #[command(subcommand)]
    Sandbox(Sandbox),
    /// Run the daemon in the foreground
    Serve(Serve),
    /// Print the completions of a shell
    Completions(Completions),
    /// Write the man pages into a directory
    Man(Man),
    /// Serve a scripted model, for trying things out without a vendor
    ModelScript(ModelScript),
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneRun {
    /// A full id, the end of one, or `last`
    #[arg(default_value = "last")]
    pub(crate) run: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Say {
    /// A full id, the end of one, or `last`
    pub(crate) run: String,
    /// The words; `-` reads them from stdin
    pub(crate) text: String,
    /// Interrupt what runs, a call to the model included, so that it is read at once
    #[arg(long)]
    pub(crate) now: bool,
}

/// What bounds a run.
#[derive(Debug, clap::Args)]
pub(crate) struct Bounds {
    /// End when this much money is spent, as 1.50
    #[arg(long, value_name = "DOLLARS", value_parser = dollars)]
    pub(crate) max_dollars: Option<u64>,
    /// End after this many model turns
    #[arg(long, value_name = "N")]
    pub(crate) max_turns: Option<u64>,
    /// End after this many model tokens
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<u64>,
    /// End after this much active time, as 90s, 30m or 1h30m
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) max_time: Option<u64>,
}

/// How a run begins.
#[derive(Debug, clap::Args)]
pub(crate) struct Beginning {
    /// Approve in advance the merge of a proposal whose criteria pass; one that nothing has checked asks
    /// all the same
    #[arg(long)]
    pub(crate) yes: bool,
    /// Start it, print its id, and leave it to the daemon
    #[arg(long)]
    pub(crate) detach: bool,
    /// Start even where this machine cannot jail what the agent runs
    #[arg(long)]
    pub(crate) allow_unjailed: bool,
    /// Record the run in this directory, which must be empty or not there, for a report or `regie replay`
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Replay {
    /// The directory that `--record` named
    pub(crate) dir: PathBuf,
    /// Show outputs whole
    #[arg(long)]
    pub(crate) full: bool,
}

/// Start a run that goes on from another one; bounds that are not given are those of the other run.
#[derive(Debug, clap::Args)]
pub(crate) struct Fork {
    /// A full id, the end of one, or `last`
    pub(crate) run: String,
    /// What the agent reads first, instead of the calls that come next there; `-` reads it from stdin
    pub(crate) words: Option<String>,
    /// The step whose result is the last that counts [default: the last one with a result]
    #[arg(long, value_name = "STEP")]
    pub(crate) at: Option<u64>,
    #[command(flatten)]
    pub(crate) bounds: Bounds,
    #[command(flatten)]
    pub(crate) reach: Reach,
    #[command(flatten)]
    pub(crate) beginning: Beginning,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Costs {
    /// What a row stands for: run, mission, day or model
    #[arg(long, value_enum, default_value_t = By::Run, hide_possible_values = true)]
    pub(crate) by: By,
}

/// What costs are added up by.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum By {
    Run,
    Mission,
    Day,
    Model,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Cat {
    /// A digest, or the beginning of one
    pub(crate) artifact: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Search {
    /// The words; a text is found that has all of them, or words that begin so
    #[arg(required = true)]
    pub(crate) text: Vec<String>,
    /// At most this many
    #[arg(long, default_value_t = 50, value_name = "N")]
    pub(crate) limit: usize,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// bash, elvish, fish, powershell or zsh
    #[arg(value_enum, hide_possible_values = true)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// The directory; it is made when there is none
    pub(crate) dir: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// A full id, the end of one, or `last`
    #[arg(default_value = "last")]
    pub(crate) run: String,
    /// Show outputs whole
    #[arg(long)]
    pub(crate) full: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// What is to be achieved, in your own words; `-` reads it from stdin
    #[arg(required_unless_present = "goal_file")]
    pub(crate) goal: Option<String>,
    /// Read the goal from a file of at most 256 KiB
    #[arg(long, short = 'f', value_name = "FILE", conflicts_with = "goal")]
    pub(crate) goal_file: Option<PathBuf>,
    /// A directory in the Git repository to work on
    #[arg(long, default_value = ".", value_name = "PATH")]
    pub(crate) project: PathBuf,
    /// Follow a run that is over: the agent knows what it has done; the repository is that run's
    #[arg(long, value_name = "RUN", conflicts_with = "project")]
    pub(crate) follow: Option<String>,
    /// A command that must exit with 0 before the mission counts as done; may be repeated
    #[arg(long, value_name = "COMMAND")]
    pub(crate) done: Vec<String>,
    /// The model of the main loop, and no other
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// How much work it puts into an answer: low, medium, high, xhigh or max
    #[arg(long, value_parser = effort)]
    pub(crate) effort: Option<domain::Effort>,
    /// Ask the model by the vendor's batch queue: half the price, answers take minutes to hours
    #[arg(long)]
    pub(crate) batch: bool,
    #[command(flatten)]
    pub(crate) bounds: Bounds,
    #[command(flatten)]
    pub(crate) reach: Reach,
    /// Take your uncommitted changes along; otherwise the run starts from HEAD
    #[arg(long)]
    pub(crate) dirty: bool,
    #[command(flatten)]
    pub(crate) beginning: Beginning,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Init {
    /// A directory in the Git repository to look at
    #[arg(long, default_value = ".", value_name = "PATH")]
    pub(crate) project: PathBuf,
    /// Write without asking, and spend what --check-key costs
    #[arg(long)]
    pub(crate) yes: bool,
    /// Replace a regie.toml that is there already
    #[arg(long)]
    pub(crate) force: bool,
    /// Make one model call to see whether the key works; its cost is said before
    #[arg(long)]
    pub(crate) check_key: bool,
}

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Models {
    #[command(subcommand)]
    pub(crate) what: Option<OfModels>,
    /// Also those that are there for another thing than conversations in text
    #[arg(long)]
    pub(crate) all: bool,
    /// Ask every endpoint anew, also where its list is less than a day old
    #[arg(long)]
    pub(crate) refresh: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OfModels {
    /// Try models out: two small calls each, whose cost is said before
    Check(CheckModels),
    /// Count the tokens of a text, and say how they were counted
    Count(Count),
}

#[derive(Debug, clap::Args)]
pub(crate) struct CheckModels {
    /// The models [default: those of the roles]
    #[arg(value_name = "MODEL")]
    pub(crate) models: Vec<String>,
    /// Make the calls without asking
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Show each value, and where it comes from
    Explain {
        /// A directory in the Git repository that it is for
        #[arg(long, default_value = ".", value_name = "PATH")]
        project: PathBuf,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Runs {
    /// Only those that have not ended
    #[arg(long)]
    pub(crate) open: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Log {
    #[command(flatten)]
    pub(crate) one: OneRun,
    /// Go on printing as it goes on
    #[arg(long, short)]
    pub(crate) follow: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    pub(crate) one: OneRun,
    /// Do not follow it
    #[arg(long)]
    pub(crate) detach: bool,
    /// Record the run from here on in this directory, which must be empty or not there
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Forget {
    /// A run (a full id, the end of one, or `last`) or the full id of a mission
    #[arg(value_name = "RUN|MISSION")]
    pub(crate) run: String,
    /// Forget this step of the run alone
    #[arg(long, value_name = "STEP")]
    pub(crate) step: Option<u64>,
    /// Also the runs that go on from it
    #[arg(long)]
    pub(crate) with_forks: bool,
    /// Only show what would go, and what would stay
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask first
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Undo {
    /// A run (a full id, the end of one, or `last`) or the full id of a mission
    #[arg(value_name = "RUN|MISSION")]
    pub(crate) run: String,
    /// Do not ask first
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Gate {
    /// List gates that wait for an answer
    List {
        /// Also those that have one
        #[arg(long)]
        all: bool,
    },
    /// Show what a gate asks
    Show(OneGate),
    /// Let the action happen, or those of several gates
    Approve(Approve),
    /// The action must not happen, or those of several gates
    Refuse(Gates),
    /// Say how often you were asked, by what, and what you answered
    Report {
        /// What was asked since then
        #[arg(long, value_name = "AGE", value_parser = age, default_value = "30d")]
        since: u64,
    },
    /// The action that a crash left open was done
    WasDone(OneGate),
    /// The action that a crash left open was not done: do it again
    Repeat(OneGate),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Approve {
    #[command(flatten)]
    pub(crate) which: Gates,
    /// And exactly this always in this project: writes the rule that the gate shows
    #[arg(long)]
    pub(crate) always: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Gates {
    /// Full ids, or the ends of some
    #[arg(required_unless_present = "run", value_name = "GATE")]
    pub(crate) gates: Vec<String>,
    /// All gates that wait of this run: a full id, the end of one, or `last`
    #[arg(long, value_name = "RUN", conflicts_with = "gates")]
    pub(crate) run: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Proposal {
    /// List proposals that wait for you
    List {
        /// The last one of each run, whatever became of it
        #[arg(long)]
        all: bool,
    },
    /// Show what a run proposed to merge, what it had read, and what became of it
    Show(OneRun),
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneGate {
    /// A full id, or the end of one
    pub(crate) gate: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Gc {
    /// Only say what would go
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Workspaces of runs that ended this long ago go [default: `[keep] workspaces`, 14d]
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(crate) older_than: Option<u64>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bin {
    /// List what is in the bin
    List,
    /// Show what a run has in the bin
    Show(OneRun),
    /// Bring what a run left back, as a branch in Regie's git directory
    Restore(OneRun),
    /// Let go of what is in the bin, for good
    Empty(EmptyBin),
}

#[derive(Debug, clap::Args)]
pub(crate) struct EmptyBin {
    /// Full ids, the ends of some, or `last`
    #[arg(required_unless_present = "all")]
    pub(crate) runs: Vec<String>,
    /// Everything
    #[arg(long, conflicts_with = "runs")]
    pub(crate) all: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Notify {
    /// Send a notification on every way that config.toml names
    Test,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// Verify the hash chains of all runs
    Verify,
    /// List what was done outside of any run, to leases and by services, the latest first
    Acts,
    /// Say who changed a file or a line, in which run, under which lease, and who approved it
    WhoChanged(WhoChanged),
    /// Say which runs have read a file or may have, in which steps, under which lease
    WhoRead(WhoRead),
    /// Say what a run has read, with the labels of it
    Reads(AuditReads),
}

#[derive(Debug, clap::Args)]
pub(crate) struct WhoRead {
    /// A file of the repository
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AuditReads {
    /// A full id, the end of one, or `last`
    pub(crate) run: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct WhoChanged {
    /// A file of the repository, or FILE:LINE
    #[arg(value_name = "FILE[:LINE]")]
    pub(crate) place: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Export {
    /// A directory that does not exist, or is empty
    pub(crate) dir: PathBuf,
    /// A directory of its repository, or its id [default: where you are]
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,
    /// The branch of yours whose files are written [default: main, master, or the first]
    #[arg(long, value_name = "BRANCH")]
    pub(crate) line: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Import {
    /// What `regie export` wrote
    pub(crate) dir: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Ask the daemon that runs to end; its runs go on when it starts again
    #[arg(long)]
    pub(crate) stop: bool,
    /// Leave the terminal that it was started from
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
    /// Halt everything before any run is taken over
    #[arg(long, hide = true)]
    pub(crate) halted: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ModelScript {
    /// The scenario, a TOML file
    pub(crate) file: PathBuf,
    /// The port on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) port: u16,
    /// Append every request to this file before it is answered
    #[arg(long, value_name = "FILE")]
    pub(crate) ledger: Option<PathBuf>,
    /// Keep the bytes of every request in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,
    /// Write the port to this file once it is listened on
    #[arg(long, value_name = "FILE")]
    pub(crate) port_file: Option<PathBuf>,
}
