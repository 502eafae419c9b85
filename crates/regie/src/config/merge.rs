//! Which of several values holds: options, then the environment, then the files, then what is built in.
//! Of the two files the project's wins, but for the caps: there the lower one does.

use std::path::{Path, PathBuf};

use domain::Effort;
use models::catalogue;
use models::routing::Reach;

use super::env;
use super::error::Error;
use super::file::{Entry, File, PROJECT_FILE};
use super::key::{KEYS, Key, Level};
use super::value::Value;

/// What the options of a command say.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    /// `--done`.
    pub(crate) done: Vec<String>,
    /// `--model`.
    pub(crate) model: Option<String>,
    /// `--effort`.
    pub(crate) effort: Option<Effort>,
    /// `--batch`.
    pub(crate) batch: bool,
    /// `--max-dollars`, in nanodollars.
    pub(crate) max_dollars: Option<u64>,
    /// `--max-turns`.
    pub(crate) max_turns: Option<u64>,
    /// `--max-tokens`.
    pub(crate) max_tokens: Option<u64>,
    /// `--max-time`, in milliseconds.
    pub(crate) max_time: Option<u64>,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nobody said anything.
    BuiltIn,
    /// A file, and the line in it.
    File { level: Level, path: PathBuf, line: usize },
    /// A variable.
    Environment(&'static str),
    /// An option.
    Flag(&'static str),
}

/// A key with the value that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) key: Key,
    pub(crate) value: Value,
    pub(crate) origin: Origin,
    /// What was said elsewhere and does not hold, where the owner should know.
    pub(crate) note: Option<String>,
}

/// A variable of the steps' environment, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) name: String,
    pub(crate) value: env::Value,
    pub(crate) origin: Origin,
}

/// All that was said, by whom.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    project: Option<File>,
    installation: File,
    env: Vec<(Key, &'static str, Value)>,
    flags: Flags,
    /// Whose keys are there.
    reach: Reach,
}

impl Config {
    /// Reads the files and the environment through a lookup.
    ///
    /// # Errors
    /// The first thing that makes no sense.
    pub(super) fn read(
        installation: &Path,
        project: Option<&Path>,
        lookup: &dyn Fn(&str) -> Option<String>,
        flags: Flags,
    ) -> Result<Self, Error> {
        let installation = File::read(installation, Level::Installation)?;
        let project = project.map(|path| File::read(path, Level::Project)).transpose()?;
        let mut env = Vec::new();
        for key in KEYS {
            let Some(name) = key.env() else { continue };
            // Set to nothing is unset, as everywhere.
            let Some(text) = lookup(name).filter(|text| !text.trim().is_empty()) else { continue };
            let value = key.kind().of_text(text.trim()).map_err(|why| Error::Environment { name, why })?;
            env.push((key, name, value));
        }
        let config = Self { project, installation, env, flags, reach: Reach::of_keys(lookup) };
        config.check_models()?;
        Ok(config)
    }

    /// Reads what steps are given, and judges nothing else: a mission that runs was judged when it began.
    ///
    /// # Errors
    /// The first thing that makes no sense.
    pub(super) fn of_steps(installation: &Path, project: &Path) -> Result<Self, Error> {
        Ok(Self {
            project: Some(File::read(project, Level::Project)?),
            installation: File::read(installation, Level::Installation)?,
            env: Vec::new(),
            flags: Flags::default(),
            reach: Reach::default(),
        })
    }

    /// The variables of the steps' environment by name. What the owner passes on goes before what a
    /// repository sets, and that before what the owner sets for all.
    pub(crate) fn given(&self) -> Vec<Given> {
        let mut all: Vec<Given> = Vec::new();
        for file in [Some(&self.installation), self.project.as_ref()].into_iter().flatten() {
            for variable in &file.env {
                let origin = Origin::File { level: file.level, path: file.path.clone(), line: variable.line };
                let given = Given { name: variable.name.clone(), value: variable.value.clone(), origin };
                match all.iter_mut().find(|known| known.name == given.name) {
                    Some(known) if known.value == env::Value::Passed => {}
                    Some(known) => *known = given,
                    None => all.push(given),
                }
            }
        }
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// What stands for the variables that the files set: the same for the same names and values.
    pub(crate) fn variables(&self) -> String {
        let mut all = Vec::new();
        for given in self.given() {
            if let env::Value::Set(value) = given.value {
                all.extend_from_slice(format!("{}={value}\0", given.name).as_bytes());
            }
        }
        domain::Digest::of(&all).to_string()
    }

    /// What runs beside the commands, in the order of their lines.
    pub(crate) fn services(&self) -> Vec<(domain::Service, Origin)> {
        let Some(file) = &self.project else { return Vec::new() };
        let origin = |line| Origin::File { level: file.level, path: file.path.clone(), line };
        file.services.iter().map(|found| (found.service.clone(), origin(found.line))).collect()
    }

    /// A model without a known price evades every cap in dollars: a repository must not choose one.
    fn check_models(&self) -> Result<(), Error> {
        let setting = self.setting(Key::Model);
        let mut named = Vec::new();
        if let (Value::Text(model), Origin::File { level: Level::Project, line, .. }) =
            (setting.value, setting.origin)
        {
            named.push((line, model));
        }
        let Some(file) = &self.project else { return Ok(()) };
        for wanted in &file.roles {
            named.extend(wanted.models().iter().map(|model| (wanted.line, model.clone())));
        }
        match named.into_iter().find(|(_, model)| catalogue::price(model).is_none()) {
            Some((line, model)) => Err(Error::Unpriced { path: file.path.clone(), line, model }),
            None => Ok(()),
        }
    }

    /// What somebody said of a key.
    pub(super) fn said(&self, key: Key) -> Option<Setting> {
        Some(self.setting(key)).filter(|setting| setting.origin != Origin::BuiltIn)
    }

    pub(super) const fn project(&self) -> Option<&File> {
        self.project.as_ref()
    }

    pub(super) const fn installation(&self) -> &File {
        &self.installation
    }

    pub(super) const fn reach(&self) -> &Reach {
        &self.reach
    }

    /// What is built in: of the model, that of a vendor whose key is there.
    fn built_in(&self, key: Key) -> Value {
        match key {
            Key::Model => self.worker().map_or_else(|| key.built_in(), Value::Text),
            _ => key.built_in(),
        }
    }

    /// What holds for a key, and why.
    pub(crate) fn setting(&self, key: Key) -> Setting {
        let of = |value, origin| Setting { key, value, origin, note: None };
        if let (Some(value), Some(flag)) = (self.flag(key), key.flag()) {
            return of(value, Origin::Flag(flag));
        }
        if let Some((_, name, value)) = self.env.iter().find(|(found, ..)| *found == key) {
            return of(value.clone(), Origin::Environment(name));
        }
        let owners = match self.installation.entry(key) {
            Some(entry) => of(entry.value.clone(), origin(&self.installation, entry)),
            None => of(self.built_in(key), Origin::BuiltIn),
        };
        let Some((file, entry)) = self.project.as_ref().and_then(|file| Some((file, file.entry(key)?)))
        else {
            return owners;
        };
        match (entry.value.amount(), owners.value.amount()) {
            (Some(asked), Some(cap)) if asked > cap => {
                let note = format!(
                    "{PROJECT_FILE}:{} asks for {} of `{}`; a repository can only lower it, so {} holds",
                    entry.line,
                    entry.value.shown(),
                    key.name(),
                    owners.value.shown(),
                );
                Setting { note: Some(note), ..owners }
            }
            _ => of(entry.value.clone(), origin(file, entry)),
        }
    }

    fn flag(&self, key: Key) -> Option<Value> {
        let flags = &self.flags;
        match key {
            Key::Done => (!flags.done.is_empty()).then(|| Value::Commands(flags.done.clone())),
            Key::Model => flags.model.clone().map(Value::Text),
            Key::Effort => flags.effort.map(|effort| Value::Text(effort.name().into())),
            Key::Batch => flags.batch.then_some(Value::Switch(true)),
            Key::MaxDollars => flags.max_dollars.map(Value::Dollars),
            Key::MaxTurns => flags.max_turns.map(Value::Count),
            Key::MaxTokens => flags.max_tokens.map(Value::Count),
            Key::MaxTime => flags.max_time.map(Value::Span),
            _ => None,
        }
    }

    /// The number of a bound that holds, in its smallest unit.
    pub(crate) fn amount(&self, key: Key) -> u64 {
        self.setting(key).value.amount().unwrap_or_default()
    }

    /// The text of a key that holds; `None` when there is none.
    pub(crate) fn text(&self, key: Key) -> Option<String> {
        match self.setting(key).value {
            Value::Text(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// Whether a switch is on.
    pub(crate) fn is_on(&self, key: Key) -> bool {
        matches!(self.setting(key).value, Value::Switch(true))
    }

    /// The criteria that hold.
    pub(crate) fn done(&self) -> Vec<String> {
        match self.setting(Key::Done).value {
            Value::Commands(commands) => commands,
            _ => Vec::new(),
        }
    }

    /// The addresses or kinds of a key that hold.
    pub(crate) fn names(&self, key: Key) -> Vec<String> {
        match self.setting(key).value {
            Value::Names(names) => names,
            _ => Vec::new(),
        }
    }

    /// What the owner should know before a mission starts.
    pub(crate) fn warnings(&self) -> Vec<String> {
        KEYS.into_iter().filter_map(|key| self.setting(key).note).collect()
    }

    /// The files that were looked for: whose, where, and whether each is there.
    pub(crate) fn files(&self) -> impl Iterator<Item = (Level, &Path, bool)> {
        self.project
            .iter()
            .chain([&self.installation])
            .map(|file| (file.level, file.path.as_path(), file.exists))
    }
}

fn origin(file: &File, entry: &Entry) -> Origin {
    Origin::File { level: file.level, path: file.path.clone(), line: entry.line }
}

impl std::fmt::Display for Origin {
    /// A place for people, as `regie.toml:3`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built in"),
            Self::File { path, line, .. } => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                write!(f, "{name}:{line}")
            }
            Self::Environment(name) => f.write_str(name),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::budget::DOLLAR;
    use models::routing::Role;

    use super::*;

    #[derive(Default)]
    struct Scene {
        owner: &'static str,
        project: &'static str,
        env: &'static [(&'static str, &'static str)],
        flags: Flags,
    }

    impl Scene {
        fn read(self) -> Result<Config, Error> {
            let scratch = tempfile::tempdir().unwrap();
            let (owner, project) = (scratch.path().join("config.toml"), scratch.path().join(PROJECT_FILE));
            std::fs::write(&owner, self.owner).unwrap();
            std::fs::write(&project, self.project).unwrap();
            let lookup = |name: &str| {
                let found = self.env.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            Config::read(&owner, Some(&project), &lookup, self.flags)
        }

        #[track_caller]
        fn check(self, key: Key, expected: &str) -> Setting {
            let setting = self.read().unwrap().setting(key);
            assert_eq!(format!("{} from {}", setting.value.shown(), setting.origin), expected);
            setting
        }
    }

    const OWNER: &str = "[mission]\nmax_dollars = 3\nmodel = \"claude-haiku-5-5\"\n";

    #[test]
    fn who_speaks_last_is_heard() {
        let flags = || Flags { max_dollars: Some(9 * DOLLAR), done: vec!["mine".into()], ..Flags::default() };
        let lower = "[mission]\nmax_dollars = 1\ndone = [\"theirs\"]\n";
        let env: &[_] = &[("REGIE_MAX_DOLLARS", "4"), ("REGIE_MODEL", " ")];
        Scene::default().check(Key::MaxDollars, "$2.00 from built in");
        Scene { owner: OWNER, ..Scene::default() }.check(Key::MaxDollars, "$3.00 from config.toml:2");
        let lowered = Scene { owner: OWNER, project: lower, ..Scene::default() };
        assert_eq!(lowered.check(Key::MaxDollars, "$1.00 from regie.toml:2").note, None);
        Scene { owner: OWNER, project: lower, env, ..Scene::default() }
            .check(Key::MaxDollars, "$4.00 from REGIE_MAX_DOLLARS");
        Scene { owner: OWNER, project: lower, env, flags: flags() }
            .check(Key::MaxDollars, "$9.00 from --max-dollars");
        Scene { project: lower, ..Scene::default() }.check(Key::Done, "theirs from regie.toml:3");
        Scene { project: lower, flags: flags(), ..Scene::default() }.check(Key::Done, "mine from --done");
        Scene { owner: OWNER, env, ..Scene::default() }
            .check(Key::Model, "claude-haiku-5-5 from config.toml:3");
    }

    #[test]
    fn a_repository_cannot_raise_a_cap() {
        let greedy =
            "[mission]\nmax_dollars = 2.01\nmax_turns = 100000\nmax_tokens = 90000000\nmax_time = \"90h\"\n";
        for (key, holds) in [
            (Key::MaxDollars, "$2.00 from built in"),
            (Key::MaxTurns, "200 from built in"),
            (Key::MaxTokens, "5,000,000 from built in"),
            (Key::MaxTime, "2 h from built in"),
        ] {
            let scene = Scene { project: greedy, ..Scene::default() };
            assert!(scene.check(key, holds).note.unwrap().contains("a repository can only lower it"));
        }
        let config = Scene { project: greedy, ..Scene::default() }.read().unwrap();
        assert_eq!(config.warnings().len(), 4);
        // Up to what the owner allows, and no further.
        Scene { owner: OWNER, project: greedy, ..Scene::default() }
            .check(Key::MaxDollars, "$2.01 from regie.toml:2");
    }

    #[test]
    fn a_repository_cannot_choose_a_model_that_no_cap_holds() {
        let project = "[mission]\nmodel = \"mystery\"\n";
        let refused = Scene { project, ..Scene::default() }.read().unwrap_err();
        assert!(matches!(&refused, Error::Unpriced { line: 2, .. }), "{refused}");
        let owner = "[mission]\nmodel = \"mystery\"\n";
        Scene { owner, ..Scene::default() }.check(Key::Model, "mystery from config.toml:2");
        let flags = Flags { model: Some("mystery".into()), ..Flags::default() };
        Scene { project, flags, ..Scene::default() }.check(Key::Model, "mystery from --model");
    }

    #[test]
    fn a_role_is_whose_word_it_is_and_a_repository_names_no_unpriced_one() {
        let owner = "[roles.worker]\nmodel = \"claude-opus-5-5\"\neffort = \"low\"\nor = [\"local/a\"]\n\
                     [roles.planner]\nmodel = \"mystery\"\n";
        let project = "[roles.worker]\neffort = \"high\"\n[roles.evaluator]\neffort = \"max\"\n";
        let env: &[_] = &[("ANTHROPIC_API_KEY", "x"), ("OPENAI_API_KEY", "x")];
        let shown = |scene: Scene| -> Vec<String> {
            let shown = scene.read().unwrap().roles().into_iter().map(|found| {
                let chosen = found.chosen.unwrap();
                let effort = chosen.choice.effort.map_or("-", Effort::name);
                format!("{} {} {effort} {} | {}", found.role, chosen.choice.model, found.origin, chosen.why)
            });
            shown.collect()
        };
        assert_eq!(
            shown(Scene { owner, project, env, ..Scene::default() }),
            [
                "planner mystery - config.toml:6 | named",
                "worker claude-opus-5-5 high config.toml:2 | named",
                "evaluator gpt-6.1-terra max built in | the default of OpenAI: another vendor than the worker's",
                "consolidator claude-haiku-5-5 - built in | the default",
                "classifier claude-haiku-5-5 - built in | the default",
            ]
        );
        let owner = "[roles.worker]\n\nmodel = \"claude-opus-5-5\"\nor = [\"local/a\"]\n";
        let env: &[_] = &[("OPENAI_API_KEY", "x"), ("REGIE_EFFORT", "medium")];
        let openai = shown(Scene { owner, env, ..Scene::default() });
        assert_eq!(
            openai.get(1).map(String::as_str),
            Some(
                "worker local/a medium config.toml:3 | instead of claude-opus-5-5: there is no key for Anthropic"
            )
        );
        // An option is one model and no other.
        let flags = Flags { model: Some("claude-opus-5-5".into()), ..Flags::default() };
        assert_eq!(
            Scene { owner, flags, ..Scene::default() }.read().unwrap().policy(Role::Worker).0.or,
            [""; 0]
        );
        Scene { env, ..Scene::default() }.check(Key::Model, "gpt-6.1-sol from built in");
        for project in ["[roles.worker]\nor = [\"mystery\"]\n", "[roles.planner]\nmodel = \"mystery\"\n"] {
            let refused = Scene { project, ..Scene::default() }.read().unwrap_err();
            assert!(matches!(&refused, Error::Unpriced { line: 2, .. }), "{refused}");
        }
    }

    #[test]
    fn a_repository_does_not_replace_what_the_owner_passes_on() {
        let owner = "[env]\npass = [\"TOKEN\"]\nMODE = \"owner\"\nONLY = \"owner\"\n";
        let project = "[env]\nTOKEN = \"fake\"\nMODE = \"project\"\n";
        let given = Scene { owner, project, ..Scene::default() }.read().unwrap().given();
        let shown: Vec<String> =
            given.iter().map(|given| format!("{} {:?} {}", given.name, given.value, given.origin)).collect();
        assert_eq!(
            shown,
            ["MODE Set(…) regie.toml:3", "ONLY Set(…) config.toml:4", "TOKEN Passed config.toml:2"]
        );
    }

    #[test]
    fn what_variables_are_set_to_counts_and_what_is_passed_does_not() {
        let of = |project: &'static str, owner: &'static str| {
            Scene { owner, project, ..Scene::default() }.read().unwrap().variables()
        };
        let set = "[env]\nMODE = \"a\"\n";
        assert_eq!(of(set, ""), of(set, "[env]\npass = [\"TOKEN\"]\n"));
        assert_ne!(of(set, ""), of("[env]\nMODE = \"b\"\n", ""));
        assert_ne!(of(set, ""), of("", ""));
    }

    #[test]
    fn a_variable_that_makes_no_sense_is_named() {
        let env: &[_] = &[("REGIE_MAX_TIME", "5")];
        let refused = Scene { env, ..Scene::default() }.read().unwrap_err();
        assert_eq!(
            refused.to_string(),
            "REGIE_MAX_TIME in the environment: expected a span, as 90s, 30m or 1h30m"
        );
    }
}
