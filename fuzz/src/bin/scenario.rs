//! Scenario files.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::scenario::check(data));
