//! Orders to the launcher, and its answers.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::launch::check(data));
