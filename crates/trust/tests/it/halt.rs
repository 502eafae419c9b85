//! The kill switch: nothing is allowed while it is on, and what was taken back stays so.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use domain::{Lease, LeaseId, Verdict};
use kernel::port::{Authority, Records};
use trust::{Door, halt, leases};

use crate::world::{NOW, Past, Shelf, lease, model};

#[test]
fn while_it_is_on_everything_is_denied_and_every_lease_is_gone() {
    let shelf = Arc::new(Shelf::default());
    let door = Door::new(shelf.clone(), Arc::new(Past::default()), 1_000);
    leases::grant(&*shelf, &lease()).unwrap();
    let child = Lease { id: LeaseId::from_bytes([1; 16]), ..lease() };
    leases::narrow(&*shelf, lease().id, &child).unwrap().unwrap();
    assert_eq!(door.decide(&model()).unwrap().verdict, Verdict::Allow);

    assert_eq!(halt::raise(&*shelf, "human:owner", "it went mad", NOW).unwrap(), 2);
    let denied = door.decide(&model()).unwrap();
    assert_eq!((denied.verdict, denied.epoch), (Verdict::Deny, 2), "what was decided before is too old now");
    assert!(denied.rule.contains("halted by human:owner (it went mad)"), "{}", denied.rule);
    // One that was granted at the same moment.
    let late = Lease { id: LeaseId::from_bytes([2; 16]), ..lease() };
    leases::grant(&*shelf, &late).unwrap();
    let action = kernel::port::Action { lease: late.id, ..model() };
    assert_eq!(door.decide(&action).unwrap().verdict, Verdict::Deny);
    assert_eq!(halt::raise(&*shelf, "human:owner", "again", NOW).unwrap(), 1);
    assert_eq!(halt::raise(&*shelf, "human:owner", "again", NOW).unwrap(), 0);

    halt::lift(&*shelf, "human:owner", NOW).unwrap();
    assert!(!halt::state(&*shelf).unwrap().is_on);
    for id in [lease().id, child.id, late.id] {
        assert!(leases::read(&*shelf, id).unwrap().revoked);
    }
    let again = Lease { id: LeaseId::from_bytes([3; 16]), ..lease() };
    leases::grant(&*shelf, &again).unwrap();
    let action = kernel::port::Action { lease: again.id, ..model() };
    assert_eq!(door.decide(&action).unwrap().verdict, Verdict::Allow);
}

#[test]
fn a_switch_that_cannot_be_read_allows_nothing() {
    let shelf = Arc::new(Shelf::default());
    let door = Door::new(shelf.clone(), Arc::new(Past::default()), 1_000);
    leases::grant(&*shelf, &lease()).unwrap();
    shelf.put(halt::KIND, "switch", 0, b"{").unwrap();
    let denied = door.decide(&model()).unwrap();
    assert_eq!(denied.verdict, Verdict::Deny);
    assert!(denied.rule.contains("the record of the halt is damaged"), "{}", denied.rule);
    // It can be switched on all the same, and off again.
    halt::raise(&*shelf, "human:owner", "", NOW).unwrap();
    halt::lift(&*shelf, "human:owner", NOW).unwrap();
    assert!(!halt::state(&*shelf).unwrap().is_on);
}

#[test]
fn a_write_in_between_is_not_lost() {
    let shelf = Shelf::default();
    leases::grant(&shelf, &lease()).unwrap();
    shelf.raced.store(true, Ordering::SeqCst);
    assert_eq!(halt::raise(&shelf, "human:owner", "", NOW).unwrap(), 1);
    assert!(leases::read(&shelf, lease().id).unwrap().revoked);
}
