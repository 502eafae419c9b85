//! Whether a model works, tried out: it answers, calls a tool, takes the result back, and says what that took.
//! It is the client that calls, outside of all caps, after what it may cost was said and agreed to.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use control::{api, error::Kind};
use models::catalogue::{self, Known, Listing, Origin};
use models::count::How;
use models::{
    Adapter, Block, Count, Delta, Message, Provider, RawJson, Request, Response, ToolSpec, Usage, Wire, call,
};
use serde::Serialize;

use crate::daemon;
use crate::home::Home;
use crate::screen::text;

/// How far a check goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// One message, one token of answer.
    Key,
    /// All that a mission needs of a model.
    Whole,
}

/// How long the vendor may be silent.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most tokens of an answer of a whole check: enough to think, and to call a tool.
const MOST_TOKENS: u32 = 2_048;
/// What an answer may add to the second request, in bytes.
const ANSWER_BYTES: usize = 24 << 10;

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mark {
    /// As a mission needs it.
    Ok,
    /// Not known, or not as good as it could be.
    Info,
    /// Missions cannot be run on it like this.
    Failed,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Line {
    /// A stable name, as `tool`.
    pub(crate) id: &'static str,
    pub(crate) mark: Mark,
    pub(crate) said: String,
    pub(crate) mend: Option<String>,
}

/// All findings of one model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Report {
    pub(crate) model: String,
    pub(crate) endpoint: Option<String>,
    pub(crate) ok: bool,
    pub(crate) lines: Vec<Line>,
    /// What it cost, where the price is known.
    pub(crate) nanodollars: Option<u64>,
}

/// A check that is ready and not made.
pub(crate) struct Check {
    provider: Arc<dyn Provider>,
    request: Request,
    body: Bytes,
    depth: Depth,
    /// The most that it may cost, in nanodollars; `None` when the price is unknown.
    pub(crate) most: Option<u64>,
}

impl Line {
    fn new(id: &'static str, mark: Mark, said: impl Into<String>) -> Self {
        Self { id, mark, said: said.into(), mend: None }
    }

    fn ok(id: &'static str, said: impl Into<String>) -> Self {
        Self::new(id, Mark::Ok, said)
    }

    fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(mend.into());
        self
    }

    /// What went wrong in a call, as a finding of what it shows to be wrong.
    fn failed(error: &call::Error) -> Self {
        let id = match error {
            call::Error::Connect { .. }
            | call::Error::Idle { .. }
            | call::Error::Tls { .. }
            | call::Error::Proxy { .. }
            | call::Error::Page(_)
            | call::Error::Redirected { .. } => "reachable",
            call::Error::NoTools { .. } => "tool",
            call::Error::Unauthorized(_) => "key",
            call::Error::NotFound { .. } => "listed",
            _ => "stream",
        };
        let said = error.to_string();
        let (what, mend) = said.rsplit_once("; ").unwrap_or((&said, "see docs/models.md"));
        let mut what = what.to_owned();
        let mut cause = error.source();
        while let Some(source) = cause {
            what.push_str(&format!(": {source}"));
            cause = source.source();
        }
        Self::new(id, Mark::Failed, what).mend(mend)
    }
}

impl Report {
    /// One that ended before it began: nothing could be sent.
    pub(crate) fn refused(model: &str, error: control::Error) -> Self {
        let line = Line { mend: error.hint, ..Line::new("key", Mark::Failed, error.detail) };
        Self { model: model.to_owned(), endpoint: None, ok: false, lines: vec![line], nanodollars: Some(0) }
    }

    /// The first thing that is in the way of a mission.
    pub(crate) fn failure(&self) -> Option<String> {
        let line = self.lines.iter().find(|line| line.mark == Mark::Failed)?;
        Some(match &line.mend {
            Some(mend) => format!("{}; {mend}", line.said),
            None => line.said.clone(),
        })
    }
}

impl Check {
    /// Makes the calls ready.
    ///
    /// # Errors
    /// When there is no key, or the address or the name makes no sense.
    pub(crate) fn prepare(
        home: &Home,
        model: &str,
        vendor: &api::Vendor,
        depth: Depth,
    ) -> Result<Self, control::Error> {
        let refused = |why: String| control::Error::new(Kind::Invalid, "model.config", why).mend_apart();
        let mut config = daemon::connection(home, model, vendor).map_err(control::Error::mend_apart)?;
        config.max_attempts = 1;
        if depth == Depth::Key || config.wire != Wire::Chat {
            // A server of one's own may have to load the model first.
            config.idle_timeout = config.idle_timeout.min(PATIENCE);
        }
        let provider = Adapter::connect(config).map_err(|error| refused(error.to_string()))?;
        let (max_tokens, words, tools) = match depth {
            Depth::Key => (1, "Say ok.", Vec::new()),
            Depth::Whole => {
                (MOST_TOKENS, "Call the tool `add` with a = 2 and b = 3, then say what it gave.", add())
            }
        };
        let request = Request {
            model: model.to_owned(),
            max_tokens,
            system: String::new(),
            tools,
            messages: vec![Message::user(vec![Block::text(words)])],
            effort: None,
            extras: models::Extras::default(),
        };
        let body = provider.compose(&request).map_err(|error| refused(error.to_string()))?;
        let price = catalogue::price(model);
        let bound = |bytes| catalogue::estimate(bytes, max_tokens, price.as_ref()).nanodollars;
        let most = match depth {
            Depth::Key => bound(body.len()),
            Depth::Whole => {
                bound(body.len()).zip(bound(body.len() + ANSWER_BYTES)).map(|(a, b)| a.saturating_add(b))
            }
        };
        Ok(Self { provider, request, body, depth, most })
    }

    /// What it is and what it costs, before it is made.
    pub(crate) fn announcement(&self) -> String {
        let cost =
            self.most.map_or("a price that is unknown".into(), |most| format!("at most {}", precise(most)));
        let model = text::line(&self.request.model);
        let at = text::line(self.provider.endpoint());
        match self.depth {
            Depth::Key => format!(
                "to check the key: one message to {model} at {at}, one token of answer, {cost}; outside of all caps"
            ),
            Depth::Whole => format!(
                "to check {model} at {at}: two messages, at most {MOST_TOKENS} tokens of answer each, {cost}; outside of \
                 all caps"
            ),
        }
    }

    /// Makes it.
    pub(crate) async fn make(self) -> Report {
        let mut lines = Vec::new();
        let listing = match self.depth {
            Depth::Key => None,
            Depth::Whole => match self.ask_for_list(&mut lines).await {
                Ok(listing) => listing,
                Err(line) => {
                    lines.push(line);
                    return self.report(lines, Usage::default(), false);
                }
            },
        };
        let (first, pieces) = match self.call(self.body.clone()).await {
            Ok(answered) => answered,
            Err(error) => {
                lines.push(Line::failed(&error));
                return self.report(lines, Usage::default(), false);
            }
        };
        let mut usage = first.usage.plus(first.lost);
        lines.push(answered(&first, pieces));
        if self.depth == Depth::Whole {
            usage = usage.plus(self.tool(&first, &mut lines).await);
            lines.push(said_usage(&first));
            lines.push(counted(self.provider.count(&self.body).await));
            lines.extend(self.known(listing).await);
        }
        self.report(lines, usage, true)
    }

    /// Whether the endpoint is there, lets the key in, and has the model.
    async fn ask_for_list(&self, lines: &mut Vec<Line>) -> Result<Option<Listing>, Line> {
        let model = &self.request.model;
        let listing = match self.provider.list().await {
            Ok(listing) => listing,
            Err(error) if matches!(Line::failed(&error).id, "reachable" | "key") => {
                if matches!(error, call::Error::Unauthorized(_)) {
                    lines.push(Line::ok("reachable", format!("{} answers", self.provider.endpoint())));
                }
                return Err(Line::failed(&error));
            }
            Err(error) => {
                lines.push(Line::new("listed", Mark::Info, format!("there is no list of models: {error}")));
                return Ok(None);
            }
        };
        lines.push(Line::ok("reachable", format!("{} answers", self.provider.endpoint())));
        if Wire::of(model) != Wire::Chat {
            lines.push(Line::ok("key", "accepted"));
        }
        let count = text::of(u64::try_from(listing.models.len()).unwrap_or(u64::MAX), "model", "models");
        if listing.find(model).is_some() {
            lines.push(Line::ok("listed", format!("one of {count}")));
        } else if listing.lacks(model) {
            let near = listing.nearest(model).join(", ");
            let line = Line::new("listed", Mark::Failed, format!("not among {count}"));
            return Err(line.mend(format!("choose another: the nearest are {near}")));
        } else {
            lines.push(Line::new("listed", Mark::Info, format!("not among {count}, which need not be all")));
        }
        Ok(Some(listing))
    }

    /// The call of the tool, and the answer to its result.
    async fn tool(&self, first: &Response, lines: &mut Vec<Line>) -> Usage {
        let results: Vec<Block> = first
            .calls()
            .map(|call| Block::tool_result(call.id, if call.input.is_ok() { Ok("5") } else { Err("no") }))
            .collect();
        let Some(call) = first.calls().next() else {
            let line = Line::new("tool", Mark::Failed, "it calls no tool that it is asked to call");
            lines.push(line.mend("choose a model, or a chat template of the server, that calls tools"));
            return Usage::default();
        };
        match call.input {
            Ok(input) if call.name == "add" => {
                lines.push(Line::ok("tool", format!("called with {}", input.as_str())))
            }
            Ok(_) => lines.push(Line::new(
                "tool",
                Mark::Failed,
                format!("it calls `{}`, which is not there", call.name),
            )),
            Err(error) => lines.push(Line::new("tool", Mark::Failed, error.to_string())),
        }
        let mut messages = self.request.messages.clone();
        messages.extend([Message::assistant(first), Message::user(results)]);
        let body = match self.provider.compose(&Request { messages, ..self.request.clone() }) {
            Ok(body) => body,
            Err(error) => {
                lines.push(Line::new("result", Mark::Failed, error.to_string()));
                return Usage::default();
            }
        };
        match self.call(body).await {
            Ok((second, _)) => {
                let echoed = match first.blocks.iter().any(Block::is_reasoning) {
                    true => "taken back, with the reasoning before it",
                    false => "taken back",
                };
                lines.push(Line::ok("result", echoed));
                second.usage.plus(second.lost)
            }
            Err(error) => {
                lines.push(Line { id: "result", ..Line::failed(&error) });
                Usage::default()
            }
        }
    }

    /// What is known of the model, now that it is loaded.
    async fn known(&self, listing: Option<Listing>) -> Vec<Line> {
        let mut known = catalogue::known(&self.request.model, listing.as_ref());
        if known.window.from == Origin::Default
            && let Ok(listing) = self.provider.list().await
        {
            known = catalogue::known(&self.request.model, Some(&listing));
        }
        vec![window(&known), price(&known)]
    }

    async fn call(&self, body: Bytes) -> Result<(Response, usize), call::Error> {
        let mut pieces = 0;
        let mut on_delta = |delta: Delta| {
            if !matches!(delta, Delta::Retrying { .. }) {
                pieces += 1;
            }
        };
        let response = self.provider.call(body, &mut on_delta).await?;
        Ok((response, pieces))
    }

    fn report(self, lines: Vec<Line>, usage: Usage, called: bool) -> Report {
        let price = catalogue::price(&self.request.model);
        Report {
            ok: lines.iter().all(|line| line.mark != Mark::Failed),
            endpoint: Some(self.provider.endpoint().to_owned()),
            nanodollars: if called { catalogue::cost(&usage, price.as_ref()) } else { Some(0) },
            model: self.request.model,
            lines,
        }
    }
}

fn answered(response: &Response, pieces: usize) -> Line {
    let as_whom = match response.model == response.asked {
        true => String::new(),
        false => format!(", as {}", response.model),
    };
    Line::ok("stream", format!("answered in {}{as_whom}", text::of(pieces as u64, "piece", "pieces")))
}

fn said_usage(response: &Response) -> Line {
    let usage = response.usage;
    if usage.total_input() == 0 || usage.output == 0 {
        return Line::new(
            "usage",
            Mark::Info,
            "it does not say how many tokens it took: caps hold by estimates",
        );
    }
    let (input, output) = (text::count(usage.total_input()), text::count(usage.output));
    Line::ok("usage", format!("{input} tokens in, {output} out"))
}

fn counted(count: Count) -> Line {
    let said = format!("{}, {}", text::of(count.tokens, "token", "tokens"), count.how.words());
    let mark = if count.how == How::Vendor { Mark::Ok } else { Mark::Info };
    Line::new("count", mark, said)
}

fn window(known: &Known) -> Line {
    let tokens = text::count(known.terms().window);
    let from = match known.window.from {
        Origin::Endpoint => "as the endpoint says",
        Origin::Table => "by the built-in table",
        Origin::Default => "supposed: nobody says",
    };
    let said = format!("{tokens} tokens, {from}");
    match known.warning() {
        Some(warning) => {
            let (_, mend) = warning.rsplit_once("; ").unwrap_or(("", &warning));
            let is_short = known.window.from == Origin::Endpoint;
            Line::new("window", if is_short { Mark::Failed } else { Mark::Info }, said).mend(mend)
        }
        None if known.window.from == Origin::Default => Line::new("window", Mark::Info, said),
        None => Line::ok("window", said),
    }
}

fn price(known: &Known) -> Line {
    match &known.price {
        Some(price) => Line::ok(
            "price",
            format!(
                "${} in, ${} out for a million tokens",
                per_million(price.input),
                per_million(price.output)
            ),
        ),
        None => {
            Line::new("price", Mark::Info, "unknown: the cap in dollars cannot hold, the one in tokens does")
        }
    }
}

fn add() -> Vec<ToolSpec> {
    let schema = r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"],"additionalProperties":false}"#;
    let spec =
        |input_schema| ToolSpec { name: "add".into(), description: "Adds two numbers.".into(), input_schema };
    RawJson::parse(schema).map(spec).into_iter().collect()
}

/// Nanodollars a token, as dollars for a million of them.
pub(crate) fn per_million(nanodollars: u64) -> String {
    let (whole, rest) = (nanodollars / 1_000, nanodollars % 1_000);
    let decimals = format!("{rest:03}");
    match decimals.trim_end_matches('0') {
        "" => whole.to_string(),
        decimals => format!("{whole}.{decimals:0<2}"),
    }
}

/// Dollars down to the last place that is not zero.
pub(crate) fn precise(nanodollars: u64) -> String {
    let decimals = format!("{:09}", nanodollars % 1_000_000_000);
    format!("${}.{:0<2}", nanodollars / 1_000_000_000, decimals.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_money_is_not_rounded_away() {
        assert_eq!(precise(70_125), "$0.000070125");
        assert_eq!(precise(1_500_000_000), "$1.50");
        assert_eq!(precise(0), "$0.00");
        assert_eq!([100, 4_000, 1_250, 125, 50].map(per_million), ["0.10", "4", "1.25", "0.125", "0.05"]);
    }
}
