//! Verification of the chains.

use crate::api::{Audit, Broken};
use crate::{Control, Error};

impl Control {
    /// Verifies every chain of the installation.
    ///
    /// # Errors
    /// When the journal cannot be read; broken links are part of the answer.
    pub async fn audit_verify(&self) -> Result<Audit, Error> {
        let journal = self.journal();
        let found = self.blocking(move || Ok(journal.verify()?)).await?;
        Ok(Audit {
            intact: found.broken.is_empty(),
            runs: found.runs,
            events: found.events,
            erased: found.erased,
            broken: found
                .broken
                .into_iter()
                .map(|(run, seq, what)| Broken { run: run.to_string(), seq, what })
                .collect(),
        })
    }
}
