//! What a shell line would start, seen without running it.
//!
//! It looks through lists, pipes, subshells, substitutions, here-documents and the programs that start others
//! (`env`, `sudo`, `xargs`, `sh -c`, `eval`, `find -exec`, …), as far as the text says it. Where a program's name or a
//! script is only made at run time, the line is *unclear* and says why: rules that deny or ask then hold for it, and
//! none that allows. It never looks into files: what a script or a program does by itself is for the jail.
//!
//! Own code and not one of the shell parsers of the registry: a line comes from a model, and what judges it must
//! bound its depth and its work, whatever the line is.

mod pattern;
mod read;
mod start;

pub use pattern::{Malformed, Pattern};

/// The longest line that is looked into, in bytes; longer ones are unclear.
pub(super) const LONGEST: usize = 64 << 10;
/// The most commands of a line.
const MOST: usize = 2_000;
/// How deep substitutions and scripts in scripts may lie.
const DEEPEST: usize = 24;

/// A word of a command, after its quotes are gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The word; of one that is only known at run time its beginning, as far as that is written.
    pub text: String,
    /// Whether that is all of it.
    pub known: bool,
    /// Whether some of it was quoted: such a word is none of the shell's own.
    pub(super) quoted: bool,
}

impl Word {
    fn unknown() -> Self {
        Self { text: String::new(), known: false, quoted: false }
    }

    /// The name of the program, when the word is one: without its directories.
    pub(super) fn program(&self) -> Option<&str> {
        self.known.then(|| self.text.rsplit('/').next().unwrap_or(&self.text))
    }
}

/// A program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// They, the program first; never empty.
    pub words: Vec<Word>,
    /// Whether variables are set for it, as in `GIT_SSH=x git push`.
    pub assigns: bool,
}

/// What a line would start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Every command that is written in it, those in substitutions included.
    pub commands: Vec<Command>,
    /// What those would start in their turn. Not all of it is: of `timeout 5 make` both `5 make` and `make` are here,
    /// as no list of options is ever complete.
    pub started: Vec<Command>,
    /// Files that it redirects from or to.
    pub redirected: Vec<String>,
    /// Where seeing ends, in words; empty when all of it was seen.
    pub unclear: Vec<&'static str>,
}

impl Seen {
    /// Looks at a line.
    pub fn of(line: &str) -> Self {
        let mut seen = Self::default();
        let mut room = LONGEST * 4;
        read::script(line, 0, &mut seen, &mut room);
        seen
    }

    /// Whether all of it was seen.
    pub fn is_clear(&self) -> bool {
        self.unclear.is_empty()
    }

    fn stop(&mut self, why: &'static str) {
        if !self.unclear.contains(&why) {
            self.unclear.push(why);
        }
    }

    /// All that a rule that denies or asks is held against.
    pub(super) fn all(&self) -> impl Iterator<Item = &Command> {
        self.commands.iter().chain(&self.started)
    }
}
