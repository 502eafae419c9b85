//! What is asked on the way, and what follows from the answers: gates, and whether to leave.

use control::api;

use super::ask::{self, Reply};
use super::{Asking, Follow, tagged};
use crate::failure::{Exit, Failure};
use crate::screen::{self, card, style, text};

impl Follow {
    /// A gate that was open before the run is followed has no event to come.
    pub(super) async fn asked_before(&mut self) -> Result<Option<Exit>, Failure> {
        let before = self.options.so_far.as_ref().and_then(|run| run.gates.first().cloned());
        match before {
            Some(gate) => self.gate(&gate).await,
            None => Ok(None),
        }
    }

    pub(super) async fn gate(&mut self, gate: &str) -> Result<Option<Exit>, Failure> {
        let gate = self.client.gate_fetch(gate).await?;
        // Behind another question it is asked when that one is answered.
        if gate.answer.is_some() || self.asking.is_some() {
            return Ok(None);
        }
        if self.options.json {
            screen::put_json(&tagged("gate", &gate))?;
            return Ok(Some(Exit::Waiting));
        }
        // What others would execute or trust comes before a diff that it could hide in.
        let findings = card::findings(&gate, screen::export::SOME);
        if !findings.is_empty() {
            self.say(&format!("\n{findings}"))?;
        }
        if !gate.files.is_empty() {
            self.changes().await?;
        }
        self.say(&format!("\n{}\n", card::question(&gate)))?;
        if !self.can_ask {
            return self.waits(&gate).map(Some);
        }
        self.ask(gate)?;
        Ok(None)
    }

    fn ask(&mut self, gate: api::Gate) -> Result<(), Failure> {
        let title = card::title(&gate);
        let title = title.trim_end_matches('?');
        self.keyboard.forget();
        self.say(&format!(
            "  {}? {} ",
            style::bold(title),
            style::dim(ask::choices(&gate.question, gate.always.is_some()))
        ))?;
        self.asking = Some(Asking::Gate(Box::new(gate)));
        Ok(())
    }

    /// Leaves a gate to be answered later.
    fn waits(&mut self, gate: &api::Gate) -> Result<Exit, Failure> {
        self.say(&format!(
            "  {} {}\n",
            style::waiting("waiting"),
            "the run goes on when the gate is answered"
        ))?;
        let id = text::line(&gate.gate);
        if gate.question == "was_it_done" {
            screen::hint(&format!("regie gate was-done {id}   (or repeat, or refuse)"))?;
        } else {
            screen::hint(&format!("regie gate approve {id}   (or refuse)"))?;
        }
        Ok(Exit::Waiting)
    }

    pub(super) async fn answered(&mut self, line: Option<String>) -> Result<Option<Exit>, Failure> {
        let asked = self.asking.take();
        self.show_held()?;
        match asked {
            None => Ok(None),
            Some(Asking::Interrupt) => self.interrupt_answered(line.as_deref()).await,
            Some(Asking::Gate(gate)) => match reply(&gate, line.as_deref()) {
                Reply::Answer(answer) => {
                    let wanted = api::AnswerGate {
                        answer: answer.into(),
                        action: gate.action.clone(),
                        vendor: self.options.vendor.clone(),
                    };
                    // Someone else may have been faster: the event says what was answered.
                    if let Err(error) = self.client.gate_answer(&gate.gate, &wanted).await {
                        let failure = Failure::from(error);
                        self.say(&format!("  {} {}\n", style::failed("✗"), failure.detail))?;
                        return self.gate(&gate.gate).await;
                    }
                    Ok(None)
                }
                Reply::Diff => {
                    self.showed_changes = false;
                    self.changes().await?;
                    self.say("\n")?;
                    self.ask(*gate)?;
                    Ok(None)
                }
                Reply::Later => {
                    if line.is_none() {
                        self.say("\n")?;
                    }
                    self.waits(&gate).map(Some)
                }
                Reply::Again | Reply::Always => {
                    self.ask(*gate)?;
                    Ok(None)
                }
            },
        }
    }

    pub(super) async fn interrupted(&mut self) -> Result<Option<Exit>, Failure> {
        // A second one does not wait for an answer.
        if self.asking.take().is_some_and(|asked| matches!(asked, Asking::Interrupt))
            || !self.can_ask
            || self.ending
        {
            return self.detach().map(Some);
        }
        let hushed = self.view.hush();
        self.say(&hushed)?;
        self.keyboard.forget();
        self.say(&format!(
            "\n  {} {} ",
            style::bold("Leave it?"),
            style::dim(
                "[d = detach, it goes on / s = stop what runs now, it can be resumed / c = cancel, final / \
                 Enter = stay]"
            )
        ))?;
        self.asking = Some(Asking::Interrupt);
        Ok(None)
    }

    async fn interrupt_answered(&mut self, line: Option<&str>) -> Result<Option<Exit>, Failure> {
        match line {
            None | Some("d" | "detach") => return self.detach().map(Some),
            Some("s" | "stop") => {
                self.ending = true;
                self.client.run_stop(&self.run).await?;
            }
            Some("c" | "cancel") => {
                self.ending = true;
                self.client.run_cancel(&self.run).await?;
            }
            _ => {}
        }
        // A gate may have been asked for before: it is asked for again.
        let run = self.client.run_fetch(&self.run).await?;
        match run.gates.first() {
            Some(gate) if !self.ending => self.gate(gate).await,
            _ => Ok(None),
        }
    }
}

/// What a line means for a gate; *always* is an answer where the gate offers it.
fn reply(gate: &api::Gate, line: Option<&str>) -> Reply {
    match ask::reply(&gate.question, line) {
        Reply::Always if gate.always.is_some() => Reply::Answer("approve_always"),
        reply => reply,
    }
}
