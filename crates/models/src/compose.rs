//! Why a request cannot be put on a vendor's wire; found before anything is sent or spent.

/// A request that the vendor would refuse for its form.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing names the model.
    #[error("the request names no model; set one, for instance `{}`", crate::catalogue::DEFAULT_MODEL)]
    NoModel,
    /// `max_tokens` is zero.
    #[error("the request allows no output; set max_tokens to 1 or more")]
    NoOutput,
    /// There is no message.
    #[error("the conversation is empty; begin it with a user message")]
    NoMessages,
    /// The first message is the model's.
    #[error("the conversation begins with the model's own message; begin it with a user message")]
    FirstIsAssistant,
    /// A tool's name does not fit the vendor's pattern.
    #[error("the tool name `{name}` does not fit the wire; use 1 to 128 letters, digits, `_` or `-`")]
    ToolName {
        /// The name as given.
        name: String,
    },
    /// Two tools share a name.
    #[error("two tools are named `{name}`; give each its own name")]
    ToolTwice {
        /// The name.
        name: String,
    },
    /// A tool's schema is no object.
    #[error("the input schema of tool `{name}` is not a JSON object; give a schema of type object")]
    ToolSchema {
        /// The tool's name.
        name: String,
    },
    /// A tool call has no result in the next message.
    #[error(
        "message {at} calls tools but the call `{id}` has no result; append one, an error result if it was interrupted"
    )]
    Unanswered {
        /// Place of the calling message, from 0.
        at: usize,
        /// The call.
        id: String,
    },
    /// A result answers nothing that was asked in the message before.
    #[error(
        "message {at} has a result for `{id}`, which is not open there; answer each call once, in the next message"
    )]
    AnswersNothing {
        /// Place of the answering message, from 0.
        at: usize,
        /// The call that is named.
        id: String,
    },
    /// Signed reasoning of one model cannot be sent to another.
    #[error(
        "message {at} holds reasoning signed for `{made_by}`, which `{model}` cannot take; keep one model per run, or delegate"
    )]
    ForeignReasoning {
        /// Place of the message, from 0.
        at: usize,
        /// The model that made it.
        made_by: String,
        /// The model that is asked now.
        model: String,
    },
    /// The request could not be encoded.
    #[error("the request could not be encoded as JSON; this is a defect, please report it")]
    Encode(#[source] serde_json::Error),
}
