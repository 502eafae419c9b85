//! The use cases: what the CLI, the server and the gateways all call.
//!
//! | module | what lives there |
//! |---|---|
//! | [`api`] | the requests and views of `/api/v1`, shared by server and clients |
//! | [`error`] | why a use case failed: stable code, status, mend |
#![forbid(unsafe_code)]

pub mod api;
pub mod error;

pub use error::Error;
