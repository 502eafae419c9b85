//! The scripted model server: a scenario served as a vendor would, over real HTTP.
//!
//! It speaks three wires from one scenario, streamed or not: Anthropic Messages (`POST /v1/messages`, and
//! `/v1/messages/count_tokens`), OpenAI Responses (`POST /v1/responses` and `/v1/responses/input_tokens`) and
//! chat completions (`POST /v1/chat/completions` and `/tokenize`), on loopback, so that everything but the vendor is real. It also holds requests
//! to each vendor's rules: what the vendor would refuse with a 400, it refuses.
//!
//! # Scenarios
//!
//! A TOML file holds one scenario (`[[turn]]` at the top) or several (`[[scenario]]`, each with
//! `[[scenario.turn]]`). The first scenario whose `match` occurs in the first user message
//! serves a request; one without `match` serves all.
//!
//! ```toml
//! name = "mend"                     # optional
//! match = "failing test"            # optional
//!
//! [[turn]]                          # turn 0: no assistant message in the request yet
//! thinking = "Let me look."         # optional; signed for the model that was asked
//! text = "I read the file."         # optional
//! expect = ["failing test"]         # each must occur in the last user message, or 400
//! usage = { input = 900, output = 40, cache_read = 0, cache_write = 0 }   # optional
//!
//! [[turn.call]]
//! name = "read"
//! input = { path = "src/sum.js" }   # or json = '{"path": "src/su' for text sent as it is
//!                                   # (invalid or cut); neither: a call without arguments
//!
//! [[turn]]
//! text = "Done."
//! stop = "end_turn"                 # default: tool_use with calls, else end_turn; any
//!                                   # other too: max_tokens, refusal, pause_turn, …
//!
//! [[turn.fault]]                    # the first attempts of this turn fail, in this order
//! kind = "status"                   # status | cut | silence | garbage | truncated | error
//! status = 429                      # of status
//! retry_after = "0"                 # of status: seconds or an HTTP date
//! message = "slow down"             # of status and error
//! times = 2                         # attempts that it hits; default 1, 0 is for ever
//!
//! [[turn.fault]]
//! kind = "error"                    # an `error` event inside the stream
//! error = "overloaded_error"
//! after_events = 3                  # of all but status: events sent before
//! ```
//!
//! More of a turn: `raw` (whole content blocks, or output items, of the wire as JSON texts, sent first), `signature`,
//! `delay_ms` (before the first byte), `pace_ms` (before each event), `chunk_bytes` (splits the
//! stream, also inside a character), `ping` and `unknown` (sprinkle pings and events that no
//! one knows).
//!
//! # Images
//!
//! Images in results are held to the vendors' rules: base64, its size, the sides, and that the media type is that of
//! the bytes. One that does not hold is refused in the vendor's words; `kind = "status"` with a `message` says others.
//!
//! # Compaction
//!
//! ```toml
//! [[compaction]]                    # [[scenario.compaction]] in a file of several scenarios
//! text = "## Goal\nMend the sum."   # a turn like any other; it is not counted as one
//! ```
//!
//! A request whose last block asks for a summary is served the next `[[compaction]]`, and the last one
//! again when there are fewer than are asked for.
//!
//! # The list of models
//!
//! ```toml
//! [[model]]                         # GET /v1/models; without any: `scripted` and `scripted-small`
//! id = "scripted"
//! window = 200_000                  # these and the rest are said where the wire has a place for them
//! max_output = 64_000
//! vision = false
//! thinking = true
//! ```
//!
//! # Batches
//!
//! Both batch queues are served too: `POST /v1/messages/batches` and `POST /v1/files` with `POST /v1/batches`,
//! with their lists, states, results and cancellation. Items are answered by the same turns; a fault of a turn
//! makes its item an error.
//!
//! ```toml
//! [batch]                           # [scenario.batch] in a file of several scenarios
//! polls = 2                         # asked for its state this often, a batch has ended; default 1
//!
//! [[batch.fault]]                   # the first batches fare like this, in this order
//! kind = "expired"                  # none | expired | canceled | failed | unacknowledged | silent | broken
//! times = 1
//! ```
//!
//! # Which turn is served
//!
//! The request alone decides: as many turns are behind it as it has assistant messages, and as many
//! more as the summary says that it begins with (`[Compacted by Regie; turns before: 7; …`). So a
//! call that is repeated after a crash, or after a restart of this server, gets the same
//! answer. Only faults are counted, in memory, per scenario, turn and first user message.
//!
//! # Limits
//!
//! With [`Options::limits`] it has a bucket of requests and one of tokens that refill steadily, says in the
//! head of each answer what is left, as the vendor of the wire does, and answers 429 beyond it.
//!
//! # The prompt cache
//!
//! With [`Options::caches`] tokens are counted as a vendor with a prompt cache counts them, in turns without
//! `usage`.
//!
//! # The ledger
//!
//! With [`Options::ledger`] every request is appended to a file and synced before the first
//! byte of its answer: a witness outside the journal. `POST /ledger` with `{"key", "text"}`
//! appends an entry each time it is called, which makes it an effect that must not be repeated;
//! `GET /ledger?key=…` says how often that was done.

mod cache;
mod ledger;
mod limits;
mod models;
mod rules;
mod scenario;
mod server;
mod wire;

pub use ledger::{Ledger, Line};
pub use limits::Limits;
pub use scenario::{
    Call, Error as ParseError, Fault, FaultKind, Listed, Queue, QueueFault, QueueFaultKind, Scenario, Turn,
    Usage, parse,
};
pub use server::{Error, Options, Queued, Served, Server, serve_forever};
