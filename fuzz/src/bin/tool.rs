//! Calls of the tools, and what jails answer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::tool::check(data));
