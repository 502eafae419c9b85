//! A plan becomes a confined process: launcher, namespaces, Landlock, seccomp.
//!
//! - [`compile`] turns rules about paths into mounts, by a pure function.
//! - [`Plan`] says what a step may see, write and use; [`Launcher::spawn`] starts it and
//!   gives back a [`Child`]; [`support`] says what this machine can enforce, for the doctor.
//! - The binary that embeds this crate calls [`launch_main`] first thing when its first
//!   argument is [`LAUNCH_ARG`]: that fresh, single-threaded process confines itself, so the
//!   caller never changes its own namespaces and runs nothing between fork and exec.
//! - [`Layers`] are shown as one directory, of which one layer is never written; [`layers_support`] says whether
//!   they can be had.
//! - [`lacks`] makes a machine seem to lack a part of this, for tests.
//! - Everything fails closed: a part that cannot be put in place means that the program never
//!   starts, unless the plan's [`Posture`] is `Ask`; then the start is [`Status::Degraded`].
#![deny(unsafe_op_in_unsafe_fn)]

#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "nothing is watched without a jail"))]
mod bound;
pub mod compile;
mod error;
pub mod lacks;
mod layers;
#[cfg(target_os = "linux")]
mod place;
mod plan;
mod status;
mod system;

#[cfg(target_os = "linux")]
mod cgroup;
#[cfg(target_os = "linux")]
mod child;
#[cfg(target_os = "linux")]
mod confine;
#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod init;
#[cfg(target_os = "linux")]
mod launch;
#[cfg(target_os = "linux")]
mod once;
#[cfg(all(target_os = "linux", feature = "parsers"))]
pub mod parsers;
#[cfg(target_os = "linux")]
mod resident;
#[cfg(target_os = "linux")]
mod rules;
#[cfg(target_os = "linux")]
mod spare;
#[cfg(target_os = "linux")]
mod support;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_os = "linux")]
mod tree;
#[cfg(target_os = "linux")]
mod watch;
#[cfg(target_os = "linux")]
mod wire;

#[cfg(not(target_os = "linux"))]
mod absent;

pub use bound::Bound;
pub use error::{Error, Failure, Part};
pub use layers::Layers;
pub use plan::{Access, Exec, Limits, Mount, Network, Plan, Posture};
pub use status::{Check, Status, overall};
pub use system::{HOME, default_system_mounts};

#[cfg(target_os = "linux")]
pub use self::{
    child::{Child, Killer, Launcher, SharedNetwork, Stdin, spawn},
    launch::launch_main,
    resident::{Resident, launch_resident_main},
    support::{layers as layers_support, support},
};

#[cfg(not(target_os = "linux"))]
pub use absent::{
    Child, Killer, Launcher, Resident, SharedNetwork, Stdin, launch_main, launch_resident_main,
    layers_support, spawn, support,
};

/// The first argument by which a binary knows that it has to call [`launch_main`].
pub const LAUNCH_ARG: &str = "__jail";
