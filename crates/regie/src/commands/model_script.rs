//! `regie model-script`: a scripted model on loopback, for trying things out without a vendor.

use domain::causes::in_full;
use std::fs;
use std::path::Path;

use testkit::script::{self, Options};

use crate::args;
use crate::failure::{Exit, Failure};
use crate::screen;

pub(super) fn run(args: &args::ModelScript) -> Result<Exit, Failure> {
    let text = fs::read_to_string(&args.file).map_err(|error| {
        Failure::new(format!("the scenario {} cannot be read: {error}", args.file.display()))
            .hint("name a TOML file with a scenario")
    })?;
    let scenarios = script::parse(&text)
        .map_err(|error| Failure::new(format!("{}: {}", args.file.display(), in_full(&error))))?;
    let options = Options {
        port: args.port,
        ledger: args.ledger.clone(),
        record: args.record.clone(),
        ..Options::default()
    };
    let mut ready = Ok(());
    let served = script::serve_forever(scenarios, options, |server| {
        ready = announce(server.base_url(), args.port_file.as_deref());
    });
    ready?;
    served.map_err(|error| Failure::new(in_full(&error)))?;
    Ok(Exit::Done)
}

/// Says where it listens. The file appears whole or not at all.
fn announce(base_url: &str, port_file: Option<&Path>) -> Result<(), Failure> {
    if let Some(path) = port_file {
        let port = base_url.rsplit(':').next().unwrap_or_default();
        let fresh = path.with_extension("new");
        fs::write(&fresh, format!("{port}\n")).and_then(|()| fs::rename(&fresh, path)).map_err(|error| {
            Failure::new(format!("the port file {} cannot be written: {error}", path.display()))
        })?;
    }
    screen::put(&format!("{base_url}\n"))?;
    screen::hint(&format!(
        "a scripted model, nothing is spent: export ANTHROPIC_BASE_URL={base_url} ANTHROPIC_API_KEY=scripted"
    ))?;
    screen::hint(
        "or the same on another wire: OPENAI_BASE_URL with --model openai/scripted, REGIE_LOCAL_BASE_URL with \
         --model local/scripted",
    )?;
    Ok(())
}
