//! One step from its request to its result.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use domain::{Effect, Image, Outcome};
use kernel::fault::{Point, point};
use kernel::port::Refused;
use sandbox::{Launcher, SharedNetwork, Status, Stdin};

use crate::call::{Call, Input, Shell};
use crate::config::Config;
use crate::git;
use crate::jail::{self, Jailed};
use crate::output::{SHOWN, ToolOutput, Transcript, cut, preview};
use crate::plan::{Ground, Program, outputs, root};
use crate::services::{Found, Services};
use crate::spool::Spool;
use crate::supervise::{Bell, Ended, Observed, Sink, supervise};
use crate::tool::{self, picture};
use crate::wire::{Seen, Spooled, Work};

/// The longest answer of a file tool, in bytes: text, and an image beside it.
const LONGEST_ANSWER: usize = (1 << 20) + picture::LONGEST_ENCODED;
/// How much longer than a preview an answer may be before it is put aside, in bytes: a page of `read`
/// ends with a whole line.
const SLACK: usize = 4 << 10;
/// The most that one live message carries, in bytes, and how often there is one.
const LONGEST_PROGRESS: usize = 4 << 10;
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// Why a step has no result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Nothing of it happened.
    Refused(Refused),
    /// It may have happened.
    Lost(String),
}

/// What a step needs beside its work.
pub(crate) struct Job<'a> {
    pub(crate) config: &'a Config,
    pub(crate) spool: &'a Spool,
    pub(crate) services: &'a Services,
    pub(crate) launcher: &'a Launcher,
    pub(crate) work: &'a Work,
    pub(crate) stop: &'a Bell,
    pub(crate) progress: &'a dyn Fn(String),
}

/// A step's end before it is put into the spool.
struct Done {
    outcome: Outcome,
    output: ToolOutput,
    has_artifact: bool,
    seen: Option<Seen>,
}

impl Job<'_> {
    /// Runs the step; its result is on disk when this returns.
    pub(crate) fn run(&self) -> Result<Spooled, Failure> {
        self.spool.keep_reserve();
        let done = match Call::parse(self.work) {
            Err(text) => bad_input(text),
            Ok(Call::Shell(shell)) => self.command(Program::Shell(&shell.command), shell.timeout_seconds)?,
            Ok(Call::Setup(shell)) => self.setup(&shell)?,
            Ok(Call::File(input)) => self.file(input)?,
        };
        let Work { run, step, attempt, key, fence, .. } = *self.work;
        let Done { outcome, output, has_artifact, seen } = done;
        let spooled = Spooled { run, step, attempt, key, fence, outcome, output, has_artifact, seen };
        point(Point::RunnerBeforeSpool);
        self.spool.write(&spooled).map_err(|error| Failure::Lost(error.to_string()))?;
        point(Point::RunnerAfterSpool);
        Ok(spooled)
    }

    /// A setup that cannot be started is one that failed: the run goes on without it.
    fn setup(&self, shell: &Shell) -> Result<Done, Failure> {
        match self.command(Program::Setup(&shell.command), None) {
            Err(Failure::Refused(refused)) => {
                Ok(bad_input(format!("the setup could not start: {}", refused.hint)))
            }
            other => other,
        }
    }

    fn command(&self, program: Program<'_>, seconds: Option<u64>) -> Result<Done, Failure> {
        let asked = seconds.map_or(Duration::MAX, Duration::from_secs);
        let timeout = asked.min(Duration::from_millis(self.work.timeout));
        let mut sink = Live {
            transcript: Transcript::new(SHOWN, self.spool.output_path(self.work.step)),
            pending: Vec::new(),
            sent: None,
            progress: self.progress,
        };
        let found = match program {
            Program::Shell(_) => self.services.ensure(self.config, self.stop).map_err(Failure::Refused)?,
            Program::Tool | Program::Setup(_) | Program::Service(_) => Found::default(),
        };
        let note = self.ready_git(program)?;
        let jailed = self.start(program, Stdin::Null, found.network.as_ref())?;
        let (status, whole) = (jailed.status.clone(), self.whole(jailed.ground));
        let observed = self.follow(jailed, None, timeout, &mut sink)?;
        let (text, truncated_bytes, has_artifact) = sink.transcript.finish(Some(&whole));
        let exit_code = observed.status.and_then(code);
        let outcome = outcome(observed.ended, exit_code == Some(0));
        let mut text = narrate(text, observed.ended, observed.status, timeout, &status);
        let notes: Vec<String> = found.notes.into_iter().chain(note).collect();
        if !notes.is_empty() {
            text = format!("{}\n{text}", notes.join("\n"));
        }
        let output = ToolOutput {
            text,
            exit_code: if observed.ended == Ended::Itself { exit_code } else { None },
            is_error: outcome != Outcome::Succeeded,
            truncated_bytes,
            artifact: None,
            duration_ms: millis(observed.took),
            jail: status,
            path: has_artifact.then_some(whole),
            instructions: None,
            image: None,
        };
        Ok(Done { outcome, output, has_artifact, seen: None })
    }

    /// Makes the git of the commands fit for this one. What has to be done in there runs in a jail, as
    /// whatever the agent has left in it would run too.
    fn ready_git(&self, program: Program<'_>) -> Result<Option<String>, Failure> {
        let Some(git) = self.config.git.as_ref().filter(|_| !matches!(program, Program::Tool)) else {
            return Ok(None);
        };
        if self.work.effect == Effect::Read {
            return Ok(None);
        }
        let Some(chore) = git::chore(git, self.work.attempt > 1) else { return Ok(git::full(git)) };
        let jailed = self.start(Program::Shell(&chore.script), Stdin::Null, None)?;
        // Where there is no jail there is no git either.
        if jailed.ground == Ground::Jail {
            let observed = self.follow(jailed, None, git::PATIENCE, &mut Reply::default())?;
            if observed.ended != Ended::Cancelled {
                chore.done(git);
            }
        }
        Ok(git::full(git))
    }

    fn file(&self, input: Input) -> Result<Done, Failure> {
        let needs_seen = matches!(input, Input::Edit(_) | Input::Write(_));
        let seen = if needs_seen { self.spool.seen_before(self.work.step) } else { Default::default() };
        let timeout = Duration::from_millis(self.work.timeout);
        let jailed = self.start(Program::Tool, Stdin::Piped, None)?;
        let (status, whole) = (jailed.status.clone(), self.whole(jailed.ground));
        let request = tool::Request {
            root: root(self.config, jailed.ground),
            outputs: outputs(self.config, jailed.ground),
            input,
            seen,
            told: self.spool.told_before(self.work.step),
            withheld: self.config.withheld.clone(),
        };
        let body = serde_json::to_vec(&request)
            .map_err(|error| Failure::Lost(format!("the tool's request cannot be encoded: {error}")))?;
        let mut sink = Reply::default();
        let observed = self.follow(jailed, Some(body), timeout, &mut sink)?;
        let answer = match (observed.ended, tool::Answer::received(&sink.answer)) {
            (Ended::Itself, Ok(answer)) => answer,
            (Ended::Itself, Err(_)) => no_answer(&sink, observed.status),
            (ended, _) => {
                tool::Answer::error(narrate(String::new(), ended, None, timeout, &Status::Enforced))
            }
        };
        let outcome = outcome(observed.ended, !answer.is_error);
        let image = match &answer.image {
            Some(encoded) if outcome == Outcome::Succeeded => self.keep_image(encoded),
            _ => None,
        };
        // A result has one artifact, and what is said of an image is short.
        let (text, truncated_bytes, is_offloaded) = match image {
            Some(_) => (cut(&answer.text, SHOWN).to_owned(), 0, false),
            None => self.offload(answer.text, &whole),
        };
        let has_artifact = is_offloaded || image.is_some();
        let output = ToolOutput {
            text: warned(text, &status),
            exit_code: None,
            is_error: outcome != Outcome::Succeeded,
            truncated_bytes,
            artifact: None,
            duration_ms: millis(observed.took),
            jail: status,
            path: is_offloaded.then_some(whole),
            instructions: answer.instructions,
            image,
        };
        Ok(Done { outcome, output, has_artifact, seen: answer.seen })
    }

    /// Where later steps find the whole output of this one.
    fn whole(&self, ground: Ground) -> String {
        outputs(self.config, ground).join(self.spool.output_name(self.work.step)).display().to_string()
    }

    /// Puts the bytes of an image aside, where they become the artifact of the result.
    fn keep_image(&self, encoded: &str) -> Option<Image> {
        let (bytes, image) = picture::received(encoded)?;
        match std::fs::write(self.spool.output_path(self.work.step), bytes) {
            Ok(()) => Some(image),
            Err(error) => {
                tracing::warn!(step = self.work.step.0, %error, "an image is not kept");
                None
            }
        }
    }

    /// Puts a long answer aside and keeps a preview: what to show, the bytes left out, and whether the
    /// whole is kept. What `read` pages through is short already.
    fn offload(&self, text: String, whole: &str) -> (String, u64, bool) {
        if text.len() <= SHOWN + SLACK {
            return (text, 0, false);
        }
        match std::fs::write(self.spool.output_path(self.work.step), &text) {
            Ok(()) => {
                let (text, omitted) = preview(&text, SHOWN, whole);
                (text, omitted, true)
            }
            Err(error) => {
                tracing::warn!(step = self.work.step.0, %error, "a long answer stays whole");
                (text, 0, false)
            }
        }
    }

    fn start(
        &self,
        program: Program<'_>,
        stdin: Stdin,
        network: Option<&SharedNetwork>,
    ) -> Result<Jailed, Failure> {
        point(Point::RunnerBeforeSpawn);
        let Self { launcher, config, work, .. } = self;
        jail::start(launcher, config, work.effect, program, stdin, network).map_err(Failure::Refused)
    }

    fn follow(
        &self,
        jailed: Jailed,
        input: Option<Vec<u8>>,
        timeout: Duration,
        sink: &mut dyn Sink,
    ) -> Result<Observed, Failure> {
        point(Point::RunnerRunning);
        let observed = supervise(jailed, input, timeout, self.stop, sink);
        observed.map_err(|error| Failure::Lost(format!("the step could not be followed: {error}")))
    }
}

/// A command's output as it comes: kept, and passed on now and then.
struct Live<'a> {
    transcript: Transcript,
    pending: Vec<u8>,
    sent: Option<Instant>,
    progress: &'a dyn Fn(String),
}

impl Sink for Live<'_> {
    fn take(&mut self, _: usize, bytes: &[u8]) {
        self.transcript.take(bytes);
        let newest = bytes.get(bytes.len().saturating_sub(LONGEST_PROGRESS)..).unwrap_or_default();
        self.pending.extend_from_slice(newest);
        let excess = self.pending.len().saturating_sub(LONGEST_PROGRESS);
        self.pending.drain(..excess);
        if self.due().is_none_or(|due| Instant::now() >= due) {
            self.tick();
        }
    }

    fn due(&self) -> Option<Instant> {
        if self.pending.is_empty() { None } else { self.sent?.checked_add(PROGRESS_EVERY) }
    }

    fn tick(&mut self) {
        self.sent = Some(Instant::now());
        (self.progress)(String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned());
    }
}

/// What a file tool says, up to a bound.
#[derive(Default)]
struct Reply {
    answer: Vec<u8>,
    complaint: Vec<u8>,
}

impl Sink for Reply {
    fn take(&mut self, output: usize, bytes: &[u8]) {
        let (into, most) =
            if output == 0 { (&mut self.answer, LONGEST_ANSWER) } else { (&mut self.complaint, 4 << 10) };
        let room = most.saturating_sub(into.len()).min(bytes.len());
        into.extend_from_slice(bytes.get(..room).unwrap_or_default());
    }
}

fn no_answer(reply: &Reply, status: Option<ExitStatus>) -> tool::Answer {
    let complaint = String::from_utf8_lossy(&reply.complaint);
    let ended = status.map_or_else(String::new, |status| format!(" ({status})"));
    tool::Answer::error(format!("the tool ended without an answer{ended}: {}", cut(complaint.trim(), 1000)))
}

fn bad_input(text: String) -> Done {
    let output = ToolOutput {
        text,
        exit_code: None,
        is_error: true,
        truncated_bytes: 0,
        artifact: None,
        duration_ms: 0,
        // Nothing ran, so nothing ran unconfined.
        jail: Status::Enforced,
        path: None,
        instructions: None,
        image: None,
    };
    Done { outcome: Outcome::Failed, output, has_artifact: false, seen: None }
}

fn outcome(ended: Ended, is_good: bool) -> Outcome {
    match ended {
        Ended::TimedOut => Outcome::TimedOut,
        Ended::Cancelled => Outcome::Cancelled,
        Ended::Itself if is_good => Outcome::Succeeded,
        Ended::Itself | Ended::Bound(_) => Outcome::Failed,
    }
}

fn code(status: ExitStatus) -> Option<i32> {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The output, and below it how the command ended when that is not obvious.
fn narrate(
    mut text: String,
    ended: Ended,
    status: Option<ExitStatus>,
    timeout: Duration,
    jail: &Status,
) -> String {
    let note = match ended {
        Ended::TimedOut => {
            format!("[timed out after {} s: it and all that it started were ended]", timeout.as_secs_f64())
        }
        Ended::Cancelled => "[cancelled: it and all that it started were ended]".into(),
        Ended::Bound(bound) => {
            format!("[{bound}: it and all that it started were ended; {}]", bound.mend())
        }
        Ended::Itself => match status.map(|status| (status.code(), status.signal())) {
            Some((Some(0), _)) if text.is_empty() => "[no output]".into(),
            Some((Some(0), _)) | None => String::new(),
            Some((Some(code), _)) => format!("[exit code {code}]"),
            Some((None, signal)) => format!("[ended by signal {}]", signal.unwrap_or_default()),
        },
    };
    if !note.is_empty() {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&note);
    }
    warned(text, jail)
}

/// A step that was not confined says so where everybody looks.
fn warned(text: String, jail: &Status) -> String {
    match jail {
        Status::Enforced => text,
        Status::Degraded(reason) | Status::Unsupported(reason) => {
            format!("[warning: this step ran without a jail: {reason}]\n{text}")
        }
    }
}
