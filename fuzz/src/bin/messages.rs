//! Streams of the Messages wire.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::stream::check(models::Wire::Messages, data));
