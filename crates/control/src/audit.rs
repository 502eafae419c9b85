//! Verification of the chains, and the artifacts that they refer to.

use domain::Digest;
use kernel::lineage;

use crate::api::{Audit, Broken};
use crate::error::{Error, Kind};
use crate::{Control, view};

/// The shortest beginning of a digest that is taken for one.
const SHORTEST: usize = 4;

impl Control {
    /// Verifies every chain of the installation.
    ///
    /// # Errors
    /// When the journal cannot be read; broken links are part of the answer.
    pub async fn audit_verify(&self) -> Result<Audit, Error> {
        let journal = self.journal();
        let found = self.blocking(move || {
            let mut found = journal.verify()?;
            for row in journal.runs(false, usize::MAX)? {
                let first = journal.history(row.run, 0, 1)?;
                let Some(forked) = first.first().and_then(|first| lineage::origin(&first.header.fact)) else {
                    continue;
                };
                if let Err(error) = lineage::check(&*journal, forked) {
                    found.broken.push((row.run, 1, view::with_causes(&error)));
                }
            }
            Ok(found)
        });
        let found = found.await?;
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

    /// The bytes of an artifact, verified against its digest. It is named by the digest, or by enough of
    /// its beginning.
    ///
    /// # Errors
    /// When the name is no digest, or means no artifact or more than one.
    pub async fn artifact_fetch(&self, name: &str) -> Result<Vec<u8>, Error> {
        let name = name.to_lowercase();
        if name.len() < SHORTEST || !name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let detail = format!("`{name}` is no digest, nor the beginning of one");
            return Err(Error::new(Kind::Invalid, "artifact.digest", detail)
                .hint(format!("give {SHORTEST} to 64 hexadecimal characters, as `regie log` shows them")));
        }
        let artifacts = std::sync::Arc::clone(&self.artifacts);
        self.blocking(move || {
            if let Ok(digest) = name.parse::<Digest>() {
                return Ok(artifacts.get(digest)?);
            }
            match artifacts.find(&name)?.as_slice() {
                [digest] => Ok(artifacts.get(*digest)?),
                [] => Err(Error::new(
                    Kind::NotFound,
                    "artifact.not_found",
                    format!("there is no artifact `{name}…`"),
                )),
                _ => Err(Error::new(
                    Kind::Invalid,
                    "artifact.ambiguous",
                    format!("`{name}` means more than one artifact"),
                )
                .hint("give more characters of the digest")),
            }
        })
        .await
    }
}
