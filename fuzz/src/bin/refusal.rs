//! Error answers.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::refusal::check(data));
