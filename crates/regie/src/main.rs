//! The binary: composition root and command line.
#![forbid(unsafe_code)]

fn main() {}
