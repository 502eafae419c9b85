//! What holds for anything that the parsers are fed. Each of `bin` feeds one of them.

pub mod launch;
pub mod record;
pub mod refusal;
pub mod rules;
pub mod scenario;
pub mod stream;
pub mod tool;

/// Fails when bytes are no JSON whose texts can all be read. How deep it is, and how large its numbers are,
/// is the vendor's own affair.
fn must_be_json(bytes: &[u8]) {
    if let Err(error) = serde_json::from_slice::<serde_json::Value>(bytes) {
        let why = error.to_string();
        let is_theirs = why.contains("recursion limit") || why.contains("number out of range");
        assert!(is_theirs, "{why}: {}", String::from_utf8_lossy(bytes));
    }
}
