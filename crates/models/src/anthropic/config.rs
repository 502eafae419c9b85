//! Where the vendor is and with which key: read as the vendor's own SDKs read it.

use std::time::Duration;

use reqwest::Url;

use crate::Secret;

/// How many seconds a call may stay without a byte, in the environment: for vendors that are slower than
/// the default allows, and for tests.
pub const IDLE_ENV: &str = "REGIE_MODEL_IDLE_SECONDS";

const DEFAULT_BASE_URL: &str = "https://api.anthropic.com";

/// How to reach the vendor.
#[derive(Clone, Debug)]
pub struct Config {
    /// The key or token.
    pub credential: Credential,
    /// Scheme, host and perhaps a path prefix; with or without a trailing `/` or `/v1`.
    pub base_url: String,
    /// How long to wait for a connection.
    pub connect_timeout: Duration,
    /// How long a call may stay without a byte before it is given up.
    pub idle_timeout: Duration,
    /// How many attempts a call has, the first included; at least 1.
    pub max_attempts: u32,
    /// The wait before the second attempt; it doubles from there.
    pub backoff: Duration,
    /// The longest wait that doubling reaches.
    pub max_backoff: Duration,
    /// The longest `Retry-After` that is waited for inside a call; a longer one ends the call
    /// with a typed error.
    pub max_retry_after: Duration,
    /// The most bytes that one answer may have on the wire.
    pub max_answer_bytes: usize,
}

/// What proves who pays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// An API key, sent as `x-api-key`.
    Key(Secret),
    /// A bearer token, sent as `Authorization`.
    Token(Secret),
}

/// Why the vendor cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No key in the environment.
    #[error("no key for Anthropic; set ANTHROPIC_API_KEY (or ANTHROPIC_AUTH_TOKEN)")]
    NoKey,
    /// The key has characters that no header can carry.
    #[error("the key for Anthropic has characters that cannot be sent; copy it again, without line breaks")]
    BadKey,
    /// The base URL is no plain HTTP address.
    #[error(
        "the base URL for Anthropic is not usable: {why}; set ANTHROPIC_BASE_URL to something like https://api.anthropic.com"
    )]
    BadUrl {
        /// What is wrong with it; never the URL, which might hold a password.
        why: &'static str,
    },
    /// The idle timeout is no number of seconds.
    #[error(
        "{IDLE_ENV} is not a whole number of seconds from 1 on; set it to something like 180, or unset it"
    )]
    BadIdle,
    /// The HTTP client could not be built.
    #[error("the HTTP client could not be built; check the system's certificates")]
    Client(#[source] reqwest::Error),
}

impl Config {
    /// Reads `ANTHROPIC_API_KEY`, `ANTHROPIC_AUTH_TOKEN`, `ANTHROPIC_BASE_URL` and [`IDLE_ENV`]
    /// through a lookup, so that the caller decides what the environment is. An empty variable
    /// counts as unset; the key wins over the token.
    ///
    /// # Errors
    /// When there is neither key nor token, or the idle timeout makes no sense.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let get =
            |name: &str| lookup(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let credential = match (get("ANTHROPIC_API_KEY"), get("ANTHROPIC_AUTH_TOKEN")) {
            (Some(key), _) => Credential::Key(Secret::new(key)),
            (None, Some(token)) => Credential::Token(Secret::new(token)),
            (None, None) => return Err(Error::NoKey),
        };
        let base_url = get("ANTHROPIC_BASE_URL").unwrap_or_else(|| DEFAULT_BASE_URL.to_owned());
        let mut config = Self::new(credential, base_url);
        if let Some(idle) = get(IDLE_ENV) {
            let seconds = idle.parse().ok().filter(|seconds| *seconds > 0);
            config.idle_timeout = Duration::from_secs(seconds.ok_or(Error::BadIdle)?);
        }
        Ok(config)
    }

    /// The defaults for a key and an address.
    #[must_use]
    pub fn new(credential: Credential, base_url: impl Into<String>) -> Self {
        Self {
            credential,
            base_url: base_url.into(),
            connect_timeout: Duration::from_secs(20),
            idle_timeout: Duration::from_secs(180),
            max_attempts: 8,
            backoff: Duration::from_millis(500),
            max_backoff: Duration::from_secs(30),
            max_retry_after: Duration::from_secs(120),
            max_answer_bytes: 64 << 20,
        }
    }

    /// The address of the messages endpoint.
    pub(super) fn messages_url(&self) -> Result<Url, Error> {
        let base = self.base_url.trim().trim_end_matches('/');
        let base = base.strip_suffix("/v1").unwrap_or(base).trim_end_matches('/');
        let url = Url::parse(base).map_err(|_| Error::BadUrl { why: "it is no URL" })?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Error::BadUrl { why: "it is neither http nor https" });
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Error::BadUrl { why: "it holds a user name or password" });
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(Error::BadUrl { why: "it has a query or fragment" });
        }
        Url::parse(&format!("{}/v1/messages", url.as_str().trim_end_matches('/')))
            .map_err(|_| Error::BadUrl { why: "it is no URL" })
    }
}

impl Credential {
    pub(super) fn secret(&self) -> &Secret {
        match self {
            Self::Key(secret) | Self::Token(secret) => secret,
        }
    }
}
