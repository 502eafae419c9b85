//! What a jailed step may see, write and use: pure data, compiled elsewhere, enforced here.

use std::{
    ffi::{OsStr, OsString},
    path::{Component, Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{Error, Layers, default_system_mounts};

/// The complete description of one confined process. Nothing outside it is granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What the jail's file tree is made of; `/proc`, `/dev`, `/tmp`, [`crate::HOME`] and a
    /// minimal `/etc` are always there and need not be named.
    pub mounts: Vec<Mount>,
    /// The working directory, a path inside the jail.
    pub cwd: PathBuf,
    /// The program and its arguments; a name without a slash is looked up in `PATH` of `env`.
    pub argv: Vec<OsString>,
    /// The complete environment: nothing is inherited.
    pub env: Vec<(String, String)>,
    /// What the step may use up.
    pub limits: Limits,
    /// What the step may reach.
    pub network: Network,
    /// What happens when this machine cannot enforce the plan.
    pub posture: Posture,
    /// What may be executed of what can be seen.
    #[serde(default)]
    pub exec: Exec,
    /// The layers of a directory, where one mount shows such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<Layers>,
}

impl Plan {
    /// A plan that runs `argv` in `workspace`, writable and at the same path as outside, on
    /// the system's own programs, with default limits, no network, and posture `Deny`.
    pub fn new<A: Into<OsString>>(workspace: impl Into<PathBuf>, argv: impl IntoIterator<Item = A>) -> Self {
        let workspace = workspace.into();
        let mut mounts = default_system_mounts();
        mounts.push(Mount::write(&workspace));
        Self {
            mounts,
            cwd: workspace,
            argv: argv.into_iter().map(Into::into).collect(),
            env: vec![
                ("PATH".into(), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into()),
                ("HOME".into(), crate::HOME.into()),
                ("TMPDIR".into(), "/tmp".into()),
                ("USER".into(), "regie".into()),
                ("LANG".into(), "C.UTF-8".into()),
            ],
            limits: Limits::default(),
            network: Network::None,
            posture: Posture::Deny,
            exec: Exec::Any,
            layers: None,
        }
    }

    /// Whether the plan makes sense by itself; existence of its sources is the launcher's to
    /// find out.
    ///
    /// # Errors
    /// [`Error::Plan`] names the first thing that is wrong.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |reason: String| Err(Error::Plan { reason });
        if self.argv.first().is_none_or(|program| program.is_empty()) {
            return wrong("it names no program".into());
        }
        if !is_plain(&self.cwd) {
            return wrong(format!("its working directory {:?} is not a plain absolute path", self.cwd));
        }
        for mount in &self.mounts {
            let target = &mount.target;
            if !is_plain(target) || target == Path::new("/") {
                return wrong(format!(
                    "its mount target {target:?} is not a plain absolute path below the root"
                ));
            }
            if ["/proc", "/dev"].iter().any(|kept| target.starts_with(kept)) {
                return wrong(format!("its mount target {target:?} belongs to the jail itself"));
            }
            if has_nul(mount.source.as_os_str()) {
                return wrong(format!("its mount source {:?} holds a NUL byte", mount.source));
            }
        }
        if let Some(layers) = &self.layers {
            let mut paths = [&layers.base, &layers.upper, &layers.work].into_iter();
            if let Some(path) = paths.find(|path| !is_plain(path)) {
                return wrong(format!("its layer {path:?} is not a plain absolute path"));
            }
            layers.check(&self.mounts).map_err(|reason| Error::Plan { reason })?;
        }
        if self.argv.iter().any(|argument| has_nul(argument)) {
            return wrong("an argument of its program holds a NUL byte".into());
        }
        for (name, value) in &self.env {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                // The value may be a secret, a broken name may hold one.
                return wrong("its environment has a name or value that no process can take".into());
            }
        }
        Ok(())
    }
}

/// One piece of the jail's file tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// What is shown, a path outside the jail (for [`Access::Link`]: what the link says).
    pub source: PathBuf,
    /// Where it is shown, an absolute path inside the jail. Below another mount it must
    /// already exist there; and where both show the same place, it is taken from what that mount shows, so
    /// that nothing in a workspace can lead it elsewhere.
    pub target: PathBuf,
    /// What may be done with it.
    pub access: Access,
}

impl Mount {
    /// `path` read-only, at the same place.
    pub fn read(path: impl Into<PathBuf>) -> Self {
        Self::same(path.into(), Access::Read)
    }

    /// `path` writable, at the same place.
    pub fn write(path: impl Into<PathBuf>) -> Self {
        Self::same(path.into(), Access::Write)
    }

    /// A private temporary file system at `target`, gone with the step.
    pub fn private(target: impl Into<PathBuf>) -> Self {
        Self::same(target.into(), Access::Private)
    }

    fn same(path: PathBuf, access: Access) -> Self {
        Self { source: path.clone(), target: path, access }
    }
}

/// What may be done with a [`Mount`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Read and execute; nothing below it can be changed, submounts included.
    Read,
    /// Read; nothing below it can be changed or executed. An interpreter can still read a script in it.
    ReadNoExec,
    /// Read, execute and write. The source is reached by no symbolic link.
    Write,
    /// Read and write; nothing below it can be executed, as with [`Access::ReadNoExec`].
    WriteNoExec,
    /// Nothing: an empty file or directory that nobody can open stands in its place. A source that is not
    /// there is made by the caller, an empty file, and removed when the jail has ended.
    Cover,
    /// What is there already, mounted onto itself: it can be neither renamed nor removed, and what may be
    /// done with it stays as it is.
    Hold,
    /// An empty private tmpfs, bounded by [`Limits::scratch_bytes`]; the source is unused.
    Private,
    /// A symbolic link in the jail's own tree, whose content is the source.
    Link,
}

/// What a step may use up. Open files, file size and CPU time are counted per process (the kernel's resource
/// limits), `processes` over the whole jail by the kernel, memory by both, and what is written to disk over the
/// whole jail by its launcher, which ends all of it with a [`crate::Bound`]. Where there are control groups, the
/// kernel counts memory and processes of the jail by one, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Memory of the step as a whole, in bytes: its processes, its scratch and what they share. No single
    /// process gets more private writable memory either. Address space that is only reserved is not counted,
    /// as JavaScript and Java engines reserve far more than they use.
    pub memory_bytes: u64,
    /// Processes and threads alive at once in the jail. For a caller that is root the bound
    /// is looser by about 300, the kernel's reserve of process ids.
    pub processes: u64,
    /// Open files of one process.
    pub open_files: u64,
    /// Size of one written file, in bytes.
    pub file_size_bytes: u64,
    /// CPU time of one process, in seconds.
    pub cpu_seconds: Option<u64>,
    /// Size of each private temporary file system, in bytes.
    pub scratch_bytes: u64,
    /// What the step as a whole may write to disk, in bytes; nine tenths of what is free there at most.
    #[serde(default = "Limits::usual_disk_bytes")]
    pub disk_bytes: u64,
    /// The files that the step as a whole may make on disk; nine tenths of what is free there at most.
    #[serde(default = "Limits::usual_disk_files")]
    pub disk_files: u64,
}

impl Limits {
    /// The default limits, with as much memory as suits this machine: half of it, but 4 GiB where that is at
    /// most three quarters.
    #[must_use]
    pub fn of_this_machine() -> Self {
        #[cfg(target_os = "linux")]
        let memory = {
            let found = rustix::system::sysinfo();
            found.totalram.saturating_mul(found.mem_unit.into())
        };
        #[cfg(not(target_os = "linux"))]
        let memory = u64::MAX;
        Self { memory_bytes: Self::suitable(memory), ..Self::default() }
    }

    fn suitable(memory: u64) -> u64 {
        let bytes = (memory / 2).max((memory / 4 * 3).min(Self::default().memory_bytes));
        // In whole MiB, as people read it.
        bytes >> 20 << 20
    }

    const fn usual_disk_bytes() -> u64 {
        16 << 30
    }

    const fn usual_disk_files() -> u64 {
        1_000_000
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 4 << 30,
            processes: 512,
            open_files: 4096,
            file_size_bytes: 1 << 30,
            cpu_seconds: None,
            scratch_bytes: 1 << 30,
            disk_bytes: Self::usual_disk_bytes(),
            disk_files: Self::usual_disk_files(),
        }
    }
}

/// What a step may reach over the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Nothing but a loopback of its own.
    None,
    /// What this machine reaches, its own loopback included: the step stays in the machine's network
    /// namespace, and resolves names as the machine does. Nothing else of the jail is wider: abstract
    /// sockets, which belong to that namespace too, are held by Landlock (ABI 6), without which such a
    /// plan is refused.
    Host,
}

/// What may be executed in a jail, beside what each [`Access`] says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exec {
    /// Any program in there.
    #[default]
    Any,
    /// The plan's own program, once, with what the system needs to start it; nothing by any process after it:
    /// neither another program, nor the same again, nor one without a file. Nothing in a temporary directory
    /// can be loaded as code.
    Once,
    /// Nothing at all: the launcher itself becomes the tool that its binary brings along (see
    /// [`crate::Resident`]), `argv` being its arguments. It is one process, makes no code and opens no socket.
    /// The plan's environment is not given to it.
    Resident,
}

/// What happens when the machine cannot enforce a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Posture {
    /// Enforced, or not started.
    Deny,
    /// Started all the same with [`crate::Status::Degraded`], for the caller to show.
    Ask,
}

fn has_nul(text: &OsStr) -> bool {
    text.as_encoded_bytes().contains(&0)
}

fn is_plain(path: &Path) -> bool {
    path.is_absolute()
        && !has_nul(path.as_os_str())
        && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::Limits;

    #[test]
    fn a_step_gets_what_the_machine_can_spare() {
        for (machine, step) in [(64, 32), (8, 4), (6, 4), (4, 3), (0, 0)] {
            assert_eq!(Limits::suitable(machine << 30), step << 30);
        }
        assert_eq!(Limits::suitable((64 << 30) + 5000), 32 << 30);
    }

    #[test]
    fn limits_of_before_are_read() {
        let text = r#"{"memory_bytes":1,"processes":2,"open_files":3,"file_size_bytes":4,"cpu_seconds":null,"scratch_bytes":5}"#;
        let limits: Limits = serde_json::from_str(text).unwrap();
        assert_eq!((limits.disk_bytes, limits.disk_files), (16 << 30, 1_000_000));
    }
}
