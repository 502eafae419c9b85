//! In place of runner and jail: shell lines on the files of the workspace, without a jail.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};

use control::Layout;
use domain::{Amount, Outcome, Payload, StepNo};
use kernel::machine::Input;
use kernel::port::{Executor, Finished, Inbox, Probe, Status, Work};
use serde_json::{Value, json};
use tokio::sync::watch;

/// See the module. It dies with its daemon, and forgets what it did.
pub(crate) struct Bare {
    layout: Layout,
    steps: Mutex<Steps>,
    started: watch::Sender<usize>,
}

#[derive(Default)]
struct Steps {
    held: bool,
    running: HashMap<StepNo, (Work, Arc<dyn Inbox>)>,
    lines: Vec<String>,
}

impl Bare {
    pub(crate) fn new(layout: Layout) -> Self {
        Self { layout, steps: Mutex::default(), started: watch::Sender::new(0) }
    }

    /// From now on the effects of steps happen and their results are kept back.
    pub(crate) fn hold(&self) {
        self.lock().held = true;
    }

    /// Gives the results that were kept back, and the later ones at once.
    pub(crate) fn release(&self) {
        let running = {
            let mut steps = self.lock();
            steps.held = false;
            std::mem::take(&mut steps.running)
        };
        for (work, inbox) in running.into_values() {
            inbox.send(Input::Finished(work.step, work.attempt, finished(0, "")));
        }
    }

    /// Returns when so many steps have started.
    pub(crate) async fn started(&self, count: usize) {
        let _ = self.started.subscribe().wait_for(|started| *started >= count).await;
    }

    /// The shell lines so far, with what `sum.sh` was before each.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lock().lines.clone()
    }

    fn workspace(&self, work: &Work) -> PathBuf {
        self.layout.workspace(work.run)
    }

    #[expect(clippy::disallowed_methods, reason = "stands in for the runner, which starts processes")]
    fn execute(&self, work: &Work) -> Finished {
        let request: Value = serde_json::from_slice(&work.request).unwrap();
        let line = request["command"].as_str().or(request["input"]["command"].as_str()).unwrap();
        let dir = self.workspace(work);
        let before = std::fs::read_to_string(dir.join("sum.sh")).unwrap_or_default();
        self.lock().lines.push(format!("{} | {line}", before.trim_end()));
        let output =
            Command::new("sh").args(["-c", line]).current_dir(dir).stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        finished(output.status.code().unwrap_or(-1), &text)
    }

    fn lock(&self) -> MutexGuard<'_, Steps> {
        self.steps.lock().unwrap()
    }
}

fn finished(code: i32, text: &str) -> Finished {
    let output = json!({
        "text": text, "exit_code": code, "is_error": code != 0, "truncated_bytes": 0, "artifact": null,
        "duration_ms": 1, "jail": {"state": "enforced"},
    });
    Finished {
        outcome: if code == 0 { Outcome::Succeeded } else { Outcome::Failed },
        spent: Amount::CALL,
        payload: Payload(output.to_string().into_bytes()),
        artifacts: Vec::new(),
    }
}

impl Executor for Bare {
    fn start(&self, work: Work, inbox: Arc<dyn Inbox>) {
        let finished = self.execute(&work);
        let held = {
            let mut steps = self.lock();
            if steps.held {
                steps.running.insert(work.step, (work.clone(), Arc::clone(&inbox)));
            }
            steps.held
        };
        self.started.send_modify(|started| *started += 1);
        if !held {
            inbox.send(Input::Finished(work.step, work.attempt, finished));
        }
    }

    fn status(&self, work: Work, inbox: Arc<dyn Inbox>) {
        let mut steps = self.lock();
        let status = match steps.running.get_mut(&work.step) {
            Some((_, waiting)) => {
                *waiting = Arc::clone(&inbox);
                Status::Running
            }
            None => Status::Unknown,
        };
        inbox.send(Input::Status(work.step, status));
    }

    fn probe(&self, work: Work, inbox: Arc<dyn Inbox>) {
        inbox.send(Input::Probed(work.step, Probe::Unknown));
    }

    fn kill(&self, work: Work, inbox: Arc<dyn Inbox>) {
        self.lock().running.remove(&work.step);
        inbox.send(Input::Killed(work.step));
    }
}
