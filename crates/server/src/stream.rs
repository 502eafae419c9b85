//! The live stream: events from the journal by cursor, and deltas while they last.
//!
//! Events are never queued for a slow client: the bell says that there are more, and they are read
//! from the journal in pages when the client has taken the last one. Deltas are ephemeral and come
//! through a bounded channel; a client that lags behind is told so and loses the oldest.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, Sse};
use control::api;
use futures_util::{Stream, stream};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::routes::House;
use crate::use_cases::UseCases;

/// How often a silent stream shows that it lives.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Events read from the journal at once.
const PAGE: usize = 100;
/// Deltas taken over before a page of events.
const MAX_DELTAS: usize = 256;

/// A stream of one run's events, or of all, after `after` (from now on when there is none).
pub(crate) fn open<U: UseCases>(
    house: House<U>,
    after: Option<u64>,
    run: Option<String>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    // Both are subscribed to before the first page is read, so that nothing falls in between.
    let mut bell = house.use_cases.bell();
    let deltas = house.use_cases.deltas();
    let now = *bell.borrow_and_update();
    let mut heartbeat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let live = Live {
        house,
        run,
        cursor: after.unwrap_or(now),
        bell,
        deltas: Some(deltas),
        heartbeat,
        ready: VecDeque::new(),
        behind: true,
    };
    Sse::new(stream::unfold(live, |mut live| async move { live.next().await.map(|event| (Ok(event), live)) }))
}

struct Live<U> {
    house: House<U>,
    run: Option<String>,
    /// The position of the last event that was looked at.
    cursor: u64,
    bell: watch::Receiver<u64>,
    deltas: Option<broadcast::Receiver<api::Delta>>,
    heartbeat: Interval,
    /// What is to be sent, at most one page and [`MAX_DELTAS`].
    ready: VecDeque<Event>,
    /// Whether the journal may hold events after the cursor.
    behind: bool,
}

/// What woke a stream.
enum Woken {
    Delta(Result<api::Delta, RecvError>),
    Bell,
    Heartbeat,
    Closing,
}

impl<U: UseCases> Live<U> {
    /// What is sent next; `None` ends the stream.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.behind {
                self.take_deltas();
                self.read_page().await?;
                continue;
            }
            match self.wait().await {
                Woken::Delta(Ok(delta)) => self.push_delta(&delta),
                Woken::Delta(Err(RecvError::Lagged(lost))) => self.push_lagged(lost),
                Woken::Delta(Err(RecvError::Closed)) => self.deltas = None,
                Woken::Bell => self.behind = true,
                // Its id moves the client's cursor past the events of other runs.
                Woken::Heartbeat => return Some(named("ping", "{}").id(self.cursor.to_string())),
                Woken::Closing => return None,
            }
        }
    }

    async fn wait(&mut self) -> Woken {
        let delta = async {
            match &mut self.deltas {
                Some(deltas) => deltas.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            // Fails when the daemon is gone, which ends the stream as well.
            _ = self.house.closing.wait_for(|closing| *closing) => Woken::Closing,
            delta = delta => Woken::Delta(delta),
            rung = self.bell.changed() => if rung.is_ok() { Woken::Bell } else { Woken::Closing },
            _ = self.heartbeat.tick() => Woken::Heartbeat,
        }
    }

    /// What was said before the bell rang belongs before the events that it rang for.
    fn take_deltas(&mut self) {
        for _ in 0..MAX_DELTAS {
            let Some(deltas) = &mut self.deltas else { return };
            match deltas.try_recv() {
                Ok(delta) => self.push_delta(&delta),
                Err(TryRecvError::Lagged(lost)) => self.push_lagged(lost),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Closed) => self.deltas = None,
            }
        }
    }

    async fn read_page(&mut self) -> Option<()> {
        let events = match self.house.use_cases.events_after(self.cursor, PAGE).await {
            Ok(events) => events,
            Err(error) => {
                // The client reconnects from its cursor, and is told then what is wrong.
                tracing::warn!(code = error.code, "a live stream ended: its events cannot be read");
                return None;
            }
        };
        self.behind = events.len() >= PAGE;
        for event in events {
            self.cursor = self.cursor.max(event.position);
            if self.run.as_ref().is_none_or(|run| *run == event.run)
                && let Ok(data) = serde_json::to_string(&event)
            {
                self.ready.push_back(named("event", &data).id(event.position.to_string()));
            }
        }
        Some(())
    }

    fn push_delta(&mut self, delta: &api::Delta) {
        if self.run.as_ref().is_none_or(|run| *run == delta.run)
            && let Ok(data) = serde_json::to_string(delta)
        {
            self.ready.push_back(named("delta", &data));
        }
    }

    fn push_lagged(&mut self, lost: u64) {
        let run = self.run.clone().unwrap_or_default();
        let delta = api::Delta { run, step: 0, kind: "lagged".into(), text: lost.to_string() };
        if let Ok(data) = serde_json::to_string(&delta) {
            self.ready.push_back(named("delta", &data));
        }
    }
}

/// `data` is JSON without newlines.
fn named(name: &str, data: &str) -> Event {
    Event::default().event(name).data(data)
}
