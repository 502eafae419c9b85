//! The kill switch: everything ends, and nothing begins until it is lifted.

use std::sync::Arc;

use domain::RunId;
use kernel::machine::Order;
use trust::halt;

use crate::act::recorded_as;
use crate::error::{Error, Kind};
use crate::missions::{OWNER, unavailable};
use crate::{Control, act, api, view};

impl Control {
    /// How the halt stands.
    ///
    /// # Errors
    /// When the records cannot be read.
    pub async fn halt_fetch(&self) -> Result<api::Halt, Error> {
        let records = Arc::clone(&self.records);
        let halt = self.blocking(move || halt::state(&*records).map_err(|error| failed(&error))).await?;
        Ok(halt_view(halt))
    }

    /// Takes all leases back, stops all runs, and lets nothing begin until [`halt_lift`](Self::halt_lift).
    ///
    /// # Errors
    /// When it cannot be written. What cannot be stopped is part of the answer: nothing is allowed to it either.
    pub async fn halt_raise(&self, request: api::RaiseHalt) -> Result<api::Halt, Error> {
        let revoked = self.raise(&request.why).await?;
        let journal = self.journal();
        let open = self.blocking(move || Ok(journal.runs(true, usize::MAX)?)).await?;
        let (mut stopped, mut unstopped) = (Vec::new(), Vec::new());
        for row in open.into_iter().filter(|row| row.status == "active") {
            match self.host.order(row.run, Order::StopNow { by: OWNER.into() }).await {
                Ok(()) => stopped.push(row.run.to_string()),
                // One that is being taken over at this moment is stopped by that.
                Err(_) if !self.is_active(row.run).await? => stopped.push(row.run.to_string()),
                Err(error) => unstopped.push(format!("{}: {}", row.run, view::with_causes(&error))),
            }
        }
        // What was granted while the runs were being stopped.
        let more = self.raise(&request.why).await?;
        let halt = self.halt_fetch().await?;
        Ok(api::Halt { revoked: revoked + more, stopped, unstopped, ..halt })
    }

    /// Takes all leases back before any run is taken over, for a daemon that is started to halt everything.
    ///
    /// # Errors
    /// When it cannot be written: then nothing may begin.
    pub async fn halt_ahead(&self) -> Result<(), Error> {
        self.raise("").await.map(drop)
    }

    /// Lets things begin again. What was taken back stays so.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn halt_lift(&self) -> Result<api::Halt, Error> {
        let (records, moment) = (Arc::clone(&self.records), self.moment());
        self.blocking(move || {
            let lift = || halt::lift(&*records, OWNER, moment.at).map_err(|error| failed(&error));
            recorded_as(&*records, ("halt.lift", "everything"), "lifted", moment, lift)
        })
        .await?;
        self.halt_fetch().await
    }

    async fn is_active(&self, run: RunId) -> Result<bool, Error> {
        let journal = self.journal();
        let open = self.blocking(move || Ok(journal.runs(true, usize::MAX)?)).await?;
        Ok(open.iter().any(|row| row.run == run && row.status == "active"))
    }

    async fn raise(&self, why: &str) -> Result<usize, Error> {
        let (records, moment) = (Arc::clone(&self.records), self.moment());
        let why: String = why.trim().chars().take(500).collect();
        self.blocking(move || {
            // To halt waits for no other record.
            let begun = act::begin(&*records, ("halt.raise", "everything"), moment);
            let raised = halt::raise(&*records, OWNER, &why, moment.at).map_err(|error| failed(&error));
            match begun {
                Ok(begun) => act::finish(&*records, begun, raised.as_ref().map(|_| "halted")),
                Err(error) => {
                    tracing::warn!(error = %error.detail, "that everything was halted is in no list of acts")
                }
            }
            raised
        })
        .await
    }

    /// Refuses what must not begin while everything is halted.
    ///
    /// # Errors
    /// `halt.on`, or that it cannot be told.
    pub(crate) async fn check_halt(&self) -> Result<(), Error> {
        let records = Arc::clone(&self.records);
        let halt = self.blocking(move || halt::state(&*records).map_err(|error| failed(&error))).await?;
        match halt.is_on {
            true => Err(Error::new(Kind::Conflict, "halt.on", halt.refusal()).mend_apart()),
            false => Ok(()),
        }
    }

    /// Takes a run over after a restart: while everything is halted, to stop it.
    pub(crate) async fn take_over(&self, run: RunId) -> Result<(), kernel::host::Error> {
        if self.check_halt().await.is_err() {
            let stopped = self.host.launch(run, Some(Order::StopNow { by: OWNER.into() })).await;
            if !matches!(stopped, Err(kernel::host::Error::Refused(_))) {
                return stopped;
            }
        }
        self.host.launch(run, None).await
    }
}

fn halt_view(halt: halt::Halt) -> api::Halt {
    api::Halt { is_on: halt.is_on, by: halt.by, at: halt.at.0, why: halt.why, ..api::Halt::default() }
}

fn failed(error: &halt::Error) -> Error {
    unavailable("halt.failed", error)
}
