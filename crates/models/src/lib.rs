//! The provider port and its adapters; catalogue and prices.
//!
//! Three wires: Anthropic Messages, OpenAI Responses, and chat completions as local servers speak
//! them. The model's name says which ([`Wire::of`]). What a driver composes is
//! rendered by each; what a model said goes back to the wire it came from, and to no other.
//!
//! A conversation is kept as the vendor wrote it: every [`Block`] holds its raw JSON beside a
//! thin typed [`block::View`], so that signed reasoning goes back byte for byte. [`Provider`]
//! composes a request as pure bytes, which the caller may hash and record before any of them
//! is sent, and sends exactly those bytes.
//!
//! Everything that is journaled ([`Response`], [`Message`], [`Block`]) serializes through
//! `serde_json` without loss. The raw JSON inside needs `serde_json`'s own parser: do not put
//! these types below `#[serde(flatten)]`, untagged or internally tagged enums.
#![forbid(unsafe_code)]

mod adapter;
mod anthropic;
pub mod batch;
pub mod block;
pub mod call;
pub mod catalogue;
mod compatible;
pub mod compose;
pub mod config;
pub mod count;
mod extra;
mod http;
pub mod image;
mod json;
mod limit;
mod message;
pub mod network;
mod openai;
mod provider;
mod response;
pub mod routing;
mod secret;
pub mod tape;
pub mod tls;
pub mod wire;

pub use adapter::Adapter;
pub use block::Block;
pub use config::{Config, Credential};
pub use count::Count;
pub use domain::{Effort, Price};
pub use extra::{Extras, Parameter};
#[cfg(feature = "parsers")]
#[doc(hidden)]
pub use http::parsers;
pub use json::RawJson;
pub use limit::Limits;
pub use message::{Message, Request, Role, ToolSpec};
pub use network::Network;
pub use provider::{Delta, Provider};
pub use response::{Call, Response, Stop, Usage};
pub use secret::Secret;
pub use wire::Wire;
