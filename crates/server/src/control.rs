//! The house itself behind the routes.

use control::{Control, Error, api};
use tokio::sync::{broadcast, watch};

use crate::UseCases;

impl UseCases for Control {
    async fn hello(&self) -> Result<api::Hello, Error> {
        Ok(Control::hello(self))
    }

    async fn model_list(&self) -> Result<api::Models, Error> {
        Control::model_list(self).await
    }

    async fn model_read(&self, wanted: api::ReadModels) -> Result<api::Models, Error> {
        Control::model_read(self, wanted).await
    }

    async fn mission_start(&self, wanted: api::StartMission) -> Result<api::Started, Error> {
        Control::mission_start(self, wanted).await
    }

    async fn run_list(&self, only_open: bool) -> Result<Vec<api::Run>, Error> {
        Control::run_list(self, only_open).await
    }

    async fn run_fetch(&self, run: &str) -> Result<api::Run, Error> {
        Control::run_fetch(self, run).await
    }

    async fn run_events(&self, run: &str, after_seq: u64, limit: usize) -> Result<Vec<api::Event>, Error> {
        Control::run_events(self, run, after_seq, limit).await
    }

    async fn events_after(&self, position: u64, limit: usize) -> Result<Vec<api::Event>, Error> {
        Control::events_after(self, position, limit).await
    }

    async fn run_diff(&self, run: &str) -> Result<api::Diff, Error> {
        Control::run_diff(self, run).await
    }

    async fn run_fork(&self, run: &str, wanted: api::Fork) -> Result<api::Started, Error> {
        Control::run_fork(self, run, wanted).await
    }

    async fn run_pause(&self, run: &str) -> Result<(), Error> {
        Control::run_pause(self, run).await
    }

    async fn run_stop(&self, run: &str) -> Result<(), Error> {
        Control::run_stop(self, run).await
    }

    async fn run_cancel(&self, run: &str) -> Result<(), Error> {
        Control::run_cancel(self, run).await
    }

    async fn run_resume(&self, run: &str, with: api::Resume) -> Result<(), Error> {
        Control::run_resume(self, run, with).await
    }

    async fn run_forget(&self, run: &str, order: api::Forget) -> Result<api::Forgotten, Error> {
        Control::run_forget(self, run, order).await
    }

    async fn run_undo(&self, run: &str) -> Result<api::Undone, Error> {
        Control::run_undo(self, run).await
    }

    async fn run_say(&self, run: &str, said: api::Say) -> Result<(), Error> {
        Control::run_say(self, run, said).await
    }

    async fn costs(&self, by: api::By) -> Result<api::Costs, Error> {
        Control::costs(self, by).await
    }

    async fn search(&self, words: &str, limit: usize) -> Result<Vec<api::Hit>, Error> {
        Control::search(self, words, limit).await
    }

    async fn gate_list(&self, only_open: bool) -> Result<Vec<api::Gate>, Error> {
        Control::gate_list(self, only_open).await
    }

    async fn gate_fetch(&self, gate: &str) -> Result<api::Gate, Error> {
        Control::gate_fetch(self, gate).await
    }

    async fn gate_answer(&self, gate: &str, answer: api::AnswerGate) -> Result<api::Gate, Error> {
        Control::gate_answer(self, gate, answer).await
    }

    async fn policy_list(&self, project: Option<String>) -> Result<api::Policy, Error> {
        Control::policy_list(self, project).await
    }

    async fn policy_explain(&self, asked: api::Explain) -> Result<api::Explained, Error> {
        Control::policy_explain(self, asked).await
    }

    async fn policy_why(&self, asked: api::AskWhy) -> Result<api::Why, Error> {
        Control::policy_why(self, asked).await
    }

    async fn artifact_fetch(&self, digest: &str) -> Result<Vec<u8>, Error> {
        Control::artifact_fetch(self, digest).await
    }

    async fn usage(&self) -> Result<api::Usage, Error> {
        Control::usage(self).await
    }

    async fn sweep(&self, order: api::Sweep) -> Result<api::Swept, Error> {
        Control::sweep(self, order).await
    }

    async fn bin_list(&self) -> Result<Vec<api::Binned>, Error> {
        Control::bin_list(self).await
    }

    async fn bin_fetch(&self, run: &str) -> Result<api::BinnedShown, Error> {
        Control::bin_fetch(self, run).await
    }

    async fn bin_restore(&self, run: &str) -> Result<api::Restored, Error> {
        Control::bin_restore(self, run).await
    }

    async fn bin_empty(&self, order: api::EmptyBin) -> Result<Vec<api::Binned>, Error> {
        Control::bin_empty(self, order).await
    }

    async fn project_export(&self, wanted: api::Export) -> Result<api::Carried, Error> {
        Control::project_export(self, wanted).await
    }

    async fn project_import(&self, wanted: api::Import) -> Result<api::Carried, Error> {
        Control::project_import(self, wanted).await
    }

    async fn who_changed(&self, wanted: api::WhoChanged) -> Result<Vec<api::Changed>, Error> {
        Control::who_changed(self, wanted).await
    }

    async fn who_read(&self, wanted: api::WhoRead) -> Result<Vec<api::Reader>, Error> {
        Control::who_read(self, wanted).await
    }

    async fn run_reads(&self, run: &str) -> Result<api::Manifest, Error> {
        Control::run_reads(self, run).await
    }

    async fn lease_list(&self, all: bool) -> Result<Vec<api::Lease>, Error> {
        Control::lease_list(self, all).await
    }

    async fn lease_fetch(&self, lease: &str) -> Result<api::LeaseRecord, Error> {
        Control::lease_fetch(self, lease).await
    }

    async fn lease_mint(&self, wanted: api::MintLease) -> Result<api::Minted, Error> {
        Control::lease_mint(self, wanted).await
    }

    async fn lease_revoke(&self, lease: &str) -> Result<api::Lease, Error> {
        Control::lease_revoke(self, lease).await
    }

    async fn role_list(&self) -> Result<Vec<api::Role>, Error> {
        Control::role_list(self).await
    }

    async fn act_list(&self) -> Result<Vec<api::Act>, Error> {
        Control::act_list(self).await
    }

    async fn halt_fetch(&self) -> Result<api::Halt, Error> {
        Control::halt_fetch(self).await
    }

    async fn halt_raise(&self, wanted: api::RaiseHalt) -> Result<api::Halt, Error> {
        Control::halt_raise(self, wanted).await
    }

    async fn halt_lift(&self) -> Result<api::Halt, Error> {
        Control::halt_lift(self).await
    }

    async fn audit_verify(&self) -> Result<api::Audit, Error> {
        Control::audit_verify(self).await
    }

    async fn shutdown(&self) -> Result<(), Error> {
        Control::shutdown(self);
        Ok(())
    }

    fn bell(&self) -> watch::Receiver<u64> {
        Control::bell(self)
    }

    fn deltas(&self) -> broadcast::Receiver<api::Delta> {
        Control::deltas(self)
    }
}
