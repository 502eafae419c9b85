//! The live view of a run: its events and words as they come, its gates, and Ctrl-C.

mod ask;
mod ending;
mod held;
mod prose;
mod questions;
mod view;

pub(crate) use ending::{exit as exit_of, result};
pub(crate) use held::Held;
pub(crate) use view::{Depth, View};

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use control::api;
use models::routing::Reach;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::ask::Keyboard;
use crate::client::{Client, Item};
use crate::failure::{Exit, Failure};
use crate::screen::{self, clock, style, text};

/// How often the line that says what is going on is drawn.
const FRAME: Duration = Duration::from_millis(100);
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// How to follow.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// Print JSON, one line for each thing that happens, and ask nothing.
    pub(crate) json: bool,
    /// What the daemon is handed when it has lost it to a restart.
    pub(crate) vendor: api::Vendor,
    /// Where the run stood before, when it is not followed from its beginning.
    pub(crate) so_far: Option<api::Run>,
}

/// Follows a run from `after` on until it ends, rests, or waits for someone who is not here.
///
/// # Errors
/// When the daemon cannot be reached again, or the output cannot be written.
pub(crate) async fn follow(
    client: &Client,
    run: &str,
    after: u64,
    options: Options,
) -> Result<Exit, Failure> {
    let mut live = client.live(run, after)?;
    let mut follow = Follow::new(client.clone(), run.to_owned(), options)?;
    let mut frame = tokio::time::interval(FRAME);
    frame.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    if let Some(exit) = follow.asked_before().await? {
        return Ok(exit);
    }
    loop {
        let exit = tokio::select! {
            biased;
            _ = follow.interrupt.recv() => follow.interrupted().await?,
            _ = follow.terminate.recv() => Some(follow.detach()?),
            line = follow.keyboard.line(), if follow.asking.is_some() => follow.answered(line).await?,
            item = live.recv() => match item {
                Some(item) => follow.take(item?).await?,
                None => Some(follow.detach()?),
            },
            _ = frame.tick(), if follow.draws => { follow.draw()?; None }
        };
        if let Some(exit) = exit {
            follow.wipe()?;
            return Ok(exit);
        }
    }
}

/// What was asked and not answered yet.
enum Asking {
    Gate(Box<api::Gate>),
    Interrupt,
}

struct Follow {
    client: Client,
    run: String,
    options: Options,
    view: View,
    keyboard: Keyboard,
    asking: Option<Asking>,
    /// What happened while a question waits for its answer: shown after it.
    held: String,
    can_ask: bool,
    /// Whether there is a terminal to draw what is going on.
    draws: bool,
    frame: usize,
    drawn: bool,
    showed_changes: bool,
    /// Whether the owner stopped or cancelled it from here.
    ending: bool,
    /// Whether the daemon was started again and holds no key.
    keyless: bool,
    interrupt: Signal,
    terminate: Signal,
}

impl Follow {
    fn new(client: Client, run: String, options: Options) -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::new(format!("signals cannot be listened to: {error}")))
        };
        let mut view = View::new(Depth::Brief, screen::width());
        if let Some(before) = &options.so_far {
            view.go_on_from(before.turns, before.spent);
        }
        Ok(Self {
            client,
            run,
            view,
            keyboard: Keyboard::default(),
            asking: None,
            held: String::new(),
            can_ask: screen::can_ask() && !options.json,
            draws: io::stderr().is_terminal() && !options.json,
            options,
            frame: 0,
            drawn: false,
            showed_changes: false,
            ending: false,
            keyless: false,
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    async fn take(&mut self, item: Item) -> Result<Option<Exit>, Failure> {
        match item {
            Item::Event(event) => self.event(&event).await,
            Item::Delta(delta) => {
                if self.options.json {
                    screen::put_json(&tagged("delta", &delta))?;
                } else {
                    let shown = self.view.delta(&delta);
                    self.say(&shown)?;
                }
                Ok(None)
            }
            Item::Again { restarted } => {
                self.keyless |= restarted;
                if restarted && !self.options.json {
                    let hushed = self.view.hush();
                    self.say(&hushed)?;
                    self.say(&format!(
                        "  {} {}\n",
                        style::waiting("↻"),
                        "the daemon was gone and was started again"
                    ))?;
                }
                Ok(None)
            }
        }
    }

    async fn event(&mut self, event: &api::Event) -> Result<Option<Exit>, Failure> {
        let shown = self.view.event(event);
        if self.options.json {
            screen::put_json(&tagged("event", event))?;
        } else if event.line.as_ref().is_some_and(|line| line.kind == "gate" && line.mark == "waiting") {
            // Its card says it better.
            let hushed = self.view.hush();
            self.say(&hushed)?;
        } else {
            self.say(&shown)?;
        }
        match event.fact["fact"].as_str().unwrap_or_default() {
            "gate_opened" => self.gate(event.fact["gate"].as_str().unwrap_or_default()).await,
            "gate_answered" => {
                if matches!(&self.asking, Some(Asking::Gate(gate)) if event.fact["gate"] == gate.gate.as_str())
                {
                    self.asking = None;
                }
                Ok(None)
            }
            "parked" => self.parked().await,
            "ended" => self.ended().await.map(Some),
            _ => Ok(None),
        }
    }

    fn detach(&mut self) -> Result<Exit, Failure> {
        self.unask()?;
        self.wipe()?;
        let hushed = self.view.hush();
        self.say(&hushed)?;
        if !self.options.json {
            let id = text::short_id(&self.run);
            self.say(&format!("\n  {} the run goes on in the daemon\n", style::waiting("detached")))?;
            screen::hint(&format!("regie show {id}, regie log {id} --follow, regie stop {id}"))?;
        }
        Ok(Exit::Interrupted)
    }

    async fn parked(&mut self) -> Result<Option<Exit>, Failure> {
        let run = self.client.run_fetch(&self.run).await?;
        if run.status != "parked" {
            return Ok(None);
        }
        self.unask()?;
        let vendor = &self.options.vendor;
        let has_key =
            [&vendor.api_key, &vendor.auth_token, &vendor.openai_api_key].into_iter().any(Option::is_some);
        if run.code.as_deref() == Some("model.key_missing") && self.keyless && has_key {
            self.keyless = false;
            let vendor = self.options.vendor.clone();
            self.client.run_resume(&self.run, &api::Resume { vendor, record: None }).await?;
            return Ok(None);
        }
        if self.options.json {
            screen::put_json(&tagged("result", &run))?;
        } else {
            self.wipe()?;
            screen::put(&result(&run, &self.view))?;
            let reach = Reach::of_keys(|name| self.options.vendor.get(name));
            screen::hint(&ending::again(&run, &reach))?;
        }
        Ok(Some(if self.ending { Exit::Interrupted } else { Exit::Failed }))
    }

    async fn ended(&mut self) -> Result<Exit, Failure> {
        let run = self.client.run_fetch(&self.run).await?;
        self.unask()?;
        if self.options.json {
            screen::put_json(&tagged("result", &run))?;
        } else {
            self.changes().await?;
            self.wipe()?;
            screen::put(&result(&run, &self.view))?;
            let reach = Reach::of_keys(|name| self.options.vendor.get(name));
            self.say(&ending::next(&run, &reach))?;
        }
        Ok(if self.ending { Exit::Interrupted } else { exit_of(&run, self.view.was_refused()) })
    }

    /// Shows once what was changed.
    async fn changes(&mut self) -> Result<(), Failure> {
        if std::mem::replace(&mut self.showed_changes, true) {
            return Ok(());
        }
        match self.client.run_diff(&self.run).await {
            Ok(diff) => self.say(&ending::changes(&diff)),
            // A run that never got to changing anything has none.
            Err(_) => Ok(()),
        }
    }

    /// Takes a question back that nobody has to answer any more.
    fn unask(&mut self) -> Result<(), Failure> {
        if self.asking.take().is_some() {
            self.say("\n")?;
        }
        self.show_held()
    }

    fn show_held(&mut self) -> Result<(), Failure> {
        let held = std::mem::take(&mut self.held);
        self.say(&held)
    }

    fn say(&mut self, shown: &str) -> Result<(), Failure> {
        if shown.is_empty() {
            return Ok(());
        }
        if self.asking.is_some() {
            self.held.push_str(shown);
            return Ok(());
        }
        self.wipe()?;
        Ok(screen::say(shown)?)
    }

    /// Draws what is going on, on the last line.
    fn draw(&mut self) -> Result<(), Failure> {
        if self.asking.is_some() {
            return Ok(());
        }
        let Some(status) = self.view.status(clock::now()) else { return Ok(()) };
        self.frame = self.frame.wrapping_add(1);
        let spinner = FRAMES.get(self.frame % FRAMES.len()).copied().unwrap_or_default();
        let status = text::short(&status, screen::width().saturating_sub(5));
        io::stderr().write_all(b"\r\x1b[2K")?;
        screen::say(&format!("  {}", style::dim(&format!("{spinner} {status}"))))?;
        self.drawn = true;
        Ok(())
    }

    fn wipe(&mut self) -> Result<(), Failure> {
        if std::mem::replace(&mut self.drawn, false) {
            io::stderr().write_all(b"\r\x1b[2K")?;
        }
        Ok(())
    }
}

/// A JSON line that says what it is.
pub(crate) fn tagged(what: &str, value: &impl serde::Serialize) -> serde_json::Value {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::Object(fields)) => {
            let mut all = serde_json::Map::from_iter([("type".to_owned(), json!(what))]);
            all.extend(fields);
            all.into()
        }
        other => json!({ "type": what, "value": other.unwrap_or_default() }),
    }
}
