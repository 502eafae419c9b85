//! The only place that starts `git`: with an empty environment, explicit directories, no
//! configuration but ours, bounded output and typed errors.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io::{self, Read, Seek as _, SeekFrom, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::hold::Hold;
use crate::message::Signature;

/// Output that a command may give when nothing else is said: enough for the names of a million
/// files, in bytes.
const OUTPUT_LIMIT: usize = 256 << 20;
/// What is kept of the standard error, in bytes.
const STDERR_LIMIT: u64 = 64 << 10;

/// Settings of every run. The command line outranks every configuration file.
const SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.quotePath=false",
    "core.fsync=committed",
    "core.fsyncMethod=batch",
    "core.symlinks=true",
    "core.fileMode=true",
    "protocol.version=2",
    "protocol.allow=never",
    "protocol.file.allow=always",
    "protocol.ext.allow=never",
    "diff.ignoreSubmodules=all",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
    "safe.directory=*",
];
/// Those of a run that asks for what the others would outrank.
const PLAIN: &[&str] = &["core.fsmonitor=false", "safe.directory=*"];
/// What the owner's own git is given of the daemon's environment.
const OWNERS: [&str; 7] =
    ["HOME", "USER", "LOGNAME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "GNUPGHOME"];
/// Settings that hide the owner's wishes about line ends, attributes and ignored files.
const NEUTRAL: &[&str] =
    &["core.autocrlf=false", "core.eol=lf", "core.attributesFile=/dev/null", "core.excludesFile=/dev/null"];

/// A run of `git` that did not give what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program is not there or cannot be executed.
    #[error("cannot start `git`: install git 2.40 or newer and put it on the PATH")]
    Start {
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// Talking to the process failed.
    #[error("lost the connection to `git {command}`: try again")]
    Io {
        /// The git command.
        command: String,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// git ended with a failure.
    #[error("`git {command}` ended with {code}: {said}")]
    Failed {
        /// The git command.
        command: String,
        /// The exit code, -1 when a signal ended it.
        code: i32,
        /// The first line of its standard error.
        said: String,
    },
    /// The answer was longer than the limit.
    #[error("`git {command}` answered with more than {limit} bytes: the tree is too large")]
    TooLarge {
        /// The git command.
        command: String,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The answer has a form that this version does not know.
    #[error("`git {command}` answered in an unknown form: use git 2.40 or newer")]
    Unreadable {
        /// The git command.
        command: String,
    },
}

/// How a run ended, for commands whose failure is an answer.
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) truncated: bool,
    stderr: Vec<u8>,
}

/// One run of `git`, being prepared.
pub(crate) struct Git {
    name: &'static str,
    args: Vec<OsString>,
    settings: Vec<String>,
    env: Vec<(&'static str, OsString)>,
    cwd: PathBuf,
    stdin: Vec<u8>,
    stdin_file: Option<PathBuf>,
    limit: usize,
    owner_settings: bool,
    plain: bool,
    hold: Option<Hold>,
}

impl Git {
    /// The command `name` in the git dir `git_dir`.
    pub(crate) fn at(git_dir: &Path, name: &'static str) -> Self {
        Self::in_dir(git_dir, name).env("GIT_DIR", git_dir)
    }

    /// The command `name` in `dir`, where git looks for the repository itself.
    pub(crate) fn in_dir(dir: &Path, name: &'static str) -> Self {
        Self {
            name,
            args: Vec::new(),
            settings: Vec::new(),
            env: Vec::new(),
            cwd: dir.to_owned(),
            stdin: Vec::new(),
            stdin_file: None,
            limit: OUTPUT_LIMIT,
            owner_settings: false,
            plain: false,
            hold: None,
        }
    }

    pub(crate) fn work_tree(mut self, dir: &Path) -> Self {
        self.cwd = dir.to_owned();
        self.env("GIT_WORK_TREE", dir)
    }

    pub(crate) fn index(self, path: &Path) -> Self {
        self.env("GIT_INDEX_FILE", path)
    }

    pub(crate) fn env(mut self, key: &'static str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((key, value.as_ref().to_owned()));
        self
    }

    /// Who signs a commit, as its author and as its committer.
    pub(crate) fn signed(self, signature: &Signature) -> Self {
        let [name, email, date] = signature.parts();
        self.env("GIT_AUTHOR_NAME", &name)
            .env("GIT_AUTHOR_EMAIL", &email)
            .env("GIT_AUTHOR_DATE", &date)
            .env("GIT_COMMITTER_NAME", &name)
            .env("GIT_COMMITTER_EMAIL", &email)
            .env("GIT_COMMITTER_DATE", &date)
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub(crate) fn args<const N: usize>(mut self, args: [&str; N]) -> Self {
        self.args.extend(args.iter().map(OsString::from));
        self
    }

    /// One more setting, for this command alone.
    pub(crate) fn setting(mut self, key: &str, value: impl Display) -> Self {
        self.settings.push(format!("{key}={value}"));
        self
    }

    pub(crate) fn stdin(mut self, bytes: Vec<u8>) -> Self {
        self.stdin = bytes;
        self
    }

    /// A file for its standard input: for what is too long for memory.
    pub(crate) fn stdin_file(mut self, path: &Path) -> Self {
        self.stdin_file = Some(path.to_owned());
        self
    }

    pub(crate) fn limit(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }

    /// Lets the owner's settings of line ends, attributes and ignored files be seen. Only for
    /// commands that answer a question about them and start nothing.
    pub(crate) fn with_owner_settings(mut self) -> Self {
        self.owner_settings = true;
        self
    }

    /// Lets settings of the owner be seen that ours would outrank. Only for commands that answer a
    /// question about them and start nothing.
    pub(crate) fn owner_config_only(mut self) -> Self {
        self.plain = true;
        self
    }

    /// Runs it as the owner's own git, which may start what the owner's configuration names: signing
    /// programs, hooks. `None`: it took longer than `within`, and was ended with all of its group.
    ///
    /// Its streams are files: whatever it leaves behind keeps nobody waiting.
    pub(crate) fn run_as_owner(self, within: Duration) -> Result<Option<Outcome>, Error> {
        let lost = |source| Error::Io { command: self.name.to_owned(), source };
        let (mut out, mut err) = (tempfile::tempfile().map_err(lost)?, tempfile::tempfile().map_err(lost)?);
        #[expect(
            clippy::disallowed_methods,
            reason = "the owner's git, for what only the owner's git may do"
        )]
        let mut command = Command::new("git");
        command.env_clear().process_group(0).current_dir(&self.cwd).arg("--no-pager");
        command.arg(self.name).args(&self.args);
        for key in OWNERS {
            if let Some(value) = std::env::var_os(key) {
                command.env(key, value);
            }
        }
        command
            .env("PATH", search_path())
            .env("LC_ALL", "C.UTF-8")
            .env("GIT_TERMINAL_PROMPT", "0")
            .envs(self.env.iter().map(|(k, v)| (*k, v)))
            .stdin(Stdio::null())
            .stdout(out.try_clone().map_err(lost)?)
            .stderr(err.try_clone().map_err(lost)?);
        let mut child = command.spawn().map_err(|source| Error::Start { source })?;
        let begun = Instant::now();
        let status = loop {
            match child.try_wait().map_err(lost)? {
                Some(status) => break status,
                None if begun.elapsed() > within => {
                    let _ = rustix::process::kill_process_group(
                        rustix::process::Pid::from_child(&child),
                        rustix::process::Signal::KILL,
                    );
                    child.wait().map_err(lost)?;
                    return Ok(None);
                }
                None => thread::sleep(Duration::from_millis(10)),
            }
        };
        let read = |file: &mut std::fs::File, most: u64| -> io::Result<Vec<u8>> {
            let mut kept = Vec::new();
            file.seek(SeekFrom::Start(0))?;
            file.take(most).read_to_end(&mut kept)?;
            Ok(kept)
        };
        let stdout = read(&mut out, OUTPUT_LIMIT as u64).map_err(lost)?;
        let stderr = read(&mut err, STDERR_LIMIT).map_err(lost)?;
        Ok(Some(Outcome { code: status.code().unwrap_or(-1), stdout, truncated: false, stderr }))
    }

    /// Lets it share the exclusive use of what it works on.
    pub(crate) fn under(mut self, hold: &Hold) -> Self {
        self.hold = Some(hold.clone());
        self
    }

    /// Runs it; anything but exit code 0 is an error.
    pub(crate) fn run(self) -> Result<Vec<u8>, Error> {
        let (name, limit) = (self.name, self.limit);
        let outcome = self.outcome()?;
        if outcome.truncated {
            return Err(Error::TooLarge { command: name.to_owned(), limit });
        }
        match outcome.code {
            0 => Ok(outcome.stdout),
            _ => Err(outcome.failure(name)),
        }
    }

    /// Runs it and gives its answer as one line of text, without the line end.
    pub(crate) fn line(self) -> Result<String, Error> {
        let name = self.name;
        let mut out = self.run()?;
        if out.last() == Some(&b'\n') {
            out.pop();
        }
        String::from_utf8(out).map_err(|_| unreadable(name))
    }

    /// Runs it and gives its answer as a path, without the line end.
    pub(crate) fn path(self) -> Result<PathBuf, Error> {
        let mut out = self.run()?;
        if out.last() == Some(&b'\n') {
            out.pop();
        }
        Ok(PathBuf::from(OsString::from_vec(out)))
    }

    /// Runs it and gives its answer as an object name.
    pub(crate) fn object<T: std::str::FromStr>(self) -> Result<T, Error> {
        let name = self.name;
        self.line()?.parse().map_err(|_| unreadable(name))
    }

    /// Runs it and gives its answer as the paths that NUL bytes separate.
    pub(crate) fn paths(self) -> Result<Vec<PathBuf>, Error> {
        Ok(split_nul(&self.run()?).map(to_path).collect())
    }

    /// Runs it; the exit code is part of the answer.
    pub(crate) fn outcome(self) -> Result<Outcome, Error> {
        let name = self.name;
        let mut command = self.command();
        if let Some(path) = &self.stdin_file {
            let file = std::fs::File::open(path);
            command.stdin(file.map_err(|source| Error::Io { command: name.to_owned(), source })?);
        }
        if let Some(hold) = &self.hold {
            command.stderr(hold.stderr().map_err(|source| Error::Start { source })?);
        }
        let mut child = command.spawn().map_err(|source| Error::Start { source })?;
        let mut outcome = converse(&mut child, &self.stdin, self.limit)
            .map_err(|source| Error::Io { command: name.to_owned(), source })?;
        if let Some(hold) = &self.hold {
            outcome.stderr = hold.said();
        }
        Ok(outcome)
    }

    fn command(&self) -> Command {
        #[expect(clippy::disallowed_methods, reason = "the one place where the host starts git")]
        let mut command = Command::new(program());
        command.env_clear().current_dir(&self.cwd).arg("--no-pager");
        let neutral = if self.owner_settings { &[] } else { NEUTRAL };
        let ours = if self.plain { PLAIN } else { SETTINGS };
        for setting in ours.iter().chain(neutral) {
            command.args(["-c", setting]);
        }
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        command.arg(self.name).args(&self.args);
        command.env("PATH", search_path());
        if self.owner_settings {
            for key in ["HOME", "XDG_CONFIG_HOME"] {
                if let Some(value) = std::env::var_os(key) {
                    command.env(key, value);
                }
            }
        } else {
            command
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .env("GIT_ATTR_NOSYSTEM", "1");
        }
        command
            .env("LC_ALL", "C")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_LITERAL_PATHSPECS", "1")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .envs(self.env.iter().map(|(k, v)| (*k, v)))
            .stdin(if self.stdin.is_empty() { Stdio::null() } else { Stdio::piped() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

impl Outcome {
    /// The error that says how the command `name` failed.
    pub(crate) fn failure(&self, name: &str) -> Error {
        let text = String::from_utf8_lossy(&self.stderr);
        let said = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("no message");
        Error::Failed {
            command: name.to_owned(),
            code: self.code,
            said: said.chars().filter(|c| !c.is_control()).take(300).collect(),
        }
    }
}

/// Where programs are looked for: the absolute directories of the PATH, since a relative one would
/// be searched inside a workspace.
fn search_path() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> = std::env::split_paths(&path).filter(|dir| dir.is_absolute()).collect();
    match std::env::join_paths(dirs) {
        Ok(path) if !path.is_empty() => path,
        _ => OsString::from("/usr/local/bin:/usr/bin:/bin"),
    }
}

/// Where `git` lies: given by its whole path it can be started without a copy of this process.
fn program() -> PathBuf {
    let named = Path::new("git");
    let candidates = search_path();
    let mut found = std::env::split_paths(&candidates).map(|dir| dir.join(named));
    let is_program =
        |path: &PathBuf| rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file();
    found.find(is_program).unwrap_or_else(|| named.to_owned())
}

/// The error for an answer that could not be read.
pub(crate) fn unreadable(name: &str) -> Error {
    Error::Unreadable { command: name.to_owned() }
}

/// The fields that NUL bytes end.
pub(crate) fn split_nul(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|b| *b == 0).filter(|field| !field.is_empty())
}

/// A name as git gave it; names are bytes.
pub(crate) fn to_path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// The paths as git reads them from its standard input with `-z`.
pub(crate) fn join_nul<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Vec<u8> {
    let mut out = Vec::new();
    for path in paths {
        out.extend_from_slice(path.as_os_str().as_bytes());
        out.push(0);
    }
    out
}

/// Feeds and drains all three streams at once, so that neither side can block the other.
fn converse(child: &mut Child, input: &[u8], limit: usize) -> io::Result<Outcome> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        if let Some(mut stdin) = stdin {
            // A process that closes its input early says why by its exit code.
            scope.spawn(move || stdin.write_all(input).is_ok());
        }
        let said = scope.spawn(move || {
            let mut kept = Vec::new();
            if let Some(mut stderr) = stderr {
                let _ = stderr.by_ref().take(STDERR_LIMIT).read_to_end(&mut kept);
                let _ = io::copy(&mut stderr, &mut io::sink());
            }
            kept
        });
        let mut out = Vec::new();
        let read = match stdout {
            Some(stdout) => stdout.take(limit as u64 + 1).read_to_end(&mut out),
            None => Ok(0),
        };
        let truncated = out.len() > limit;
        if truncated || read.is_err() {
            out.truncate(limit);
            let _ = child.kill();
        }
        let status = child.wait()?;
        read?;
        let stderr = said.join().unwrap_or_default();
        Ok(Outcome { code: status.code().unwrap_or(-1), stdout: out, truncated, stderr })
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_the_owners_git_starts_is_ended_with_it() {
        let scratch = tempfile::tempdir().unwrap();
        let repo = scratch.path();
        Git::in_dir(repo, "init").args(["-q", "."]).run().unwrap();
        let hook = repo.join(".git/hooks/post-merge");
        fs::create_dir_all(hook.parent().unwrap()).unwrap();
        let mark = "735186310";
        fs::write(&hook, format!("#!/bin/sh\necho begun\nsleep {mark}\n")).unwrap();
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
        let run = Git::in_dir(repo, "hook").args(["run", "post-merge", "--", "0"]);
        assert!(run.run_as_owner(Duration::from_millis(300)).unwrap().is_none());
        let is_alive = || {
            fs::read_dir("/proc").unwrap().flatten().any(|process| {
                let stat = fs::read_to_string(process.path().join("stat")).unwrap_or_default();
                let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
                !stat.contains(") Z ") && String::from_utf8_lossy(&line).contains(mark)
            })
        };
        // Whoever is killed may need a moment to be gone.
        while is_alive() {
            thread::sleep(Duration::from_millis(10));
        }
    }
}
