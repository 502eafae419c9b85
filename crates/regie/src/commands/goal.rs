//! The goal of a mission: words on the command line, a file, or stdin. A text that is not what its
//! writer meant (cut off, in another encoding) starts nothing.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::failure::Failure;
use crate::screen::text;

/// The longest goal, in bytes. It is part of every request to the model.
const MOST: usize = 256 << 10;
/// What stands for stdin.
const STDIN: &str = "-";

/// The goal that was asked for; a file wins over words, of which there are none then.
///
/// # Errors
/// When it cannot be read, is empty, too long, or not UTF-8.
pub(super) fn read(words: Option<&str>, file: Option<&Path>) -> Result<String, Failure> {
    let goal = match (words, file) {
        (_, Some(path)) if path != Path::new(STDIN) => {
            let name = text::line(&path.display().to_string());
            let opened = File::open(path).map_err(|error| unread(&name, &error))?;
            let is_dir = opened.metadata().map_err(|error| unread(&name, &error))?.is_dir();
            if is_dir {
                return Err(Failure::usage(format!("{name} is a directory")).hint("name a file of text"));
            }
            from(opened, &name)?
        }
        (Some(STDIN), None) | (None, Some(_)) => from(io::stdin().lock(), "stdin")?,
        (Some(words), _) => checked(words.to_owned(), "the goal")?,
        (None, None) => String::new(),
    };
    if goal.trim().is_empty() {
        return Err(Failure::usage("the goal is empty").hint("say what is to be achieved: regie run \"…\""));
    }
    Ok(goal)
}

fn from(source: impl Read, name: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(MOST).unwrap_or(u64::MAX).saturating_add(1);
    source.take(limit).read_to_end(&mut bytes).map_err(|error| unread(name, &error))?;
    decoded(bytes, name)
}

fn decoded(bytes: Vec<u8>, name: &str) -> Result<String, Failure> {
    if bytes.len() > MOST {
        return Err(too_long(name));
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        let what = format!("{name} is UTF-16, as its first two bytes say");
        return Err(Failure::usage(what).hint("save it as UTF-8"));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::usage(format!("{name} is not UTF-8: byte {at} (counted from 0) begins no character"))
            .hint("save it as UTF-8, as with: iconv -f LATIN1 -t UTF-8")
    })?;
    checked(text, name)
}

/// Without a byte order mark and with plain line ends; refused when it is too long or binary.
fn checked(text: String, name: &str) -> Result<String, Failure> {
    if text.len() > MOST {
        return Err(too_long(name));
    }
    if let Some(at) = text.find('\0') {
        let what = format!("{name} is not text: byte {at} (counted from 0) is zero");
        return Err(Failure::usage(what).hint("name a file of text"));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    Ok(text.replace("\r\n", "\n"))
}

fn too_long(name: &str) -> Failure {
    Failure::usage(format!("{name} has more than {} KiB", MOST >> 10))
        .hint("put what is long into a file of the repository, and name that file in the goal")
}

fn unread(name: &str, error: &io::Error) -> Failure {
    Failure::usage(format!("{name} cannot be read: {error}")).hint("name a file of text, or `-` for stdin")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], want: Result<&str, &str>) {
        let found = decoded(bytes.to_vec(), "g").map_err(|failure| failure.detail);
        match (&found, want) {
            (Ok(text), Ok(want)) => assert_eq!(text, want),
            (Err(said), Err(want)) => assert!(said.contains(want), "{said}"),
            _ => panic!("{found:?}, not {want:?}"),
        }
    }

    #[test]
    fn line_ends_and_the_mark_of_windows_do_not_reach_the_model() {
        check(b"\xef\xbb\xbfOne\r\ntwo\nthree\r", Ok("One\ntwo\nthree\r"));
        check("Grüße".as_bytes(), Ok("Grüße"));
    }

    #[test]
    fn what_is_no_text_is_refused_with_its_place() {
        check(b"abc\xff", Err("byte 3 "));
        check(b"Gr\xfc\xdfe", Err("byte 2 "));
        check(b"\xff\xfea\0", Err("UTF-16"));
        check(b"ab\0", Err("byte 2 "));
    }

    #[test]
    fn the_longest_goal_is_taken_and_one_byte_more_is_not() {
        check("x".repeat(MOST).as_bytes(), Ok(&"x".repeat(MOST)));
        check("x".repeat(MOST + 1).as_bytes(), Err("more than 256 KiB"));
    }
}
