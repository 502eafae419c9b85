//! Tools, and the processes that run them.
//!
//! A **runner** is the trusted executor on a node: a process of its own for each run, which is handed
//! one step at a time, runs it as a disposable child in a **jail**, and keeps its result on disk
//! before it answers. It outlives the daemon and is found again. What a jail reports is untrusted.
//!
//! | module | what lives there |
//! |---|---|
//! | [`spec`] | what the built-in tools are, for models and policy |
//! | [`config`] | what a runner is told when it starts |
//! | [`executor`] | the daemon's side: the kernel's `Executor` port for jailed steps |
//! | [`mod@serve`] | the runner process |
//! | [`spool`] | results on disk |
//! | [`socket`] | where a runner listens |
//! | `wire` | what daemon and runner say to each other |
//! | `call`, `job` | a request, checked; a step from its request to its result |
//! | `plan`, `jail`, `supervise` | what a step may touch; how it starts; how it is followed to its end |
//! | `git` | the git that commands see |
//! | `services` | what runs beside the steps of a run |
//! | `tool` | the file tools, as they run inside the jail |
//! | [`environment`] | what makes one environment of a project another |
//! | [`toolchains`] | what steps see of the owner's toolchains |
//! | `lock`, `orphan` | which runner lives; what a dead one has left |
//!
//! The binary calls [`dispatch()`] first thing: it becomes runner, launcher or file tool when a hidden
//! first argument says so.
#![forbid(unsafe_code)]

mod call;
pub mod config;
mod dispatch;
pub mod environment;
pub mod executor;
mod git;
mod jail;
mod job;
mod lock;
mod orphan;
mod output;
#[cfg(feature = "parsers")]
pub mod parsers;
mod plan;
pub mod serve;
mod services;
mod shown;
pub mod socket;
pub mod spec;
pub mod spool;
mod supervise;
mod tool;
pub mod toolchains;
mod wire;

pub use config::Config;
pub use dispatch::dispatch;
pub use executor::{Configs, Progress, RunnerExecutor};
pub use output::{Instructions, ToolOutput};
pub use serve::serve;
pub use spec::{Tool, builtin};
