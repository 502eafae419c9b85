//! `regie init`: what a repository and this machine have, and the repository's first `regie.toml`.
//!
//! It looks at names, files and loopback ports; it executes nothing of the repository, and spends
//! nothing but the one call of `--check-key`, after its cost was said and agreed to.
//!
//! | module | what lives there |
//! |---|---|
//! | `toolchain` | toolchains and test commands, by the files at a project's root |
//! | `reach` | which programs a step in the jail finds |
//! | `endpoint` | model servers on this machine |
//! | `key` | vendor keys in the environment, and whether the one that is used works |
//! | `template` | the commented files |

mod endpoint;
mod key;
pub(crate) mod reach;
mod template;
pub(crate) mod toolchain;

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::termios::QueueSelector;
use serde_json::json;

use self::endpoint::Endpoint;
use self::key::{Checked, Key};
use self::toolchain::Toolchain;
use crate::args;
use crate::check::{Check, Depth, Report};
use crate::commands::{place, vendor};
use crate::config::{self, Flags, PROJECT_FILE};
use crate::failure::{Exit, Failure};
use crate::home::Home;
use crate::screen::{self, style, text};

/// What was found.
struct Found {
    root: PathBuf,
    toolchains: Vec<Toolchain>,
    keys: Vec<Key>,
    endpoints: Vec<Endpoint>,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Written,
    Replaced,
    Kept,
    Declined,
}

pub(crate) async fn run(home: &Home, as_json: bool, args: &args::Init) -> Result<Exit, Failure> {
    let directory = place(&args.project)?;
    let root = config::project_root(&directory).ok_or_else(|| {
        Failure::new(format!("{} is not in a git repository", directory.display()))
            .hint("run `git init && git add -A && git commit` there first")
    })?;
    let found = Found {
        toolchains: toolchain::detect(&root),
        keys: key::in_environment(&|name| std::env::var(name).ok()),
        endpoints: endpoint::probe().await,
        root,
    };
    let ask = Ask::of(args.yes, as_json);
    if !as_json {
        screen::put(&shown(&found))?;
    }
    let checked = if args.check_key { Some(check_key(home, &found, ask, as_json).await?) } else { None };
    let path = found.root.join(PROJECT_FILE);
    let text = template::project(&found.toolchains);
    let outcome = write_project(&path, &text, args.force, ask)?;
    let owners =
        if matches!(outcome, Outcome::Written | Outcome::Replaced) { write_owners(home)? } else { None };
    if as_json {
        screen::put_json(&document(&found, checked.as_ref(), &path, &text, outcome))?;
    } else {
        screen::say(&written(&path, outcome, owners.as_deref()))?;
    }
    match outcome {
        Outcome::Kept => {
            Err(Failure::new(format!("{} is there already, and is left as it is", path.display()))
                .hint("look at it with `regie config explain`, or replace it with --force"))
        }
        Outcome::Declined if ask == Ask::Nobody => {
            Err(Failure::usage("nothing was written: nobody is here to be asked")
                .hint("pass --yes to write it"))
        }
        _ if checked.is_some_and(|checked| matches!(checked, Checked::Refused(_))) => Ok(Exit::Failed),
        _ => Ok(Exit::Done),
    }
}

/// Who agrees to what is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    /// `--yes` was given.
    Agreed,
    /// Somebody sits at the terminal.
    Person,
    /// Nobody can be asked.
    Nobody,
}

impl Ask {
    /// Who agrees to what a command does.
    pub(crate) fn of(is_agreed: bool, as_json: bool) -> Self {
        match is_agreed {
            true => Self::Agreed,
            false if screen::can_ask() && !as_json => Self::Person,
            false => Self::Nobody,
        }
    }

    /// The answer to a question. None is ever guessed: an unclear one asks again, the end of the input
    /// is a no.
    pub(crate) fn is_agreed(self, question: &str) -> io::Result<bool> {
        match self {
            Self::Agreed => return Ok(true),
            Self::Nobody => return Ok(false),
            Self::Person => {}
        }
        // What was typed before a question was asked is no answer to it.
        let _ = rustix::termios::tcflush(io::stdin(), QueueSelector::IFlush);
        loop {
            screen::say(&format!("  {} {question} [y / n] ", style::waiting("?")))?;
            let mut line = String::new();
            if io::stdin().lock().read_line(&mut line)? == 0 {
                screen::say("\n")?;
                return Ok(false);
            }
            match line.trim().to_lowercase().as_str() {
                "y" | "yes" => return Ok(true),
                "n" | "no" => return Ok(false),
                _ => {}
            }
        }
    }
}

async fn check_key(home: &Home, found: &Found, ask: Ask, as_json: bool) -> Result<Checked, Failure> {
    let config = config::load(home, &found.root, Flags::default())?;
    let model = config.text(config::Key::Model).unwrap_or_default();
    let checked = match Check::prepare(home, &model, &vendor(), Depth::Key) {
        Err(error) => Checked::from(Report::refused(&model, error)),
        Ok(check) => {
            screen::say(&format!("  {}\n", check.announcement()))?;
            match ask.is_agreed("Make this call?")? {
                true => Checked::from(check.make().await),
                false => Checked::NotAsked,
            }
        }
    };
    if !as_json {
        screen::say(&format!("  {}\n\n", checked.shown()))?;
    }
    Ok(checked)
}

fn write_project(path: &Path, text: &str, force: bool, ask: Ask) -> Result<Outcome, Failure> {
    let exists = fs::symlink_metadata(path).is_ok();
    if exists && !force {
        return Ok(Outcome::Kept);
    }
    let verb = if exists { "Replace" } else { "Write" };
    if !ask.is_agreed(&format!("{verb} {}?", text::path(&path.display().to_string())))? {
        return Ok(Outcome::Declined);
    }
    let failed = |error: io::Error| {
        Failure::new(format!("{} cannot be written: {error}", path.display()))
            .hint("check the permissions of the directory, and the free space")
    };
    if !exists {
        return match create(path, text, 0o666) {
            Ok(()) => Ok(Outcome::Written),
            // Somebody else was a moment earlier.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Outcome::Kept),
            Err(error) => Err(failed(error)),
        };
    }
    // The file is the old one or the new one, never half of it; a link in its place is replaced, not
    // followed.
    let fresh = path.with_extension("toml.new");
    let _ = fs::remove_file(&fresh);
    create(&fresh, text, 0o666).and_then(|()| fs::rename(&fresh, path)).map_err(failed)?;
    Ok(Outcome::Replaced)
}

/// The owner's file, where there is none: everything in it is a comment.
fn write_owners(home: &Home) -> Result<Option<PathBuf>, Failure> {
    let path = config::installation_file(home);
    home.create().map_err(|error| Failure::new(error.to_string()))?;
    match create(&path, &template::installation(), 0o600) {
        Ok(()) => Ok(Some(path)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(Failure::new(format!("{} cannot be written: {error}", path.display()))
            .hint("set REGIE_HOME to a directory that you may write")),
    }
}

/// Makes a file that is not there.
fn create(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())
}

fn shown(found: &Found) -> String {
    let mut all = format!("\n  {}\n", style::bold(&text::path(&found.root.display().to_string())));
    let mut section = |title: &str, rows: Vec<(String, String)>, none: &str| {
        all.push_str(&format!("\n  {}\n", style::dim(title)));
        let wide = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
        if rows.is_empty() {
            all.push_str(&format!("    {none}\n"));
        }
        for (name, said) in rows {
            all.push_str(&format!("    {name:<wide$}  {said}\n"));
        }
    };
    section(
        "toolchains",
        found.toolchains.iter().map(|found| (found.name.to_owned(), found.shown())).collect(),
        "none that is known by a file at the root",
    );
    section(
        "keys in the environment",
        found.keys.iter().map(|key| (key.name.to_owned(), key.shown().to_owned())).collect(),
        "none: export ANTHROPIC_API_KEY=…, or try `regie model-script`",
    );
    section(
        "model servers on this machine",
        found.endpoints.iter().map(|found| (found.name.to_owned(), found.shown())).collect(),
        "none on ports 11434, 1234 and 8080",
    );
    all.push('\n');
    all
}

fn written(path: &Path, outcome: Outcome, owners: Option<&Path>) -> String {
    let name = text::path(&path.display().to_string());
    let mut all = match outcome {
        Outcome::Written => format!("  {} {name} is written\n", style::ok("✓")),
        Outcome::Replaced => format!("  {} {name} is replaced\n", style::ok("✓")),
        Outcome::Kept => return String::new(),
        Outcome::Declined => return "  nothing was written\n".into(),
    };
    if let Some(owners) = owners {
        let name = text::path(&owners.display().to_string());
        all.push_str(&format!("  {} {name} is written, for what only you may say\n", style::ok("✓")));
    }
    let hint = style::hint("hint:");
    all.push_str(&format!("{hint} regie config explain, regie doctor, regie run \"…\"\n"));
    all
}

fn document(
    found: &Found,
    checked: Option<&Checked>,
    path: &Path,
    text: &str,
    outcome: Outcome,
) -> serde_json::Value {
    json!({
        "project": found.root.display().to_string(),
        "toolchains": found.toolchains,
        "keys": found.keys,
        "endpoints": found.endpoints,
        "key_check": checked,
        "file": { "path": path.display().to_string(), "outcome": outcome, "content": text },
    })
}
