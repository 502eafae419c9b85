//! What the owner does: answers, also mistaken, late and doubled ones; stop, resume, cancel, say.

use domain::Digest;
use domain::gate::{Answer, Question};
use domain::run::Refusal;
use kernel::machine::Order;

use super::check::{Check, hold};
use super::world::{Owner, World};

const OWNER: &str = "human:owner";

impl World {
    /// The owner cancels the run.
    ///
    /// # Errors
    /// An invariant that does not hold.
    pub fn cancel(&mut self) -> Result<Result<(), Refusal>, String> {
        self.count("cancellation");
        self.order(Order::Cancel { by: OWNER.into() })
    }

    /// The owner stops the run.
    ///
    /// # Errors
    /// An invariant that does not hold.
    pub fn stop(&mut self) -> Result<Result<(), Refusal>, String> {
        self.order(Order::Stop { by: OWNER.into() })
    }

    /// The owner stops the run at once.
    ///
    /// # Errors
    /// An invariant that does not hold.
    pub fn stop_now(&mut self) -> Result<Result<(), Refusal>, String> {
        self.count("stop at once");
        self.order(Order::StopNow { by: OWNER.into() })
    }

    /// The owner resumes the run.
    ///
    /// # Errors
    /// An invariant that does not hold.
    pub fn resume(&mut self) -> Result<Result<(), Refusal>, String> {
        self.order(Order::Resume { by: OWNER.into() })
    }

    /// The owner says something; `now` interrupts what runs.
    ///
    /// # Errors
    /// An invariant that does not hold.
    pub fn say(&mut self, now: bool) -> Result<Result<(), Refusal>, String> {
        self.count(if now { "interruption" } else { "word" });
        self.order(Order::Say { by: OWNER.into(), text: "look here".into(), now })
    }

    /// Answers one of the open gates.
    pub(super) fn answer(&mut self) -> Check {
        let gates = &self.checker.state.gates;
        let Some((gate, open)) = gates.iter().nth(self.dice.index(gates.len())) else { return Ok(()) };
        let says = match self.owner {
            Owner::Says(answer) if open.question == Question::WasItDone => Some(answer),
            Owner::Says(_) => Some(Answer::Approved),
            Owner::Moody | Owner::Away => None,
        };
        let moods = match (open.question, self.dice.below(4)) {
            (Question::Approve, 0) => Answer::Refused,
            (Question::Approve, _) => Answer::Approved,
            (Question::WasItDone, 0) => Answer::Refused,
            (Question::WasItDone, 1) => Answer::WasDone,
            (Question::WasItDone, _) => Answer::Repeat,
        };
        let (gate, action, answer) = (*gate, Some(open.action), says.unwrap_or(moods));
        let by = OWNER.into();
        self.order(Order::Answer { gate, action, answer, by }).map(drop)
    }

    /// Another action's hash, the answer to another question, or one that comes twice.
    pub(super) fn answer_oddly(&mut self) -> Check {
        let gates = &self.checker.state.gates;
        let Some((gate, open)) = gates.iter().nth(self.dice.index(gates.len())) else { return Ok(()) };
        let (gate, action, question) = (*gate, open.action, open.question);
        let by = || OWNER.to_owned();
        match self.dice.below(4) {
            0 => {
                let answer = if question == Question::Approve { Answer::Approved } else { Answer::Repeat };
                let action = Some(Digest::of(b"another action"));
                let said = self.order(Order::Answer { gate, action, answer, by: by() })?;
                hold!(said.is_err(), "{gate} takes an answer to another action");
            }
            1 => {
                let answer = if question == Question::Approve { Answer::Repeat } else { Answer::Approved };
                let said = self.order(Order::Answer { gate, action: Some(action), answer, by: by() })?;
                hold!(said.is_err(), "{gate} takes an answer to another question");
            }
            2 => {
                let answer = Answer::Refused;
                let first = self.order(Order::Answer { gate, action: None, answer, by: by() })?;
                let again = self.order(Order::Answer { gate, action: None, answer, by: by() })?;
                hold!(first.is_err() || again.is_err(), "{gate} takes two answers");
            }
            _ => {
                // Too late.
                self.now = self.now.plus(super::authority::PATIENCE);
                let answer = Answer::Refused;
                let said = self.order(Order::Answer { gate, action: None, answer, by: by() })?;
                hold!(said.is_err(), "{gate} takes an answer after its time");
            }
        }
        Ok(())
    }
}
