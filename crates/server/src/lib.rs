//! The API on the daemon's socket: REST and server-sent events.
#![forbid(unsafe_code)]
