//! `regie models count`: the tokens of a text.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use models::config::Error as ConfigError;
use models::count::{self, How};
use models::{Adapter, Block, Config as Connection, Message, Provider, Request, Wire, catalogue};
use serde_json::json;

use super::Context;
use crate::config::{self, Flags, Key};
use crate::failure::{Exit, Failure};
use crate::screen::{self, text};

/// The longest text that is counted, in bytes.
const MOST: usize = 8 << 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Count {
    /// A file of text; `-` reads it from stdin
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
    /// For this model [default: that of the configuration]
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
}

pub(super) async fn run(context: &Context, args: Count) -> Result<Exit, Failure> {
    let words = read(&args.file)?;
    let here = std::env::current_dir().unwrap_or_default();
    let flags = Flags { model: args.model, ..Flags::default() };
    let model = config::load(&context.home, &here, flags)?.text(Key::Model);
    let model = model.unwrap_or_else(|| catalogue::DEFAULT_MODEL.to_owned());
    let wire = Wire::of(&model);
    let request = Request {
        model: model.clone(),
        max_tokens: 1,
        system: String::new(),
        tools: Vec::new(),
        messages: vec![Message::user(vec![Block::text(&words)])],
        effort: None,
        extras: models::Extras::default(),
    };
    let body = wire.compose(&request).map_err(|error| Failure::new(error.to_string()))?;
    let (provider, why) = match provider(context, wire) {
        Ok(provider) => (Some(provider), None),
        Err(ConfigError::NoKey(_)) => (None, Some(format!("set {} to let the vendor count", wire.key_env()))),
        Err(error) => return Err(Failure::new(error.to_string())),
    };
    let counted = match provider {
        Some(provider) => provider.count(&body).await,
        None => count::offline(wire, &body).await,
    };
    if context.json {
        screen::put_json(&json!({ "model": model, "tokens": counted.tokens, "how": counted.how }))?;
        return Ok(Exit::Done);
    }
    let tokens = text::of(counted.tokens, "token", "tokens");
    screen::put(&format!("{tokens} for {}, {}\n", text::line(&model), counted.how.words()))?;
    if counted.how != How::Vendor
        && let Some(why) = why
    {
        screen::hint(&why)?;
    }
    Ok(Exit::Done)
}

/// The provider of a wire, as this environment and the installation have it.
fn provider(context: &Context, wire: Wire) -> Result<Arc<dyn Provider>, ConfigError> {
    // A file that makes no sense was refused before.
    let local = config::local_url(&context.home).ok().flatten();
    let lookup = |name: &str| {
        let set = std::env::var(name).ok();
        set.or_else(|| (name == Wire::Chat.url_env()).then(|| local.clone()).flatten())
    };
    Connection::from_lookup(wire, lookup).and_then(Adapter::connect)
}

fn read(file: &Path) -> Result<String, Failure> {
    let is_stdin = file == Path::new("-");
    let name = if is_stdin { "stdin".to_owned() } else { text::line(&file.display().to_string()) };
    let unread = |error: io::Error| {
        Failure::new(format!("{name} cannot be read: {error}")).hint("name a file of text, or `-` for stdin")
    };
    let mut bytes = Vec::new();
    let limit = u64::try_from(MOST).unwrap_or(u64::MAX).saturating_add(1);
    let read = match is_stdin {
        true => io::stdin().lock().take(limit).read_to_end(&mut bytes),
        false => File::open(file).and_then(|opened| opened.take(limit).read_to_end(&mut bytes)),
    };
    read.map_err(unread)?;
    if bytes.len() > MOST {
        return Err(Failure::usage(format!("{name} is longer than 8 MiB")).hint("count it in parts"));
    }
    String::from_utf8(bytes)
        .map_err(|_| Failure::usage(format!("{name} is not UTF-8")).hint("save it as UTF-8"))
}
