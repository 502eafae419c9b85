//! The setup before the first question: what it gave is told to the model, and whatever it gave, the run
//! goes on. An agent can do without a dependency, or say that it cannot.

use domain::fact::Denial;
use domain::{Outcome, Payload};

use super::view::{Stage, View};
use crate::host::{SETUP, SetupInput, SetupRequest};
use crate::{output, prompt, words};

impl View {
    pub(super) fn setup_request(&self) -> Option<SetupRequest> {
        let environment = self.mission.as_ref()?.environment.as_ref()?;
        let input = SetupInput {
            command: environment.setup.clone(),
            from: environment.from.clone(),
            sees: environment.sees.clone(),
        };
        Some(SetupRequest { tool: SETUP.into(), input })
    }

    pub(super) fn set_up(&mut self, seq: u64, outcome: Outcome, payload: Option<&Payload>) {
        if outcome == Outcome::Cancelled && !self.is_spoken_to() {
            // The owner lets the run rest: the setup is due again when it goes on, and asked for again.
            return;
        }
        let output = output::read(payload).unwrap_or_default();
        let how = match outcome {
            Outcome::Succeeded => None,
            Outcome::Failed => Some(match output.exit_code {
                Some(code) => format!("failed with exit code {code}"),
                None => "failed".into(),
            }),
            Outcome::TimedOut => Some("was ended because its time was up".into()),
            Outcome::Cancelled => Some("was interrupted by the owner".into()),
        };
        self.told_of_setup(seq, how.as_deref(), &output.text);
    }

    pub(super) fn not_set_up(&mut self, seq: u64, reason: &Denial) {
        let how = format!("was not run: {}", words::denial(reason));
        self.told_of_setup(seq, Some(&how), "");
    }

    fn told_of_setup(&mut self, seq: u64, how: Option<&str>, output: &str) {
        let command = self.setup_request().map(|request| request.input.command).unwrap_or_default();
        self.pin(seq, prompt::setup(&command, how, output));
        self.stage = Stage::Asking;
    }
}
