//! From a step to the plan of its jail.

#[cfg(test)]
mod steps;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use domain::Effect;
use sandbox::{Access, Exec, Mount, Network, Plan, Posture};

use crate::config::Config;
use crate::tool;
use crate::toolchains::{CACHE, GO_MODULES};
use crate::{git, shown, spool};

/// Where steps see the workspace.
pub(crate) const WORKSPACE: &str = "/workspace";
/// Where steps see the long outputs of earlier steps.
const OUTPUTS: &str = "/outputs";

/// On what ground a step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ground {
    /// In a jail, enforced or not started.
    Jail,
    /// On a machine without jails, with everything at its own path.
    Bare,
}

/// What a jail is started for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Program<'a> {
    /// A file tool.
    Tool,
    /// A shell command.
    Shell(&'a str),
    /// A shell command with the machine's network.
    Setup(&'a str),
    /// What runs beside the steps, or a look at whether it is ready.
    Service(&'a str),
}

/// Where a step finds the workspace.
pub(crate) fn root(config: &Config, ground: Ground) -> PathBuf {
    match ground {
        Ground::Jail => WORKSPACE.into(),
        Ground::Bare => config.workspace.clone(),
    }
}

/// Where a step finds the long outputs of earlier steps of its run.
pub(crate) fn outputs(config: &Config, ground: Ground) -> PathBuf {
    match ground {
        Ground::Jail => OUTPUTS.into(),
        Ground::Bare => spool::outputs_dir(&config.spool),
    }
}

/// The plan of a step.
///
/// # Errors
/// What of the workspace cannot be shown.
pub(crate) fn plan(
    config: &Config,
    ground: Ground,
    effect: Effect,
    program: Program<'_>,
) -> Result<Plan, sandbox::Error> {
    let root = root(config, ground);
    let is_tool = matches!(program, Program::Tool);
    // A file tool is no program of the system, and works on the workspace alone.
    let mut mounts = if is_tool { Vec::new() } else { sandbox::default_system_mounts() };
    // What may not write gets nothing to write to.
    if !is_tool {
        mounts.extend(config.mounts.iter().cloned().map(|mount| match (effect, mount.access) {
            (Effect::Read, Access::Write) => Mount { access: Access::Read, ..mount },
            _ => mount,
        }));
    }
    mounts = fetched(mounts, config, program);
    mounts.push(Mount {
        source: spool::outputs_dir(&config.spool),
        target: outputs(config, ground),
        access: Access::Read,
    });
    match ground {
        Ground::Jail => mounts.extend(shown::workspace(config, effect, program, &root)?),
        Ground::Bare if !config.paths.is_everything() => {
            return Err(sandbox::Error::Plan {
                reason: "the lease of this run is about some of the files only, which nothing holds without a jail; \
                         `regie doctor` shows what this machine lacks"
                    .into(),
            });
        }
        Ground::Bare if effect == Effect::Read => mounts.push(Mount::read(&root)),
        Ground::Bare => mounts.push(Mount::write(&root)),
    }
    let git = git::mounts(config, ground, effect, program);
    let has_git = !git.is_empty();
    mounts.extend(git);
    Ok(Plan {
        mounts,
        cwd: root,
        argv: match program {
            Program::Tool => vec![tool::NAME.into()],
            Program::Shell(command) | Program::Setup(command) | Program::Service(command) => {
                vec![shell(), "-c".into(), command.into()]
            }
        },
        env: match program {
            Program::Setup(_) => given(online(env(config, ground, has_git), config, ground), config),
            Program::Shell(_) | Program::Service(_) => given(env(config, ground, has_git), config),
            Program::Tool => env(config, ground, false),
        },
        limits: config.limits,
        network: match program {
            Program::Setup(_) => Network::Host,
            Program::Tool | Program::Shell(_) | Program::Service(_) => Network::None,
        },
        posture: match ground {
            Ground::Jail => Posture::Deny,
            Ground::Bare => Posture::Ask,
        },
        exec: if is_tool { Exec::Resident } else { Exec::Any },
        layers: None,
    })
}

/// The mounts with the places for what a setup fetches: for the setup itself, and read-only for others once
/// there is something.
fn fetched(mut mounts: Vec<Mount>, config: &Config, program: Program<'_>) -> Vec<Mount> {
    let access = match program {
        Program::Setup(_) => Access::Write,
        Program::Tool => return mounts,
        _ if config.setup_mounts.iter().any(|own| is_filled(&own.source)) => Access::Read,
        _ => return mounts,
    };
    mounts.retain(|mount| config.setup_mounts.iter().all(|own| own.target != mount.target));
    mounts.extend(config.setup_mounts.iter().map(|own| Mount { access, ..own.clone() }));
    mounts
}

fn is_filled(dir: &Path) -> bool {
    std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some())
}

/// Whether a setup has fetched modules of Go.
fn has_go_modules(config: &Config) -> bool {
    let files = Path::new(CACHE).join("files");
    config.mounts.iter().any(|mount| mount.target == files && is_filled(&mount.source.join(GO_MODULES)))
}

/// An environment without what says that there is no network, and with a place for what is fetched.
fn online(mut env: Vec<(String, String)>, config: &Config, ground: Ground) -> Vec<(String, String)> {
    let offline = ["CARGO_NET_OFFLINE", "GOPROXY", "UV_OFFLINE", "npm_config_prefer_offline", "GOMODCACHE"];
    env.retain(|(name, _)| !offline.contains(&name.as_str()));
    for (name, value) in &config.setup_env {
        set(&mut env, name, value);
    }
    if ground == Ground::Jail {
        set(&mut env, "GOMODCACHE", &format!("{CACHE}/files/{GO_MODULES}"));
    }
    env
}

/// The shell that models write for, else the one that is always there.
fn shell() -> OsString {
    let bash = Path::new("/bin/bash");
    if bash.exists() { bash.into() } else { "/bin/sh".into() }
}

/// The complete environment of a step. Programs are told that nobody watches and answers.
fn env(config: &Config, ground: Ground, has_git: bool) -> Vec<(String, String)> {
    let home = match ground {
        Ground::Jail => sandbox::HOME,
        Ground::Bare => "/tmp",
    };
    let mut env: Vec<(String, String)> = [
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", home),
        ("TMPDIR", "/tmp"),
        ("USER", "regie"),
        ("LANG", "C.UTF-8"),
        ("TERM", "dumb"),
        ("CI", "1"),
        ("NO_COLOR", "1"),
        ("PAGER", "cat"),
        ("GIT_PAGER", "cat"),
        ("GIT_TERMINAL_PROMPT", "0"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    if has_git {
        set(&mut env, git::SYSTEM_ENV, git::SYSTEM);
    }
    // Without a jail there are no mounts, and so no place of the caches.
    let is_there = |value: &str| ground == Ground::Jail || !value.starts_with(CACHE);
    for (name, value) in config.env.iter().filter(|(_, value)| is_there(value)) {
        set(&mut env, name, value);
    }
    if ground == Ground::Jail && has_go_modules(config) {
        set(&mut env, "GOMODCACHE", &format!("{CACHE}/files/{GO_MODULES}"));
    }
    env
}

/// An environment with what the owner and the project give to commands.
fn given(mut env: Vec<(String, String)>, config: &Config) -> Vec<(String, String)> {
    for (name, value) in &config.given.0 {
        set(&mut env, name, value);
    }
    env
}

fn set(env: &mut Vec<(String, String)>, name: &str, value: &str) {
    match env.iter_mut().find(|(known, _)| known == name) {
        Some((_, known)) => value.clone_into(known),
        None => env.push((name.to_owned(), value.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a step may execute, and the targets of its mounts.
    fn of(program: Program<'_>, effect: Effect) -> (Exec, Vec<(PathBuf, Access)>) {
        let dir = tempfile::tempdir().unwrap();
        let config =
            Config::new(domain::RunId::new(1, [7; 10]), dir.path().join("s"), dir.path(), "/bin/true");
        let plan = plan(&config, Ground::Jail, effect, program).unwrap();
        (plan.exec, plan.mounts.into_iter().map(|mount| (mount.target, mount.access)).collect())
    }

    #[test]
    fn a_file_tool_sees_the_workspace_alone_and_executes_nothing() {
        for (effect, access) in [(Effect::Read, Access::Read), (Effect::WorkspaceWrite, Access::Write)] {
            let (exec, mounts) = of(Program::Tool, effect);
            assert_eq!(exec, Exec::Resident);
            let outer: Vec<_> = mounts.iter().filter(|(at, _)| at.parent() == Some(Path::new("/"))).collect();
            assert_eq!(outer, [&(OUTPUTS.into(), Access::Read), &(WORKSPACE.into(), access)]);
            assert!(mounts.iter().all(|(at, _)| at.starts_with(OUTPUTS) || at.starts_with(WORKSPACE)));
        }
        let (exec, mounts) = of(Program::Shell("true"), Effect::WorkspaceWrite);
        assert!(exec == Exec::Any && mounts.iter().any(|(at, _)| at == Path::new("/usr")));
    }
}
