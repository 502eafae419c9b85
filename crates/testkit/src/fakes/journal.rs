//! A journal in memory with the rules of a real one, and writes that fail when a test says so.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use domain::event::{Head, Recorded};
use domain::run::Status;
use domain::{Fact, Millis, RunId, RunState, Timestamp};
use kernel::port::{
    Append, AppendError, Appended, Claim, ClaimError, GateRow, Journal, JournalError, OnAppended, RunRow,
    Verification,
};

/// See the module.
#[derive(Default)]
pub struct MemoryJournal(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    events: Vec<Recorded>,
    runs: BTreeMap<RunId, Row>,
    failures: VecDeque<AppendError>,
    held: Option<Vec<(Append, OnAppended)>>,
    broken_renewals: bool,
}

#[derive(Default)]
struct Row {
    fence: u64,
    holder: Option<String>,
    expires_at: Timestamp,
}

impl MemoryJournal {
    /// Lets the next appends fail like this, one after another; nothing of them is written.
    pub fn fail(&self, errors: impl IntoIterator<Item = AppendError>) {
        self.lock().failures.extend(errors);
    }

    /// Lets no renewal of a claim be written.
    pub fn break_renewals(&self) {
        self.lock().broken_renewals = true;
    }

    /// Keeps appends waiting.
    pub fn hold(&self) {
        self.lock().held.get_or_insert_default();
    }

    /// Writes the appends that wait, and the later ones at once.
    pub fn release(&self) {
        let held = self.lock().held.take().unwrap_or_default();
        for (append, done) in held {
            self.write(append, done);
        }
    }

    /// The events of a run.
    pub fn events(&self, run: RunId) -> Vec<Recorded> {
        self.lock().events_of(run).cloned().collect()
    }

    /// Forgets the content of an event; its place in the chain stays.
    pub fn forget(&self, run: RunId, seq: u64) {
        let mut inner = self.lock();
        let events = inner.events.iter_mut();
        for event in events.filter(|event| event.header.run == run && event.header.seq == seq) {
            event.payload = None;
        }
    }

    /// The state that the events of a run lead to.
    pub fn state(&self, run: RunId) -> RunState {
        self.lock().state(run)
    }

    /// How many events of a run state this fact.
    pub fn count(&self, run: RunId, fact: &str) -> usize {
        self.lock().events_of(run).filter(|event| event.header.fact.name() == fact).count()
    }

    fn write(&self, append: Append, done: OnAppended) {
        let result = self.lock().write(&append);
        done(result);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }
}

impl Inner {
    fn events_of(&self, run: RunId) -> impl Iterator<Item = &Recorded> {
        self.events.iter().filter(move |event| event.header.run == run)
    }

    fn state(&self, run: RunId) -> RunState {
        let mut state = RunState::new(run);
        for event in self.events_of(run) {
            state.evolve(event.header.at, &event.header.fact);
        }
        state
    }

    /// What all runs have settled and reserved, whatever the day.
    fn held(&self) -> u64 {
        let budgets = self.runs.keys().map(|run| self.state(*run).budget);
        budgets.map(|budget| budget.spent.plus(budget.reserved).nanodollars).sum()
    }

    fn head(&self, run: RunId) -> Head {
        let last = self.events_of(run).last();
        last.map_or(Head::EMPTY, |last| Head { seq: last.header.seq, hash: last.hash })
    }

    fn write(&mut self, append: &Append) -> Result<Appended, AppendError> {
        if let Some(error) = self.failures.pop_front() {
            return Err(error);
        }
        let (run, expect) = (append.run, append.expect);
        let current = self.runs.get(&run).map_or(0, |row| row.fence);
        if expect.fence != current {
            return Err(AppendError::Fenced { run, current, ours: expect.fence });
        }
        if expect.head != self.head(run) {
            return Err(AppendError::HeadMoved(run));
        }
        if let Some(cap) = expect.day {
            let wanted = append.events.iter().map(|sealed| match &sealed.header.fact {
                Fact::StepIntended { reserved, .. } => reserved.nanodollars,
                _ => 0,
            });
            let wanted: u64 = wanted.sum();
            if wanted > 0 && self.held() + wanted > cap.nanodollars {
                return Err(AppendError::DayFull(cap.day, run));
            }
        }
        for sealed in &append.events {
            let position = self.events.len() as u64 + 1;
            self.events.push(Recorded {
                position,
                header: sealed.header.clone(),
                payload: Some(sealed.payload.clone()),
                hash: sealed.hash,
            });
        }
        Ok(Appended { position: self.events.len() as u64 })
    }

    fn row(&self, run: RunId) -> Option<RunRow> {
        let state = self.state(run);
        let (status, end) = match &state.status {
            Status::Active => ("active", None),
            Status::Parked { .. } => ("parked", None),
            Status::Ended { end } => ("ended", Some(*end)),
        };
        Some(RunRow {
            run,
            status,
            end,
            started_at: state.started_at,
            updated_at: self.events_of(run).last()?.header.at,
            head: self.head(run),
            fence: self.runs.get(&run)?.fence,
            nanodollars: state.budget.spent.nanodollars,
            tokens: state.budget.spent.tokens,
            unpriced: state.budget.spent.unpriced,
            turns: state.budget.spent.turns,
            open_gates: state.gates.len() as u64,
        })
    }
}

impl Journal for MemoryJournal {
    fn create(&self, append: Append) -> Result<Appended, AppendError> {
        let mut inner = self.lock();
        let appended = inner.write(&append)?;
        inner.runs.insert(append.run, Row::default());
        Ok(appended)
    }

    fn append(&self, append: Append, done: OnAppended) {
        if let Some(held) = &mut self.lock().held {
            return held.push((append, done));
        }
        self.write(append, done);
    }

    fn claim(
        &self,
        run: RunId,
        holder: &str,
        now: Timestamp,
        ttl: Millis,
        force: bool,
    ) -> Result<Claim, ClaimError> {
        let mut inner = self.lock();
        let head = inner.head(run);
        let row = inner.runs.get_mut(&run).ok_or(ClaimError::NoSuchRun(run))?;
        if let Some(other) = row.holder.as_ref().filter(|other| *other != holder)
            && !force
            && now < row.expires_at
        {
            return Err(ClaimError::Held { run, holder: other.clone() });
        }
        *row = Row { fence: row.fence + 1, holder: Some(holder.into()), expires_at: now.plus(ttl) };
        Ok(Claim { run, fence: row.fence, head })
    }

    fn renew(&self, claim: &Claim, now: Timestamp, ttl: Millis) -> Result<(), ClaimError> {
        let mut inner = self.lock();
        if inner.broken_renewals {
            return Err(ClaimError::Storage("no space left".into()));
        }
        let row = inner.runs.get_mut(&claim.run).ok_or(ClaimError::NoSuchRun(claim.run))?;
        if row.fence != claim.fence || row.holder.is_none() {
            return Err(ClaimError::Lost(claim.run));
        }
        row.expires_at = now.plus(ttl);
        Ok(())
    }

    fn release(&self, claim: &Claim) -> Result<(), ClaimError> {
        if let Some(row) = self.lock().runs.get_mut(&claim.run).filter(|row| row.fence == claim.fence) {
            row.holder = None;
        }
        Ok(())
    }

    fn history(&self, run: RunId, after_seq: u64, limit: usize) -> Result<Vec<Recorded>, JournalError> {
        let inner = self.lock();
        if !inner.runs.contains_key(&run) {
            return Err(JournalError::NoSuchRun(run));
        }
        let after = inner.events_of(run).filter(|event| event.header.seq > after_seq);
        Ok(after.take(limit).cloned().collect())
    }

    fn stream(&self, after: u64, limit: usize) -> Result<Vec<Recorded>, JournalError> {
        let inner = self.lock();
        Ok(inner.events.iter().filter(|event| event.position > after).take(limit).cloned().collect())
    }

    fn position(&self) -> u64 {
        self.lock().events.len() as u64
    }

    fn runs(&self, only_open: bool, limit: usize) -> Result<Vec<RunRow>, JournalError> {
        let inner = self.lock();
        let rows = inner.runs.keys().rev().filter_map(|run| inner.row(*run));
        Ok(rows.filter(|row| !only_open || row.end.is_none()).take(limit).collect())
    }

    fn run(&self, run: RunId) -> Result<RunRow, JournalError> {
        self.lock().row(run).ok_or(JournalError::NoSuchRun(run))
    }

    fn gates(&self, only_open: bool) -> Result<Vec<GateRow>, JournalError> {
        let inner = self.lock();
        let mut rows: Vec<GateRow> = Vec::new();
        for Recorded { header, .. } in &inner.events {
            match &header.fact {
                Fact::GateOpened { gate, expires_at, .. } => rows.push(GateRow {
                    gate: *gate,
                    run: header.run,
                    opened_seq: header.seq,
                    opened_at: header.at,
                    expires_at: *expires_at,
                    answered_seq: None,
                }),
                Fact::GateAnswered { gate, .. } => {
                    if let Some(row) = rows.iter_mut().find(|row| row.gate == *gate) {
                        row.answered_seq = Some(header.seq);
                    }
                }
                _ => {}
            }
        }
        Ok(rows.into_iter().filter(|row| !only_open || row.answered_seq.is_none()).collect())
    }

    fn spent_on(&self, _: u64) -> Result<u64, JournalError> {
        Ok(self.lock().held())
    }

    fn erase(&self, run: RunId, events: &[(u64, u64)]) -> Result<u64, JournalError> {
        let mut erased = 0;
        for event in self.lock().events.iter_mut().filter(|event| event.header.run == run) {
            let is_named = events.iter().any(|(first, last)| (*first..=*last).contains(&event.header.seq));
            erased += u64::from(is_named && event.payload.take().is_some());
        }
        Ok(erased)
    }

    fn verify(&self) -> Result<Verification, JournalError> {
        let inner = self.lock();
        let (runs, events) = (inner.runs.len() as u64, inner.events.len() as u64);
        Ok(Verification { runs, events, ..Verification::default() })
    }
}
