//! What the project in the current directory is like: its repository, its configuration, and whether
//! its toolchains are reachable for a step.

use std::path::Path;

use store::owner;

use super::checks::asked;
use super::{Check, Status};
use crate::config::{self, Config, Flags, Key};
use crate::home::Home;
use crate::init::reach::{self, Reach};
use crate::init::toolchain::{self, Toolchain, out_of_reach};
use crate::screen::text;

/// Toolchains that are looked for wherever one is.
const COMMON: [&str; 4] = ["node", "python3", "cargo", "go"];

pub(super) fn all(home: &Home) -> Vec<Check> {
    let Ok(here) = std::env::current_dir() else {
        return vec![
            Check::new("repository", Status::Warn, "the current directory is gone")
                .mend("change to a directory that is there"),
        ];
    };
    let mut all = vec![identity(), repository(&here)];
    all.extend(configuration(home, &here));
    let used = config::project_root(&here).map(|root| toolchain::detect(&root)).unwrap_or_default();
    let mut named = Vec::new();
    for used in &used {
        // Two of them may need the same program.
        if !named.contains(&used.program) {
            named.push(used.program);
            all.push(needed(used, &reach::of(used.program)));
        }
    }
    let others = COMMON.into_iter().filter(|name| !named.contains(name));
    all.extend(others.map(|name| other(name, &reach::of(name))));
    all
}

/// Whether the owner can commit. Regie signs its commits itself; a merge that it leaves to the owner
/// needs the owner's name.
fn identity() -> Check {
    let id = "git.identity";
    let of = |key| asked("git", &["config", "--get", key]);
    match (of("user.name"), of("user.email")) {
        (Some(name), Some(email)) => Check::new(id, Status::Ok, format!("{name} <{email}>")),
        (name, _) => {
            let lacking = if name.is_none() { "user.name" } else { "user.email" };
            Check::new(id, Status::Warn, format!("git has no {lacking}: merges by your own hand would fail"))
                .mend("run `git config --global user.name \"…\"` and `git config --global user.email \"…\"`")
        }
    }
}

fn repository(here: &Path) -> Check {
    let id = "repository";
    match owner::inspect(here) {
        Ok(found) => {
            let left = found.dirty.len() + found.untracked.len();
            let left = u64::try_from(left).unwrap_or(u64::MAX);
            let said = format!("{} on {}", text::path(&found.root.display().to_string()), found.branch);
            if left == 0 {
                return Check::new(id, Status::Ok, format!("{said}, clean"));
            }
            let left = text::of(left, "change", "changes");
            Check::new(id, Status::Info, format!("{said}; runs start from HEAD and leave out {left}"))
        }
        Err(owner::Error::NoRepository { .. }) => {
            Check::new(id, Status::Info, "the current directory is in no git repository")
        }
        Err(error) => {
            // "What is wrong: how to mend it", in one line of the store's.
            let said = error.to_string();
            let (what, mend) = said.rsplit_once(": ").unwrap_or((&said, "look at `git status`"));
            Check::new(id, Status::Warn, what).mend(mend)
        }
    }
}

/// Whether the files make sense, and what a mission here would be held to.
fn configuration(home: &Home, here: &Path) -> Vec<Check> {
    let id = "config";
    match config::load(home, here, Flags::default()) {
        Ok(config) => {
            let read = config.files().filter(|(_, _, exists)| *exists);
            let read: Vec<String> =
                read.map(|(_, path, _)| text::path(&path.display().to_string())).collect();
            let said = if read.is_empty() { "all as built in".into() } else { read.join(", ") };
            let mut all = vec![match config.warnings().into_iter().next() {
                None => Check::new(id, Status::Ok, said),
                Some(note) => Check::new(id, Status::Warn, note)
                    .mend("lower it in regie.toml, or raise the owner's own cap"),
            }];
            all.extend(config::project_root(here).is_some().then(|| criteria(&config)));
            all
        }
        Err(error) => vec![Check::new(id, Status::Fail, error.to_string()).mend(error.mend())],
    }
}

fn criteria(config: &Config) -> Check {
    let id = "config.done";
    let done = config.setting(Key::Done);
    if config.done().is_empty() {
        Check::new(id, Status::Info, "no criteria: the agent proposes them unless --done says what")
            .mend("run `regie init`, or give [mission] done in regie.toml")
    } else {
        Check::new(id, Status::Ok, format!("{} · {}", done.value.shown(), done.origin))
    }
}

/// A toolchain that the project here uses.
fn needed(used: &Toolchain, reach: &Reach) -> Check {
    let id = format!("tool.{}", used.program);
    let Some(why) = out_of_reach(used.program, reach) else {
        return Check::new(&id, Status::Ok, format!("{} · {}", place(reach), used.evidence));
    };
    Check::new(&id, Status::Warn, format!("{why} · {} needs it", used.evidence)).mend(format!(
        "install {} below /usr, or with a toolchain manager that docs/security.md names; on Debian: sudo apt install {}",
        used.program,
        package(used.program)
    ))
}

/// One that it does not. A step's own is asked, which need not be the one of the owner's shell.
fn other(program: &str, reach: &Reach) -> Check {
    let said = match (out_of_reach(program, reach), reach) {
        (None, Reach::Jail(path)) => {
            let arg = if program == "go" { "version" } else { "--version" };
            let path = path.display().to_string();
            asked(&path, &[arg]).map_or_else(|| path.clone(), |version| format!("{version} · {path}"))
        }
        (why, _) => why.unwrap_or_default(),
    };
    Check::new(&format!("tool.{program}"), Status::Info, said)
}

fn place(reach: &Reach) -> String {
    match reach {
        Reach::Jail(path) | Reach::Owner(path) => path.display().to_string(),
        Reach::Absent => "absent".into(),
    }
}

/// What Debian calls the package of a program.
fn package(program: &str) -> &str {
    match program {
        "go" => "golang-go",
        "java" => "default-jdk-headless",
        "mvn" => "maven",
        "yarn" => "yarnpkg",
        "poetry" => "python3-poetry",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toolchain_out_of_reach_has_its_mend() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join("go.mod"), "").unwrap();
        let used = toolchain::detect(scratch.path()).pop().unwrap();
        let home = needed(&used, &Reach::Owner("/opt/own/bin/go".into()));
        assert_eq!(home.status, Status::Warn);
        assert_eq!(home.evidence, "/opt/own/bin/go is out of reach of the jail · go.mod needs it");
        assert!(home.mend.unwrap().ends_with("sudo apt install golang-go"));
        assert_eq!(needed(&used, &Reach::Jail("/usr/bin/go".into())).status, Status::Ok);
        assert!(needed(&used, &Reach::Absent).evidence.starts_with("`go` is not installed"));
    }

    #[test]
    fn a_repository_that_no_run_starts_on_has_its_mend() {
        let scratch = tempfile::tempdir().unwrap();
        assert_eq!(repository(scratch.path()).status, Status::Info);
        assert!(asked("git", &["init", "-q", &scratch.path().display().to_string()]).is_none());
        let empty = repository(scratch.path());
        assert_eq!(
            (empty.status, empty.mend.as_deref()),
            (Status::Warn, Some("run `git add -A && git commit`"))
        );
    }

    #[test]
    fn a_configuration_that_makes_no_sense_fails_with_its_line() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::resolve(Some(&scratch.path().join("home"))).unwrap();
        std::fs::create_dir_all(scratch.path().join(".git")).unwrap();
        std::fs::write(scratch.path().join(".git/HEAD"), "").unwrap();
        let write = |text: &str| std::fs::write(scratch.path().join("regie.toml"), text).unwrap();
        write("[mission]\ndnoe = [\"x\"]\n");
        let wrong = configuration(&home, scratch.path()).remove(0);
        assert_eq!(wrong.status, Status::Fail);
        assert!(wrong.evidence.ends_with("regie.toml:2: there is no key `mission.dnoe`"), "{wrong:?}");
        assert!(wrong.mend.unwrap().starts_with("did you mean `mission.done`?"));
        write("[mission]\ndone = [\"x\"]\nmax_dollars = 100\n");
        let greedy = configuration(&home, scratch.path());
        assert_eq!(greedy.iter().map(|check| check.status).collect::<Vec<_>>(), [Status::Warn, Status::Ok]);
    }
}
