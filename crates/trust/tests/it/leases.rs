//! Leases on record: granted once, revoked for good, narrowed and never widened.

use std::sync::atomic::Ordering;

use domain::{Lease, LeaseId, Timestamp};
use kernel::port::Records;
use trust::leases::{self, Widening};

use crate::world::{Shelf, lease};

#[test]
fn a_revocation_raises_the_epoch_and_is_final() {
    let shelf = Shelf::default();
    assert_eq!(leases::grant(&shelf, &lease()).unwrap().epoch, 1);
    assert!(leases::grant(&shelf, &lease()).is_err(), "a lease is granted once");
    let revoked = leases::revoke(&shelf, lease().id).unwrap();
    assert_eq!((revoked.epoch, revoked.revoked), (2, true));
    assert_eq!(leases::revoke(&shelf, lease().id).unwrap().epoch, 2);
    assert_eq!(leases::read(&shelf, lease().id).unwrap(), revoked);
}

#[test]
fn narrowing_refuses_each_kind_of_widening() {
    let wide = lease();
    let child = Lease { id: LeaseId::from_bytes([2; 16]), tools: vec!["read".into()], ..lease() };
    assert_eq!(leases::is_narrower(&wide, &child), Ok(()));
    let more = Lease { tools: vec!["read".into(), "wire".into()], ..child.clone() };
    assert_eq!(leases::is_narrower(&wide, &more), Err(Widening::Tool("wire".into())));
    let longer = Lease { expires_at: Timestamp(9_000_000), ..child.clone() };
    assert_eq!(leases::is_narrower(&wide, &longer), Err(Widening::Expiry));
    let foreign = Lease { on_behalf_of: "human:other".into(), ..child.clone() };
    assert_eq!(leases::is_narrower(&wide, &foreign), Err(Widening::OnBehalfOf));

    let shelf = Shelf::default();
    leases::grant(&shelf, &wide).unwrap();
    assert_eq!(leases::narrow(&shelf, wide.id, &child).unwrap().unwrap().epoch, 1);
    leases::revoke(&shelf, wide.id).unwrap();
    let late = Lease { id: LeaseId::from_bytes([3; 16]), ..child };
    assert_eq!(leases::narrow(&shelf, wide.id, &late).unwrap(), Err(Widening::Revoked(wide.id)));
}

#[test]
fn a_standing_approval_is_on_record_per_lease() {
    let shelf = Shelf::default();
    let other = LeaseId::from_bytes([4; 16]);
    leases::approve_merges(&shelf, lease().id).unwrap();
    leases::approve_merges(&shelf, lease().id).unwrap();
    assert!(leases::are_merges_approved(&shelf, lease().id).unwrap());
    assert!(!leases::are_merges_approved(&shelf, other).unwrap());
}

#[test]
fn the_epoch_is_the_records_version_whatever_the_body_says() {
    let shelf = Shelf::default();
    let boasting = Lease { epoch: 99, ..lease() };
    let body = serde_json::to_vec(&boasting).unwrap();
    shelf.put(leases::KIND, &lease().id.to_string(), 0, &body).unwrap();
    assert_eq!(leases::read(&shelf, lease().id).unwrap().epoch, 1);
}

#[test]
fn a_revocation_is_not_lost_to_a_write_in_between() {
    let shelf = Shelf::default();
    leases::grant(&shelf, &lease()).unwrap();
    shelf.raced.store(true, Ordering::SeqCst);
    let revoked = leases::revoke(&shelf, lease().id).unwrap();
    assert_eq!((revoked.revoked, revoked.epoch), (true, 3));
}
