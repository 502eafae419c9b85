//! The door on records and history: fresh reads, the daily cap, and failing closed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use domain::budget::Exhausted;
use domain::{Lease, Verdict};
use kernel::port::{Action, Authority, Records};
use trust::{Door, leases};

use crate::world::{Past, Shelf, deliver, lease, merge, model};

fn house() -> (Arc<Shelf>, Arc<Past>, Door<Past>) {
    let (shelf, past) = (Arc::new(Shelf::default()), Arc::new(Past::default()));
    let door = Door::new(shelf.clone(), past.clone(), 1_000);
    (shelf, past, door)
}

#[test]
fn a_revocation_counts_for_the_next_decision() {
    let (shelf, _, door) = house();
    leases::grant(&*shelf, &lease()).unwrap();
    let before = door.decide(&model()).unwrap();
    assert_eq!((before.verdict, before.epoch), (Verdict::Allow, 1));
    leases::revoke(&*shelf, lease().id).unwrap();
    let after = door.decide(&model()).unwrap();
    assert_eq!((after.verdict, after.epoch), (Verdict::Deny, 2));
    assert_eq!(after.rule, "the lease of this run was revoked");
}

#[test]
fn what_cannot_be_read_is_denied_with_the_reason() {
    let (shelf, past, door) = house();
    let missing = door.decide(&model()).unwrap();
    assert_eq!((missing.verdict, missing.epoch), (Verdict::Deny, 0));
    assert!(missing.rule.contains("is not on record"), "{}", missing.rule);

    shelf.put(leases::KIND, &lease().id.to_string(), 0, b"{not a lease").unwrap();
    let damaged = door.decide(&model()).unwrap();
    assert_eq!(damaged.verdict, Verdict::Deny);
    assert!(damaged.rule.contains("is damaged"), "{}", damaged.rule);

    shelf.broken.store(true, Ordering::SeqCst);
    assert!(door.decide(&model()).unwrap().rule.contains("disk gone"));
    shelf.broken.store(false, Ordering::SeqCst);

    let body = serde_json::to_vec(&lease()).unwrap();
    shelf.put(leases::KIND, &lease().id.to_string(), 1, &body).unwrap();
    past.broken.store(true, Ordering::SeqCst);
    let paid = Action { nanodollars: 1, ..model() };
    assert_eq!(door.decide(&paid).unwrap().verdict, Verdict::Deny);
}

#[test]
fn another_lease_under_this_key_is_denied() {
    let (shelf, _, door) = house();
    let other = Lease { id: domain::LeaseId::from_bytes([1; 16]), ..lease() };
    let body = serde_json::to_vec(&other).unwrap();
    shelf.put(leases::KIND, &lease().id.to_string(), 0, &body).unwrap();
    assert_eq!(door.decide(&model()).unwrap().verdict, Verdict::Deny);
}

#[test]
fn the_daily_cap_stops_what_costs_and_lets_the_rest_pass() {
    let (shelf, past, door) = house();
    leases::grant(&*shelf, &lease()).unwrap();
    past.spent.store(990, Ordering::SeqCst);
    assert!(door.decide(&Action { nanodollars: 10, ..model() }).is_ok());
    assert_eq!(door.decide(&Action { nanodollars: 11, ..model() }), Err(Exhausted::Day));
    past.spent.store(5_000, Ordering::SeqCst);
    assert_eq!(door.decide(&model()).unwrap().verdict, Verdict::Allow);
    // What is denied anyway is not put down to the cap.
    leases::revoke(&*shelf, lease().id).unwrap();
    let paid = Action { nanodollars: 1, ..model() };
    assert_eq!(door.decide(&paid).map(|decision| decision.verdict), Ok(Verdict::Deny));
}

#[test]
fn a_merge_is_asked_unless_approved_in_advance() {
    let (shelf, _, door) = house();
    leases::grant(&*shelf, &lease()).unwrap();
    assert_eq!(door.decide(&merge()).unwrap().verdict, Verdict::Ask);
    leases::approve_merges(&*shelf, lease().id).unwrap();
    assert_eq!(door.decide(&merge()).unwrap().verdict, Verdict::Allow);
    assert_eq!(door.decide(&deliver()).unwrap().verdict, Verdict::Allow);
}
