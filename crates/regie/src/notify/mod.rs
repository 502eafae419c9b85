//! Telling the owner: where to, and how each way works. What is told is derived in `control::notify`.
//!
//! | module | what lives there |
//! |---|---|
//! | `webhook` | a signed POST of JSON |
//! | `desktop` | the desktop's own notifications |
//! | `status` | how each way fared last, for the doctor |

mod desktop;
pub(crate) mod status;
mod webhook;

use control::notify::Notification;

use crate::config::{self, Config, Key};

pub(crate) use desktop::missing as desktop_missing;

/// Where the owner is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Way {
    /// The desktop of the user that the daemon runs as.
    Desktop,
    /// An address, and the variable whose value signs what is sent there.
    Webhook { address: String, secret_env: Option<String> },
}

/// All that the owner's file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The ways.
    pub(crate) ways: Vec<Way>,
    /// The events.
    pub(crate) events: Vec<String>,
}

impl Wanted {
    /// As the configuration has it.
    pub(crate) fn of(config: &Config) -> Self {
        let secret_env = config.text(Key::NotifySecretEnv);
        let addresses = config.names(Key::NotifyWebhook).into_iter();
        let hooks = addresses.map(|address| Way::Webhook { address, secret_env: secret_env.clone() });
        let desktop = config.is_on(Key::NotifyDesktop).then_some(Way::Desktop);
        Self { ways: desktop.into_iter().chain(hooks).collect(), events: config.names(Key::NotifyEvents) }
    }
}

impl Way {
    /// Names it in records; from it nobody learns the address.
    pub(crate) fn key(&self) -> String {
        match self {
            Self::Desktop => "desktop".into(),
            Self::Webhook { address, .. } => domain::Digest::of(address.as_bytes()).to_string(),
        }
    }

    /// For people and logs.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Desktop => "desktop".into(),
            Self::Webhook { address, .. } => config::address_shown(address),
        }
    }

    /// Tells, once.
    ///
    /// # Errors
    /// Why it was not taken, without a secret.
    pub(crate) async fn tell(&self, notification: &Notification) -> Result<(), String> {
        match self {
            Self::Desktop => desktop::tell(notification).await,
            Self::Webhook { address, secret_env } => {
                webhook::post(address, secret_env.as_deref(), notification).await
            }
        }
    }
}
