//! Reading a file, with the line of everything in it. Unknown keys are refused: a misspelt cap would
//! be no cap.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::env::{self, Variable};
use super::error::Error;
use super::key::{self, KEYS, Key, Level};
use super::roles::{self, Wanted};
use super::services::{self, Declared};
use super::value::Value;

/// The name of a project's file.
pub(crate) const PROJECT_FILE: &str = "regie.toml";
/// The most bytes of a file.
const MOST_BYTES: u64 = 64 << 10;

/// A file that was read, or that is not there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct File {
    pub(super) path: PathBuf,
    pub(super) level: Level,
    pub(super) exists: bool,
    pub(super) entries: Vec<Entry>,
    pub(super) env: Vec<Variable>,
    pub(super) services: Vec<Declared>,
    pub(super) roles: Vec<Wanted>,
}

/// A value in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) value: Value,
    pub(super) line: usize,
}

impl File {
    /// Reads a file. One that is not there says nothing.
    pub(super) fn read(path: &Path, level: Level) -> Result<Self, Error> {
        let Some(text) = text_of(path, level)? else {
            return Ok(Self { path: path.to_owned(), level, ..Self::default() });
        };
        let Parsed { entries, env, services, roles } = parse(&text, path, level)?;
        Ok(Self { path: path.to_owned(), level, exists: true, entries, env, services, roles })
    }

    pub(super) fn entry(&self, key: Key) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }
}

/// The text of a plain file. What a repository holds in its place (a link out of it, a pipe) is not
/// opened; the owner's own file may be a link, as those who keep their settings in one place have it.
fn text_of(path: &Path, level: Level) -> Result<Option<String>, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let found = match level {
        Level::Project => fs::symlink_metadata(path),
        Level::Installation => fs::metadata(path),
    };
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.is_file() => return Err(Error::NotPlain { path: path.to_owned() }),
        Ok(_) => {}
    }
    let mut text = String::new();
    let file = fs::File::open(path).map_err(failed)?;
    file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(Error::NotPlain { path: path.to_owned() });
    }
    Ok(Some(text))
}

/// What a text says.
#[derive(Debug, Default)]
struct Parsed {
    entries: Vec<Entry>,
    env: Vec<Variable>,
    services: Vec<Declared>,
    roles: Vec<Wanted>,
}

/// One thing that a text says.
enum Said {
    Entry(Entry),
    Variable(Variable),
    Service(Declared),
    Role(Wanted),
}

/// What a text says; or what makes no sense in it, the first in the text.
fn parse(text: &str, path: &Path, level: Level) -> Result<Parsed, Error> {
    let reader = Reader { text, path, level };
    let document = DeTable::parse(text).map_err(|error| Error::Syntax {
        path: path.to_owned(),
        line: reader.line(error.span().map_or(0, |span| span.start)),
        why: error.message().lines().next().unwrap_or("this is not TOML").to_owned(),
    })?;
    let mut found: Vec<(usize, Result<Said, Error>)> = Vec::new();
    for (name, value) in document.get_ref() {
        let (at, name) = (name.span().start, name.get_ref());
        let is_table = KEYS.iter().any(|key| key.path().0 == *name)
            || [env::TABLE, services::TABLE, roles::TABLE].contains(&name.as_ref());
        match value.get_ref() {
            DeValue::Table(table) if *name == env::TABLE => {
                let variables = env::parse(&reader, table).into_iter();
                found.extend(variables.map(|(at, variable)| (at, variable.map(Said::Variable))));
            }
            DeValue::Table(table) if *name == services::TABLE => {
                let declared = services::parse(&reader, table).into_iter();
                found.extend(declared.map(|(at, declared)| (at, declared.map(Said::Service))));
            }
            DeValue::Table(table) if *name == roles::TABLE => {
                let said = roles::parse(&reader, table).into_iter();
                found.extend(said.map(|(at, said)| (at, said.map(Said::from))));
            }
            DeValue::Table(table) if is_table => {
                for (own, value) in table {
                    let at = own.span().start;
                    let entry = reader.entry(&format!("{name}.{}", own.get_ref()), at, value);
                    found.push((at, entry.map(Said::Entry)));
                }
            }
            _ if is_table => {
                let why = format!("expected a table: write [{name}] on a line of its own");
                found.push((at, Err(reader.refused(name, at, why))));
            }
            _ => found.push((at, Err(reader.unknown(name, at)))),
        }
    }
    found.sort_by_key(|(at, _)| *at);
    let mut parsed = Parsed::default();
    for (_, said) in found {
        match said? {
            Said::Entry(entry) => parsed.take(entry, path)?,
            Said::Role(wanted) => parsed.roles.push(wanted),
            Said::Variable(variable) => parsed.env.push(variable),
            Said::Service(declared) => parsed.services.push(declared),
        }
    }
    Ok(parsed)
}

impl From<roles::Said> for Said {
    fn from(said: roles::Said) -> Self {
        match said {
            roles::Said::Entry(entry) => Self::Entry(entry),
            roles::Said::Wanted(wanted) => Self::Role(wanted),
        }
    }
}

impl Parsed {
    /// What is said of the worker may stand in two places of a file, once.
    fn take(&mut self, entry: Entry, path: &Path) -> Result<(), Error> {
        let Some(first) = self.entries.iter().find(|known| known.key == entry.key) else {
            self.entries.push(entry);
            return Ok(());
        };
        Err(Error::Value {
            path: path.to_owned(),
            line: entry.line,
            key: entry.key.name(),
            why: format!("line {} says it already, of the same model: keep one of the two", first.line),
        })
    }
}

/// A text that is read, and where it comes from.
pub(super) struct Reader<'a> {
    text: &'a str,
    path: &'a Path,
    pub(super) level: Level,
}

impl Reader<'_> {
    /// The line of a place in the text, from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
    }

    fn entry(&self, name: &str, at: usize, value: &Spanned<DeValue<'_>>) -> Result<Entry, Error> {
        let Some(key) = KEYS.into_iter().find(|key| key.name() == name) else {
            return Err(self.unknown(name, at));
        };
        if !key.may_stand(self.level) {
            return Err(self.misplaced(name, at));
        }
        let value = key.kind().of_toml(value.get_ref()).map_err(|why| self.refused(name, at, why))?;
        Ok(Entry { key, value, line: self.line(at) })
    }

    pub(super) fn misplaced(&self, name: &str, at: usize) -> Error {
        let (path, line) = (self.path.to_owned(), self.line(at));
        Error::Misplaced { path, line, key: name.to_owned(), level: self.level }
    }

    pub(super) fn unknown(&self, name: &str, at: usize) -> Error {
        Error::Unknown {
            path: self.path.to_owned(),
            line: self.line(at),
            key: name.to_owned(),
            nearest: key::nearest(name),
        }
    }

    pub(super) fn refused(&self, name: &str, at: usize, why: String) -> Error {
        Error::Value { path: self.path.to_owned(), line: self.line(at), key: name.to_owned(), why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, level: Level) -> String {
        match parse(text, Path::new("f"), level) {
            Ok(Parsed { entries, env, services, roles }) => {
                let all = entries
                    .iter()
                    .map(|entry| format!("{}@{}={}", entry.key.name(), entry.line, entry.value.written()));
                let env = env.iter().map(|variable| format!("{}@{}", variable.name, variable.line));
                let services = services.iter().map(|found| format!("{}@{}", found.service.name, found.line));
                let roles =
                    roles.iter().map(|found| format!("{}@{}={:?}", found.role, found.line, found.what));
                all.chain(env).chain(services).chain(roles).collect::<Vec<_>>().join(" ")
            }
            Err(error) => format!("{error} | {}", error.mend()),
        }
    }

    #[test]
    fn values_are_read_exactly_with_their_lines() {
        let text =
            "[mission]\ndone = [\"a\",\n \"b\"]\nmax_dollars = 0.10\nmax_tokens = 1_000\nmax_time = \"5m\"\n";
        assert_eq!(
            check(text, Level::Project),
            "mission.done@2=[\"a\", \"b\"] mission.max_dollars@4=0.10 mission.max_tokens@5=1_000 \
             mission.max_time@6=\"5m\""
        );
        assert_eq!(check("mission.max_turns = 3\n", Level::Installation), "mission.max_turns@1=3");
        assert_eq!(check("", Level::Project), "");
    }

    #[test]
    fn variables_are_read_and_a_repository_pulls_none_in() {
        let set = "[env]\nNODE_ENV = \"test\"\nURL = \"x\"\n";
        assert_eq!(check(set, Level::Project), "NODE_ENV@2 URL@3");
        assert_eq!(check("[env]\npass = [\"A\",\n \"B\"]\n", Level::Installation), "A@2 B@3");
        let pulled = check("[env]\npass = [\"NPM_TOKEN\"]\n", Level::Project);
        assert!(
            pulled.starts_with("f:2: `env.pass` does not belong here | move it to config.toml"),
            "{pulled}"
        );
        for (wrong, what) in [
            ("[env]\nPATH = \"/x\"", "f:2: `env.PATH`: it belongs to the jail"),
            ("[env]\nA = 1", "f:2: `env.A`: expected a text in quotes"),
            ("env = 1", "f:1: `env`: expected a table"),
        ] {
            assert!(
                check(wrong, Level::Project).starts_with(what),
                "{wrong}: {}",
                check(wrong, Level::Project)
            );
        }
        let key = check("[env]\npass = [\"ANTHROPIC_API_KEY\"]", Level::Installation);
        assert!(key.contains("stays out of the jail"), "{key}");
    }

    #[test]
    fn services_are_read_and_refused_with_their_line() {
        let db = "[services.db]\ncommand = \"postgres\"\nready = \"pg_isready\"\nready_timeout = \"90s\"\n";
        assert_eq!(check(db, Level::Project), "db@1");
        assert!(check(db, Level::Installation).starts_with("f:1: `services.db` does not belong here"));
        for (wrong, what) in [
            ("[services.db]\nready = \"x\"", "f:1: `services.db`: it needs a `command`"),
            ("[services.db]\ncommand = 1", "f:2: `services.db.command`: expected a text"),
            (
                "[services.db]\ncommand = \"x\"\nready_timeout = \"5\"",
                "f:3: `services.db.ready_timeout`: expected a span",
            ),
            ("[services.db]\nport = 1", "f:2: `services.db.port`: a service has"),
            ("[services.\"../x\"]\ncommand = \"x\"", "f:1: `services.../x`: a name has"),
            ("[services]\ndb = \"x\"", "f:2: `services.db`: expected a table"),
        ] {
            assert!(
                check(wrong, Level::Project).starts_with(what),
                "{wrong}: {}",
                check(wrong, Level::Project)
            );
        }
    }

    #[test]
    fn roles_are_read_and_the_worker_is_the_missions_model() {
        let text = "[roles.worker]\nmodel = \"claude-haiku-5-5\"\neffort = \"high\"\nor = [\"gpt-6-luna\"]\n\
                    [roles.evaluator]\nmodel = \"gpt-6.1-sol\"\neffort = \"low\"\n";
        for level in [Level::Project, Level::Installation] {
            assert_eq!(
                check(text, level),
                "mission.model@2=\"claude-haiku-5-5\" mission.effort@3=\"high\" worker@4=Or([\"gpt-6-luna\"]) \
                 evaluator@6=Model(\"gpt-6.1-sol\") evaluator@7=Effort(Low)"
            );
        }
        let unknown = "there is no key `roles";
        for (wrong, what) in [
            ("[roles.workr]\nmodel = \"x\"", format!("f:1: {unknown}.workr` | did you mean `roles.worker`?")),
            (
                "[roles.worker]\nmodl = \"x\"",
                format!("f:2: {unknown}.worker.modl` | did you mean `roles.worker.model`?"),
            ),
            ("[roles]\nworker = \"x\"", "f:2: `roles.worker`: expected a table".into()),
            ("roles = 1", "f:1: `roles`: expected a table".into()),
            ("[roles.planner]\nmodel = 1", "f:2: `roles.planner.model`: expected a string".into()),
            ("[roles.planner]\nmodel = \" \"", "f:2: `roles.planner.model`: it is blank".into()),
            (
                "[roles.planner]\neffort = \"hgih\"",
                "f:2: `roles.planner.effort`: expected \"low\", \"medium\", \"high\", \"xhigh\" or \"max\"; did you \
                 mean high?"
                    .into(),
            ),
            ("[roles.worker]\neffort = 3", "f:2: `roles.worker.effort`: expected \"low\"".into()),
            ("[roles.worker]\nor = \"x\"", "f:2: `roles.worker.or`: expected a list of models".into()),
            (
                "[mission]\nmodel = \"a\"\n[roles.worker]\nmodel = \"b\"",
                "f:4: `mission.model`: line 2 says it already".into(),
            ),
        ] {
            let said = check(wrong, Level::Installation);
            assert!(said.starts_with(&what), "{wrong:?}: {said}");
        }
    }

    #[test]
    fn what_is_unknown_or_wrong_is_refused_with_its_line() {
        let project = |text: &str| check(text, Level::Project);
        assert_eq!(
            project("[mission]\n\nmax_dolars = 1\n"),
            "f:3: there is no key `mission.max_dolars` | did you mean `mission.max_dollars`? \
             `regie config explain` lists all keys"
        );
        assert!(
            project("done = [\"x\"]")
                .starts_with("f:1: there is no key `done` | did you mean `mission.done`")
        );
        assert!(
            project("[day]\nmax_dollars = 99").starts_with("f:2: `day.max_dollars` does not belong here")
        );
        assert!(
            project("[misson]\ndone = []")
                .ends_with("did you mean `mission`? `regie config explain` lists all keys")
        );
        let owner = check("[mission]\ndone = [\"x\"]", Level::Installation);
        assert!(owner.starts_with("f:2: `mission.done` does not belong here"), "{owner}");
        for (wrong, what) in [
            ("mission = 1", "f:1: `mission`: expected a table"),
            ("[mission]\ndone = \"x\"", "f:2: `mission.done`: expected a list"),
            ("[mission]\ndone = [\" \"]", "f:2: `mission.done`: a command is blank"),
            ("[mission]\nmax_turns = 0", "f:2: `mission.max_turns`: expected a whole number"),
            ("[mission]\nmax_turns = 0x10", "f:2: `mission.max_turns`: expected a whole number"),
            ("[mission]\nmax_dollars = -1", "f:2: `mission.max_dollars`: expected dollars"),
            ("[mission]\nmax_dollars = inf", "f:2: `mission.max_dollars`: expected dollars"),
            ("[mission]\nmax_time = 30", "f:2: `mission.max_time`: expected a span"),
            ("[mission]\nmodel = \"\"", "f:2: `mission.model`: it is blank"),
            ("[mission\n", "f:1: "),
            ("[mission]\nmax_turns = 1\nmax_turns = 2", "f:3: "),
        ] {
            let said = project(wrong);
            assert!(said.starts_with(what), "{wrong:?}: {said}");
        }
    }

    #[test]
    fn only_a_plain_file_is_opened() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join(PROJECT_FILE);
        assert!(!File::read(&path, Level::Project).unwrap().exists);
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(matches!(File::read(&path, Level::Project), Err(Error::NotPlain { .. })));
        fs::remove_file(&path).unwrap();
        let kept = scratch.path().join("dotfiles");
        fs::write(&kept, "[day]\nmax_dollars = 5\n").unwrap();
        std::os::unix::fs::symlink(&kept, &path).unwrap();
        assert_eq!(File::read(&path, Level::Installation).unwrap().entries.len(), 1);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "#".repeat(70_000)).unwrap();
        assert!(matches!(File::read(&path, Level::Project), Err(Error::NotPlain { .. })));
    }
}
