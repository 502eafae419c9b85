//! Services that run beside the steps of a run, such as a test database: started in jails of their own
//! before the first command, in a network that only the jails of this run share, and ended with the
//! runner.
//!
//! They see the workspace and cannot write to it: what the agent has changed is what changes there, and
//! a roll-back finds nobody at work.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use domain::{Effect, Service};
use kernel::port::Refused;
use rustix::event::{PollFd, PollFlags, poll};
use sandbox::{SharedNetwork, Status, Stdin};

use crate::config::Config;
use crate::jail;
use crate::plan::{Ground, Program, outputs};
use crate::spool;
use crate::supervise::{Bell, Ended, Observed, Sink, span, supervise};

/// Where logs are among the outputs.
const DIR: &str = "services";
/// The most bytes of a log; what comes later is left out.
const MOST_LOG: u64 = 16 << 20;
/// How much of a log's end a step tells, in bytes.
const TOLD: u64 = 2_000;
/// How often it is looked whether a service is ready, and how long a look may take.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const LOOK_WITHIN: Duration = Duration::from_secs(10);

/// The services of a run.
#[derive(Debug, Default)]
pub(crate) struct Services(Mutex<Option<Up>>);

/// What was started.
#[derive(Debug)]
struct Up {
    network: Option<SharedNetwork>,
    running: Vec<Running>,
}

/// One service.
#[derive(Debug)]
struct Running {
    name: String,
    stop: Option<Arc<Bell>>,
    /// How it ended, once it has.
    end: Arc<Mutex<Option<String>>>,
    thread: Option<JoinHandle<()>>,
    state: State,
    /// Why no jail holds it, until that is told.
    unheld: Option<String>,
    is_told: bool,
}

/// How far a service has come.
#[derive(Debug)]
enum State {
    /// It is waited for.
    Starting,
    /// It can be used.
    Ready,
    /// It was waited for long enough; it may be ready later.
    Late(String),
    /// It cannot be started.
    Failed(String),
}

/// What a step finds.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The network that it is to join.
    pub(crate) network: Option<SharedNetwork>,
    /// What it has to tell, a line or a few for each service that does not run.
    pub(crate) notes: Vec<String>,
}

impl Services {
    /// Starts what is declared, unless it was started before; returns when all are ready, or known not to
    /// be, or `stop` rings.
    ///
    /// # Errors
    /// When no network can be made for them.
    pub(crate) fn ensure(&self, config: &Config, stop: &Bell) -> Result<Found, Refused> {
        if config.services.is_empty() {
            return Ok(Found::default());
        }
        let mut slot = self.lock();
        let up = match &mut *slot {
            Some(up) => up,
            none => {
                let network = jail::network(config)?;
                let start = |service| Running::start(config, network.as_ref(), service);
                let running = config.services.iter().map(start).collect();
                none.insert(Up { network, running })
            }
        };
        for (service, running) in config.services.iter().zip(&mut up.running) {
            running.await_ready(config, up.network.as_ref(), service, stop);
        }
        let notes = up.running.iter_mut().filter_map(|running| running.note(config)).collect();
        Ok(Found { network: up.network.clone(), notes })
    }

    /// Ends all of them; nothing of them is alive when this returns.
    pub(crate) fn end(&self) {
        let Some(up) = self.lock().take() else { return };
        up.running.iter().filter_map(|running| running.stop.as_ref()).for_each(|stop| stop.ring());
        for thread in up.running.into_iter().filter_map(|running| running.thread) {
            let _ = thread.join();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Up>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    /// One that cannot be started is one that has ended.
    fn start(config: &Config, network: Option<&SharedNetwork>, service: &Service) -> Self {
        let failed = |why: String| Self {
            name: service.name.clone(),
            stop: None,
            end: Arc::default(),
            thread: None,
            state: State::Failed(format!("could not be started: {why}")),
            unheld: None,
            is_told: false,
        };
        let (stop, mut log) = match (Bell::new(), Log::open(config, &service.name)) {
            (Ok(stop), Ok(log)) => (Arc::new(stop), log),
            (Err(error), _) | (_, Err(error)) => return failed(error.to_string()),
        };
        let program = Program::Service(&service.command);
        let launcher = jail::launcher(config);
        let jailed = match jail::start(&launcher, config, Effect::Read, program, Stdin::Null, network) {
            Ok(jailed) => jailed,
            Err(refused) => return failed(refused.hint),
        };
        let unheld = match &jailed.status {
            Status::Enforced => None,
            Status::Degraded(why) | Status::Unsupported(why) => Some(why.clone()),
        };
        let end: Arc<Mutex<Option<String>>> = Arc::default();
        let (its_stop, its_end) = (Arc::clone(&stop), Arc::clone(&end));
        let thread = std::thread::Builder::new().spawn(move || {
            let ended = supervise(jailed, None, Duration::MAX, &its_stop, &mut log);
            let how = match ended {
                Ok(Observed { ended: Ended::Bound(bound), .. }) => format!("{bound}; {}", bound.mend()),
                Ok(Observed { status: Some(status), .. }) => status.to_string(),
                Ok(_) => "it ended".into(),
                Err(error) => format!("it could not be followed: {error}"),
            };
            *its_end.lock().unwrap_or_else(PoisonError::into_inner) = Some(how);
        });
        match thread {
            Ok(thread) => {
                let name = service.name.clone();
                Self {
                    name,
                    stop: Some(stop),
                    end,
                    thread: Some(thread),
                    state: State::Starting,
                    unheld,
                    is_told: false,
                }
            }
            Err(error) => failed(error.to_string()),
        }
    }

    fn end(&self) -> Option<String> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until it is ready, has ended, or its time is up; one that is late is looked at once more.
    fn await_ready(
        &mut self,
        config: &Config,
        network: Option<&SharedNetwork>,
        service: &Service,
        stop: &Bell,
    ) {
        let Some(ready) = &service.ready else { return };
        let mut left = match self.state {
            State::Ready | State::Failed(_) => return,
            State::Starting => Duration::from_millis(service.ready_timeout),
            State::Late(_) => Duration::ZERO,
        };
        let deadline = Instant::now().checked_add(left);
        while self.end().is_none() {
            let program = Program::Service(ready);
            let within = left.clamp(LOOK_EVERY, LOOK_WITHIN);
            let looked =
                jail::start(&jail::launcher(config), config, Effect::Read, program, Stdin::Null, network)
                    .map(|jailed| supervise(jailed, None, within, stop, &mut Nowhere));
            match looked {
                Ok(Ok(Observed { ended: Ended::Cancelled, .. })) => return,
                Ok(Ok(Observed { ended: Ended::Itself, status: Some(status), .. })) if status.success() => {
                    self.state = State::Ready;
                    return;
                }
                Ok(_) => {}
                Err(refused) => {
                    self.state = State::Failed(format!("cannot be looked at: {}", refused.hint));
                    return;
                }
            }
            left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                let seconds = Duration::from_millis(service.ready_timeout).as_secs_f64();
                let news = format!("is not ready after {seconds} s: `{ready}` does not exit with 0");
                self.state = State::Late(news);
                return;
            }
            // A step that is to end does not wait.
            if rests_until_rung(stop, LOOK_EVERY) {
                return;
            }
        }
    }

    /// What a step has to tell of it: in full once, then that it still is so.
    fn note(&mut self, config: &Config) -> Option<String> {
        let wrong = match (&self.state, self.end()) {
            (State::Failed(news), _) => news.clone(),
            (_, Some(end)) => format!("has ended: {end}"),
            (State::Late(news), None) => news.clone(),
            (State::Starting | State::Ready, None) => {
                let name = &self.name;
                let told = |why| format!("[warning: service `{name}` runs without a jail: {why}]");
                return self.unheld.take().map(told);
            }
        };
        let name = &self.name;
        let shown = outputs(config, Ground::Jail).join(DIR).join(format!("{name}.log"));
        let shown = shown.display();
        if std::mem::replace(&mut self.is_told, true) {
            return Some(format!("[service `{name}` {wrong}; its log: {shown}]"));
        }
        let tail = tail(&log_path(&config.spool, name));
        let tail = tail.trim();
        let tail = if tail.is_empty() { "(nothing)" } else { tail };
        Some(format!("[service `{name}` {wrong}; the end of its log, {shown}:\n{tail}\n]"))
    }
}

/// Waits; says whether it was woken by the bell.
fn rests_until_rung(bell: &Bell, time: Duration) -> bool {
    let fd = bell.fd();
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&span(time))).is_ok_and(|rung| rung > 0)
}

fn log_path(spool: &Path, name: &str) -> PathBuf {
    spool::outputs_dir(spool).join(DIR).join(format!("{name}.log"))
}

fn tail(path: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TOLD)))?;
        let mut end = Vec::new();
        file.take(TOLD).read_to_end(&mut end)?;
        Ok(end)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

/// What a service says, up to a bound. It goes on after an earlier start of the same service.
struct Log {
    file: File,
    left: u64,
}

impl Log {
    fn open(config: &Config, name: &str) -> std::io::Result<Self> {
        let path = log_path(&config.spool, name);
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let left = MOST_LOG.saturating_sub(file.metadata()?.len());
        Ok(Self { file, left })
    }
}

impl Sink for Log {
    fn take(&mut self, _: usize, bytes: &[u8]) {
        let room = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        self.left = self.left.saturating_sub(room as u64);
        // A full disk is no reason to end a service.
        let _ = self.file.write_all(bytes.get(..room).unwrap_or_default());
    }
}

/// Takes what nobody reads.
struct Nowhere;

impl Sink for Nowhere {
    fn take(&mut self, _: usize, _: &[u8]) {}
}
