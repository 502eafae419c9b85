//! Tokens of those who bear a lease.
//!
//! A token is 256 random bits, told once. Kept is only its digest, under which its lease is found: who reads the
//! records cannot act with them, and nothing is compared byte by byte with what a stranger sent. A token says
//! nothing of its lease, so that what it allows is looked up each time.

use std::fmt;

use domain::{Digest, Lease, LeaseId};
use kernel::port::{RecordError, Records};

use super::Error;

/// The record kind of a token; its key is the digest of the token, its body the lease's id.
pub const KIND: &str = "lease-token";
/// What each token begins with, so that one which lies about is known for what it is.
const PREFIX: &str = "regie-lease-";

/// What a bearer shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// From 32 unpredictable bytes.
    #[must_use]
    pub fn new(random: [u8; 32]) -> Self {
        let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        Self(format!("{PREFIX}{hex}"))
    }

    /// What a bearer has sent; whether there is such a token is another question.
    #[must_use]
    pub fn of_bearer(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// The token itself, to be told to its bearer and to nobody else.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.0
    }

    fn key(&self) -> String {
        Digest::of_parts(&[b"regie/lease-token/1\0", self.0.as_bytes()]).to_string()
    }
}

/// Shows nothing of it.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Why a bearer is not let in.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// There is no such token.
    #[error("there is no such token; ask the owner for another one")]
    Unknown,
    /// Its lease cannot be read.
    #[error("the lease of this token cannot be used")]
    Lease(#[source] Error),
    /// The records cannot be read.
    #[error("it cannot be told whose token this is; see `regie doctor`")]
    Records(#[source] RecordError),
}

/// Makes a token the token of a lease.
///
/// # Errors
/// When it cannot be written.
pub fn bind(records: &dyn Records, token: &Token, lease: LeaseId) -> Result<(), Error> {
    let put = records.put(KIND, &token.key(), 0, lease.to_string().as_bytes());
    put.map(|_| ()).map_err(|source| Error::Records { lease, source })
}

/// The lease of whoever shows a token, as it is at this moment: it may be revoked or over.
///
/// # Errors
/// Why nobody is let in by it.
pub fn bearer(records: &dyn Records, token: &Token) -> Result<Lease, Refused> {
    let record = records.get(KIND, &token.key()).map_err(Refused::Records)?.ok_or(Refused::Unknown)?;
    let id = std::str::from_utf8(&record.body).ok().and_then(|text| text.parse().ok());
    super::read(records, id.ok_or(Refused::Unknown)?).map_err(Refused::Lease)
}
