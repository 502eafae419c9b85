//! The authorisation point from outside: rules, leases, the door.

mod door;
mod leases;
mod policy;
mod world;
