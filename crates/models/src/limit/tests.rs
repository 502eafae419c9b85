//! The rules against a simulated vendor, and the queue on a clock that nobody waits for.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::rules::*;
use super::*;

const MODEL: &str = "claude";

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn need(tokens: u64) -> Need {
    Need { model: MODEL.to_owned(), of: [1, tokens, tokens, 1] }
}

fn room(limit: u64, remaining: u64, full_in: Duration) -> Room {
    Room { limit, remaining, full_in }
}

fn said(status: u16) -> Said {
    Said { status, message: "slow down".to_owned() }
}

/// Rules that know of these input tokens: one call was answered with them.
fn knowing(room: Room) -> Rules {
    let mut rules = Rules::new(true);
    let flight = goes(&mut rules, need(0), secs(0)).unwrap();
    rules.heard(flight, [None, None, Some(room), None], true, secs(0));
    rules.done(flight);
    rules
}

/// Lets a call ask; it stays in the queue when it may not go.
fn goes(rules: &mut Rules, need: Need, now: Moment) -> Result<u64, (u64, Option<Moment>)> {
    let place = rules.place();
    rules.join(place, need);
    match rules.decide(place, now) {
        Decision::Go(flight) => Ok(flight),
        Decision::Stay(until) => Err((place, until)),
    }
}

#[test]
fn a_vendor_that_names_no_limit_has_none() {
    let mut rules = Rules::new(true);
    let first: Vec<u64> = (0..4).map(|_| goes(&mut rules, need(9), secs(0)).unwrap()).collect();
    assert!(goes(&mut rules, need(9), secs(0)).is_err(), "before it has answered at all, a few go");
    rules.heard(first[0], [None; 4], true, secs(1));
    let (place, _) = (5, ());
    assert!(matches!(rules.decide(place, secs(1)), Decision::Go(_)));
    for _ in 0..1_000 {
        goes(&mut rules, need(1_000_000), secs(1)).unwrap();
    }
    let mut own = Rules::new(false);
    for _ in 0..1_000 {
        goes(&mut own, need(1_000_000), secs(1)).unwrap();
    }
}

#[test]
fn a_call_waits_until_there_is_room_and_who_came_first_goes_first() {
    // 600 tokens a minute, 100 left: 10 come each second.
    let mut rules = knowing(room(600, 100, secs(50)));
    goes(&mut rules, need(100), secs(0)).unwrap();
    let (first, until) = goes(&mut rules, need(200), secs(0)).unwrap_err();
    assert_eq!(until, Some(secs(20)));
    let (second, _) = goes(&mut rules, need(10), secs(0)).unwrap_err();
    assert_eq!(rules.decide(second, secs(10)), Decision::Stay(None), "there is room, but another came first");
    assert_eq!(rules.decide(first, secs(19)), Decision::Stay(Some(secs(20))));
    assert!(matches!(rules.decide(first, secs(20)), Decision::Go(_)));
    assert_eq!(rules.decide(second, secs(20)), Decision::Stay(Some(secs(21))));
    // One that leaves holds nobody up.
    rules.leave(second);
    goes(&mut rules, need(1), secs(21)).unwrap();
}

#[test]
fn another_model_has_its_own_room() {
    let mut rules = knowing(room(600, 0, secs(60)));
    goes(&mut rules, need(1), secs(0)).unwrap_err();
    goes(&mut rules, Need { model: "haiku".to_owned(), ..need(500) }, secs(0)).unwrap();
}

#[test]
fn a_call_bigger_than_all_there_is_goes_alone() {
    let mut rules = knowing(room(600, 600, secs(0)));
    let small = goes(&mut rules, need(1), secs(0)).unwrap();
    let (big, _) = goes(&mut rules, need(5_000), secs(0)).unwrap_err();
    assert_eq!(rules.decide(big, secs(60)), Decision::Stay(None), "another one is under way");
    rules.done(small);
    let Decision::Go(_) = rules.decide(big, secs(60)) else { panic!("it waits for ever") };
    let (_, until) = goes(&mut rules, need(600), secs(60)).unwrap_err();
    assert_eq!(until, Some(secs(120)), "it took all there was");
}

#[test]
fn what_is_under_way_is_not_forgotten_and_an_old_answer_says_nothing() {
    let mut rules = knowing(room(600, 600, secs(0)));
    let first = goes(&mut rules, need(100), secs(0)).unwrap();
    let second = goes(&mut rules, need(200), secs(0)).unwrap();
    goes(&mut rules, need(250), secs(0)).unwrap();
    // The second answer counts the first call and not the third.
    rules.heard(second, [None, None, Some(room(600, 300, secs(30))), None], true, secs(0));
    rules.heard(first, [None, None, Some(room(600, 500, secs(10))), None], true, secs(0));
    let (_, until) = goes(&mut rules, need(1), secs(0)).unwrap_err();
    // 300 left, 350 under way: 51 are missing, at ten a second.
    assert_eq!(until, Some(Duration::from_millis(5_100)));
}

#[test]
fn a_vendor_that_says_when_to_come_again_is_shut_for_all_and_one_goes_first() {
    let mut rules = Rules::new(true);
    let flight = goes(&mut rules, need(1), secs(0)).unwrap();
    rules.refused(flight, said(529), Some(secs(30)), secs(0));
    rules.done(flight);
    let (one, until) = goes(&mut rules, need(1), secs(1)).unwrap_err();
    assert_eq!(until, Some(secs(30)));
    assert_eq!(rules.said(), Some(&said(529)));
    let (two, _) = goes(&mut rules, need(1), secs(1)).unwrap_err();
    let Decision::Go(probe) = rules.decide(one, secs(30)) else { panic!("it is open again") };
    assert_eq!(rules.decide(two, secs(31)), Decision::Stay(None));
    // It was cancelled: the next one shows how it stands.
    rules.done(probe);
    let Decision::Go(probe) = rules.decide(two, secs(31)) else { panic!("nobody goes") };
    let (three, _) = goes(&mut rules, need(1), secs(32)).unwrap_err();
    rules.heard(probe, [None; 4], true, secs(33));
    assert!(matches!(rules.decide(three, secs(33)), Decision::Go(_)));
}

#[test]
fn a_refusal_halves_what_is_under_way_once_and_each_success_gives_one_back() {
    let mut rules = knowing(room(1_000_000, 1_000_000, secs(0)));
    let flights: Vec<u64> = (0..8).map(|_| goes(&mut rules, need(1), secs(0)).unwrap()).collect();
    for flight in &flights {
        rules.refused(*flight, said(429), None, secs(0));
    }
    for flight in flights {
        rules.done(flight);
    }
    let mut under_way = Vec::new();
    while let Ok(flight) = goes(&mut rules, need(1), secs(1)) {
        under_way.push(flight);
    }
    assert_eq!(under_way.len(), 4, "all eight were one mistake");
    rules.heard(under_way[0], [None; 4], true, secs(1));
    let waiting = 8 + 1 + 4 + 1;
    assert!(matches!(rules.decide(waiting, secs(1)), Decision::Go(_)), "one more");
    // Overload is not for having asked too much.
    rules.refused(under_way[1], said(529), None, secs(1));
    rules.done(under_way[1]);
    goes(&mut rules, need(1), secs(1)).unwrap();
    // It never comes to a standstill.
    for flight in under_way {
        rules.refused(flight, said(429), None, secs(1));
        rules.done(flight);
    }
}

/// A vendor with a bucket that refills steadily, in nanotokens.
struct Vendor {
    limit: u64,
    window: Duration,
    level: u128,
    at: Moment,
}

const NANO: u128 = 1_000_000_000;

impl Vendor {
    fn new(limit: u64, window: Duration) -> Self {
        Self { limit, window, level: u128::from(limit) * NANO, at: secs(0) }
    }

    /// Takes, and says what is left; nothing when there was not enough.
    fn take(&mut self, tokens: u64, now: Moment) -> Option<Room> {
        let full = u128::from(self.limit) * NANO;
        let gained = (now - self.at).as_nanos() * full / self.window.as_nanos();
        (self.level, self.at) = ((self.level + gained).min(full), now);
        self.level = self.level.checked_sub(u128::from(tokens) * NANO)?;
        let missing = (full - self.level) * self.window.as_nanos();
        let full_in = Duration::from_nanos(u64::try_from(missing.div_ceil(full)).unwrap());
        // A clock of whole seconds, as one vendor has.
        let full_in = secs(full_in.as_secs() + 1);
        Some(room(self.limit, u64::try_from(self.level / NANO).unwrap(), full_in))
    }
}

#[derive(Clone, Copy, Debug)]
struct Call {
    comes: u64,
    tokens: u64,
    /// By how much the estimate is too big.
    too_much: u64,
    head: u64,
    whole: u64,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let call = (0..5_000_u64, 1..200_u64, 0..100_u64, 1..4_000_u64, 0..9_000_u64)
        .prop_map(|(comes, tokens, too_much, head, whole)| Call { comes, tokens, too_much, head, whole });
    prop::collection::vec(call, 1..60)
}

enum Event {
    Comes(Call),
    Heard(u64, Each<Option<Room>>),
    Done(u64),
}

proptest! {
    #[test]
    fn no_vendor_ever_has_to_refuse_and_everybody_is_served(
        calls in calls(), tokens in 1_200..5_000_u64, requests in 5..40_u64, window in 1..90_u64,
    ) {
        let mut rules = Rules::new(true);
        let mut by_tokens = Vendor::new(tokens, secs(window));
        let mut by_requests = Vendor::new(requests, secs(window));
        let mut events: BTreeMap<(Moment, usize), Event> = BTreeMap::new();
        for (at, call) in calls.iter().enumerate() {
            events.insert((Duration::from_millis(call.comes), at), Event::Comes(*call));
        }
        let (mut serial, mut served) = (calls.len(), 0);
        let mut waiting: BTreeMap<u64, Call> = BTreeMap::new();
        let mut order = Vec::new();
        let mut now = secs(0);
        loop {
            // All that may go goes.
            loop {
                let mut all = waiting.clone().into_iter();
                let went = all.find_map(|(place, call)| match rules.decide(place, now) {
                    Decision::Go(flight) => Some((place, call, flight)),
                    Decision::Stay(_) => None,
                });
                let Some((place, call, flight)) = went else { break };
                waiting.remove(&place);
                order.push(place);
                let (left, calls_left) = (by_tokens.take(call.tokens, now), by_requests.take(1, now));
                prop_assert!(left.is_some() && calls_left.is_some(), "refused at {now:?}");
                let head = now + Duration::from_millis(call.head);
                let rooms = [calls_left, None, left, None];
                events.insert((head, serial), Event::Heard(flight, rooms));
                events.insert((head + Duration::from_millis(call.whole), serial + 1), Event::Done(flight));
                serial += 2;
            }
            let alarms = waiting.keys().filter_map(|place| match rules.decide(*place, now) {
                Decision::Stay(until) => until,
                Decision::Go(_) => None,
            });
            let alarm = alarms.min();
            let next = events.first_key_value().map(|(key, _)| *key);
            match (next, alarm) {
                (Some((at, _)), Some(alarm)) if alarm < at => now = alarm,
                (Some(key), _) => {
                    now = key.0;
                    match events.remove(&key) {
                        Some(Event::Comes(call)) => {
                            let place = rules.place();
                            rules.join(place, need(call.tokens + call.too_much));
                            waiting.insert(place, call);
                        }
                        Some(Event::Heard(flight, rooms)) => rules.heard(flight, rooms, true, now),
                        Some(Event::Done(flight)) => { rules.done(flight); served += 1; }
                        None => {}
                    }
                }
                (None, Some(alarm)) => now = alarm,
                (None, None) => break,
            }
        }
        prop_assert_eq!(served, calls.len());
        prop_assert!(order.is_sorted(), "who came first went first");
        prop_assert!(rules.is_idle());
    }
}

fn limiter() -> Arc<Limiter> {
    Arc::new(Limiter::new(true))
}

async fn admit(limiter: &Arc<Limiter>, tokens: u64) -> Result<Permit, TooLong> {
    limiter.admit(limiter.place(), need(tokens), secs(120), &mut |_| {}).await
}

fn tokens_left(remaining: u64, full_in: u64) -> Each<Option<Room>> {
    [None, None, Some(room(600, remaining, secs(full_in))), None]
}

#[tokio::test(start_paused = true)]
async fn a_wait_lasts_as_long_as_the_vendor_says_and_is_told() {
    let limiter = limiter();
    admit(&limiter, 0).await.unwrap().heard(tokens_left(0, 60), true);
    let mut told = Vec::new();
    let begun = Instant::now();
    let mut on_wait = |wait| told.push(wait);
    drop(limiter.admit(limiter.place(), need(300), secs(120), &mut on_wait).await.unwrap());
    assert_eq!(begun.elapsed().as_secs(), 30);
    assert_eq!(told[0], Some(secs(30)));
    assert!(limiter.lock().is_idle());
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_too_long_is_an_error_at_once() {
    let limiter = limiter();
    admit(&limiter, 0).await.unwrap().refused(said(529), Some(secs(3_600)));
    let begun = Instant::now();
    let late = admit(&limiter, 1).await.unwrap_err();
    assert_eq!(late, TooLong { wait: secs(3_600), said: Some(said(529)) });
    assert_eq!(begun.elapsed(), secs(0));
    assert!(limiter.lock().is_idle());
}

#[tokio::test(start_paused = true)]
async fn one_that_gives_up_waiting_leaves_nothing_behind() {
    let limiter = limiter();
    admit(&limiter, 0).await.unwrap().heard(tokens_left(0, 60), true);
    let given_up = tokio::time::timeout(secs(1), admit(&limiter, 600)).await;
    assert!(given_up.is_err() && limiter.lock().is_idle());
    // It was first in the queue for all of it; what is left is for the next one.
    let begun = Instant::now();
    drop(admit(&limiter, 60).await.unwrap());
    assert_eq!(begun.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn many_go_one_by_one_after_a_vendor_was_shut_and_all_come_through() {
    let limiter = limiter();
    let most = Arc::new(Mutex::new((0_u32, 0_u32)));
    admit(&limiter, 0).await.unwrap().refused(said(429), Some(secs(10)));
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let (limiter, most) = (Arc::clone(&limiter), Arc::clone(&most));
            tokio::spawn(async move {
                let permit = admit(&limiter, 1).await.unwrap();
                let now = {
                    let mut most = most.lock().unwrap();
                    most.0 += 1;
                    most.1 = most.1.max(most.0);
                    most.0
                };
                tokio::time::sleep(secs(1)).await;
                permit.heard([None; 4], true);
                most.lock().unwrap().0 -= 1;
                now
            })
        })
        .collect();
    let mut begun = Vec::new();
    for call in calls {
        begun.push(call.await.unwrap());
    }
    assert_eq!(begun[0], 1, "the first went alone");
    assert!(most.lock().unwrap().1 > 1, "and then more at once");
    assert!(limiter.lock().is_idle());
}

#[test]
fn an_account_is_a_wire_a_place_and_a_key() {
    let limits = Limits::new();
    let of = |wire, url: &str, key: Option<&str>| {
        limits.limiter(wire, &Url::parse(url).unwrap(), key.map(Secret::new).as_ref())
    };
    let one = of(Wire::Messages, "https://a.example/v1/messages", Some("k"));
    assert!(Arc::ptr_eq(&one, &of(Wire::Messages, "https://a.example/other", Some("k"))));
    for other in [
        of(Wire::Messages, "https://a.example/v1/messages", Some("l")),
        of(Wire::Messages, "https://b.example/v1/messages", Some("k")),
        of(Wire::Responses, "https://a.example/v1/messages", Some("k")),
        of(Wire::Messages, "https://a.example/v1/messages", None),
    ] {
        assert!(!Arc::ptr_eq(&one, &other));
    }
    assert!(!format!("{limits:?}").contains("\"k\""));
}
