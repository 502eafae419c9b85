//! The nouns and the pure rules: no I/O, no async, no clock, no randomness.
#![forbid(unsafe_code)]
