//! What a run is driven with. The system text and the tool list are artifacts named by the run's
//! first fact: a resumed run gets the same bytes, whatever a newer Regie would say.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use domain::{Digest, Effect, Millis, Price, Risk, Terms};
use models::{Effort, RawJson, Request, ToolSpec, catalogue};
use serde::{Deserialize, Serialize};

use crate::native::deferred;

/// When a call is ended that waits in a vendor's batch queue: somewhat after the day that vendors promise.
const BATCH_TIMEOUT: Millis = 26 * 60 * 60 * 1000;

/// Tool names that the driver keeps for itself.
const RESERVED: [&str; 7] =
    ["merge", "deliver", "checkpoint", "verdict", "setup", deferred::DESCRIBE, deferred::CALL];

/// With more tools than this, those from outside are deferred.
const MANY_TOOLS: usize = 24;

/// A tool as a run holds it: what the model is told, and what the kernel is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Name, description and schema.
    pub spec: ToolSpec,
    /// What it does to the world.
    pub effect: Effect,
    /// Its risk class.
    pub risk: Risk,
    /// Whether the system text only names it, and its schema is given when it is asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deferred: bool,
}

/// A run's tools in their frozen order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Toolbox(Vec<Tool>);

/// Why a toolbox cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The artifact is not a tool list.
    #[error("the tool list of the run cannot be read: the artifact is damaged or of another Regie")]
    Unreadable(#[source] serde_json::Error),
    /// A built-in tool's schema is not JSON.
    #[error("the input schema of tool `{tool}` is not JSON; please report it")]
    Schema {
        /// The tool.
        tool: String,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// A name that the driver keeps for itself.
    #[error("a tool may not be named `{0}`: Regie's own steps have that name; rename the tool")]
    Reserved(String),
}

/// Composes the exact bytes of a request; pure. The daemon hands over its provider's own.
pub type Compose = Arc<dyn Fn(&Request) -> Result<Bytes, models::compose::Error> + Send + Sync>;

/// The bytes of an image by their digest, from the artifacts. The error says what is wrong.
pub type Images = Arc<dyn Fn(Digest) -> Result<Vec<u8>, String> + Send + Sync>;

/// The share of the window, in percent, above which the conversation is compacted.
const COMPACT_ABOVE: u64 = 55;

/// When old tool results are cleared. Clearing changes the middle of the conversation, so the vendor's
/// cache is written anew from there on (1.25 of the price of input), and what was cleared is no longer
/// read from it (0.1) in each later turn. With twice as much cleared as is kept behind it, that is paid
/// back after about six turns.
///
/// These numbers decide bytes of requests on record: changing them takes a new
/// [`NAME`](crate::native::NAME).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clearing {
    /// Bytes at the end of the conversation that are left alone.
    pub keep_bytes: usize,
    /// Messages with long results at the end that are left alone, however long they are.
    pub keep_results: usize,
    /// Bytes that must be saved in one go.
    pub batch_bytes: usize,
}

impl Default for Clearing {
    /// 16,000 tokens are kept, 32,000 are cleared at once.
    fn default() -> Self {
        Self { keep_bytes: 48 << 10, keep_results: 3, batch_bytes: 96 << 10 }
    }
}

/// What [`Native`](crate::Native) is made of.
#[derive(Clone)]
pub struct Config {
    /// The system text, byte for byte the artifact.
    pub system: String,
    /// The tools, byte for byte the artifact.
    pub toolbox: Toolbox,
    /// The wire.
    pub compose: Compose,
    /// The images that the agent was given to look at.
    pub images: Images,
    /// The price of the model, `None` when unknown.
    pub price: Option<Price>,
    /// The most tokens that one answer may have, reasoning included.
    pub max_output_tokens: u32,
    /// The model's window in tokens, question and answer together.
    pub window: u64,
    /// When old tool results are cleared.
    pub clearing: Clearing,
    /// How much work the model should put in; fixed for the run.
    pub effort: Option<Effort>,
    /// When a model call is ended.
    pub model_timeout: Millis,
    /// When a tool call or a criterion's command is ended.
    pub tool_timeout: Millis,
    /// When a setup is ended.
    pub setup_timeout: Millis,
    /// When a step of the host (checkpoint, merge, deliver) is ended.
    pub host_timeout: Millis,
}

impl Config {
    /// The defaults around a system text, tools and a wire.
    pub fn new(system: impl Into<String>, toolbox: Toolbox, compose: Compose) -> Self {
        Self {
            system: system.into(),
            toolbox,
            compose,
            images: Arc::new(|digest| Err(format!("the image {digest} is not at hand"))),
            price: None,
            max_output_tokens: 16_000,
            window: catalogue::DEFAULT_WINDOW,
            clearing: Clearing::default(),
            effort: None,
            model_timeout: 30 * 60 * 1000,
            tool_timeout: 10 * 60 * 1000,
            setup_timeout: 30 * 60 * 1000,
            host_timeout: 2 * 60 * 1000,
        }
    }
}

impl Config {
    /// Takes the terms that the run began on.
    #[must_use]
    pub fn on(self, terms: Terms) -> Self {
        let Terms { window, max_output, price, effort, batch, .. } = terms;
        let model_timeout = if batch { BATCH_TIMEOUT } else { self.model_timeout };
        Self { window, max_output_tokens: max_output, price, effort, model_timeout, ..self }
    }

    /// The tokens of a request above which the conversation is compacted: 55 % of the window, and never
    /// so many that no answer fits.
    pub fn compaction_threshold(&self) -> u64 {
        let room = self.window.saturating_sub(u64::from(self.max_output_tokens));
        (self.window / 100 * COMPACT_ABOVE).min(room).max(1)
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("toolbox", &self.toolbox).finish_non_exhaustive()
    }
}

impl Toolbox {
    /// Takes tools in the order in which the model sees them.
    ///
    /// # Errors
    /// When a name is one of the driver's own.
    pub fn new(tools: Vec<Tool>) -> Result<Self, Error> {
        match tools.iter().find(|tool| RESERVED.contains(&tool.spec.name.as_str())) {
            Some(tool) => Err(Error::Reserved(tool.spec.name.clone())),
            None => Ok(Self(tools)),
        }
    }

    /// The runner's built-in tools.
    ///
    /// # Errors
    /// When one of them is not fit for a model, which a test rules out.
    pub fn built_in() -> Result<Self, Error> {
        let tools = runner::builtin().into_iter().map(|tool| {
            let input_schema = RawJson::parse(tool.input_schema)
                .map_err(|source| Error::Schema { tool: tool.name.clone(), source })?;
            let spec = ToolSpec { name: tool.name, description: tool.description, input_schema };
            Ok(Tool { spec, effect: tool.effect, risk: tool.risk, deferred: false })
        });
        tools.collect::<Result<Vec<_>, Error>>().and_then(Self::new)
    }

    /// The same tools and, last, the one by which an agent defines when its mission is done: for a run
    /// whose owner gave no criterion.
    ///
    /// # Errors
    /// When its schema is not JSON, which a test rules out.
    pub fn with_definition(mut self) -> Result<Self, Error> {
        self.0.push(crate::native::done::tool()?);
        Ok(self)
    }

    /// The same tools, those from outside deferred when there are many.
    #[must_use]
    pub fn deferring(mut self) -> Self {
        if self.0.len() > MANY_TOOLS {
            let own: Vec<String> = runner::builtin().into_iter().map(|tool| tool.name).collect();
            let is_own = |name: &String| own.contains(name) || name == crate::native::DEFINE_DONE;
            self.0.iter_mut().for_each(|tool| tool.deferred = !is_own(&tool.spec.name));
        }
        self
    }

    /// Whether a tool is deferred.
    pub fn defers(&self) -> bool {
        self.0.iter().any(|tool| tool.deferred)
    }

    /// The bytes of the artifact; the same tools give the same bytes.
    ///
    /// # Errors
    /// When a schema is no JSON, which a parsed one never is.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        serde_json::to_vec(self).map_err(Error::Unreadable)
    }

    /// Reads an artifact back.
    ///
    /// # Errors
    /// When it is not a tool list.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        serde_json::from_slice(bytes).map_err(Error::Unreadable).and_then(|Self(tools)| Self::new(tools))
    }

    /// The tool of this name.
    pub fn find(&self, name: &str) -> Option<&Tool> {
        self.0.iter().find(|tool| tool.spec.name == name)
    }

    /// The tools in order.
    pub fn iter(&self) -> impl Iterator<Item = &Tool> {
        self.0.iter()
    }

    /// The names in order, as a lease holds them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|tool| tool.spec.name.as_str())
    }

    /// What the model is told, in order; for the deferred ones, the two tools that stand for them.
    pub fn specs(&self) -> Vec<ToolSpec> {
        let shown = self.iter().filter(|tool| !tool.deferred).map(|tool| tool.spec.clone());
        let standing = self.defers().then(deferred::specs).into_iter().flatten();
        shown.chain(standing).collect()
    }
}
