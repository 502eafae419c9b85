//! The rules of one vendor's limits, without a clock: what is known and a moment in, a decision out.
//!
//! A vendor's bucket refills steadily until the moment at which it says that it will be full. What its
//! answers say is believed, less what has been sent since and is not in it yet.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

/// A moment, since the limiter began.
pub(crate) type Moment = Duration;

/// What a vendor counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Requests,
    Tokens,
    Input,
    Output,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Requests, Self::Tokens, Self::Input, Self::Output];
}

/// One thing for each [`Kind`], in its order.
pub(crate) type Each<T> = [T; 4];

/// What an answer says of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// The most that there ever is; above 0.
    pub limit: u64,
    /// What is left.
    pub remaining: u64,
    /// How long until it is all there again.
    pub full_in: Duration,
}

/// What a call takes, by estimate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// Vendors limit each model apart.
    pub model: String,
    /// Of each kind.
    pub of: Each<u64>,
}

/// What may happen to a call that waits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It goes, under this number.
    Go(u64),
    /// It stays. Where the vendor's limits alone keep it, they do so until then, as far as is known.
    Stay(Option<Moment>),
}

/// How many calls are under way when nothing is known of a vendor's limits yet.
const BEFORE_KNOWN: usize = 4;
/// So many at once are no bound any more.
const UNBOUND: usize = 64;
/// The time in which a bucket refills of which nothing else is known.
const MINUTE: Duration = Duration::from_secs(60);

/// All that is known of one vendor account.
#[derive(Debug)]
pub(crate) struct Rules {
    places: u64,
    /// By their places: who came first goes first.
    waiting: BTreeMap<u64, Need>,
    flights: BTreeMap<u64, Flight>,
    flown: u64,
    models: HashMap<String, Model>,
    pace: Pace,
    /// The calls up to this one went before the pace was last halved.
    halved: u64,
    shut: Option<Shut>,
}

#[derive(Debug)]
struct Flight {
    need: Need,
    /// Whether the answer's head has come: then what the vendor says is left may have it counted.
    is_heard: bool,
}

#[derive(Debug, Default)]
struct Model {
    buckets: Each<Option<Bucket>>,
    /// The latest call whose answer is in the buckets.
    heard: u64,
}

/// How many calls may be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Unknown,
    Free,
    Most(usize),
}

/// The vendor said when to come again.
#[derive(Clone, Debug)]
struct Shut {
    until: Moment,
    said: Said,
    /// After that, one call goes first and shows how it stands.
    probe: Option<u64>,
}

/// With what words a vendor turned a call away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// The HTTP status.
    pub status: u16,
    /// The vendor's words.
    pub message: String,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    limit: u64,
    /// Negative when more is under way than there is.
    level: i128,
    at: Moment,
    /// So much comes in that time.
    gain: u64,
    span: Duration,
}

impl Rules {
    /// Of a vendor that is known to have no limits, as a server of one's own, or may have some.
    pub(crate) fn new(may_have_limits: bool) -> Self {
        Self {
            places: 0,
            waiting: BTreeMap::new(),
            flights: BTreeMap::new(),
            flown: 0,
            models: HashMap::new(),
            pace: if may_have_limits { Pace::Unknown } else { Pace::Free },
            halved: 0,
            shut: None,
        }
    }

    /// A place behind all others. A call keeps it when it is made again.
    pub(crate) fn place(&mut self) -> u64 {
        self.places = self.places.saturating_add(1);
        self.places
    }

    /// A call waits at its place.
    pub(crate) fn join(&mut self, place: u64, need: Need) {
        self.waiting.insert(place, need);
    }

    /// A call waits no more.
    pub(crate) fn leave(&mut self, place: u64) {
        self.waiting.remove(&place);
    }

    /// Whether a waiting call goes now; then it waits no more.
    pub(crate) fn decide(&mut self, place: u64, now: Moment) -> Decision {
        if self.first(now) != Some(place) {
            return Decision::Stay(self.until(place, now));
        }
        let Some(need) = self.waiting.remove(&place) else { return Decision::Stay(None) };
        self.flown = self.flown.saturating_add(1);
        let flight = self.flown;
        let model = self.models.entry(need.model.clone()).or_default();
        for (bucket, need) in model.buckets.iter_mut().zip(need.of) {
            if let Some(bucket) = bucket {
                bucket.take(need, now);
            }
        }
        if let Some(shut) = &mut self.shut {
            shut.probe = Some(flight);
        }
        self.flights.insert(flight, Flight { need, is_heard: false });
        Decision::Go(flight)
    }

    /// Why a call stays for longer than its owner would wait: the vendor's own words, if it said any.
    pub(crate) fn said(&self) -> Option<&Said> {
        self.shut.as_ref().map(|shut| &shut.said)
    }

    /// The head of an answer came.
    pub(crate) fn heard(&mut self, flight: u64, rooms: Each<Option<Room>>, is_good: bool, now: Moment) {
        let Some(mine) = self.flights.get_mut(&flight) else { return };
        mine.is_heard = true;
        let name = mine.need.model.clone();
        let under_way = |place: usize| -> u64 {
            let others = self.flights.values().filter(|other| !other.is_heard && other.need.model == name);
            others.filter_map(|other| other.need.of.get(place)).fold(0, |sum, need| sum.saturating_add(*need))
        };
        let under_way: Each<u64> = [0, 1, 2, 3].map(under_way);
        let model = self.models.entry(name).or_default();
        // An older answer than one that was heard before says nothing new.
        if flight > model.heard {
            model.heard = flight;
            for ((bucket, room), under_way) in model.buckets.iter_mut().zip(rooms).zip(under_way) {
                if let Some(room) = room {
                    *bucket = Some(Bucket::of(room, under_way, bucket.as_ref(), now));
                }
            }
        }
        if !is_good {
            return;
        }
        self.pace = match self.pace {
            Pace::Most(most) if most < UNBOUND => Pace::Most(most + 1),
            _ => Pace::Free,
        };
        if self.shut.as_ref().is_some_and(|shut| shut.probe == Some(flight)) {
            self.shut = None;
        }
    }

    /// The vendor turned a call away; with the time that it asks for, all others are held back as well.
    pub(crate) fn refused(&mut self, flight: u64, said: Said, again_in: Option<Duration>, now: Moment) {
        // Of many that went together, the first one halves for all.
        if said.status == 429 && flight > self.halved {
            self.halved = self.flown;
            let most = match self.pace {
                Pace::Most(most) => most.min(self.flights.len()),
                Pace::Unknown | Pace::Free => self.flights.len(),
            };
            self.pace = Pace::Most((most / 2).max(1));
        }
        let Some(again_in) = again_in else { return };
        let until = now.saturating_add(again_in);
        let until = self.shut.as_ref().map_or(until, |shut| shut.until.max(until));
        self.shut = Some(Shut { until, said, probe: None });
    }

    /// A call is over, or given up.
    pub(crate) fn done(&mut self, flight: u64) {
        self.flights.remove(&flight);
        if let Some(shut) = &mut self.shut
            && shut.probe == Some(flight)
        {
            shut.probe = None;
        }
    }

    /// Whether nobody waits and nothing is under way.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.flights.is_empty()
    }

    /// The call that goes next, if one may go.
    fn first(&self, now: Moment) -> Option<u64> {
        if self.shut.as_ref().is_some_and(|shut| now < shut.until || shut.probe.is_some()) {
            return None;
        }
        let most = match self.pace {
            Pace::Unknown => BEFORE_KNOWN,
            Pace::Most(most) => most,
            Pace::Free => usize::MAX,
        };
        if self.flights.len() >= most {
            return None;
        }
        // Who waits for one model's room does not hold up another model's.
        let mut held: HashSet<&str> = HashSet::new();
        let next = self.waiting.iter().find(|(_, need)| {
            if held.contains(need.model.as_str()) {
                return false;
            }
            let goes = self.has_room(need, now);
            if !goes {
                held.insert(&need.model);
            }
            goes
        });
        next.map(|(place, _)| *place)
    }

    fn has_room(&self, need: &Need, now: Moment) -> bool {
        let Some(model) = self.models.get(&need.model) else { return true };
        let mut pairs = model.buckets.iter().zip(need.of);
        pairs.all(|(bucket, need_of)| {
            bucket.as_ref().is_none_or(|bucket| {
                let alone = need_of > bucket.limit && self.is_under_way(&need.model);
                !alone && bucket.level(now) >= bucket.wanted(need_of)
            })
        })
    }

    fn is_under_way(&self, model: &str) -> bool {
        self.flights.values().any(|flight| flight.need.model == model)
    }

    /// Until when the vendor's limits alone keep a call.
    fn until(&self, place: u64, now: Moment) -> Option<Moment> {
        let need = self.waiting.get(&place)?;
        let buckets = self.models.get(&need.model).into_iter().flat_map(|model| &model.buckets);
        let ready = buckets.zip(need.of).filter_map(|(bucket, need)| Some(bucket.as_ref()?.ready(need)));
        ready.chain(self.shut.as_ref().map(|shut| shut.until)).filter(|until| *until > now).max()
    }
}

impl Bucket {
    fn of(room: Room, under_way: u64, before: Option<&Self>, now: Moment) -> Self {
        let remaining = room.remaining.min(room.limit);
        let level = i128::from(remaining) - i128::from(under_way);
        let gain = room.limit - remaining;
        let (gain, span) = match (gain, before) {
            // A full one does not say how fast it fills.
            (0, Some(before)) => (before.gain, before.span),
            (0, None) => (room.limit, MINUTE),
            (gain, _) => (gain, room.full_in.max(Duration::from_millis(1))),
        };
        Self { limit: room.limit, level: level.max(-i128::from(room.limit)), at: now, gain, span }
    }

    fn level(&self, now: Moment) -> i128 {
        let passed = now.saturating_sub(self.at).as_nanos();
        let gained = passed.saturating_mul(u128::from(self.gain)) / self.span.as_nanos().max(1);
        let gained = i128::try_from(gained).unwrap_or(i128::MAX);
        self.level.saturating_add(gained).min(i128::from(self.limit))
    }

    /// The level that a call waits for: one that is bigger than all there ever is waits for all of it.
    fn wanted(&self, need: u64) -> i128 {
        i128::from(need.min(self.limit))
    }

    fn take(&mut self, need: u64, now: Moment) {
        self.level = self.level(now) - self.wanted(need);
        self.at = self.at.max(now);
    }

    /// When a call of its own would find room.
    fn ready(&self, need: u64) -> Moment {
        let missing = u128::try_from(self.wanted(need) - self.level).unwrap_or(0);
        let nanos = missing.saturating_mul(self.span.as_nanos()).div_ceil(u128::from(self.gain.max(1)));
        self.at.saturating_add(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }
}
