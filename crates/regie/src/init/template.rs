//! The commented files. Every key that may stand in a file is in it, with what it means and what holds
//! without it.

use super::toolchain::Toolchain;
use crate::config::{KEYS, Key, Level, Value};

const PROJECT: &str = "\
# Regie in this repository. `regie config explain` shows what holds, and where it comes from.
#
# This file is part of the repository: it gives criteria and lowers caps, and never raises one above
# what the owner has set. The owner's own words are options (--max-dollars 5), the environment
# (REGIE_MAX_DOLLARS=5) and config.toml in Regie's home.
";

const INSTALLATION: &str = "\
# Regie on this machine: the owner's own words, for all projects. `regie config explain` shows what
# holds, and where it comes from. A project's regie.toml can lower these caps; options and the
# environment override them.
";

const BESIDE: &str = "
[env]
# Variables of the commands' environment.
# NODE_ENV = \"test\"

# Services run beside the commands, in the jail, and are reached on 127.0.0.1; /tmp is their own.
# [services.db]
# command = \"initdb -D /tmp/db -U app -A trust && exec postgres -D /tmp/db -k /tmp\"
# ready = \"pg_isready -h 127.0.0.1\"
";

const EFFORT: &str = "# effort = \"high\"\n";

const PASSED: &str = "
# Which model does what: planner, worker (the model above), evaluator, consolidator, classifier. `or` names
# others for a new mission while the first choice cannot be asked.
# [roles.worker]
# or = [\"gpt-6.1-sol\"]

[env]
# Variables of your environment that commands may know, in all projects.
# pass = [\"NPM_TOKEN\"]
";

/// A project's file.
pub(super) fn project(toolchains: &[Toolchain]) -> String {
    let mut text = PROJECT.to_owned();
    write(&mut text, Level::Project, |key| match key {
        Key::Done => done(toolchains),
        Key::Setup => setup(toolchains),
        Key::Effort => EFFORT.into(),
        Key::LeaseTools => {
            "# tools = [\"read\", \"list\", \"search\", \"edit\", \"write\", \"shell\"]\n".into()
        }
        _ => format!("# {} = {}\n", key.path().1, key.built_in().written()),
    });
    text.push_str(BESIDE);
    text
}

/// The owner's file.
pub(super) fn installation() -> String {
    let mut text = INSTALLATION.to_owned();
    write(&mut text, Level::Installation, |key| match key {
        Key::Effort => EFFORT.into(),
        Key::NotifySecretEnv => "# webhook_secret_env = \"REGIE_WEBHOOK_SECRET\"\n".into(),
        _ => format!("# {} = {}\n", key.path().1, key.built_in().written()),
    });
    text.push_str(PASSED);
    text
}

fn write(text: &mut String, level: Level, line: impl Fn(Key) -> String) {
    let mut table = "";
    for key in KEYS.into_iter().filter(|key| key.may_stand(level)) {
        if key.path().0 != table {
            table = key.path().0;
            text.push_str(&format!("\n[{table}]\n"));
        } else {
            text.push('\n');
        }
        for about in key.about().lines() {
            text.push_str(&format!("# {about}\n"));
        }
        text.push_str(&line(key));
    }
}

/// The criteria: one command of each language. Make is what is left, as it mostly calls the others.
fn done(toolchains: &[Toolchain]) -> String {
    let (make, languages): (Vec<_>, Vec<_>) =
        toolchains.iter().filter(|found| found.test.is_some()).partition(|found| found.name == "Make");
    let (chosen, left) = if languages.is_empty() { (make, Vec::new()) } else { (languages, make) };
    let commands =
        |found: &[&Toolchain]| Value::Commands(found.iter().filter_map(|one| one.test.clone()).collect());
    if chosen.is_empty() {
        return "# No test command was found here: without one, the agent proposes what is checked.\n\
                # done = [\"make test\"]\n"
            .into();
    }
    let from: Vec<String> =
        chosen.iter().map(|found| format!("{} ({})", found.name, found.evidence)).collect();
    let mut text = format!("# Found: {}.\n", from.join(", "));
    if !left.is_empty() {
        text.push_str(&format!("# Found too: done = {}\n", commands(&left).written()));
    }
    for unseen in chosen.iter().filter_map(|found| found.unseen) {
        text.push_str(&format!("# Runs see {unseen} only if a line of .worktreeinclude says `{unseen}/`.\n"));
    }
    text.push_str(&format!("done = {}\n", commands(&chosen).written()));
    text
}

fn setup(toolchains: &[Toolchain]) -> String {
    let commands: Vec<&str> = toolchains.iter().filter_map(|found| found.setup.as_deref()).collect();
    let commands = if commands.is_empty() { "make deps".into() } else { commands.join(" && ") };
    format!("# setup = {}\n", Value::Text(commands).written())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::config;
    use crate::home::Home;
    use crate::init::toolchain;

    fn of(files: &[(&str, &str)]) -> String {
        let scratch = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(scratch.path().join(name), text).unwrap();
        }
        project(&toolchain::detect(scratch.path()))
    }

    #[test]
    fn the_files_as_written() {
        insta::assert_snapshot!("project", of(&[("Cargo.toml", ""), ("Makefile", "test:\n")]));
        // Each machine has a memory of its own.
        let memory = format!("# memory = {}\n", Key::LimitMemory.built_in().written());
        assert!(installation().contains(&memory));
        insta::assert_snapshot!("installation", installation().replace(&memory, "# memory = \"4 GiB\"\n"));
    }

    /// Every key is in one of the files; read as they are they say the criteria and nothing else, and
    /// with every sample taken out of its comment they say what holds anyway.
    #[test]
    fn the_files_are_read_again() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::resolve(Some(&scratch.path().join("home"))).unwrap();
        let root = scratch.path().join("project");
        fs::create_dir_all(root.join(".git")).unwrap();
        fs::write(root.join(".git/HEAD"), "").unwrap();
        fs::create_dir_all(home.root()).unwrap();
        let load = |project: &str, owners: &str| {
            fs::write(root.join("regie.toml"), project).unwrap();
            fs::write(config::installation_file(&home), owners).unwrap();
            config::load(&home, &root, config::Flags::default()).unwrap()
        };
        let (project, owners) = (of(&[("go.mod", "")]), installation());
        let found = load(&project, &owners);
        assert_eq!(found.done(), ["go test ./..."]);
        let said = |found: &config::Config| {
            KEYS.into_iter().filter(|key| found.setting(*key).origin != config::Origin::BuiltIn).count()
        };
        assert_eq!(said(&found), 1);
        let bare = |text: &str| {
            let is_sample =
                |line: &str| KEYS.iter().any(|key| line.starts_with(&format!("# {} = ", key.path().1)));
            let lines = text.lines().map(|line| if is_sample(line) { &line[2..] } else { line });
            lines.collect::<Vec<_>>().join("\n")
        };
        let all = load(&bare(&project), &bare(&owners));
        assert_eq!(said(&all), KEYS.len());
        assert!(all.warnings().is_empty());
    }

    #[test]
    fn without_a_test_command_the_file_says_so() {
        let text = of(&[("README.md", "")]);
        assert!(text.contains("the agent proposes what is checked"), "{text}");
        assert!(!text.lines().any(|line| line.starts_with("done")), "{text}");
    }
}
