//! The one authorisation point: policy, leases, gates, governors.
//!
//! | module | what lives there |
//! |---|---|
//! | [`policy`] | the rules: deny → ask → allow, the strictest match wins; pure |
//! | [`proof`] | what a proposal must show before an approval in advance covers its merge |
//! | [`export`] | the export gate: what of a proposal others would execute or trust |
//! | [`provenance`] | where the arguments of a call come from: the owner, the system, or a stranger's text; pure |
//! | [`leases`] | authority as records: grant, narrow, revoke; the pure subset check, paths, tokens |
//! | [`acts`] | what is done outside of any run: decided, and on record before it is done |
//! | [`halt`] | the kill switch |
//! | [`door`] | the kernel's `Authority` port: reads the lease, judges, holds the daily cap |
//!
//! A decision is a function of its inputs; no model takes part in it. What cannot be read is denied.
#![forbid(unsafe_code)]

pub mod acts;
pub mod door;
pub mod export;
pub mod halt;
pub mod leases;
pub mod policy;
pub mod proof;
pub mod provenance;

pub use door::{DayCap, Door, Export, History};
pub use policy::{Case, Policy, Ruling};
