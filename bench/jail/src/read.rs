//! A file read through a tool, as an agent does it: asked of a runner over its socket, done by the file tool in
//! a jail, kept in the runner's spool, answered.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdout, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::clock::{Work, beside, ratio};
use crate::ground::Ground;
use crate::table::Table;

const ROUNDS: usize = 200;
const RUN: &str = "run_00000000000000000000000000";

pub(crate) fn measure(table: &mut Table, ground: &Ground) -> Result<()> {
    let plan = ground.plan(["/bin/true"]);
    let launcher = ground.launcher();
    let runner = std::cell::RefCell::new(Runner::start(ground)?);
    let ask = |tool: &str, input: Value| runner.borrow_mut().step(tool, &input);
    let works = vec![
        Work {
            name: "jail",
            every: 1,
            once: Box::new(|| ground.jail(&launcher, &plan)),
            after: Some(Box::new(|| launcher.prepare(&plan.limits))),
        },
        Work {
            name: "read",
            every: 1,
            once: Box::new(|| {
                let said = ask("read", json!({"path": "read.txt"}))?;
                if said.contains("one line of many") {
                    Ok(())
                } else {
                    bail!("the file was not read: {said}")
                }
            }),
            after: None,
        },
        Work {
            name: "shell",
            every: 1,
            once: Box::new(|| ask("shell", json!({"command": "true"})).map(drop)),
            after: None,
        },
    ];
    let took = beside(ROUNDS, works)?;
    if let [jail, read, shell] = &took[..] {
        let what =
            "time of a file read through a tool, from the request to the kept result / a jailed /bin/true";
        table.row(what, ratio(&read.wall, &jail.wall), 3.0);
        table.note("  the same, a shell command `true`", ratio(&shell.wall, &jail.wall));
    }
    Ok(())
}

/// One runner, spoken to as its daemon does.
struct Runner {
    child: Child,
    socket: UnixStream,
    lines: BufReader<UnixStream>,
    step: u64,
    _output: BufReader<ChildStdout>,
}

impl Runner {
    fn start(ground: &Ground) -> Result<Self> {
        let limits = serde_json::to_value(sandbox::Limits::default())?;
        let config = json!({
            "run": RUN, "spool": ground.at("spool"), "workspace": ground.at("work"), "program": ground.regie,
            "posture": "deny", "mounts": [], "env": [], "limits": limits, "idle": 60_000,
        });
        let words = [ground.regie.clone().into(), "__runner".into(), config.to_string().into()];
        let mut child = ground.command(&words)?.stdout(Stdio::piped()).spawn()?;
        let mut output = BufReader::new(child.stdout.take().context("the runner has no output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        if line != "ready\n" {
            bail!("the runner did not start: {line}");
        }
        let socket = UnixStream::connect(ground.at("spool").join("runner.sock"))?;
        let lines = BufReader::new(socket.try_clone()?);
        let mut runner = Self { child, socket, lines, step: 0, _output: output };
        runner.say(&json!({"type": "hello", "version": 1}))?;
        runner.hear(|said| said["type"] == "hello")?;
        Ok(runner)
    }

    /// Has a tool called; gives what it says.
    fn step(&mut self, tool: &str, input: &Value) -> Result<String> {
        self.step += 1;
        let (step, request) = (self.step, json!({"tool": tool, "input": input}).to_string());
        let effect = if tool == "read" { "read" } else { "workspace_write" };
        self.say(&json!({"type": "start", "work": {
            "run": RUN, "step": step, "attempt": 1, "key": format!("{step:064x}"), "fence": 1,
            "kind": "tool_call", "effect": effect, "tool": tool, "request": request, "timeout": 60_000,
        }}))?;
        let said = self.hear(|said| said["type"] != "started" && said["type"] != "progress")?;
        let output = &said["result"]["output"];
        if said["type"] != "finished" || output["is_error"] != false || output["jail"]["state"] != "enforced"
        {
            bail!("the step failed: {said}");
        }
        Ok(output["text"].as_str().unwrap_or_default().to_owned())
    }

    fn say(&mut self, value: &Value) -> Result<()> {
        Ok(self.socket.write_all(format!("{value}\n").as_bytes())?)
    }

    fn hear(&mut self, is_it: impl Fn(&Value) -> bool) -> Result<Value> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line)? == 0 {
                bail!("the runner has gone");
            }
            let said = serde_json::from_str(&line)?;
            if is_it(&said) {
                return Ok(said);
            }
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
