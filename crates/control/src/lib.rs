//! The use cases that the CLI, the server and the gateways call.
#![forbid(unsafe_code)]
