//! The native driver: loop, context, verification.
//!
//! [`Native`] is a pure reducer over a run's events: no I/O, no clock, no randomness. It plans model
//! calls, tool calls and the host's steps; the daemon and the runner execute them.
//!
//! | module | what lives there |
//! |---|---|
//! | [`config`] | what a run is driven with: system text, tools, limits, the wire |
//! | [`failure`] | what is on record of a model call that failed |
//! | [`host`] | requests and results of the steps that the daemon executes: checkpoint, merge, deliver |
//! | [`native`] | the driver |
//! | [`prompt`] | the words that the model is given |
//! | [`timeline`] | a run's events as lines that a person can read |
//! | [`words`] | amounts, spans and refusals in words; strangers' texts made safe to show |
#![forbid(unsafe_code)]

pub mod config;
pub mod failure;
pub mod host;
pub mod native;
mod output;
pub mod prompt;
mod schema;
pub mod timeline;
pub mod words;

pub use config::{Config, Tool, Toolbox};
pub use failure::ModelFailure;
pub use native::Native;
pub use output::image_of;
pub use timeline::{Item, Timeline};
