//! A tool whose effect must not be repeated: it announces a text on the scripted server's ledger, each
//! time it is called. Chaos tests compare that ledger with the journal.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::{Amount, Outcome, Payload, RunId, StepNo};
use kernel::Input;
use kernel::port::{Executor, Finished, Inbox, Probe, Refused, Status, Work};
use serde_json::{Value, json};
use tokio::task::AbortHandle;

/// Names the scripted server, as `http://127.0.0.1:4000`.
pub const LEDGER_ENV: &str = "REGIE_TESTKIT_LEDGER";
/// How many more tools of the same kind there are, as `24`: a run with many defers them.
pub const MORE_ENV: &str = "REGIE_TESTKIT_TOOLS";
/// The tool's name.
pub const NAME: &str = "announce";
/// What a model is told.
pub const DESCRIPTION: &str = "Announces a text outside, once. It cannot be taken back.";
/// The tool's input.
pub const SCHEMA: &str = r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}"#;

/// How long the ledger may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

type Running = HashMap<(RunId, StepNo), (AbortHandle, Arc<dyn Inbox>)>;

/// Executes the tool.
pub struct Announce {
    ledger: String,
    client: reqwest::Client,
    running: Arc<Mutex<Running>>,
}

impl Announce {
    /// Announces on the ledger of the server at this address.
    pub fn new(ledger: String) -> Self {
        // The client wants a provider even for plain HTTP; a second installation is refused, and fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap_or_default();
        Self { ledger, client, running: Arc::default() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn text_of(work: &Work) -> String {
    let request: Value = serde_json::from_slice(&work.request).unwrap_or_default();
    request["input"]["text"].as_str().unwrap_or_default().to_owned()
}

fn finished(text: &str, ok: bool) -> Finished {
    let output = json!({
        "text": text, "exit_code": null, "is_error": !ok, "truncated_bytes": 0,
        "artifact": null, "duration_ms": 0, "jail": {"state": "enforced"},
    });
    Finished {
        outcome: if ok { Outcome::Succeeded } else { Outcome::Failed },
        spent: Amount::CALL,
        payload: Payload(output.to_string().into_bytes()),
        artifacts: Vec::new(),
    }
}

impl Executor for Announce {
    fn start(&self, work: Work, inbox: Arc<dyn Inbox>) {
        let call = self
            .client
            .post(format!("{}/ledger", self.ledger))
            .json(&json!({"key": work.key.to_string(), "text": text_of(&work)}))
            .send();
        let (running, key) = (Arc::clone(&self.running), (work.run, work.step));
        let mut handles = self.lock();
        let task = tokio::spawn(async move {
            let answered = call.await;
            kernel::fault::point(kernel::fault::Point::AfterEffect);
            let input = match answered {
                Ok(answer) if answer.status().is_success() => {
                    Input::Finished(work.step, work.attempt, finished("announced", true))
                }
                Ok(answer) => {
                    let text = format!("the ledger answered {}", answer.status());
                    Input::Finished(work.step, work.attempt, finished(&text, false))
                }
                Err(error) if error.is_connect() => {
                    let hint = format!("the ledger cannot be reached: {error}");
                    Input::Refused(work.step, work.attempt, Refused { code: "ledger.gone".into(), hint })
                }
                // It may have been announced: that is what an uncertain step is for.
                Err(_) => Input::Lost(work.step, work.attempt),
            };
            if let Some((_, inbox)) = running.lock().unwrap_or_else(PoisonError::into_inner).remove(&key) {
                inbox.send(input);
            }
        });
        handles.insert(key, (task.abort_handle(), inbox));
    }

    fn status(&self, work: Work, inbox: Arc<dyn Inbox>) {
        let mut running = self.lock();
        let status = match running.get_mut(&(work.run, work.step)) {
            Some((_, waiting)) => {
                *waiting = Arc::clone(&inbox);
                Status::Running
            }
            None => Status::Unknown,
        };
        inbox.send(Input::Status(work.step, status));
    }

    fn probe(&self, work: Work, inbox: Arc<dyn Inbox>) {
        let call = self.client.get(format!("{}/ledger?key={}", self.ledger, work.key)).send();
        tokio::spawn(async move {
            let count = async { call.await.ok()?.json::<Value>().await.ok()?["count"].as_u64() }.await;
            let probe = match count {
                Some(0) => Probe::NotDone,
                Some(_) => Probe::Done(finished("announced before the crash", true)),
                None => Probe::Unknown,
            };
            inbox.send(Input::Probed(work.step, probe));
        });
    }

    fn kill(&self, work: Work, inbox: Arc<dyn Inbox>) {
        if let Some((task, _)) = self.lock().remove(&(work.run, work.step)) {
            task.abort();
        }
        inbox.send(Input::Killed(work.step));
    }
}
