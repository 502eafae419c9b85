//! Whether a mission's first request leaves room for an answer in its model's window: found out before
//! anything begins, and not from the vendor's refusal afterwards.

use std::sync::Arc;

use domain::Mission;
use engine::{Config, Toolbox, native};
use models::Provider;
use models::catalogue;
use models::count::{self, Count};

use crate::Control;
use crate::error::{Error, Kind};
use crate::missions::internal;

/// Tokens of the smallest answer that is of any use: a few words and the call of a tool.
const SMALLEST_ANSWER: u64 = 1_024;

impl Control {
    /// Refuses a mission whose system text, tools and goal are too long for its model.
    ///
    /// # Errors
    /// `model.window_too_small`, with what was counted and how.
    pub(crate) async fn room(&self, provider: &dyn Provider, mission: &Mission) -> Result<(), Error> {
        let terms = catalogue::terms_of(mission);
        let (artifacts, system, tools) = (Arc::clone(&self.artifacts), mission.system, mission.tools);
        let read = self.blocking(move || {
            let system = String::from_utf8_lossy(&artifacts.get(system)?).into_owned();
            Ok((system, Toolbox::from_bytes(&artifacts.get(tools)?).map_err(internal)?))
        });
        // What cannot be read or composed is the driver's to say, with the run on record.
        let Ok((system, toolbox)) = read.await else { return Ok(()) };
        let window = terms.window;
        let config = Config::new(system, toolbox, Arc::new(models::wire::compose)).on(terms);
        let most = config.compaction_threshold();
        let Ok((first, tokens)) = native::first(config, mission) else { return Ok(()) };
        let Ok(body) = provider.compose(&first) else { return Ok(()) };
        if tokens <= most && count::estimate(&body).tokens <= window / 2 {
            return Ok(());
        }
        let counted = provider.count(&body).await;
        if counted.tokens.saturating_add(SMALLEST_ANSWER) > window {
            return Err(too_small(mission, counted, window));
        }
        // The driver compacts above this, and of a conversation that has only begun there is nothing to compact.
        match tokens <= most {
            true => Ok(()),
            false => Err(refused(format!(
                "the first request to `{}` has about {tokens} tokens, more than the {most} that are used of its \
                 window of {window} before a conversation is compacted",
                mission.model
            ))),
        }
    }
}

fn too_small(mission: &Mission, counted: Count, window: u64) -> Error {
    refused(format!(
        "the first request to `{}` has {} tokens ({}), and its window of {window} tokens has no room for that and an answer",
        mission.model,
        counted.tokens,
        counted.how.words(),
    ))
}

fn refused(detail: String) -> Error {
    Error::new(Kind::Invalid, "model.window_too_small", detail).hint(
        "shorten the goal or AGENTS.md (what is in a file of the repository need not be in the goal), or choose a \
         model with a longer window with --model",
    )
}
