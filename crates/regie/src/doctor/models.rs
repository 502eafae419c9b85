//! Whether a model can be asked: keys, addresses, the owner's own server, and how old the catalogue is. No
//! vendor is called.

use std::time::Duration;

use control::catalogue::{Catalogue, DAY};
use models::config::{Config, Error, TOKEN_ENV};
use models::{Adapter, Provider as _, Wire};

use super::{Check, Status};
use crate::commands::vendor;
use crate::config::{self, Key, Origin};
use crate::daemon;
use crate::home::Home;
use crate::screen::{clock, text};

/// How long the owner's own server may take to say which models it has.
const PATIENCE: Duration = Duration::from_secs(3);

pub(super) async fn all(home: &Home) -> Vec<Check> {
    let mut all = vec![key()];
    all.extend([Wire::Messages, Wire::Responses].into_iter().filter_map(of_vendor));
    all.push(local(home).await);
    all.push(catalogue(home));
    all
}

fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// Whether there is a key; never which.
fn key() -> Check {
    let id = "model.key";
    let names = [Wire::Messages.key_env(), TOKEN_ENV, Wire::Responses.key_env()];
    let found: Vec<&str> = names.into_iter().filter(|name| set(name).is_some()).collect();
    match found.as_slice() {
        [] => Check::new(id, Status::Warn, "neither ANTHROPIC_API_KEY nor OPENAI_API_KEY is set").mend(
            "export one of them, use a model server of your own with --model local/NAME, or try `regie model-script`",
        ),
        [one] => Check::new(id, Status::Ok, format!("{one} is set")),
        more => Check::new(id, Status::Ok, format!("{} are set", more.join(" and "))),
    }
}

/// What a vendor is asked with, where there is a key for it or an address.
fn of_vendor(wire: Wire) -> Option<Check> {
    let id = match wire {
        Wire::Messages => "model.anthropic",
        Wire::Responses | Wire::Chat => "model.openai",
    };
    let url = set(wire.url_env());
    let found = match Config::from_lookup(wire, set).and_then(Adapter::new) {
        // It may hold a password; where it points to is between its owner and its shell.
        Ok(_) if url.is_some() => {
            Check::new(id, Status::Info, format!("{} is set, and its key", wire.url_env()))
        }
        Ok(_) => Check::new(id, Status::Ok, "its key is set, and its own address is asked"),
        Err(Error::NoKey(_)) => {
            url?;
            Check::new(id, Status::Warn, format!("{} is set, and no key for it", wire.url_env()))
                .mend(format!("export {}", wire.key_env()))
        }
        Err(error) => {
            let said = error.to_string();
            let (what, mend) = said.rsplit_once("; ").unwrap_or((&said, "see docs/models.md"));
            Check::new(id, Status::Fail, what).mend(mend)
        }
    };
    Some(found)
}

/// The owner's own server: asked where one is named, looked for where none is.
async fn local(home: &Home) -> Check {
    let id = "model.local";
    let is_named = set(Wire::Chat.url_env()).is_some()
        || config::of_installation(home)
            .is_ok_and(|config| config.setting(Key::LocalUrl).origin != Origin::BuiltIn);
    let config = match daemon::connection(home, "local/any", &vendor()) {
        Ok(config) => config,
        Err(error) => {
            let check = Check::new(id, Status::Fail, error.detail.clone());
            return match error.mend_apart() {
                control::Error { detail, hint: Some(hint), .. } => {
                    Check::new(id, Status::Fail, detail).mend(hint)
                }
                _ => check,
            };
        }
    };
    let provider = match Adapter::new(config) {
        Ok(provider) => provider,
        Err(error) => {
            let said = error.to_string();
            let (what, mend) = said.rsplit_once("; ").unwrap_or((&said, "see docs/models.md"));
            return Check::new(id, Status::Fail, what).mend(mend);
        }
    };
    match tokio::time::timeout(PATIENCE, provider.list()).await {
        Ok(Ok(listing)) => {
            let count = u64::try_from(listing.models.len()).unwrap_or(u64::MAX);
            let said = format!("{} lists {}", provider.endpoint(), text::of(count, "model", "models"));
            Check::new(id, Status::Ok, said)
        }
        _ if !is_named => Check::new(id, Status::Info, "none is named, and none answers where Ollama does"),
        Ok(Err(error)) => {
            let said = error.to_string();
            let (what, _) = said.rsplit_once("; ").unwrap_or((&said, ""));
            Check::new(id, Status::Warn, what)
                .mend("start the server, or mend REGIE_LOCAL_BASE_URL or [local] base_url")
        }
        Err(_) => Check::new(id, Status::Warn, format!("{} does not answer", provider.endpoint()))
            .mend("start the server, or mend REGIE_LOCAL_BASE_URL or [local] base_url"),
    }
}

fn catalogue(home: &Home) -> Check {
    let id = "model.catalogue";
    let all = Catalogue::new(home.root()).all();
    let of_vendors = all.values().filter(|kept| kept.wire != "local");
    match of_vendors.map(|kept| kept.at).min() {
        None if all.is_empty() => Check::new(id, Status::Info, "no list of models was read yet"),
        None => Check::new(id, Status::Ok, "your own server is asked anew each time"),
        Some(oldest) if clock::now().saturating_sub(oldest) > DAY => {
            Check::new(id, Status::Info, format!("a list of models is of {} UTC", clock::moment(oldest)))
                .mend("the next mission reads it again, and so does `regie models --refresh`")
        }
        Some(oldest) => Check::new(id, Status::Ok, format!("read since {} UTC", clock::moment(oldest))),
    }
}
