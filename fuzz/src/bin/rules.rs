//! Path rules, and the files that they are about.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::rules::check(data));
