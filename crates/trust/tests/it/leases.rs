//! Leases on record: granted once, revoked for good, narrowed and never widened.

use std::sync::atomic::Ordering;

use domain::{Lease, LeaseId, Timestamp};
use kernel::port::Records;
use trust::leases::token::{self, Token};
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

fn child(number: u8) -> Lease {
    Lease { id: LeaseId::from_bytes([number; 16]), ..lease() }
}

#[test]
fn a_revocation_takes_all_that_came_from_a_lease_at_once_and_nothing_else() {
    let shelf = Shelf::default();
    leases::grant(&shelf, &lease()).unwrap();
    for (number, parent) in [(1, lease().id), (2, child(1).id), (3, lease().id)] {
        let minted = leases::narrow(&shelf, parent, &child(number)).unwrap().unwrap();
        assert_eq!((minted.parent, minted.epoch), (Some(parent), 1));
    }
    leases::revoke(&shelf, child(1).id).unwrap();
    // The epoch of each that was taken is raised: what was decided under it before is refused by the journal.
    let stands = |number| {
        let lease = leases::read(&shelf, child(number).id).unwrap();
        (lease.revoked, lease.epoch)
    };
    assert_eq!([stands(1), stands(2), stands(3)], [(true, 2), (true, 2), (false, 1)]);
    assert!(!leases::read(&shelf, lease().id).unwrap().revoked);
    leases::revoke(&shelf, lease().id).unwrap();
    assert_eq!([stands(1), stands(2), stands(3)], [(true, 2), (true, 2), (true, 2)]);
    let late = leases::narrow(&shelf, child(3).id, &child(4)).unwrap();
    assert_eq!(late, Err(Widening::Revoked(child(3).id)));
}

#[test]
fn a_child_is_read_with_what_was_done_to_those_above_it() {
    let shelf = Shelf::default();
    leases::grant(&shelf, &lease()).unwrap();
    leases::narrow(&shelf, lease().id, &child(1)).unwrap().unwrap();
    // As a writer that knows of no families would.
    let put = |lease: &Lease, version| {
        shelf.put(leases::KIND, &lease.id.to_string(), version, &serde_json::to_vec(lease).unwrap()).unwrap();
    };
    put(&Lease { revoked: true, expires_at: Timestamp(1_500_000), ..lease() }, 1);
    let read = leases::read(&shelf, child(1).id).unwrap();
    assert_eq!((read.revoked, read.expires_at), (true, Timestamp(1_500_000)));
    // One that comes from itself holds nothing, and ends.
    put(&Lease { parent: Some(child(1).id), ..lease() }, 2);
    assert!(leases::read(&shelf, child(1).id).is_err());
}

#[test]
fn a_narrowing_that_races_with_a_revocation_is_looked_at_again() {
    let shelf = Shelf::default();
    leases::grant(&shelf, &lease()).unwrap();
    // Somebody writes the family just before the first write.
    shelf.raced.store(true, Ordering::SeqCst);
    shelf.put(leases::FAMILY, &lease().id.to_string(), 1, br#"{"members":[]}"#).unwrap();
    shelf.raced.store(true, Ordering::SeqCst);
    assert!(leases::narrow(&shelf, lease().id, &child(1)).unwrap().is_ok());
    leases::revoke(&shelf, lease().id).unwrap();
    assert!(leases::read(&shelf, child(1).id).unwrap().revoked);
}

#[test]
fn no_lease_holds_the_way_back_and_each_has_an_accountable_human() {
    let shelf = Shelf::default();
    for owners in
        ["delete-snapshot", "snapshot_delete", "delete.backup", "Backups", "lease.widen", "halt", "forget"]
    {
        let lease = Lease { tools: vec!["read".into(), owners.into()], ..lease() };
        let error = leases::grant(&shelf, &lease).unwrap_err().to_string();
        assert!(error.contains("no lease can hold"), "{owners}: {error}");
    }
    for unheld in ["coder", "root:x", "agent:A B"] {
        assert!(leases::grant(&shelf, &Lease { principal: unheld.into(), ..lease() }).is_err(), "{unheld}");
    }
    let by_agent = Lease { on_behalf_of: "agent:coder".into(), ..lease() };
    assert!(leases::grant(&shelf, &by_agent).unwrap_err().to_string().contains("on behalf of a human"));
    assert!(leases::read(&shelf, lease().id).is_err(), "nothing of it was written");
}

#[test]
fn a_token_opens_its_lease_and_shows_nothing_of_itself() {
    let shelf = Shelf::default();
    leases::grant(&shelf, &lease()).unwrap();
    let token = Token::new([7; 32]);
    token::bind(&shelf, &token, lease().id).unwrap();
    assert!(token::bind(&shelf, &token, child(1).id).is_err(), "a token is of one lease");
    let told = Token::of_bearer(&format!(" {}\n", token.secret()));
    assert_eq!(token::bearer(&shelf, &told).unwrap().id, lease().id);
    for forged in ["", "regie-lease-", &token.secret()[1..], &token.secret().to_uppercase()] {
        let refused = token::bearer(&shelf, &Token::of_bearer(forged));
        assert!(matches!(refused, Err(token::Refused::Unknown)), "{forged}");
    }
    assert_eq!(format!("{token:?}"), "Token(…)");
    let kept = shelf.list(token::KIND).unwrap();
    assert!(kept.iter().all(|row| !row.key.contains(&"07".repeat(32))), "only its digest is kept");
    leases::revoke(&shelf, lease().id).unwrap();
    assert!(token::bearer(&shelf, &told).unwrap().revoked, "a revocation counts at once");
}

#[test]
fn a_lease_of_an_earlier_regie_is_about_the_whole_workspace() {
    let mut old = serde_json::to_value(lease()).unwrap();
    let fields = old.as_object_mut().unwrap();
    for later in ["paths", "parent", "budget", "labels", "granted_at"] {
        fields.remove(later);
    }
    let old: Lease = serde_json::from_value(old).unwrap();
    assert!(old.paths.is_everything() && old.parent.is_none() && old.budget.is_none());
}

#[test]
fn what_was_for_a_run_ends_with_it_and_stays_readable() {
    let shelf = Shelf::default();
    leases::grant(&shelf, &lease()).unwrap();
    leases::narrow(&shelf, lease().id, &child(1)).unwrap().unwrap();
    leases::end(&shelf, lease().id, Timestamp(1_200_000)).unwrap();
    let ended = leases::read(&shelf, child(1).id).unwrap();
    assert_eq!((ended.expires_at, ended.revoked, ended.epoch), (Timestamp(1_200_000), false, 2));
    // Later is no news.
    assert_eq!(
        leases::end(&shelf, lease().id, Timestamp(1_300_000)).unwrap().expires_at,
        Timestamp(1_200_000)
    );
}
