//! Streams of the Responses wire.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::stream::check(models::Wire::Responses, data));
