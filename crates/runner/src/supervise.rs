//! Follows one jailed process to its end, whatever it does with its outputs, its time and its
//! children.
//!
//! Both outputs are drained at once, so that nothing blocks; sinks are bounded, so that nothing
//! grows. Once the process has ended its jail is dead and the outputs close by themselves; where
//! there is no jail, a child that got away may hold them open, and is not waited for.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::AsFd;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sandbox::Bound;

use crate::jail::Jailed;

/// How long outputs are read after the process has ended.
const GRACE: Duration = Duration::from_millis(500);
const CHUNK: usize = 64 << 10;

/// Wakes a thread that polls. Once rung it stays so.
#[derive(Debug)]
pub(crate) struct Bell {
    rung: AtomicBool,
    reader: PipeReader,
    writer: PipeWriter,
}

impl Bell {
    /// A bell that is not rung.
    pub(crate) fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        Ok(Self { rung: AtomicBool::new(false), reader, writer })
    }

    /// Rings it.
    pub(crate) fn ring(&self) {
        if !self.rung.swap(true, Ordering::SeqCst) {
            let _ = (&self.writer).write_all(b"!");
        }
    }

    /// What to poll.
    pub(crate) fn fd(&self) -> impl AsFd + '_ {
        &self.reader
    }

    /// Makes it silent again.
    pub(crate) fn reset(&self) {
        if self.rung.load(Ordering::SeqCst) {
            let _ = (&self.reader).read(&mut [0]);
            self.rung.store(false, Ordering::SeqCst);
        }
    }
}

/// Where the outputs go.
pub(crate) trait Sink {
    /// Takes bytes of standard output (0) or standard error (1), in order of arrival.
    fn take(&mut self, output: usize, bytes: &[u8]);

    /// When it wants to be called though nothing comes.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Called when that time has come.
    fn tick(&mut self) {}
}

/// Why a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself, or by a signal from inside its jail.
    Itself,
    /// Its time was up.
    TimedOut,
    /// It was killed.
    Cancelled,
    /// All of it together reached a bound.
    Bound(Bound),
}

/// What became of a process.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) ended: Ended,
    pub(crate) status: Option<ExitStatus>,
    pub(crate) took: Duration,
}

/// Follows a process until it and everything in its jail are gone.
///
/// # Errors
/// When it can no longer be followed; it is ended then.
pub(crate) fn supervise(
    jailed: Jailed,
    input: Option<Vec<u8>>,
    timeout: Duration,
    stop: &Bell,
    sink: &mut dyn Sink,
) -> io::Result<Observed> {
    let Jailed { mut child, killer, stdin, mut outputs, .. } = jailed;
    let begin = Instant::now();
    let (gone, here) = io::pipe()?;
    if let (Some(mut stdin), Some(input)) = (stdin, input) {
        // A thread of its own: a process that reads nothing must not keep its outputs from being read.
        std::thread::Builder::new().spawn(move || stdin.write_all(&input))?;
    }
    let waiter = std::thread::Builder::new().spawn(move || {
        let status = child.wait();
        drop(here);
        status.map(|status| (status, child.bound()))
    })?;
    let mut ended = None;
    let mut left: Option<Instant> = None;
    let mut chunk = vec![0; CHUNK];
    loop {
        let until = match (left, ended) {
            (Some(left), _) if outputs.iter().all(Option::is_none) || Instant::now() >= left => break,
            (Some(left), _) => Some(left),
            (None, None) => begin.checked_add(timeout),
            (None, Some(_)) => None,
        };
        let due = sink.due();
        let wake = [until, due].into_iter().flatten().min();
        let ready = wait(&outputs, left.is_none().then_some(&gone), ended.is_none().then_some(stop), wake)?;
        if due.is_some_and(|due| Instant::now() >= due) {
            sink.tick();
        }
        for (index, slot) in outputs.iter_mut().enumerate() {
            if ready.outputs.get(index) == Some(&true)
                && let Some(output) = slot
            {
                match output.read(&mut chunk) {
                    Ok(0) => *slot = None,
                    Ok(count) => sink.take(index, chunk.get(..count).unwrap_or_default()),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => *slot = None,
                }
            }
        }
        if ready.gone {
            left = Some(Instant::now() + GRACE);
        } else if left.is_none() && ended.is_none() {
            let is_late = until.is_some_and(|until| Instant::now() >= until);
            ended = match (ready.stop, is_late) {
                (true, _) => Some(Ended::Cancelled),
                (false, true) => Some(Ended::TimedOut),
                (false, false) => None,
            };
            if ended.is_some()
                && let Err(error) = killer.kill()
            {
                tracing::warn!(%error, "a step that is to end cannot be killed");
            }
        }
    }
    let status = waiter.join().map_err(|_| io::Error::other("the waiting thread failed"))?;
    let (status, bound) = status.map_err(io::Error::other)?;
    let ended = bound.map(Ended::Bound).or(ended).unwrap_or(Ended::Itself);
    Ok(Observed { ended, status: Some(status), took: begin.elapsed() })
}

/// What is ready.
struct Ready {
    outputs: [bool; 2],
    gone: bool,
    stop: bool,
}

fn wait(
    outputs: &[Option<Box<dyn crate::jail::Output>>; 2],
    gone: Option<&PipeReader>,
    stop: Option<&Bell>,
    until: Option<Instant>,
) -> io::Result<Ready> {
    let patience = until.map(|until| span(until.saturating_duration_since(Instant::now())));
    let stop_fd = stop.map(Bell::fd);
    let mut fds = Vec::with_capacity(4);
    let mut names = Vec::with_capacity(4);
    for (index, output) in outputs.iter().enumerate() {
        if let Some(output) = output {
            fds.push(PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN));
            names.push(index);
        }
    }
    if let Some(gone) = gone {
        fds.push(PollFd::new(gone, PollFlags::IN));
        names.push(2);
    }
    if let Some(stop) = &stop_fd {
        fds.push(PollFd::new(stop, PollFlags::IN));
        names.push(3);
    }
    match poll(&mut fds, patience.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let is_ready =
        |wanted| names.iter().zip(&fds).any(|(name, fd)| *name == wanted && !fd.revents().is_empty());
    Ok(Ready { outputs: [is_ready(0), is_ready(1)], gone: is_ready(2), stop: is_ready(3) })
}

/// A span for `poll`, rounded up so that a deadline has passed when it returns.
pub(crate) fn span(duration: Duration) -> Timespec {
    let duration = duration.saturating_add(Duration::from_millis(1));
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
