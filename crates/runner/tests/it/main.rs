//! The runner from outside: through the kernel's port, with real processes in real jails.

mod bench;
mod commands;
#[cfg(feature = "fault")]
mod faults;
mod posture;
mod recovery;
mod spec;
mod tools;
