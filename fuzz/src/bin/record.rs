//! Answers, messages and blocks as the journal holds them.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::record::check(data));
