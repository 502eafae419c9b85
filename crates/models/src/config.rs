//! Where a vendor is and with which key: read as the vendor's own SDKs read it.

use std::time::Duration;

use reqwest::Url;

use crate::{Network, Secret, Wire, network};

/// How many seconds a call may stay without a byte, in the environment: for vendors that are slower than
/// the default allows, and for tests.
pub const IDLE_ENV: &str = "REGIE_MODEL_IDLE_SECONDS";

/// A bearer token for Anthropic, in the environment.
pub const TOKEN_ENV: &str = "ANTHROPIC_AUTH_TOKEN";

/// How to reach a vendor.
#[derive(Clone, Debug)]
pub struct Config {
    /// The protocol.
    pub wire: Wire,
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
    /// Proxies, and whose certificates are believed.
    pub network: Network,
}

/// What proves who pays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// An API key: `x-api-key` at Anthropic, a bearer token elsewhere.
    Key(Secret),
    /// A bearer token, sent as `Authorization`.
    Token(Secret),
    /// Nothing, as servers on one's own machine want it.
    Nobody,
}

/// Why a vendor cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No key in the environment.
    #[error("no key for {0}; set {names}", names = key_names(*.0))]
    NoKey(Wire),
    /// The key is another vendor's, by its looks.
    #[error(
        "{} holds a key that looks like one of {theirs}; set it to a key of {wire}, or choose a model of {theirs}",
        .wire.key_env()
    )]
    WrongVendor {
        /// Whose key is wanted.
        wire: Wire,
        /// Whose it seems to be.
        theirs: Wire,
    },
    /// The key has characters that no header can carry.
    #[error("the key for {0} has characters that cannot be sent; copy it again, without line breaks")]
    BadKey(Wire),
    /// The base URL is no plain HTTP address.
    #[error(
        "the base URL for {wire} is not usable: {why}; set {} to something like {}",
        .wire.url_env(), .wire.default_url()
    )]
    BadUrl {
        /// Whose.
        wire: Wire,
        /// What is wrong with it; never the URL, which might hold a password.
        why: &'static str,
    },
    /// The idle timeout is no number of seconds.
    #[error(
        "{IDLE_ENV} is not a whole number of seconds from 1 on; set it to something like 180, or unset it"
    )]
    BadIdle,
    /// The network cannot be used as the environment describes it.
    #[error(transparent)]
    Network(#[from] network::Error),
    /// The HTTP client could not be built.
    #[error(
        "the HTTP client could not be built; check the system's certificates, or name a file of them in {}",
        network::CERT_FILE_ENV
    )]
    Client(#[source] reqwest::Error),
}

impl Config {
    /// Reads the wire's key and base URL ([`Wire::key_env`], [`Wire::url_env`], [`TOKEN_ENV`]), the
    /// [`network::VARIABLES`] and [`IDLE_ENV`] through a lookup, so that the caller decides what the environment is. An empty
    /// variable counts as unset; Anthropic's key wins over its token; a local server needs none.
    ///
    /// # Errors
    /// When there is no key, when it is another vendor's, or when the idle timeout makes no sense.
    pub fn from_lookup(wire: Wire, lookup: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let get =
            |name: &str| lookup(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let token = || get(TOKEN_ENV).filter(|_| wire == Wire::Messages);
        let base_url = get(wire.url_env());
        let credential = match (get(wire.key_env()), token()) {
            (Some(key), _) => {
                // A gateway may want any key; the vendor itself wants its own.
                let theirs = base_url.is_none().then(|| owner(&key)).flatten();
                match theirs.filter(|theirs| *theirs != wire && wire != Wire::Chat) {
                    Some(theirs) => return Err(Error::WrongVendor { wire, theirs }),
                    None => Credential::Key(Secret::new(key)),
                }
            }
            (None, Some(token)) => Credential::Token(Secret::new(token)),
            (None, None) if wire == Wire::Chat => Credential::Nobody,
            (None, None) => return Err(Error::NoKey(wire)),
        };
        let base_url = base_url.unwrap_or_else(|| wire.default_url().to_owned());
        let mut config = Self::new(wire, credential, base_url);
        config.network = Network::from_lookup(get);
        if let Some(idle) = get(IDLE_ENV) {
            let seconds = idle.parse().ok().filter(|seconds| *seconds > 0);
            config.idle_timeout = Duration::from_secs(seconds.ok_or(Error::BadIdle)?);
        }
        Ok(config)
    }

    /// The defaults for a key and an address.
    #[must_use]
    pub fn new(wire: Wire, credential: Credential, base_url: impl Into<String>) -> Self {
        Self {
            wire,
            credential,
            base_url: base_url.into(),
            connect_timeout: Duration::from_secs(20),
            idle_timeout: match wire {
                // A long prompt takes a small machine minutes, and nothing is sent until it is read.
                Wire::Chat => Duration::from_secs(600),
                Wire::Messages | Wire::Responses => Duration::from_secs(180),
            },
            max_attempts: 8,
            backoff: Duration::from_millis(500),
            max_backoff: Duration::from_secs(30),
            max_retry_after: Duration::from_secs(120),
            max_answer_bytes: 64 << 20,
            network: Network::default(),
        }
    }

    /// The address that requests are posted to.
    pub(crate) fn endpoint(&self) -> Result<Url, Error> {
        let bad = |why| Error::BadUrl { wire: self.wire, why };
        let base = self.base_url.trim().trim_end_matches('/');
        let url = Url::parse(base).map_err(|_| bad("it is no URL"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad("it is neither http nor https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("it holds a user name or password"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(bad("it has a query or fragment"));
        }
        // Gateways name their version in many places: `/v1`, `/api/v3`, `/v1beta/openai`.
        let is_version = |part: &str| part.strip_prefix('v').is_some_and(|rest| rest.starts_with(digit));
        let version = match url.path().split('/').any(is_version) {
            true => "",
            false => "/v1",
        };
        let base = url.as_str().trim_end_matches('/');
        Url::parse(&format!("{base}{version}/{}", self.wire.path())).map_err(|_| bad("it is no URL"))
    }
}

impl Credential {
    pub(crate) fn secret(&self) -> Option<&Secret> {
        match self {
            Self::Key(secret) | Self::Token(secret) => Some(secret),
            Self::Nobody => None,
        }
    }
}

fn digit(c: char) -> bool {
    c.is_ascii_digit()
}

/// Whose key it is, where its beginning says so.
fn owner(key: &str) -> Option<Wire> {
    if key.starts_with("sk-ant-") {
        return Some(Wire::Messages);
    }
    let openai = ["sk-proj-", "sk-svcacct-", "sk-admin-"];
    openai.iter().any(|head| key.starts_with(head)).then_some(Wire::Responses)
}

pub(crate) fn key_names(wire: Wire) -> String {
    match wire {
        Wire::Messages => format!("{} (or {TOKEN_ENV})", wire.key_env()),
        Wire::Responses | Wire::Chat => wire.key_env().to_owned(),
    }
}
