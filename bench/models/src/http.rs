//! What a whole stream costs through the adapter, beside reading the same bytes with the same HTTP client
//! and throwing them away.

use anyhow::{Context, Result};
use bytes::Bytes;
use models::{Adapter, Config, Credential, Provider, Secret, Wire};
use tokio::runtime::Runtime;

use crate::clock::{Took, beside, took};
use crate::serve::Server;
use crate::table::Table;

const ROUNDS: usize = 25;

pub(crate) fn measure(table: &mut Table) -> Result<()> {
    let server = Server::start()?;
    // One thread: its processor time is all that a read takes.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for wire in Wire::ALL {
        let [adapter, plain] = both(&runtime, wire, &format!("{}/paced", server.url))?;
        let what = format!("{wire:?}: a whole stream, event by event, through the adapter / plain reqwest");
        table.row(&format!("{what}: processor time"), adapter.cpu / plain.cpu, 1.2);
        table.row(&format!("{what}: time"), adapter.wall / plain.wall, 1.2);
        let [adapter, plain] = both(&runtime, wire, &format!("{}/flood", server.url))?;
        table.note("  the same without a pause between events: processor time", adapter.cpu / plain.cpu);
        table.note("  the same without a pause between events: time", adapter.wall / plain.wall);
    }
    Ok(())
}

fn both(runtime: &Runtime, wire: Wire, base: &str) -> Result<[Took; 2]> {
    let body = Bytes::from_static(br#"{"model":"scripted"}"#);
    let adapter = Adapter::new(Config::new(wire, Credential::Key(Secret::new("k")), base))?;
    let plain = reqwest::Client::builder().no_proxy().build()?;
    // What the median is of must be whole answers.
    runtime
        .block_on(adapter.call(body.clone(), &mut |_| {}))
        .context("the adapter cannot read the stream")?;
    let read = |body: Bytes| async {
        let mut response = plain.post(adapter.endpoint()).body(body).send().await?;
        let mut bytes = 0;
        while let Some(chunk) = response.chunk().await? {
            bytes += chunk.len();
        }
        anyhow::Ok(bytes)
    };
    runtime.block_on(read(body.clone()))?;
    Ok(beside(
        ROUNDS,
        || took(|| runtime.block_on(adapter.call(body.clone(), &mut |_| {}))),
        || took(|| runtime.block_on(read(body.clone()))),
    ))
}
