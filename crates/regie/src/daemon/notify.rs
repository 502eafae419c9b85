//! Notifications on their way. Each way has a cursor on record and goes through the events from there: a
//! notification is told before its cursor moves, so that it is told at least once whatever happens, and
//! twice only under the same id. A way that is new begins now.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use control::Control;
use control::notify::Notification;
use kernel::port::{Clock, RecordError, Records};
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;

use crate::config;
use crate::home::Home;
use crate::notify::{Wanted, Way, status};

/// The record kind of a cursor; the key is the way's.
const KIND: &str = "notify";
/// Events looked at in one go.
const PAGE: usize = 512;
/// How often a way is tried again: doubled from the first to the last.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_LAST: Duration = Duration::from_secs(300);
/// What is older is no news any more, in milliseconds: a day.
const STALE: u64 = 86_400_000;

/// What a notifier works with.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) control: Arc<Control>,
    pub(super) records: Arc<dyn Records>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) home: Home,
}

/// Where a way stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Cursor {
    position: u64,
    /// Whether the owner's file named the way when it was last looked at.
    wanted: bool,
}

/// One way on its own: a receiver that hangs keeps no other waiting.
struct Follower {
    task: JoinHandle<()>,
    wanted: (Way, Vec<String>),
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts it; it ends when it is aborted.
pub(super) fn start(parts: Parts) -> JoinHandle<()> {
    tokio::spawn(async move { parts.watch().await })
}

impl Parts {
    /// Looks at the owner's file whenever something happens: a change of it counts at once.
    async fn watch(&self) {
        let mut bell = self.control.bell();
        let mut position = *bell.borrow_and_update();
        let mut followers: HashMap<String, Follower> = HashMap::new();
        loop {
            match config::of_installation(&self.home) {
                Ok(config) => self.follow(&Wanted::of(&config), position, &mut followers),
                Err(error) => tracing::warn!(%error, "notifications stay as they were"),
            }
            position = *bell.borrow_and_update();
            if bell.changed().await.is_err() {
                return;
            }
        }
    }

    fn follow(&self, wanted: &Wanted, now: u64, followers: &mut HashMap<String, Follower>) {
        let ways: HashMap<String, &Way> = wanted.ways.iter().map(|way| (way.key(), way)).collect();
        followers.retain(|key, follower| {
            ways.get(key).is_some_and(|way| follower.wanted == ((*way).clone(), wanted.events.clone()))
                && !follower.task.is_finished()
        });
        self.dismiss(&ways);
        for (key, way) in ways {
            if followers.contains_key(&key) {
                continue;
            }
            let (parts, way, events) = (self.clone(), way.clone(), wanted.events.clone());
            let wanted = (way.clone(), events.clone());
            let task = tokio::spawn(async move {
                if let Err(error) = parts.tell_from(&way, &events, now).await {
                    tracing::warn!(
                        way = way.shown(),
                        error,
                        "a way of telling the owner is given up for now"
                    );
                }
            });
            followers.insert(key, Follower { task, wanted });
        }
    }

    /// A way that the owner's file does not name any more begins anew when it is named again.
    fn dismiss(&self, ways: &HashMap<String, &Way>) {
        for record in self.records.list(KIND).unwrap_or_default() {
            let cursor = serde_json::from_slice::<Cursor>(&record.body);
            if let Ok(cursor) = cursor
                && cursor.wanted
                && !ways.contains_key(&record.key)
            {
                let _ = self.put(&record.key, record.version, Cursor { wanted: false, ..cursor });
            }
        }
    }

    async fn tell_from(&self, way: &Way, events: &[String], now: u64) -> Result<(), String> {
        let key = way.key();
        let (mut cursor, mut version) = self.begin(&key, now)?;
        let mut bell = self.control.bell();
        loop {
            bell.borrow_and_update();
            let told = self.control.notifications_after(cursor.position, PAGE).await;
            let told = told.map_err(|error| domain::causes::in_full(&error))?;
            let looked_at = told.position;
            for (position, notification) in told.notifications {
                if events.contains(&notification.event) {
                    self.tell(way, &notification).await;
                }
                cursor.position = position;
                version = self.put(&key, version, cursor).map_err(|error| error.to_string())?;
            }
            if looked_at > cursor.position {
                // Nothing to tell: looked at again after a crash, at no harm.
                cursor.position = looked_at;
            } else if bell.changed().await.is_err() {
                return Ok(());
            }
        }
    }

    /// The cursor on record, or one that begins now.
    fn begin(&self, key: &str, now: u64) -> Result<(Cursor, u64), String> {
        let record = self.records.get(KIND, key).map_err(|error| error.to_string())?;
        let version = record.as_ref().map_or(0, |record| record.version);
        let known = record.and_then(|record| serde_json::from_slice::<Cursor>(&record.body).ok());
        if let Some(cursor) = known.filter(|cursor| cursor.wanted) {
            return Ok((cursor, version));
        }
        let cursor = Cursor { position: now, wanted: true };
        Ok((cursor, self.put(key, version, cursor).map_err(|error| error.to_string())?))
    }

    fn put(&self, key: &str, version: u64, cursor: Cursor) -> Result<u64, RecordError> {
        self.records.put(KIND, key, version, &serde_json::to_vec(&cursor).unwrap_or_default())
    }

    /// Tells until it is taken, or no news any more.
    async fn tell(&self, way: &Way, notification: &Notification) {
        let mut wait = RETRY_FIRST;
        loop {
            let now = self.clock.now().0;
            if now.saturating_sub(notification.at) > STALE {
                tracing::warn!(
                    way = way.shown(),
                    id = notification.id,
                    "a notification of yesterday is dropped"
                );
                return;
            }
            match way.tell(notification).await {
                Ok(()) => return status::note(&self.home, &way.shown(), now, Ok(())),
                Err(why) => {
                    tracing::warn!(
                        way = way.shown(),
                        id = notification.id,
                        why,
                        "a notification is not taken"
                    );
                    status::note(&self.home, &way.shown(), now, Err(&why));
                }
            }
            if *way == Way::Desktop {
                return;
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(RETRY_LAST);
        }
    }
}
