//! What the server asks of the daemon. The composition root hands in the one that decides; tests
//! hand in one that answers from a script.

use std::future::Future;

use control::{Error, api};
use tokio::sync::{broadcast, watch};

/// The use cases behind the routes. A `run` or `gate` is a full id, an unambiguous part of one, or
/// `last`, as the implementation defines it.
pub trait UseCases: Send + Sync + 'static {
    /// What the daemon says of itself.
    fn hello(&self) -> impl Future<Output = Result<api::Hello, Error>> + Send;
    /// The catalogue as it is kept.
    fn model_list(&self) -> impl Future<Output = Result<api::Models, Error>> + Send;
    /// The catalogue, read from the endpoints where it is old or that is wanted.
    fn model_read(&self, wanted: api::ReadModels) -> impl Future<Output = Result<api::Models, Error>> + Send;
    /// Starts a mission and its root run.
    fn mission_start(
        &self,
        wanted: api::StartMission,
    ) -> impl Future<Output = Result<api::Started, Error>> + Send;
    /// The runs, latest first; all of them or those that have not ended.
    fn run_list(&self, only_open: bool) -> impl Future<Output = Result<Vec<api::Run>, Error>> + Send;
    /// One run.
    fn run_fetch(&self, run: &str) -> impl Future<Output = Result<api::Run, Error>> + Send;
    /// At most `limit` events of a run after its event `after_seq`, in order.
    fn run_events(
        &self,
        run: &str,
        after_seq: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<api::Event>, Error>> + Send;
    /// At most `limit` events of all runs after `position`, in order.
    fn events_after(
        &self,
        position: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<api::Event>, Error>> + Send;
    /// What a run has changed.
    fn run_diff(&self, run: &str) -> impl Future<Output = Result<api::Diff, Error>> + Send;
    /// Starts a run of the same mission that goes on from where another one stood.
    fn run_fork(
        &self,
        run: &str,
        wanted: api::Fork,
    ) -> impl Future<Output = Result<api::Started, Error>> + Send;
    /// Lets a run rest when what runs has ended; it can be resumed.
    fn run_pause(&self, run: &str) -> impl Future<Output = Result<(), Error>> + Send;
    /// Interrupts what runs and lets the run rest; it can be resumed.
    fn run_stop(&self, run: &str) -> impl Future<Output = Result<(), Error>> + Send;
    /// Ends a run for good.
    fn run_cancel(&self, run: &str) -> impl Future<Output = Result<(), Error>> + Send;
    /// Lets a parked run go on.
    fn run_resume(&self, run: &str, with: api::Resume) -> impl Future<Output = Result<(), Error>> + Send;
    /// Takes the merge of a run or a mission back.
    fn run_undo(&self, run: &str) -> impl Future<Output = Result<api::Undone, Error>> + Send;
    /// Destroys what a run or a mission was about.
    fn run_forget(
        &self,
        run: &str,
        order: api::Forget,
    ) -> impl Future<Output = Result<api::Forgotten, Error>> + Send;
    /// Says something to the agent of a run.
    fn run_say(&self, run: &str, said: api::Say) -> impl Future<Output = Result<(), Error>> + Send;
    /// What was spent.
    fn costs(&self, by: api::By) -> impl Future<Output = Result<api::Costs, Error>> + Send;
    /// At most `limit` recorded texts of all runs that have these words.
    fn search(&self, words: &str, limit: usize) -> impl Future<Output = Result<Vec<api::Hit>, Error>> + Send;
    /// The gates, latest first; all of them or those that wait for an answer.
    fn gate_list(&self, only_open: bool) -> impl Future<Output = Result<Vec<api::Gate>, Error>> + Send;
    /// One gate.
    fn gate_fetch(&self, gate: &str) -> impl Future<Output = Result<api::Gate, Error>> + Send;
    /// Answers a gate.
    fn gate_answer(
        &self,
        gate: &str,
        answer: api::AnswerGate,
    ) -> impl Future<Output = Result<api::Gate, Error>> + Send;
    /// The rules that count in a project, by a directory in it.
    fn policy_list(&self, project: Option<String>)
    -> impl Future<Output = Result<api::Policy, Error>> + Send;
    /// What would be decided about an action.
    fn policy_explain(
        &self,
        asked: api::Explain,
    ) -> impl Future<Output = Result<api::Explained, Error>> + Send;
    /// What was decided about a step, and what would be now.
    fn policy_why(&self, asked: api::AskWhy) -> impl Future<Output = Result<api::Why, Error>> + Send;
    /// The bytes of an artifact.
    fn artifact_fetch(&self, digest: &str) -> impl Future<Output = Result<Vec<u8>, Error>> + Send;
    /// What lies in the home.
    fn usage(&self) -> impl Future<Output = Result<api::Usage, Error>> + Send;
    /// Takes away what has served its time.
    fn sweep(&self, order: api::Sweep) -> impl Future<Output = Result<api::Swept, Error>> + Send;
    /// What is in the recycle bin.
    fn bin_list(&self) -> impl Future<Output = Result<Vec<api::Binned>, Error>> + Send;
    /// What a run has in the bin.
    fn bin_fetch(&self, run: &str) -> impl Future<Output = Result<api::BinnedShown, Error>> + Send;
    /// Brings what a run left back as a branch.
    fn bin_restore(&self, run: &str) -> impl Future<Output = Result<api::Restored, Error>> + Send;
    /// Lets go of what is in the bin.
    fn bin_empty(&self, order: api::EmptyBin)
    -> impl Future<Output = Result<Vec<api::Binned>, Error>> + Send;
    /// Writes a project in a standard form.
    fn project_export(&self, wanted: api::Export)
    -> impl Future<Output = Result<api::Carried, Error>> + Send;
    /// Brings an exported project in.
    fn project_import(&self, wanted: api::Import)
    -> impl Future<Output = Result<api::Carried, Error>> + Send;
    /// Who changed a file or a line.
    fn who_changed(
        &self,
        wanted: api::WhoChanged,
    ) -> impl Future<Output = Result<Vec<api::Changed>, Error>> + Send;
    /// Who has read a file.
    fn who_read(&self, wanted: api::WhoRead) -> impl Future<Output = Result<Vec<api::Reader>, Error>> + Send;
    /// What a run has read.
    fn run_reads(&self, run: &str) -> impl Future<Output = Result<api::Manifest, Error>> + Send;
    /// The leases, latest first; those that hold, or all.
    fn lease_list(&self, all: bool) -> impl Future<Output = Result<Vec<api::Lease>, Error>> + Send;
    /// One lease, with what came of it.
    fn lease_fetch(&self, lease: &str) -> impl Future<Output = Result<api::LeaseRecord, Error>> + Send;
    /// Mints a lease for whoever bears its token.
    fn lease_mint(&self, wanted: api::MintLease) -> impl Future<Output = Result<api::Minted, Error>> + Send;
    /// Takes a lease back, with all that came from it.
    fn lease_revoke(&self, lease: &str) -> impl Future<Output = Result<api::Lease, Error>> + Send;
    /// Who acts here, with leases and latest runs.
    fn role_list(&self) -> impl Future<Output = Result<Vec<api::Role>, Error>> + Send;
    /// What was done outside of any run, latest first.
    fn act_list(&self) -> impl Future<Output = Result<Vec<api::Act>, Error>> + Send;
    /// How the halt stands.
    fn halt_fetch(&self) -> impl Future<Output = Result<api::Halt, Error>> + Send;
    /// Takes all leases back, stops all runs, and lets nothing begin.
    fn halt_raise(&self, wanted: api::RaiseHalt) -> impl Future<Output = Result<api::Halt, Error>> + Send;
    /// Lets things begin again.
    fn halt_lift(&self) -> impl Future<Output = Result<api::Halt, Error>> + Send;
    /// Verifies the chains of all runs.
    fn audit_verify(&self) -> impl Future<Output = Result<api::Audit, Error>> + Send;
    /// Asks the daemon to end. Its runs go on when it is started again.
    fn shutdown(&self) -> impl Future<Output = Result<(), Error>> + Send;
    /// Rings with the position of the last durable event.
    fn bell(&self) -> watch::Receiver<u64>;
    /// What arrives before it is on record.
    fn deltas(&self) -> broadcast::Receiver<api::Delta>;
}
