//! What tests share: seeded clock, simulator, scripted model server, fakes.
#![forbid(unsafe_code)]

#[cfg(feature = "announce")]
pub mod announce;
pub mod fakes;
#[cfg(feature = "network")]
pub mod network;
pub mod script;
pub mod sim;
pub mod suite;
