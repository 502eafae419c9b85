//! The use cases over a real journal, real artifacts, real git repositories and a real wire to a
//! scripted model. Only the runner and its jail are replaced: by something that works on the files.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod authority;
mod catalogue;
mod day;
mod forget;
mod fork;
mod gates;
mod jail;
mod merges;
mod missions;
mod outage;
mod restart;
mod runs;
mod say;
mod seams;
mod undo;
mod wire;
mod workspaces;
mod world;
