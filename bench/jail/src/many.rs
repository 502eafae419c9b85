//! A hundred jails at once.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsFd;
use std::thread;

use anyhow::{Context as _, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sandbox::{Child, Status, Stdin};

use crate::ground::Ground;
use crate::table::Table;

const JAILS: usize = 100;

/// Each says that it is up, waits until all others are too, and gives back what it is told.
pub(crate) fn measure(table: &mut Table, ground: &Ground) -> Result<()> {
    let started: Vec<Result<Up>> = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..JAILS).map(|number| scope.spawn(move || Up::start(ground, number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| bail!("a thread failed"))).collect()
    });
    // All have said that they are up, and none has been let go: those that live now lived at once.
    let count = started.iter().flatten().filter(|up| up.lives()).count();
    let mut failures: Vec<String> = Vec::new();
    for ended in started.into_iter().map(|up| up.and_then(Up::end)) {
        if let Err(error) = ended {
            failures.push(format!("{error:#}"));
        }
    }
    let how = match failures.first() {
        None if count == JAILS => Ok("all alive at once, each held, each ended with its own answer".into()),
        None => Err(format!("{count} were alive at once")),
        Some(first) => Err(format!("{} failed, the first: {first}", failures.len())),
    };
    table.holds(&format!("{JAILS} jails at once"), how);
    Ok(())
}

/// A jail that has said that it is up.
struct Up {
    number: usize,
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Up {
    fn start(ground: &Ground, number: usize) -> Result<Self> {
        let plan = ground.plan(["/bin/sh", "-c", "echo up; exec cat"]);
        let mut child = ground.launcher().spawn(&plan, Stdin::Piped)?;
        let mut output = BufReader::new(child.stdout.take().context("a jail has no output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        if line != "up\n" || *child.status() != Status::Enforced {
            bail!("jail {number} said {line:?} and is {:?}", child.status());
        }
        Ok(Self { number, child, output })
    }

    fn lives(&self) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.child.as_fd(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(0)
    }

    fn end(mut self) -> Result<()> {
        let told = self.number.to_string();
        let mut input = self.child.stdin.take().context("a jail has no input")?;
        input.write_all(told.as_bytes())?;
        drop(input);
        let mut said = String::new();
        self.output.read_to_string(&mut said)?;
        let ended = self.child.wait()?;
        if said != told || !ended.success() {
            bail!("jail {told} said {said:?} and ended with {ended}");
        }
        Ok(())
    }
}
