//! The API on the daemon's socket: REST and server-sent events under `/api/v1`.
//!
//! Nothing is decided here: a request becomes a call of a use case, its answer becomes JSON, and
//! what went wrong becomes one problem document. Request bodies are never logged, as they may carry
//! a vendor's key.
//!
//! | module | what lives there |
//! |---|---|
//! | [`use_cases`] | what the server asks of the daemon |
//! | [`listen`] | serving a Unix socket to its owner, until a shutdown |
//! | `routes` | which request becomes which use case |
//! | `stream` | the live stream with its cursor |
//! | `handshake` | client and daemon of different versions refuse each other |
//! | `problem` | every refusal as a problem document |
//! | `control` | the daemon itself behind the routes |
#![forbid(unsafe_code)]

mod authority;
mod control;
mod handshake;
mod problem;
mod routes;
mod stream;

pub mod listen;
pub mod use_cases;

pub use handshake::HEADER;
pub use listen::serve;
pub use use_cases::UseCases;
