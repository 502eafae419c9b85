//! What the tests share: a workspace, a plan for it, and running something to its end.

use std::{
    io::Read,
    path::{Path, PathBuf},
    process::ExitStatus,
};

use sandbox::{Access, Bound, Child, Error, LAUNCH_ARG, Launcher, Mount, Plan, Stdin};

/// The launcher under test; `REGIE_LAUNCHER` names a copy that another user may execute.
pub(crate) fn launcher() -> Launcher {
    let program =
        std::env::var_os("REGIE_LAUNCHER").unwrap_or_else(|| env!("CARGO_BIN_EXE_sandbox-launch").into());
    Launcher::at(program, vec![LAUNCH_ARG.into()])
}

/// A directory of the test's own, with a workspace in it and a place outside of that.
pub(crate) struct Ground {
    dir: tempfile::TempDir,
}

impl Ground {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        std::fs::create_dir(dir.path().join("outside")).unwrap();
        Self { dir }
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.dir.path().join("outside")
    }

    /// A plan that runs `script` by the shell in the workspace.
    pub(crate) fn shell(&self, script: &str) -> Plan {
        Plan::new(self.work(), ["/bin/sh", "-c", script])
    }

    /// A plan that runs a probe of this test binary in the workspace.
    pub(crate) fn probe(&self, name: &str, args: &[&str]) -> Plan {
        let inside = Path::new("/opt/probe");
        let mut argv = vec![inside.as_os_str().to_owned()];
        argv.extend(crate::probe::ARGV.iter().map(Into::into));
        let mut plan = Plan::new(self.work(), argv);
        plan.mounts.push(Mount {
            source: std::env::current_exe().unwrap(),
            target: inside.into(),
            access: Access::Read,
        });
        plan.env.extend(crate::probe::env(name, args));
        plan
    }
}

/// What came of a plan.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) bound: Option<Bound>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Outcome {
    /// The output of a program that succeeded.
    #[track_caller]
    pub(crate) fn good(self) -> String {
        assert!(self.status.success(), "{self:?}");
        self.out
    }

    /// Asserts that the program itself ran and failed.
    #[track_caller]
    pub(crate) fn bad(self) -> Self {
        assert!(self.status.code().is_some_and(|code| code != 0), "{self:?}");
        self
    }
}

pub(crate) fn start(plan: &Plan) -> Result<Child, Error> {
    launcher().spawn(plan, Stdin::Null)
}

#[track_caller]
pub(crate) fn run(plan: &Plan) -> Outcome {
    finish(start(plan).unwrap_or_else(|error| panic!("{error}: {error:?}")))
}

pub(crate) fn finish(mut child: Child) -> Outcome {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let stderr = child.stderr.take();
    std::thread::scope(|scope| {
        scope.spawn(|| stderr.map(|mut pipe| pipe.read_to_end(&mut err)));
        child.stdout.take().map(|mut pipe| pipe.read_to_end(&mut out));
    });
    let status = child.wait().unwrap();
    Outcome {
        status,
        bound: child.bound(),
        out: String::from_utf8_lossy(&out).into_owned(),
        err: String::from_utf8_lossy(&err).into_owned(),
    }
}
