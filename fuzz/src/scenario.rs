//! The scenario file of a scripted model: anything that is no scenario is refused with the reason.

use testkit::script::{Scenario, parse};

pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match parse(text) {
        Ok(scenarios) => {
            assert!(!scenarios.is_empty());
            assert_eq!(Scenario::parse(text).is_ok(), scenarios.len() == 1);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
