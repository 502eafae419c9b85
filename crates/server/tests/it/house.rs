//! A house that answers from a script, and the socket that it is served on.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use control::error::Kind;
use control::{Error, api};
use server::UseCases;
use tokio::net::UnixListener;
use tokio::sync::{broadcast, oneshot, watch};
use tokio::task::JoinHandle;

/// Deltas that a client may lag behind.
pub(crate) const DELTAS: usize = 16;

pub(crate) struct House {
    events: Mutex<Vec<api::Event>>,
    bell: watch::Sender<u64>,
    deltas: broadcast::Sender<api::Delta>,
    pub(crate) started: Mutex<Vec<api::StartMission>>,
}

impl House {
    /// Appends an event of `run` and rings.
    pub(crate) fn append(&self, run: &str) -> u64 {
        let mut events = self.events.lock().unwrap();
        let position = events.len() as u64 + 1;
        events.push(api::Event {
            position,
            run: run.into(),
            seq: position,
            at: 0,
            source: "kernel".into(),
            fact: serde_json::json!({ "fact": "claimed" }),
            content: serde_json::Value::Null,
            hash: String::new(),
            line: None,
        });
        drop(events);
        self.bell.send_replace(position);
        position
    }

    pub(crate) fn delta(&self, run: &str, text: &str) {
        let delta = api::Delta { run: run.into(), step: 1, kind: "text".into(), text: text.into() };
        self.deltas.send(delta).unwrap();
    }

    /// How many streams listen.
    pub(crate) fn listeners(&self) -> usize {
        self.deltas.receiver_count()
    }
}

fn nothing<T>(what: &str) -> Result<T, Error> {
    let code = "thing.not_found";
    Err(Error::new(Kind::NotFound, code, format!("there is no `{what}`")).hint("`regie runs` lists them"))
}

impl UseCases for House {
    async fn hello(&self) -> Result<api::Hello, Error> {
        let home = "/home".into();
        Ok(api::Hello { api: api::VERSION, version: "0".into(), pid: 1, home, position: 0, is_halted: false })
    }

    async fn model_list(&self) -> Result<api::Models, Error> {
        Ok(api::Models { endpoints: vec![] })
    }

    async fn model_read(&self, wanted: api::ReadModels) -> Result<api::Models, Error> {
        if wanted.refresh { nothing("models") } else { self.model_list().await }
    }

    async fn mission_start(&self, wanted: api::StartMission) -> Result<api::Started, Error> {
        self.started.lock().unwrap().push(wanted);
        Ok(api::Started {
            mission: "mission_1".into(),
            run: "run_a".into(),
            branch: "coder/run_a".into(),
            line: "main".into(),
            base: "0".into(),
            model: "m".into(),
            effort: None,
            warnings: vec![],
            environment: None,
            position: 0,
        })
    }

    async fn run_list(&self, _: bool) -> Result<Vec<api::Run>, Error> {
        Ok(vec![])
    }

    async fn run_fetch(&self, run: &str) -> Result<api::Run, Error> {
        let full = match run {
            "a" => "run_a",
            "run_a" | "run_b" => run,
            other => return nothing(other),
        };
        Ok(api::Run {
            run: full.into(),
            mission: String::new(),
            goal: String::new(),
            repository: String::new(),
            line: String::new(),
            branch: String::new(),
            model: String::new(),
            effort: None,
            instead_of: None,
            status: "active".into(),
            end: None,
            reason: None,
            code: None,
            started_at: 0,
            updated_at: 0,
            turns: 0,
            spent: api::Spent::default(),
            gates: vec![],
            head: String::new(),
            events: 0,
            forked: None,
        })
    }

    async fn run_events(&self, run: &str, after: u64, limit: usize) -> Result<Vec<api::Event>, Error> {
        let events = self.events.lock().unwrap();
        let of = events.iter().filter(|event| event.run == run && event.seq > after);
        Ok(of.take(limit).cloned().collect())
    }

    async fn events_after(&self, position: u64, limit: usize) -> Result<Vec<api::Event>, Error> {
        let events = self.events.lock().unwrap();
        Ok(events.iter().filter(|event| event.position > position).take(limit).cloned().collect())
    }

    async fn run_diff(&self, run: &str) -> Result<api::Diff, Error> {
        nothing(run)
    }

    async fn run_fork(&self, run: &str, _: api::Fork) -> Result<api::Started, Error> {
        nothing(run)
    }

    async fn run_pause(&self, _: &str) -> Result<(), Error> {
        Ok(())
    }

    async fn run_stop(&self, run: &str) -> Result<(), Error> {
        Err(Error::new(Kind::Conflict, "run.ended", format!("`{run}` has ended")))
    }

    async fn run_cancel(&self, _: &str) -> Result<(), Error> {
        Ok(())
    }

    async fn run_resume(&self, _: &str, _: api::Resume) -> Result<(), Error> {
        Ok(())
    }

    async fn run_undo(&self, run: &str) -> Result<api::Undone, Error> {
        nothing(run)
    }

    async fn run_forget(&self, run: &str, _: api::Forget) -> Result<api::Forgotten, Error> {
        nothing(run)
    }

    async fn run_say(&self, run: &str, said: api::Say) -> Result<(), Error> {
        if said.now { nothing(run) } else { Ok(()) }
    }

    async fn costs(&self, by: api::By) -> Result<api::Costs, Error> {
        let total = api::Cost { key: "total".into(), ..api::Cost::default() };
        Ok(api::Costs { by, rows: vec![], total, finished: 0 })
    }

    async fn search(&self, words: &str, limit: usize) -> Result<Vec<api::Hit>, Error> {
        if words == "a b" && limit == 7 { Ok(vec![]) } else { nothing(words) }
    }

    async fn gate_list(&self, _: bool) -> Result<Vec<api::Gate>, Error> {
        Ok(vec![])
    }

    async fn gate_fetch(&self, gate: &str) -> Result<api::Gate, Error> {
        nothing(gate)
    }

    async fn gate_answer(&self, gate: &str, _: api::AnswerGate) -> Result<api::Gate, Error> {
        nothing(gate)
    }

    async fn policy_list(&self, project: Option<String>) -> Result<api::Policy, Error> {
        match project.as_deref() {
            Some("/a b") => Ok(api::Policy { files: vec![], rules: vec![] }),
            _ => nothing("policy"),
        }
    }

    async fn policy_explain(&self, asked: api::Explain) -> Result<api::Explained, Error> {
        nothing(&asked.action)
    }

    async fn policy_why(&self, asked: api::AskWhy) -> Result<api::Why, Error> {
        nothing(&asked.of)
    }

    async fn artifact_fetch(&self, digest: &str) -> Result<Vec<u8>, Error> {
        if digest == "beef" { Ok(b"<script>".to_vec()) } else { nothing(digest) }
    }

    async fn usage(&self) -> Result<api::Usage, Error> {
        nothing("usage")
    }

    async fn sweep(&self, order: api::Sweep) -> Result<api::Swept, Error> {
        Ok(api::Swept { dry_run: order.dry_run, ..api::Swept::default() })
    }

    async fn bin_list(&self) -> Result<Vec<api::Binned>, Error> {
        Ok(vec![])
    }

    async fn bin_fetch(&self, run: &str) -> Result<api::BinnedShown, Error> {
        nothing(run)
    }

    async fn bin_restore(&self, run: &str) -> Result<api::Restored, Error> {
        nothing(run)
    }

    async fn bin_empty(&self, _: api::EmptyBin) -> Result<Vec<api::Binned>, Error> {
        Ok(vec![])
    }

    async fn project_export(&self, wanted: api::Export) -> Result<api::Carried, Error> {
        nothing(&wanted.project)
    }

    async fn project_import(&self, wanted: api::Import) -> Result<api::Carried, Error> {
        nothing(&wanted.from)
    }

    async fn who_changed(&self, _: api::WhoChanged) -> Result<Vec<api::Changed>, Error> {
        Ok(vec![])
    }

    async fn who_read(&self, _: api::WhoRead) -> Result<Vec<api::Reader>, Error> {
        Ok(vec![])
    }

    async fn run_reads(&self, _: &str) -> Result<api::Manifest, Error> {
        Ok(api::Manifest::default())
    }

    async fn lease_list(&self, all: bool) -> Result<Vec<api::Lease>, Error> {
        let state = if all { "expired" } else { "holds" };
        Ok(vec![api::Lease { state: state.into(), ..api::Lease::default() }])
    }

    async fn lease_fetch(&self, lease: &str) -> Result<api::LeaseRecord, Error> {
        let lease = api::Lease { lease: lease.into(), ..api::Lease::default() };
        Ok(api::LeaseRecord { lease, ..api::LeaseRecord::default() })
    }

    async fn lease_mint(&self, wanted: api::MintLease) -> Result<api::Minted, Error> {
        let lease = api::Lease { principal: wanted.holder, ..api::Lease::default() };
        Ok(api::Minted { lease, token: "told once".into() })
    }

    async fn lease_revoke(&self, lease: &str) -> Result<api::Lease, Error> {
        Ok(api::Lease { lease: lease.into(), state: "revoked".into(), ..api::Lease::default() })
    }

    async fn role_list(&self) -> Result<Vec<api::Role>, Error> {
        Ok(vec![])
    }

    async fn act_list(&self) -> Result<Vec<api::Act>, Error> {
        Ok(vec![])
    }

    async fn halt_fetch(&self) -> Result<api::Halt, Error> {
        Ok(api::Halt::default())
    }

    async fn halt_raise(&self, wanted: api::RaiseHalt) -> Result<api::Halt, Error> {
        Ok(api::Halt { is_on: true, why: wanted.why, ..api::Halt::default() })
    }

    async fn halt_lift(&self) -> Result<api::Halt, Error> {
        Ok(api::Halt::default())
    }

    async fn audit_verify(&self) -> Result<api::Audit, Error> {
        Ok(api::Audit { intact: true, runs: 0, events: 0, erased: 0, broken: vec![] })
    }

    async fn shutdown(&self) -> Result<(), Error> {
        Ok(())
    }

    fn bell(&self) -> watch::Receiver<u64> {
        self.bell.subscribe()
    }

    fn deltas(&self) -> broadcast::Receiver<api::Delta> {
        self.deltas.subscribe()
    }
}

/// A served house.
pub(crate) struct Served {
    pub(crate) house: Arc<House>,
    pub(crate) socket: PathBuf,
    pub(crate) stop: oneshot::Sender<()>,
    pub(crate) serving: JoinHandle<Result<(), server::listen::Error>>,
    _scratch: tempfile::TempDir,
}

pub(crate) fn serve() -> Served {
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("s");
    let house = Arc::new(House {
        events: Mutex::default(),
        bell: watch::channel(0).0,
        deltas: broadcast::channel(DELTAS).0,
        started: Mutex::default(),
    });
    let (stop, stopped) = oneshot::channel::<()>();
    let listener = UnixListener::bind(&socket).unwrap();
    let serving = tokio::spawn(server::serve(listener, Arc::clone(&house), async {
        let _ = stopped.await;
    }));
    Served { house, socket, stop, serving, _scratch: scratch }
}
