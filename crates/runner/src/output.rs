//! What a jailed step gave back, and how long output becomes short.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use domain::{Digest, Image, Millis};
use serde::{Deserialize, Serialize};

/// How much of an output a result shows, in bytes: about 3,000 tokens. Longer output is shown by its
/// beginning and its end, and the whole is a file that later steps can read.
pub(crate) const SHOWN: usize = 12 << 10;
/// How much of it is kept for the artifact, in bytes.
pub(crate) const KEPT: u64 = 16 << 20;

/// The payload of a finished tool call or verdict, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// What to show: to the model, and to people. Comes from a jail, so it is untrusted.
    pub text: String,
    /// The exit code of a command; 128 and the signal's number when a signal ended it.
    pub exit_code: Option<i32>,
    /// Whether the tool reports a failure.
    pub is_error: bool,
    /// Bytes of output that `text` leaves out.
    pub truncated_bytes: u64,
    /// The output that is longer than `text`: its first 16 MiB.
    pub artifact: Option<Digest>,
    /// How long it took, in milliseconds.
    pub duration_ms: Millis,
    /// How it was confined.
    pub jail: sandbox::Status,
    /// Where later steps of the run can read the output that is longer than `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The instruction file that is nearest to the file that the tool read or changed, the first time
    /// that one of its directory is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Instructions>,
    /// The image that the tool gave to look at; its bytes are the artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
}

/// A directory's own instructions for agents. Comes from a jail, so it is untrusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instructions {
    /// The file, relative to the workspace.
    pub path: String,
    /// What it says.
    pub text: String,
}

/// A long text as a result shows it: its beginning, its end, and in between how much is left out and
/// where it is.
pub(crate) fn preview(text: &str, shown: usize, whole: &str) -> (String, u64) {
    let half = shown / 2;
    let head = cut(text, half);
    let mut start = text.len().saturating_sub(half).max(head.len());
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let tail = text.get(start..).unwrap_or_default();
    let omitted = text.len().saturating_sub(head.len() + tail.len());
    (joined(head, omitted as u64, Some(whole), tail), omitted as u64)
}

fn joined(head: &str, omitted: u64, whole: Option<&str>, tail: &str) -> String {
    let whole = whole.map_or_else(String::new, |path| format!("; `read` or `search` the whole in {path}"));
    format!("{head}\n[… {omitted} bytes left out{whole} …]\n{tail}")
}

/// A command's output: its beginning and its end in memory, its first part in a file.
#[derive(Debug)]
pub(crate) struct Transcript {
    shown: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
    keep: Keep,
}

/// The file of a long output.
#[derive(Debug)]
enum Keep {
    /// Not needed yet.
    At(PathBuf),
    /// It is written.
    Open(File, u64),
    /// It cannot be written; the result is shown without it.
    Failed,
}

impl Transcript {
    /// Shows up to `shown` bytes; longer output goes to the file `keep`.
    pub(crate) fn new(shown: usize, keep: PathBuf) -> Self {
        Self { shown, head: Vec::new(), tail: VecDeque::new(), total: 0, keep: Keep::At(keep) }
    }

    /// Takes the next bytes. Memory stays bounded whatever comes.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        let before = self.total;
        self.total = self.total.saturating_add(bytes.len() as u64);
        self.keep(before, bytes);
        let most_head = self.shown / 2;
        let most_tail = self.shown - most_head;
        let room = most_head.saturating_sub(self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        let rest = rest.get(rest.len().saturating_sub(most_tail)..).unwrap_or_default();
        let excess = (self.tail.len() + rest.len()).saturating_sub(most_tail);
        self.tail.drain(..excess.min(self.tail.len()));
        self.tail.extend(rest);
    }

    fn keep(&mut self, before: u64, bytes: &[u8]) {
        if let Keep::At(path) = &self.keep {
            if self.total <= self.shown as u64 {
                return;
            }
            // Everything so far is still in memory: head and tail have no gap yet.
            self.keep = match File::create(path) {
                Ok(mut file) => {
                    let (front, back) = self.tail.as_slices();
                    let wrote =
                        [self.head.as_slice(), front, back].iter().try_for_each(|part| file.write_all(part));
                    match wrote {
                        Ok(()) => Keep::Open(file, before),
                        Err(_) => Keep::Failed,
                    }
                }
                Err(_) => Keep::Failed,
            };
        }
        if let Keep::Open(file, written) = &mut self.keep {
            let room = KEPT.saturating_sub(*written).min(bytes.len() as u64);
            let part = bytes.get(..usize::try_from(room).unwrap_or(0)).unwrap_or_default();
            if file.write_all(part).is_err() {
                self.keep = Keep::Failed;
                return;
            }
            *written += room;
        }
    }

    /// What to show, the number of bytes left out, and whether the file holds more. `whole` is where a
    /// step finds the file.
    pub(crate) fn finish(self, whole: Option<&str>) -> (String, u64, bool) {
        let mut tail = Vec::from(self.tail);
        let omitted = self.total.saturating_sub((self.head.len() + tail.len()) as u64);
        let kept = match self.keep {
            Keep::Open(file, _) => file.sync_all().is_ok(),
            Keep::At(_) | Keep::Failed => false,
        };
        if omitted == 0 {
            let mut all = self.head;
            all.append(&mut tail);
            return (String::from_utf8_lossy(&all).into_owned(), 0, kept);
        }
        let head = String::from_utf8_lossy(whole_end(&self.head));
        let tail = String::from_utf8_lossy(whole_start(&tail));
        (joined(&head, omitted, whole.filter(|_| kept), &tail), omitted, kept)
    }
}

/// The bytes without a character that was cut at their end.
fn whole_end(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => bytes.get(..error.valid_up_to()).unwrap_or_default(),
        _ => bytes,
    }
}

/// The bytes without the rest of a character that was cut at their start.
fn whole_start(bytes: &[u8]) -> &[u8] {
    let rest = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    bytes.get(rest..).unwrap_or_default()
}

/// The text, cut at `limit` bytes without breaking a character.
pub(crate) fn cut(text: &str, limit: usize) -> &str {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(chunks: &[Vec<u8>], shown: usize) -> (String, u64, bool, Vec<u8>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output");
        let mut transcript = Transcript::new(shown, path.clone());
        for chunk in chunks {
            transcript.take(chunk);
        }
        let (text, omitted, kept) = transcript.finish(Some("/outputs/1.txt"));
        (text, omitted, kept, std::fs::read(path).unwrap_or_default())
    }

    proptest! {
        #[test]
        fn nothing_is_lost_that_is_not_counted(
            chunks in prop::collection::vec(prop::collection::vec(b'a'..=b'z', 0..40), 0..20),
            shown in 2usize..64,
        ) {
            let all = chunks.concat();
            let (text, omitted, kept, file) = run(&chunks, shown);
            if omitted == 0 {
                prop_assert_eq!(text.as_bytes(), all.as_slice());
            } else {
                let (head, rest) = text.split_once("\n[…").unwrap();
                let tail = rest.split_once("…]\n").unwrap().1;
                prop_assert!(all.starts_with(head.as_bytes()) && all.ends_with(tail.as_bytes()));
                prop_assert_eq!(omitted as usize, all.len() - head.len() - tail.len());
            }
            prop_assert_eq!(kept, all.len() > shown);
            if kept {
                prop_assert_eq!(file, all);
            }
        }

        #[test]
        fn cuts_break_no_character(text: String, limit in 0usize..40) {
            prop_assert!(text.starts_with(cut(&text, limit)));
        }
    }

    #[test]
    fn characters_at_the_cuts_are_dropped_whole() {
        let (text, _, _, _) = run(&["ä€😀".repeat(10).into_bytes()], 10);
        assert!(!text.contains('\u{fffd}'), "{text}");
    }

    #[test]
    fn other_encodings_are_shown_lossily() {
        let (text, omitted, _, _) = run(&[vec![b'a', 0xff, b'b']], 10);
        assert_eq!((text.as_str(), omitted), ("a\u{fffd}b", 0));
    }
}
