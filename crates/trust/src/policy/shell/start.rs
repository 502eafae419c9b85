//! What the programs that start others would start.

use super::{Command, MOST, Seen, Word, read};

const SHELLS: [&str; 8] = ["sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "fish"];

/// Programs that start the program that their arguments name.
const STARTERS: [&str; 54] = [
    "env",
    "sudo",
    "doas",
    "nohup",
    "timeout",
    "nice",
    "ionice",
    "chrt",
    "taskset",
    "setsid",
    "stdbuf",
    "time",
    "command",
    "builtin",
    "exec",
    "xargs",
    "parallel",
    "find",
    "fd",
    "fdfind",
    "busybox",
    "toybox",
    "watch",
    "script",
    "su",
    "runuser",
    "flock",
    "chroot",
    "unshare",
    "nsenter",
    "strace",
    "ltrace",
    "setpriv",
    "bwrap",
    "proot",
    "fakeroot",
    "systemd-run",
    "start-stop-daemon",
    "ssh",
    "npx",
    "pnpx",
    "bunx",
    "uv",
    "uvx",
    "poetry",
    "pipenv",
    "bundle",
    "direnv",
    "mise",
    "asdf",
    "entr",
    "expect",
    "unbuffer",
    "faketime",
];

/// Those that read further arguments from their input.
const APPENDERS: [&str; 3] = ["xargs", "parallel", "entr"];

/// The most arguments of a starter that are tried as a program.
const TRIED: usize = 64;

/// What a command needs besides its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    /// It is a shell that reads its script.
    Input,
}

/// Looks at what a command would start.
pub(super) fn look(words: &[Word], depth: usize, seen: &mut Seen, room: &mut usize) -> Needs {
    let Some(program) = words.first().and_then(Word::program) else {
        seen.stop("the name of a program is only made at run time");
        return Needs::Nothing;
    };
    let appends = APPENDERS.contains(&program);
    let through_git = program == "git"
        && words.iter().any(|word| matches!(word.text.as_str(), "run" | "foreach" | "-x" | "filter-branch"))
        || words.iter().any(|word| program == "git" && word.text.starts_with("--exec"));
    if program == "git" && words.iter().any(|word| word.text.contains("alias.")) {
        seen.stop("git is given an alias");
    }
    if STARTERS.contains(&program) || through_git {
        if words.len() > TRIED {
            seen.stop("it is longer or deeper than what is looked into");
        }
        for first in 1..words.len().min(TRIED) {
            let mut rest = words.get(first..).unwrap_or_default().to_vec();
            if appends {
                rest.push(Word::unknown());
            }
            if rest.first().is_some_and(|word| word.known && !word.text.starts_with('-')) {
                // What reads its script from the input of a starter is as unclear as anywhere.
                if special(&rest, depth, seen, room) == Needs::Input {
                    seen.stop("a shell reads its script from elsewhere");
                }
                if seen.started.len() < MOST {
                    seen.started.push(Command { words: rest, assigns: false });
                } else {
                    seen.stop("it is longer or deeper than what is looked into");
                }
            }
        }
        texts(words, depth, seen, room);
        named(program, words, seen);
        return Needs::Nothing;
    }
    special(words, depth, seen, room)
}

/// Arguments of a starter that are command lines themselves, as `su -c "…"` and `env -S "…"` have it.
fn texts(words: &[Word], depth: usize, seen: &mut Seen, room: &mut usize) {
    for word in words.iter().skip(1) {
        let text = word.text.split_once('=').map_or(word.text.as_str(), |(_, value)| value);
        let text = text.strip_prefix("-S").unwrap_or(text);
        if word.known && text.contains([' ', ';', '|', '&', '\n']) && text != ";" {
            read::script(text, depth + 1, seen, room);
        }
    }
}

/// Whether a starter is told its program only at run time.
fn named(program: &str, words: &[Word], seen: &mut Seen) {
    let is_named_late = match program {
        // What they search and in which files is data.
        "find" | "fd" | "fdfind" => words.iter().any(|word| !word.known && word.text.starts_with("-e")),
        "git" => false,
        _ => words
            .iter()
            .skip(1)
            .find(|word| !word.text.starts_with('-'))
            .is_some_and(|word| !word.known && word.text.is_empty()),
    };
    if is_named_late {
        seen.stop("the name of a program is only made at run time");
    }
}

fn special(words: &[Word], depth: usize, seen: &mut Seen, room: &mut usize) -> Needs {
    let program = words.first().and_then(Word::program).unwrap_or_default();
    let arguments = words.get(1..).unwrap_or_default();
    match program {
        shell if SHELLS.contains(&shell) => return of_shell(arguments, depth, seen, room),
        "eval" => {
            if arguments.iter().all(|word| word.known) {
                let text: Vec<&str> = arguments.iter().map(|word| word.text.as_str()).collect();
                read::script(&text.join(" "), depth + 1, seen, room);
            } else {
                seen.stop("`eval` is given what is only made at run time");
            }
        }
        "." | "source" => match arguments.first() {
            Some(file) if file.known && !is_stream(&file.text) => {}
            _ => seen.stop("a shell reads its script from elsewhere"),
        },
        "trap" => match arguments.iter().find(|word| !word.text.starts_with('-')) {
            Some(action) if action.known => read::script(&action.text, depth + 1, seen, room),
            Some(_) => seen.stop("`trap` is given what is only made at run time"),
            None => {}
        },
        "alias" => seen.stop("it gives programs other names"),
        _ => {}
    }
    Needs::Nothing
}

fn of_shell(arguments: &[Word], depth: usize, seen: &mut Seen, room: &mut usize) -> Needs {
    let mut wants_script = false;
    let mut skips = false;
    for word in arguments {
        if std::mem::take(&mut skips) {
            continue;
        }
        if !word.known {
            seen.stop("a shell is given a script that is made at run time");
            return Needs::Nothing;
        }
        let text = word.text.as_str();
        match text {
            _ if wants_script && !text.starts_with(['-', '+']) => {
                read::script(text, depth + 1, seen, room);
                return Needs::Nothing;
            }
            "-o" | "+o" | "-O" | "+O" | "--rcfile" | "--init-file" => skips = true,
            "-s" | "-" => return Needs::Input,
            _ if text.starts_with("--") => {}
            _ if text.starts_with(['-', '+']) => wants_script |= text.starts_with('-') && text.contains('c'),
            _ if is_stream(text) => return Needs::Input,
            // A file: what is in it is not looked at.
            _ => return Needs::Nothing,
        }
    }
    if wants_script { Needs::Nothing } else { Needs::Input }
}

fn is_stream(path: &str) -> bool {
    path == "-" || path.starts_with("/dev/") || path.starts_with("/proc/")
}
