//! Answers of any wire that came whole.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    for wire in models::Wire::ALL {
        fuzz::stream::check_whole(wire, data);
    }
});
