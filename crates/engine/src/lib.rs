//! The native driver: loop, context, verification.
#![forbid(unsafe_code)]
