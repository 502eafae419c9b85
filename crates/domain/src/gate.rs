//! Durable questions to a human.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// May this step happen?
    #[n(0)]
    Approve,
    /// This step may or may not have happened before a crash: was it done?
    #[n(1)]
    WasItDone,
}

/// What was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The step may happen.
    #[n(0)]
    Approved,
    /// The step must not happen.
    #[n(1)]
    Refused,
    /// Nobody answered in time, which counts as a refusal.
    #[n(2)]
    Expired,
    /// The uncertain step was done: take it as done.
    #[n(3)]
    WasDone,
    /// The uncertain step was not done: run it again.
    #[n(4)]
    Repeat,
}

impl Question {
    /// Whether `answer` answers this question. Refusing and expiring answer both.
    pub const fn admits(self, answer: Answer) -> bool {
        match answer {
            Answer::Refused | Answer::Expired => true,
            Answer::Approved => matches!(self, Self::Approve),
            Answer::WasDone | Answer::Repeat => matches!(self, Self::WasItDone),
        }
    }
}
