//! Steering: what the owner says to a run on its way.

use kernel::machine::Order;

use crate::Control;
use crate::api::Say;
use crate::error::{Error, Kind};
use crate::missions::OWNER;

/// The longest word, in bytes: it goes whole into the conversation.
const MAX_BYTES: usize = 64 * 1024;

impl Control {
    /// Says something to the agent of a run; returns when it is on record. It is read when the running
    /// tool calls have ended, or at once with `now`, which ends them. A run that rests keeps it.
    ///
    /// # Errors
    /// When there is nothing to say, too much, no such run, or it is over.
    pub async fn run_say(&self, name: &str, said: Say) -> Result<(), Error> {
        let Say { text, now } = said;
        if text.trim().is_empty() {
            return Err(Error::new(Kind::Invalid, "say.empty", "there is nothing to say")
                .hint("give the words, as `regie say last \"use the other parser\"`"));
        }
        fits(&text)?;
        let run = self.resolve(name).await?;
        Ok(self.host.order(run, Order::Say { by: OWNER.into(), text, now }).await?)
    }
}

/// Refuses words that are too long for the conversation.
pub(crate) fn fits(text: &str) -> Result<(), Error> {
    if text.len() <= MAX_BYTES {
        return Ok(());
    }
    let detail = format!("the words have {} bytes, and at most {MAX_BYTES} are read", text.len());
    Err(Error::new(Kind::Invalid, "say.too_long", detail)
        .hint("put them into a file of the project and name it"))
}
