//! Verification of the chains, and the artifacts that they refer to.

use domain::Digest;

use crate::Control;
use crate::api::{Audit, Broken};
use crate::error::{Error, Kind};

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

    /// The bytes of an artifact, verified against its digest.
    ///
    /// # Errors
    /// When the name is no digest, or there is no such artifact.
    pub async fn artifact_fetch(&self, digest: &str) -> Result<Vec<u8>, Error> {
        let digest: Digest = digest.parse().map_err(|error: domain::digest::ParseError| {
            Error::new(Kind::Invalid, "artifact.digest", error.to_string())
        })?;
        let artifacts = std::sync::Arc::clone(&self.artifacts);
        self.blocking(move || Ok(artifacts.get(digest)?)).await
    }
}
