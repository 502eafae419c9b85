//! The checks of the doctor.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{Access, access};
use sandbox::{Launcher, Plan, Stdin};

use super::{Check, Status, machine, models, notify, project};
use crate::client::{Client, Error};
use crate::disk;
use crate::home::Home;

/// The least version of Git that has what merges need.
const LEAST_GIT: (u32, u32) = (2, 40);
/// Free space below which the journal is in danger, in bytes.
const LEAST_SPACE: u64 = 100 << 20;
/// Free space below which it is worth saying, in bytes.
const GOOD_SPACE: u64 = 2 << 30;

pub(super) async fn all(home: &Home) -> Vec<Check> {
    let mut all = vec![git()];
    all.extend(jail());
    all.extend([user(), place(home), space(home), daemon(home).await]);
    all.extend(models::all(home).await);
    all.extend(machine::all(home));
    all.extend(notify::all(home));
    all.extend(project::all(home));
    all
}

fn git() -> Check {
    let id = "git.version";
    let mend = "install git 2.40 or newer, on Debian: sudo apt install git";
    let Some(said) = asked("git", &["--version"]) else {
        return Check::new(id, Status::Fail, "`git` is not on the PATH").mend(mend);
    };
    let mut numbers = said.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) >= LEAST_GIT => Check::new(id, Status::Ok, said),
        _ => Check::new(id, Status::Fail, said).mend(mend),
    }
}

/// What the machine can hold, and one whole jail with a program in it.
fn jail() -> Vec<Check> {
    let launcher = Launcher::this_binary();
    let mut all: Vec<Check> = sandbox::support(&launcher)
        .into_iter()
        .map(|found| {
            let (status, said) = match found.status {
                sandbox::Status::Enforced => (Status::Ok, found.evidence),
                sandbox::Status::Degraded(why) => (Status::Warn, format!("{why} ({})", found.evidence)),
                sandbox::Status::Unsupported(why) => (Status::Fail, format!("{why} ({})", found.evidence)),
            };
            Check { id: found.id, status, evidence: said, mend: found.mend }
        })
        .collect();
    let unmended = all.iter().all(|check| check.status != Status::Fail);
    all.push(proof(&launcher, unmended));
    all
}

fn proof(launcher: &Launcher, may_mend: bool) -> Check {
    let id = "jail.proof";
    let mut plan = Plan::new("/tmp", ["true"]);
    // Nothing of this machine is shown writable, not even its /tmp.
    plan.mounts.retain(|mount| mount.target != Path::new("/tmp"));
    let ended = launcher.spawn(&plan, Stdin::Null).and_then(|mut child| child.wait());
    match ended {
        Ok(ended) if ended.success() => Check::new(id, Status::Ok, "`true` ran in a whole jail"),
        Ok(ended) => Check::new(id, Status::Fail, format!("`true` ended in a jail with {ended}"))
            .mend("report this with the output of `regie doctor --json`"),
        Err(error) => {
            let check = Check::new(id, Status::Fail, error.to_string());
            let mend = match error {
                sandbox::Error::Refused { mend, .. } => mend,
                _ => "report this with the output of `regie doctor --json`".into(),
            };
            // Said above already, where a part of the jail is what fails.
            if may_mend { check.mend(mend) } else { check }
        }
    }
}

fn user() -> Check {
    if rustix::process::geteuid().is_root() {
        Check::new("user", Status::Warn, "root: what escapes a jail could do anything")
            .mend("run Regie as an ordinary user")
    } else {
        Check::new("user", Status::Ok, format!("uid {}", rustix::process::geteuid().as_raw()))
    }
}

fn place(home: &Home) -> Check {
    let id = "home";
    let root = home.root().display();
    if home.check().is_err() {
        return Check::new(id, Status::Fail, format!("{root} is not this user's alone"))
            .mend(format!("run `chmod 700 {root}`, or set REGIE_HOME to another place"));
    }
    if home.root().exists() {
        return match access(home.root(), Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
            Ok(()) => Check::new(id, Status::Ok, format!("{root}")),
            Err(error) => Check::new(id, Status::Fail, format!("{root} cannot be written: {error}"))
                .mend(format!("run `sudo chown -R $(id -un) {root}`, or set REGIE_HOME to another place")),
        };
    }
    match disk::existing(home.root()).map(|parent| access(parent, Access::WRITE_OK | Access::EXEC_OK)) {
        Some(Ok(())) => Check::new(id, Status::Ok, format!("{root}, made on first use")),
        _ => Check::new(id, Status::Fail, format!("{root} is not there and cannot be made"))
            .mend("set REGIE_HOME to a directory that you may write"),
    }
}

fn space(home: &Home) -> Check {
    let id = "home.space";
    let Some(free) = disk::room(home.root()) else {
        return Check::new(id, Status::Warn, "the free space is unknown");
    };
    let tenths = free / ((1 << 30) / 10);
    let said = format!("{}.{} GiB free", tenths / 10, tenths % 10);
    match free {
        0..LEAST_SPACE => {
            Check::new(id, Status::Fail, said).mend("free some space, or set REGIE_HOME to another disk")
        }
        LEAST_SPACE..GOOD_SPACE => Check::new(id, Status::Warn, said).mend("free some space soon"),
        _ => Check::new(id, Status::Ok, said),
    }
}

async fn daemon(home: &Home) -> Check {
    let id = "daemon";
    let hello = match Client::new(home) {
        Ok(client) => client.hello().await,
        Err(error) => return Check::new(id, Status::Fail, error.to_string()),
    };
    match hello {
        Ok(hello) if hello.version != env!("CARGO_PKG_VERSION") && hello.api == control::api::VERSION => {
            let found = format!("process {} is Regie {}, this is another", hello.pid, hello.version);
            Check::new(id, Status::Warn, found)
                .mend(format!("run `kill {}`: the next command starts this one, and runs go on", hello.pid))
        }
        Ok(hello) if hello.is_halted && hello.api == control::api::VERSION => {
            Check::new(id, Status::Warn, format!("process {}: everything is halted", hello.pid))
                .mend("run `regie halt --show` for the reason, and `regie halt --lift` to go on")
        }
        Ok(hello) if hello.api == control::api::VERSION => {
            Check::new(id, Status::Ok, format!("Regie {} runs as process {}", hello.version, hello.pid))
        }
        Ok(hello) => Check::new(
            id,
            Status::Fail,
            format!("process {} is Regie {} with API {}", hello.pid, hello.version, hello.api),
        )
        .mend(format!("run `kill {}`: the next command starts the right one", hello.pid)),
        Err(Error::Unreachable { .. }) => {
            Check::new(id, Status::Info, "not running; it is started on demand")
        }
        Err(error) => Check::new(id, Status::Fail, error.to_string())
            .mend(format!("look at {}", home.daemon_log().display())),
    }
}

/// The first line of what a program says; `None` when it fails or says nothing.
#[expect(clippy::disallowed_methods, reason = "asks the user's own programs what they are, nothing else")]
pub(super) fn asked(program: &str, args: &[&str]) -> Option<String> {
    let asked = Command::new(program).args(args).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&asked.stdout).lines().next().unwrap_or_default().trim().to_owned();
    (asked.status.success() && !said.is_empty()).then_some(said)
}
