//! What was spent, from the journal. What is not known (a price, how tokens were cached) stays unknown.

use std::collections::{HashMap, HashSet};

use domain::run::End;
use domain::{Amount, Effort, Fact, Mission, Payload, Recorded, RunId, StepKind, StepNo, Timestamp};
use engine::words;
use models::{Response, Usage};

use crate::Control;
use crate::api::{By, Cost, Costs, Tokens};
use crate::error::Error;

/// Events read at a time.
const PAGE: usize = 2048;

impl Control {
    /// What all runs have spent, one row a run, mission, day or model; the newest first.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn costs(&self, by: By) -> Result<Costs, Error> {
        let journal = self.journal();
        self.blocking(move || {
            let mut ledger = Ledger::new(by);
            let mut position = 0;
            loop {
                let page = journal.stream(position, PAGE)?;
                let Some(last) = page.last() else { return Ok(ledger.close()) };
                position = last.position;
                page.iter().for_each(|event| ledger.take(event));
            }
        })
        .await
    }
}

/// A step without a result.
struct Open {
    /// The model, or the tool.
    tool: String,
    is_model: bool,
    /// When it was let in: the day whose cap it counts against.
    since: Timestamp,
}

struct Charter {
    mission: String,
    goal: Option<String>,
    /// How much work the model puts in.
    effort: Option<Effort>,
}

struct Ledger {
    by: By,
    charters: HashMap<RunId, Charter>,
    open: HashMap<(RunId, StepNo), Open>,
    /// The place of each key among the rows.
    places: HashMap<String, usize>,
    rows: Vec<Cost>,
    total: Cost,
    /// Missions that have ended as done.
    finished: HashSet<String>,
}

impl Ledger {
    fn new(by: By) -> Self {
        Self {
            by,
            charters: HashMap::new(),
            open: HashMap::new(),
            places: HashMap::new(),
            rows: Vec::new(),
            total: Cost { key: "total".into(), ..Cost::default() },
            finished: HashSet::new(),
        }
    }

    fn take(&mut self, event: &Recorded) {
        let run = event.header.run;
        match &event.header.fact {
            Fact::RunStarted(started) => {
                let payload = event.payload.as_ref().map(|payload| payload.0.as_slice()).unwrap_or_default();
                let known = serde_json::from_slice::<Mission>(payload).ok();
                let effort = known.as_ref().and_then(|mission| mission.terms.as_ref()?.effort);
                let goal = known.map(|mission| mission.goal);
                self.charters.insert(run, Charter { mission: started.mission.to_string(), goal, effort });
            }
            Fact::StepPlanned(planned) if planned.kind != StepKind::WaitHuman => {
                let is_model = matches!(planned.kind, StepKind::ModelCall | StepKind::Compaction);
                let open = Open { tool: planned.tool.clone(), is_model, since: event.header.at };
                self.open.insert((run, planned.step), open);
            }
            Fact::StepIntended { step, .. } => {
                if let Some(open) = self.open.get_mut(&(run, *step)) {
                    open.since = event.header.at;
                }
            }
            Fact::StepDenied { step, .. } => drop(self.open.remove(&(run, *step))),
            Fact::StepCompleted { step, spent, .. } => {
                if let Some(open) = self.open.remove(&(run, *step)) {
                    self.charge(run, &open, *spent, usage(&open, event.payload.as_ref()));
                }
            }
            Fact::ModelCallLost { step, spent, .. } => {
                if let Some(open) = self.open.remove(&(run, *step)) {
                    self.charge(run, &open, *spent, None);
                    // It is asked again under the same number.
                    self.open.insert((run, *step), open);
                }
            }
            Fact::Ended { end } => {
                self.open.retain(|(of, _), _| *of != run);
                if *end == End::Done {
                    self.finished.extend(self.charters.get(&run).map(|charter| charter.mission.clone()));
                }
            }
            _ => {}
        }
    }

    fn charge(&mut self, run: RunId, open: &Open, spent: Amount, usage: Option<Usage>) {
        // What is free is no news: most tools are.
        if !open.is_model && spent.nanodollars == 0 && spent.unpriced == 0 {
            return;
        }
        let charter = self.charters.get(&run);
        let goal = || charter.and_then(|charter| charter.goal.clone());
        let (key, title) = match self.by {
            By::Run => (run.to_string(), goal()),
            By::Mission => (charter.map(|charter| charter.mission.clone()).unwrap_or_default(), goal()),
            By::Day => (words::date(open.since.day()), None),
            By::Model => match charter.and_then(|charter| charter.effort).filter(|_| open.is_model) {
                Some(effort) => (format!("{} · {effort}", open.tool), None),
                None => (open.tool.clone(), None),
            },
        };
        let place = *self.places.entry(key.clone()).or_insert_with(|| {
            self.rows.push(Cost { key, title, ..Cost::default() });
            self.rows.len() - 1
        });
        for row in self.rows.get_mut(place).into_iter().chain([&mut self.total]) {
            add(row, spent, usage);
        }
    }

    fn close(self) -> Costs {
        let (mut rows, mut total) = (self.rows, self.total);
        rows.iter_mut().chain([&mut total]).for_each(settle);
        rows.reverse();
        Costs { by: self.by, rows, total, finished: self.finished.len() as u64 }
    }
}

/// The tokens of an answer, told apart: what was read from the vendor's cache costs less.
fn usage(open: &Open, payload: Option<&Payload>) -> Option<Usage> {
    let payload = payload.filter(|_| open.is_model)?;
    let response: Response = serde_json::from_slice(&payload.0).ok()?;
    Some(response.usage.plus(response.lost))
}

fn add(row: &mut Cost, spent: Amount, usage: Option<Usage>) {
    row.calls = row.calls.saturating_add(1);
    row.tokens = row.tokens.saturating_add(spent.tokens);
    row.unpriced = row.unpriced.saturating_add(spent.unpriced);
    row.nanodollars = Some(row.nanodollars.unwrap_or(0).saturating_add(spent.nanodollars));
    let Some(usage) = usage else { return };
    let told = row.told.get_or_insert_with(Tokens::default);
    told.input = told.input.saturating_add(usage.input);
    told.output = told.output.saturating_add(usage.output);
    told.cache_read = told.cache_read.saturating_add(usage.cache_read);
    told.cache_write = told.cache_write.saturating_add(usage.cache_write);
}

/// Money of which nothing is known is unknown, and not zero.
fn settle(row: &mut Cost) {
    row.nanodollars = match row.nanodollars.unwrap_or(0) {
        0 if row.unpriced > 0 => None,
        known => Some(known),
    };
}

#[cfg(test)]
mod tests {
    use domain::event::Sealed;
    use testkit::suite::history::Chain;

    use super::*;

    fn recorded(position: u64, sealed: &Sealed) -> Recorded {
        let (header, payload) = (sealed.header.clone(), Some(sealed.payload.clone()));
        Recorded { position, header, payload, hash: sealed.hash }
    }

    /// Whatever happened: the steps as they are shown, the runs' own budgets and every table of costs
    /// name the same money.
    #[test]
    fn steps_runs_and_the_tables_add_up() {
        let (mut events, mut money, mut charged) = (Vec::new(), 0, 0);
        for seed in 0..200 {
            let mut chain = Chain::new(seed);
            let mut appends = vec![chain.start()];
            appends.extend(chain.wander(60));
            let sealed = appends.iter().flat_map(|append| &append.events);
            let first = events.len() as u64 + 1;
            let run: Vec<_> = (first..).zip(sealed).map(|(at, sealed)| recorded(at, sealed)).collect();
            let steps: u64 = engine::timeline::items(&run).iter().map(|item| item.cost.nanodollars).sum();
            assert_eq!(steps, chain.state.budget.spent.nanodollars, "steps of run {seed}");
            money += steps;
            charged += usize::from(steps > 0);
            events.extend(run);
        }
        assert!(charged > 50, "only {charged} of the runs cost anything");
        for by in [By::Run, By::Mission, By::Day, By::Model] {
            let mut ledger = Ledger::new(by);
            events.iter().for_each(|event| ledger.take(event));
            let Costs { rows, total, .. } = ledger.close();
            assert_eq!(total.nanodollars.unwrap_or(0), money, "{by:?}");
            let sum = |of: fn(&Cost) -> u64| rows.iter().map(of).sum::<u64>();
            assert_eq!(sum(|row| row.nanodollars.unwrap_or(0)), money, "{by:?}");
            assert_eq!(sum(|row| row.tokens), total.tokens, "{by:?}");
            assert_eq!(sum(|row| row.calls), total.calls, "{by:?}");
        }
    }
}
