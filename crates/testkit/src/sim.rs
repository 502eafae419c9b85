//! The simulator: one run, one thread, no clock but its own, and everything from one seed.
//!
//! It runs the very machine that the daemon runs, through schedules that no test would think of:
//! daemons and runners that crash at any moment, daemons that are held up and wake after another one
//! has taken their run over, writes that fail, answers that come late, twice or never. Two judges
//! watch: a checker of every durable event and every effect, and a reference that knows no crashes
//! and says what the run must have come to.
//!
//! | module | what lives there |
//! |---|---|
//! | `dice` | the only source of chance |
//! | `program` | what a simulated run does |
//! | `script` | the driver under test |
//! | `reference` | the same program, without crashes |
//! | `authority` | a scripted authorisation point |
//! | `journal` | a journal in memory, and its deliberate flaws |
//! | `outside` | workspace, ledgers, spool: what survives a daemon |
//! | `executor` | how effects come about, stage by stage |
//! | `check` | what must hold |
//! | `world` | daemons around a journal |
//! | `owner` | what the owner says |
//! | `fork` | a run that goes on from another one |
//! | `schedule` | what happens next |

mod authority;
mod check;
mod dice;
mod executor;
mod fork;
mod journal;
mod outside;
mod owner;
mod program;
mod reference;
mod schedule;
mod script;
mod world;

pub use dice::Dice;
pub use journal::Flaws;
pub use outside::{Line, Outside};
pub use program::{Act, Op, Program, Rule};
pub use reference::{Expected, Fate, interpret};
pub use schedule::{Failure, Options, Report, run};
pub use script::{Script, View};
pub use world::{Owner, World};
