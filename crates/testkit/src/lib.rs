//! What tests share: seeded clock, simulator, scripted model server, fakes.
#![forbid(unsafe_code)]

pub mod script;
pub mod suite;
