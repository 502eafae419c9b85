//! The same surface on systems that have no jail yet: everything refuses, nothing pretends.

use std::{
    ffi::OsString,
    path::PathBuf,
    process::{ChildStderr, ChildStdout, ExitStatus},
};

use crate::{Bound, Check, Error, Plan, Status};

/// Where the launcher is found; it starts nothing on this system.
#[derive(Clone, Debug)]
pub struct Launcher {}

impl Launcher {
    /// The running binary.
    #[must_use]
    pub fn this_binary() -> Self {
        Self {}
    }

    /// Another binary.
    #[must_use]
    pub fn at(_program: impl Into<PathBuf>, _args: Vec<OsString>) -> Self {
        Self {}
    }

    /// Does nothing: what is refused needs no preparation.
    pub fn prepare(&self, _: &Limits) {}

    /// Refuses.
    ///
    /// # Errors
    /// Always [`Error::NoJail`].
    pub fn network(&self) -> Result<SharedNetwork, Error> {
        Err(Error::NoJail)
    }

    /// Refuses.
    ///
    /// # Errors
    /// Always [`Error::NoJail`].
    pub fn spawn_in(&self, _: Option<&SharedNetwork>, plan: &Plan, stdin: Stdin) -> Result<Child, Error> {
        self.spawn(plan, stdin)
    }

    /// Refuses.
    ///
    /// # Errors
    /// Always [`Error::NoJail`].
    pub fn spawn(&self, plan: &Plan, _stdin: Stdin) -> Result<Child, Error> {
        plan.check()?;
        Err(Error::NoJail)
    }
}

/// Refuses.
///
/// # Errors
/// Always [`Error::NoJail`].
pub fn spawn(plan: &Plan, stdin: Stdin) -> Result<Child, Error> {
    Launcher::this_binary().spawn(plan, stdin)
}

/// A network that jails share; there is none on this system.
#[derive(Clone, Debug)]
pub struct SharedNetwork {
    #[allow(dead_code, reason = "it only makes the type impossible to have")]
    never: std::convert::Infallible,
}

/// What the jailed program reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing.
    Null,
    /// What the caller writes.
    Piped,
    /// The caller's own standard streams.
    Inherited,
}

/// A confined process; there is none on this system.
#[derive(Debug)]
pub struct Child {
    never: std::convert::Infallible,
    /// Never there.
    pub stdin: Option<std::io::PipeWriter>,
    /// Never there.
    pub stdout: Option<ChildStdout>,
    /// Never there.
    pub stderr: Option<ChildStderr>,
}

impl Child {
    /// The launcher's process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        match self.never {}
    }

    /// The bound that it has reached.
    #[must_use]
    pub fn bound(&self) -> Option<Bound> {
        match self.never {}
    }

    /// What is enforced.
    #[must_use]
    pub fn status(&self) -> &Status {
        match self.never {}
    }

    /// A handle that ends the jail.
    #[must_use]
    pub fn killer(&self) -> Killer {
        match self.never {}
    }

    /// Ends the jail.
    ///
    /// # Errors
    /// Never.
    pub fn kill(&self) -> Result<(), Error> {
        match self.never {}
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// Never.
    pub fn wait(&mut self) -> Result<ExitStatus, Error> {
        match self.never {}
    }
}

impl std::os::fd::AsFd for Child {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        match self.never {}
    }
}

/// A handle that ends a jail; there is none on this system.
#[derive(Clone, Debug)]
pub struct Killer {
    never: std::convert::Infallible,
}

impl Killer {
    /// Ends the jail.
    ///
    /// # Errors
    /// Never.
    pub fn kill(&self) -> Result<(), Error> {
        match self.never {}
    }
}

/// Ends at once: there is nothing to launch.
pub fn launch_main() -> ! {
    std::process::exit(125)
}

/// A tool that a launcher becomes; there is none on this system.
pub type Resident = fn(&[OsString]) -> i32;

/// Ends at once: there is nothing to launch.
pub fn launch_resident_main(_: Resident) -> ! {
    launch_main()
}

/// Says that this system has no jail.
#[must_use]
pub fn support(_launcher: &Launcher) -> Vec<Check> {
    vec![Check {
        id: "jail".into(),
        status: Status::Unsupported("no jail on this system yet".into()),
        evidence: std::env::consts::OS.into(),
        mend: Some("run Regie on Linux".into()),
    }]
}

/// Says that this system has no jail.
#[must_use]
pub fn layers_support(launcher: &Launcher, _: &std::path::Path) -> Check {
    let mut checks = support(launcher);
    checks.swap_remove(0)
}
