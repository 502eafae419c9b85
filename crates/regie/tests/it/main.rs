//! The command line as its users meet it: the real binary, the real daemon, a scripted model.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test that cannot go on has failed")]

mod archive;
mod bad_input;
mod batch;
mod bin;
mod compaction;
mod configuration;
mod count;
mod crash;
mod done;
mod export;
mod forget;
mod fork;
mod gitjail;
mod goal;
mod images;
mod init;
#[cfg(target_os = "linux")]
mod jail;
mod keep;
mod labels;
mod lacking;
#[cfg(target_os = "linux")]
mod leases;
mod limits;
mod mission;
mod models;
mod network;
mod notify;
mod policy;
mod prefix;
mod proposals;
mod read;
mod receiver;
mod record;
mod reference;
mod refusals;
mod rest;
mod routing;
#[cfg(target_os = "linux")]
mod sandbox;
#[cfg(target_os = "linux")]
mod sees;
mod services;
mod setup;
mod shut;
mod sleep;
mod start;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(target_os = "linux")]
mod toolchains;
mod undo;
mod upgrade;
mod whose;
mod wires;
mod world;
