//! Events: the envelope of a fact, its canonical bytes, and the hash chain of a run.
//!
//! The header is deterministically encoded CBOR (RFC 8949, section 4.2.1: shortest integers, definite
//! lengths, ascending integer keys), so the same event always has the same bytes. The chain is
//!
//! ```text
//! content = SHA-256(salt ‖ payload)
//! hash    = SHA-256("regie/event/1\0" ‖ previous hash ‖ content ‖ header)
//! ```
//!
//! Salt and payload lie apart from the header: destroying both forgets the content, and the chain
//! still verifies through `content`.

use minicbor::{Decode, Encode};

use crate::digest::Digest;
use crate::effect::Source;
use crate::fact::Fact;
use crate::id::RunId;
use crate::time::Timestamp;

/// The version of the event format.
pub const VERSION: u8 = 1;
/// Separates event hashes from all other uses of SHA-256.
const CHAIN_TAG: &[u8] = b"regie/event/1\0";
/// The retention domain of events that no rule puts elsewhere.
pub const DEFAULT_DOMAIN: &str = "default";
/// The key of payloads that are stored in the clear.
pub const NO_KEY: &str = "none";

/// Sixteen random bytes that keep a short payload from being guessed by its hash.
pub type Salt = [u8; 16];

/// The content of an event: bytes that the kernel does not look into.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Payload(pub Vec<u8>);

impl Payload {
    /// No content.
    pub const EMPTY: Self = Self(Vec::new());
}

/// An event before it has its place in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When it was decided, by the clock of the daemon.
    pub at: Timestamp,
    /// Where it comes from.
    pub source: Source,
    /// What it states.
    pub fact: Fact,
    /// Its content.
    pub payload: Payload,
}

/// The hashed and never forgotten part of an event.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Header {
    /// [`VERSION`].
    #[n(0)]
    pub version: u8,
    /// The run.
    #[n(1)]
    pub run: RunId,
    /// The event's number in its run, from 1.
    #[n(2)]
    pub seq: u64,
    /// When it was decided.
    #[n(3)]
    pub at: Timestamp,
    /// Where it comes from.
    #[n(4)]
    pub source: Source,
    /// The retention domain that the payload lives in.
    #[n(5)]
    pub domain: String,
    /// The key that the payload is encrypted under, or [`NO_KEY`].
    #[n(6)]
    pub key_id: String,
    /// What it states.
    #[n(7)]
    pub fact: Fact,
}

/// An event with its place in the chain, as a journal stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The decoded header.
    pub header: Header,
    /// Its canonical bytes.
    pub bytes: Vec<u8>,
    /// Keeps the payload from being guessed.
    pub salt: Salt,
    /// The content.
    pub payload: Payload,
    /// `SHA-256(salt ‖ payload)`.
    pub content: Digest,
    /// The link of the chain.
    pub hash: Digest,
}

/// An event as it is read back, with its position in the stream of the installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Assigned inside the group commit, ascending over all runs: the cursor of the live stream.
    pub position: u64,
    /// The header.
    pub header: Header,
    /// The content; `None` when it was forgotten.
    pub payload: Option<Payload>,
    /// The link of the chain.
    pub hash: Digest,
}

/// The end of a run's chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The number of events.
    pub seq: u64,
    /// The hash of the last one, [`Digest::ZERO`] for none.
    pub hash: Digest,
}

impl Head {
    /// A run without events.
    pub const EMPTY: Self = Self { seq: 0, hash: Digest::ZERO };
}

/// Why bytes are not a header.
#[derive(Debug, thiserror::Error)]
#[error("an event header cannot be read: the journal is damaged or was written by a newer Regie")]
pub struct DecodeError(#[source] minicbor::decode::Error);

impl Header {
    /// The canonical bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        match minicbor::to_vec(self) {
            Ok(bytes) => bytes,
            // Writing to a vector is infallible.
            Err(error) => match error.into_write() {
                Some(never) => match never {},
                None => unreachable!("a header has no custom encoding that fails"),
            },
        }
    }

    /// Reads canonical bytes back.
    ///
    /// # Errors
    /// When the bytes are not a header of a known version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut decoder = minicbor::Decoder::new(bytes);
        let header: Self = decoder.decode().map_err(DecodeError)?;
        if header.version != VERSION {
            return Err(DecodeError(minicbor::decode::Error::message("the version is not known")));
        }
        if decoder.position() != bytes.len() {
            return Err(DecodeError(minicbor::decode::Error::message("bytes follow the header")));
        }
        Ok(header)
    }
}

/// The digest of a salted payload.
pub fn content_digest(salt: &Salt, payload: &Payload) -> Digest {
    Digest::of_parts(&[salt, &payload.0])
}

/// The link that follows `previous`.
pub fn link(previous: Digest, content: Digest, header: &[u8]) -> Digest {
    Digest::of_parts(&[CHAIN_TAG, previous.as_bytes(), content.as_bytes(), header])
}

/// Gives events their places after `head`, one after another. `salt` is called once an event.
pub fn seal(run: RunId, head: Head, events: Vec<Event>, mut salt: impl FnMut() -> Salt) -> Vec<Sealed> {
    let mut previous = head;
    events
        .into_iter()
        .map(|event| {
            let header = Header {
                version: VERSION,
                run,
                seq: previous.seq.saturating_add(1),
                at: event.at,
                source: event.source,
                domain: DEFAULT_DOMAIN.into(),
                key_id: NO_KEY.into(),
                fact: event.fact,
            };
            let (bytes, salt) = (header.to_bytes(), salt());
            let content = content_digest(&salt, &event.payload);
            let hash = link(previous.hash, content, &bytes);
            previous = Head { seq: header.seq, hash };
            Sealed { header, bytes, salt, payload: event.payload, content, hash }
        })
        .collect()
}
