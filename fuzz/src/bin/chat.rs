//! Streams of the Chat wire.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::stream::check(models::Wire::Chat, data));
