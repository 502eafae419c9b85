//! What waits for the owner, and the answers.

mod report;

use domain::fact::StepPlanned;
use domain::gate::{Answer, Question};
use domain::{Digest, Fact, GateId, Payload, Recorded, StepNo, Timestamp};
use engine::host::{MergeRequest, Proposed};
use kernel::machine::Order;
use kernel::port::{GateRow, Journal};

use crate::act::recorded;
use crate::api::{self, AnswerGate};
use crate::error::{Error, Kind};
use crate::missions::OWNER;
use crate::policy::Files;
use crate::policy::always::{self, Offer};
use crate::readers::summary;
use crate::runs::Charter;
use crate::{Control, view};

pub use report::{Asked, AskedBy, GateReport};

/// Events looked at in one go.
const PAGE: u64 = 256;

impl Control {
    /// Gates, oldest first.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn gate_list(&self, only_open: bool) -> Result<Vec<api::Gate>, Error> {
        let journal = self.journal();
        self.blocking(move || journal.gates(only_open)?.iter().map(|row| gate_view(&*journal, row)).collect())
            .await
    }

    /// One gate, by its id or the end of it.
    ///
    /// # Errors
    /// When there is none.
    pub async fn gate_fetch(&self, name: &str) -> Result<api::Gate, Error> {
        let (journal, files, name) = (self.journal(), self.files.clone(), name.to_lowercase());
        let now = self.clock().now();
        self.blocking(move || {
            let row = gate_row(&*journal, &name)?;
            let always = offer(&*journal, &files, &row, now)?.map(|offer| offer.rule.trim().to_owned());
            // What cannot be told must not keep the owner from an answer; the door fails closed.
            let read = row.answered_seq.is_none().then(|| summary(&files, row.run).ok()).flatten();
            Ok(api::Gate { always, read, ..gate_view(&*journal, &row)? })
        })
        .await
    }

    /// Answers a gate, and returns when the answer is on record.
    ///
    /// # Errors
    /// When there is no such gate, it was answered, it has expired, or it asks about another action.
    pub async fn gate_answer(&self, name: &str, request: AnswerGate) -> Result<api::Gate, Error> {
        let is_always = request.answer == "approve_always";
        let answer = match request.answer.as_str() {
            "approve" | "approve_always" => Answer::Approved,
            "refuse" => Answer::Refused,
            "was_done" => Answer::WasDone,
            "repeat" => Answer::Repeat,
            other => {
                return Err(Error::new(Kind::Invalid, "gate.answer", format!("`{other}` is no answer"))
                    .hint("answer with approve, approve_always, refuse, was_done or repeat"));
            }
        };
        let action: Digest = request.action.parse().map_err(|error: domain::digest::ParseError| {
            Error::new(Kind::Invalid, "gate.action", error.to_string())
                .hint("send the `action` of the gate as it was shown")
        })?;
        let (journal, wanted) = (self.journal(), name.to_lowercase());
        let row = self.blocking(move || gate_row(&*journal, &wanted)).await?;
        let always = if is_always { Some(self.always(&row).await?) } else { None };
        self.renew_key(row.run, &request.vendor).await?;
        let order = Order::Answer { gate: row.gate, action: Some(action), answer, by: OWNER.into() };
        self.host.order(row.run, order).await?;
        // Only what was approved is allowed always: a crash in between asks again the next time.
        if let Some((offer, text)) = always {
            let (records, now, gate) =
                (std::sync::Arc::clone(&self.records), self.moment(), row.gate.to_string());
            self.blocking(move || recorded(&*records, ("policy.always", &gate), now, || offer.write(&text)))
                .await?;
        }
        self.gate_fetch(&row.gate.to_string()).await
    }

    /// The rule that lets what a gate asks happen always, and the file with it.
    async fn always(&self, row: &GateRow) -> Result<(Offer, String), Error> {
        let (journal, files, row, now) =
            (self.journal(), self.files.clone(), row.clone(), self.clock().now());
        self.blocking(move || {
            if row.answered_seq.is_some() {
                let what = format!("gate {} has an answer already", row.gate);
                return Err(Error::new(Kind::Conflict, "gate.answered", what).hint("`regie gate list` shows what waits"));
            }
            let offer = offer(&*journal, &files, &row, now)?.ok_or_else(|| {
                Error::new(Kind::Invalid, "gate.not_always", "this cannot be allowed always")
                    .hint("merges, and what leaves the house, are asked each time: `regie gate approve` answers this one")
            })?;
            let text = offer.text()?;
            Ok((offer, text))
        })
        .await
    }
}

fn gate_row(journal: &dyn Journal, name: &str) -> Result<GateRow, Error> {
    let exact: Option<GateId> = name.parse().ok();
    let part = name.strip_prefix("gate_").unwrap_or(name);
    let rows = journal.gates(false)?;
    let matches = |row: &&GateRow| match exact {
        Some(gate) => row.gate == gate,
        None => !part.is_empty() && row.gate.to_string().ends_with(part),
    };
    let mut found = rows.iter().filter(matches);
    match (found.next(), found.next()) {
        (Some(row), None) => Ok(row.clone()),
        (None, _) => Err(Error::new(Kind::NotFound, "gate.not_found", format!("there is no gate `{name}`"))
            .hint("`regie gate list` shows what waits")),
        _ => Err(Error::new(Kind::Invalid, "gate.ambiguous", format!("`{name}` means more than one gate"))
            .hint("give more characters of the id")),
    }
}

/// What *always* would write for a gate that waits.
fn offer(
    journal: &dyn Journal,
    files: &Files,
    row: &GateRow,
    now: Timestamp,
) -> Result<Option<Offer>, Error> {
    let opened = event(journal, row, row.opened_seq)?;
    let Some(Fact::GateOpened { subject, question: Question::Approve, .. }) = opened.map(|it| it.header.fact)
    else {
        return Ok(None);
    };
    let (None, Some((planned, payload))) = (row.answered_seq, planned_before(journal, row, subject)?) else {
        return Ok(None);
    };
    let principal = Charter::read(journal, row.run)?.started.principal;
    Ok(always::offer(files, (row.run, row.gate, &principal), &planned, payload.as_ref(), now))
}

fn event(journal: &dyn Journal, row: &GateRow, seq: u64) -> Result<Option<Recorded>, Error> {
    Ok(journal.history(row.run, seq.saturating_sub(1), 1)?.into_iter().next())
}

/// The step that a gate asks about, with its request. It was planned shortly before the gate was opened:
/// the search goes backwards from there, so that a long run's gates cost no more than a short one's.
fn planned_before(
    journal: &dyn Journal,
    row: &GateRow,
    subject: StepNo,
) -> Result<Option<(StepPlanned, Option<Payload>)>, Error> {
    let mut until = row.opened_seq;
    while until > 0 {
        let from = until.saturating_sub(PAGE);
        let limit = usize::try_from(until - from).unwrap_or(usize::MAX);
        for event in journal.history(row.run, from, limit)?.into_iter().rev() {
            match event.header.fact {
                Fact::StepPlanned(planned) if planned.step == subject => {
                    return Ok(Some((planned, event.payload)));
                }
                _ => {}
            }
        }
        until = from;
    }
    Ok(None)
}

/// What a gate asks, in one line; `None` where that cannot be read.
pub(crate) fn question(journal: &dyn Journal, gate: GateId) -> Option<String> {
    let rows = journal.gates(false).ok()?;
    let row = rows.iter().rev().find(|row| row.gate == gate)?;
    gate_view(journal, row).ok().map(|shown| shown.title)
}

/// A gate as it is shown: the exact action, why it is asked, and what it would change.
fn gate_view(journal: &dyn Journal, row: &GateRow) -> Result<api::Gate, Error> {
    let damaged = || Error::new(Kind::Internal, "gate.damaged", format!("gate {} cannot be read", row.gate));
    let charter = Charter::read(journal, row.run)?;
    let opened = event(journal, row, row.opened_seq)?.ok_or_else(damaged)?;
    let Fact::GateOpened { subject, question, action, decision, .. } = opened.header.fact else {
        return Err(damaged());
    };
    let (planned, payload) = planned_before(journal, row, subject)?.ok_or_else(damaged)?;
    let payload = payload.as_ref();
    let (answer, by) = match row.answered_seq {
        Some(seq) => match event(journal, row, seq)?.map(|event| event.header.fact) {
            Some(Fact::GateAnswered { answer, by, .. }) => (Some(view::name(answer)), Some(by)),
            _ => (None, None),
        },
        None => (None, None),
    };
    let proposal: Option<MergeRequest> = (planned.tool == engine::host::MERGE)
        .then(|| payload.and_then(|payload| serde_json::from_slice(&payload.0).ok()))
        .flatten();
    let title = match (question, &proposal) {
        (Question::WasItDone, _) => {
            format!("A crash left it open whether `{}` was done. Was it?", planned.tool)
        }
        (Question::Approve, Some(proposal)) => format!("Merge this proposal into {}?", proposal.line),
        (Question::Approve, None) if planned.tool == engine::host::SETUP => {
            "Set this project up, with the network of this machine?".into()
        }
        (Question::Approve, None) => format!("Let the agent use `{}`?", planned.tool),
    };
    let export = proposal.as_ref().and_then(|proposal| proposal.export.clone());
    let (files, checks) = proposal.map_or((Vec::new(), Vec::new()), |proposal| {
        let mut checks: Vec<_> = match proposal.proposed.as_slice() {
            [] => proposal.checks,
            // What it is worth stands first: a long command must not hide it.
            agents => {
                let line = |one: &Proposed| {
                    format!("[proposed by the agent; {}] {}", one.before.words(), one.command)
                };
                agents.iter().map(line).collect()
            }
        };
        if checks.is_empty() {
            checks.push(proposal.checked);
        }
        (proposal.files.iter().map(view::proposed_file).collect(), checks)
    });
    Ok(api::Gate {
        gate: row.gate.to_string(),
        run: row.run.to_string(),
        goal: charter.mission.goal,
        step: subject.0,
        question: view::name(question),
        title,
        reason: decision.map(|decision| decision.rule),
        effect: view::name(planned.effect),
        risk: view::name(planned.risk),
        tool: planned.tool.clone(),
        request: payload.map_or(serde_json::Value::Null, view::content),
        action: action.to_string(),
        always: None,
        read: None,
        export,
        files,
        checks,
        opened_at: row.opened_at.0,
        expires_at: row.expires_at.0,
        answer,
        by,
    })
}
