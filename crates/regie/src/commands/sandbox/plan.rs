//! From the options of `regie sandbox` to rules, and from these to the plan of a jail.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use ::sandbox::compile::{
    Absent, Base, Compiled, Layered, Look, Machine, Pattern, Rule, Rules, Verb, compile,
};
use ::sandbox::{Exec, Limits, Network, Plan, Posture};

use super::{Net, Options, changes, refused, resolved};
use crate::failure::Failure;

/// What of a repository runs on the owner's side: read-only where something is to be written.
const IN_GIT: [(&str, Absent); 5] = [
    (".git/config", Absent::Covered),
    (".git/config.worktree", Absent::Left),
    (".git/hooks", Absent::Covered),
    (".git/modules", Absent::Left),
    (".git/worktrees", Absent::Left),
];

/// What shells, editors and agents take their orders from: read-only where it is there.
const SETTINGS: [&str; 12] = [
    ".envrc",
    ".mise.toml",
    ".vscode",
    ".idea",
    ".claude",
    ".codex",
    ".cursor",
    ".gemini",
    ".mcp.json",
    ".husky",
    ".nvim.lua",
    ".exrc",
];

/// A plan, and what it was made of.
pub(super) struct Made {
    pub(super) plan: Plan,
    pub(super) rules: Rules,
    pub(super) compiled: Compiled,
    /// Names of variables that the environment was asked for and does not have.
    pub(super) unset: Vec<String>,
}

/// The plan of `options`; `regie` is where Regie's own things lie.
pub(super) fn make(regie: Option<&Path>, options: &Options) -> Result<Made, Failure> {
    let here = std::env::current_dir().map_err(|error| {
        refused(format!("the current directory cannot be told: {error}")).hint("name one by --cwd")
    });
    let cwd = match &options.cwd {
        Some(cwd) => resolved(cwd, "the working directory")?,
        None => resolved(&here?, "the working directory")?,
    };
    if !cwd.is_dir() {
        return Err(
            refused(format!("the working directory {cwd:?} is not a directory")).hint("name one by --cwd")
        );
    }
    let rules = rules(regie, options, &cwd)?;
    let layers = options.changes.as_deref().map(|dir| changes::layers(&cwd, dir)).transpose()?;
    let layered = layers.as_ref().map(Layered);
    let look: &dyn Look = layered.as_ref().map_or(&Machine, |layered| layered);
    let compiled = compile(&rules, look).map_err(|error| refused(error.to_string()))?;
    let (env, unset) = env(&options.env)?;
    let mut limits = Limits::of_this_machine();
    limits.memory_bytes = options.memory.unwrap_or(limits.memory_bytes);
    limits.processes = options.processes.unwrap_or(limits.processes);
    limits.disk_bytes = options.disk.unwrap_or(limits.disk_bytes);
    limits.disk_files = options.files.unwrap_or(limits.disk_files);
    let mut plan = Plan::new(&cwd, options.command.iter().cloned());
    plan.mounts = compiled.mounts();
    plan.layers = layers;
    plan.limits = limits;
    plan.posture = Posture::Deny;
    plan.exec = if options.tier == 0 { Exec::Once } else { Exec::Any };
    plan.network = match options.net {
        Net::None => Network::None,
        Net::Host => Network::Host,
    };
    for (name, value) in env {
        plan.env.retain(|(known, _)| *known != name);
        plan.env.push((name, value));
    }
    Ok(Made { plan, rules, compiled, unset })
}

/// The rules that the options mean.
fn rules(regie: Option<&Path>, options: &Options, cwd: &Path) -> Result<Rules, Failure> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let home = home.map(|home| home.canonicalize().unwrap_or(home));
    let base = Base { workspace: cwd.to_owned(), home: home.clone() };
    let mut paths = Vec::new();
    let mut grant = |path: &Path, verbs: &[Verb], origin: String| -> Result<(), Failure> {
        for verb in verbs {
            let pattern = Pattern::literal(path).map_err(|error| refused(error.to_string()))?;
            paths.push(Rule::new(*verb, pattern, origin.clone()));
        }
        Ok(())
    };
    let written: &[Verb] = if options.tier == 0 { &[Verb::Read] } else { &[Verb::Write, Verb::Exec] };
    let shown: &[Verb] = if options.tier == 0 { &[Verb::Read] } else { &[Verb::Exec] };
    let mut granted = Vec::new();
    let mut roots = Vec::new();
    for path in &options.write {
        let path = resolved(path, "--write")?;
        grant(&path, written, format!("--write {}", path.display()))?;
        roots.push(path.clone());
        granted.push(path);
    }
    for path in &options.read {
        let path = resolved(path, "--read")?;
        grant(&path, shown, format!("--read {}", path.display()))?;
        granted.push(path);
    }
    if options.changes.is_some() || !granted.iter().any(|path| cwd.starts_with(path)) {
        if home.as_ref().is_some_and(|home| home.starts_with(cwd)) {
            return Err(refused(format!(
                "the working directory {cwd:?} holds your whole home, which is not granted unasked"
            ))
            .hint("start in a directory of it, or name what the program may have by --write or --read"));
        }
        if options.write.is_empty() {
            grant(cwd, written, "the working directory".into())?;
            roots.push(cwd.to_owned());
        } else {
            grant(cwd, shown, "the working directory".into())?;
        }
    }
    for glob in &options.deny {
        let pattern = Pattern::glob(glob, &base).map_err(|error| refused(error.to_string()))?;
        paths.push(Rule::new(Verb::Deny, pattern, format!("--deny {glob}")));
    }
    if options.tier != 0 {
        for root in &roots {
            protect(root, &options.write, &mut paths)?;
        }
    }
    // Regie's own is nobody's to look at, wherever it lies.
    if let Some(own) = regie.filter(|own| own.exists()) {
        let pattern = Pattern::literal(own).map_err(|error| refused(error.to_string()))?;
        paths.push(Rule::new(Verb::Deny, pattern, "Regie's home"));
    }
    Ok(Rules { paths, system: ::sandbox::default_system_mounts(), cwd: Some(cwd.to_owned()) })
}

/// Keeps read-only what the owner's own programs would execute.
fn protect(root: &Path, asked: &[PathBuf], paths: &mut Vec<Rule>) -> Result<(), Failure> {
    let git = root.join(".git");
    let is_repository = git.symlink_metadata().is_ok_and(|found| found.is_dir());
    let in_git = IN_GIT.iter().copied().filter(|_| is_repository);
    let settings = SETTINGS.iter().map(|name| (*name, Absent::Left));
    for (name, absent) in in_git.chain(settings) {
        let path = root.join(name);
        // Who names it, means it.
        if asked.iter().any(|asked| asked.canonicalize().is_ok_and(|asked| asked == path)) {
            continue;
        }
        let pattern = Pattern::literal(&path).map_err(|error| refused(error.to_string()))?;
        for verb in [Verb::Read, Verb::Exec] {
            let rule = Rule::new(verb, pattern.clone(), "what your own programs would execute");
            paths.push(Rule { absent, ..rule });
        }
    }
    Ok(())
}

type Env = Vec<(String, String)>;

/// The variables that were asked for, and the names of those that are not set.
fn env(asked: &[String]) -> Result<(Env, Vec<String>), Failure> {
    let (mut env, mut unset) = (Env::new(), Vec::new());
    if std::io::stdout().is_terminal()
        && let Ok(term) = std::env::var("TERM")
    {
        env.push(("TERM".into(), term));
    }
    for one in asked {
        let (name, value) = match one.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => match std::env::var(one) {
                Ok(value) => (one.as_str(), Some(value)),
                Err(std::env::VarError::NotPresent) => (one.as_str(), None),
                // Its value is not shown: it may be a secret.
                Err(_) => {
                    return Err(refused(format!(
                        "the variable {one:?} is not UTF-8 and cannot be passed on"
                    )));
                }
            },
        };
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(refused("--env wants a NAME or NAME=VALUE"));
        }
        match value {
            Some(value) => env.push((name.to_owned(), value)),
            None => unset.push(name.to_owned()),
        }
    }
    Ok((env, unset))
}
