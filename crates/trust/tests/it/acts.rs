//! What is done outside of runs: decided, and on record before it is done.

use domain::{Lease, LeaseId, Principal, Timestamp};
use kernel::port::Records;
use trust::acts::{self, Error, Intent};
use trust::{halt, leases};

use crate::world::{NOW, Shelf, lease};

fn keeper() -> Lease {
    Lease { run: None, principal: "svc:keeper".into(), tools: vec!["sweep.cache".into()], ..lease() }
}

fn intent() -> Intent {
    Intent {
        by: Principal::Service("keeper".into()),
        lease: Some(keeper().id),
        what: "sweep.cache".into(),
        of: "project".into(),
        at: NOW,
    }
}

#[test]
fn an_intention_is_on_record_before_and_its_end_after() {
    let shelf = Shelf::default();
    leases::grant(&shelf, &keeper()).unwrap();
    let begun = acts::begin(&shelf, intent(), [1; 8]).unwrap();
    let cut_short = acts::list(&shelf).unwrap();
    assert_eq!((cut_short.len(), &cut_short[0].outcome), (1, &None));
    assert!(cut_short[0].rule.contains("make the test pass"), "{}", cut_short[0].rule);
    acts::end(&shelf, begun, "gone").unwrap();
    assert_eq!(acts::list(&shelf).unwrap()[0].outcome.as_deref(), Some("gone"));
    assert!(acts::begin(&shelf, intent(), [1; 8]).is_err(), "an act is on record once");
}

#[test]
fn a_service_does_nothing_that_its_lease_does_not_hold() {
    let shelf = Shelf::default();
    leases::grant(&shelf, &keeper()).unwrap();
    let other = Lease { id: LeaseId::from_bytes([1; 16]), principal: "svc:other".into(), ..keeper() };
    leases::grant(&shelf, &other).unwrap();
    let check = |intent: Intent, why: &str| match acts::begin(&shelf, intent, [2; 8]) {
        Err(Error::Denied { why: found, .. }) => assert!(found.contains(why), "{found}"),
        other => panic!("not denied: {other:?}"),
    };
    check(Intent { lease: None, ..intent() }, "holds no lease");
    check(Intent { lease: Some(other.id), ..intent() }, "granted to somebody else");
    check(Intent { what: "sweep.workspace".into(), ..intent() }, "does not hold that");
    check(Intent { at: Timestamp(2_000_000), ..intent() }, "has expired");
    check(Intent { lease: Some(LeaseId::from_bytes([8; 16])), ..intent() }, "not on record");
    halt::raise(&shelf, "human:owner", "", NOW).unwrap();
    check(intent(), "everything is halted");
    halt::lift(&shelf, "human:owner", NOW).unwrap();
    check(intent(), "was revoked");
    assert!(acts::list(&shelf).unwrap().is_empty());
    // The owner can always take something back.
    let owner = Intent { by: Principal::Human("owner".into()), lease: None, ..intent() };
    acts::begin(&shelf, owner, [3; 8]).unwrap();
    shelf.broken.store(true, std::sync::atomic::Ordering::SeqCst);
    assert!(shelf.list(acts::KIND).is_err());
}
