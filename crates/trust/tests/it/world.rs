//! Leases, actions and fakes that the tests share.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use domain::{Digest, Effect, Lease, LeaseId, Risk, RunId, StepKind, StepNo, Timestamp, Verdict};
use kernel::port::{Action, Put, Record, RecordError, Records};
use trust::History;

pub(crate) const NOW: Timestamp = Timestamp(1_000_000);

pub(crate) fn run() -> RunId {
    RunId::from_bytes([7; 16])
}

pub(crate) fn lease() -> Lease {
    Lease {
        id: LeaseId::from_bytes([9; 16]),
        run: Some(run()),
        parent: None,
        paths: domain::Grants::default(),
        budget: None,
        labels: None,
        granted_at: None,
        principal: "agent:coder".into(),
        on_behalf_of: "human:owner".into(),
        purpose: "make the test pass".into(),
        tools: ["read", "write", "shell", "post", "merge", "setup"].map(String::from).to_vec(),
        expires_at: Timestamp(2_000_000),
        epoch: 0,
        revoked: false,
    }
}

pub(crate) fn action(kind: StepKind, effect: Effect, risk: Risk, tool: &str) -> Action<'_> {
    Action {
        run: run(),
        principal: "agent:coder",
        lease: lease().id,
        step: StepNo(3),
        kind,
        effect,
        risk,
        tool,
        request: b"{}",
        digest: Digest::of(b"{}"),
        nanodollars: 0,
        approved: None,
        now: NOW,
    }
}

/// A merge of what the owner's own criterion has checked.
pub(crate) fn merge() -> Action<'static> {
    let request = br#"{"checks":["make test"]}"#;
    let merge = action(StepKind::ToolCall, Effect::IdempotentWrite, Risk::External, "merge");
    Action { request, digest: Digest::of(request), ..merge }
}

pub(crate) fn deliver() -> Action<'static> {
    action(StepKind::ToolCall, Effect::IdempotentWrite, Risk::External, "deliver")
}

pub(crate) fn model() -> Action<'static> {
    action(StepKind::ModelCall, Effect::ModelCall, Risk::Read, "scripted")
}

/// Version and body.
type Row = (u64, Vec<u8>);

#[derive(Default)]
pub(crate) struct Shelf {
    rows: Mutex<BTreeMap<(String, String), Row>>,
    pub(crate) broken: AtomicBool,
    /// Somebody else writes just before the next write.
    pub(crate) raced: AtomicBool,
}

impl Records for Shelf {
    fn get(&self, kind: &str, key: &str) -> Result<Option<Record>, RecordError> {
        if self.broken.load(Ordering::SeqCst) {
            return Err(RecordError::Storage("disk gone".into()));
        }
        let rows = self.rows.lock().unwrap();
        Ok(rows.get(&(kind.into(), key.into())).filter(|row| row.0 > 0).map(|(version, body)| Record {
            kind: kind.into(),
            key: key.into(),
            version: *version,
            body: body.clone(),
        }))
    }

    fn list(&self, wanted: &str) -> Result<Vec<Record>, RecordError> {
        if self.broken.load(Ordering::SeqCst) {
            return Err(RecordError::Storage("disk gone".into()));
        }
        let rows = self.rows.lock().unwrap();
        let of_kind = rows.iter().filter(|((kind, _), row)| kind == wanted && row.0 > 0);
        let record = |((kind, key), (version, body)): (&(String, String), &Row)| Record {
            kind: kind.clone(),
            key: key.clone(),
            version: *version,
            body: body.clone(),
        };
        Ok(of_kind.map(record).collect())
    }

    fn put_all(&self, writes: &[Put<'_>]) -> Result<(), RecordError> {
        let mut rows = self.rows.lock().unwrap();
        let raced = self.raced.swap(false, Ordering::SeqCst);
        for (at, Put { kind, key, expected, .. }) in writes.iter().enumerate() {
            let row = rows.entry(((*kind).into(), (*key).into())).or_default();
            row.0 += u64::from(raced && at == 0);
            if row.0 != *expected {
                let (kind, key, expected) = ((*kind).into(), (*key).into(), *expected);
                return Err(RecordError::Moved { kind, key, current: row.0, expected });
            }
        }
        for Put { kind, key, expected, body } in writes {
            rows.insert(((*kind).into(), (*key).into()), (expected + 1, body.to_vec()));
        }
        Ok(())
    }

    fn put(&self, kind: &str, key: &str, expected: u64, body: &[u8]) -> Result<u64, RecordError> {
        let mut rows = self.rows.lock().unwrap();
        let row = rows.entry((kind.into(), key.into())).or_default();
        row.0 += u64::from(self.raced.swap(false, Ordering::SeqCst));
        if row.0 != expected {
            return Err(RecordError::Moved { kind: kind.into(), key: key.into(), current: row.0, expected });
        }
        *row = (expected + 1, body.to_vec());
        Ok(row.0)
    }
}

#[derive(Default)]
pub(crate) struct Past {
    pub(crate) spent: AtomicU64,
    pub(crate) broken: AtomicBool,
}

impl History for Past {
    fn spent_on(&self, _: u64) -> Result<u64, String> {
        if self.broken.load(Ordering::SeqCst) {
            return Err("disk gone".into());
        }
        Ok(self.spent.load(Ordering::SeqCst))
    }
}

/// How strict a verdict is.
pub(crate) const fn strictness(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Allow => 0,
        Verdict::Ask => 1,
        Verdict::Deny => 2,
    }
}
