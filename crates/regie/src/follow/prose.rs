//! What a model says, set in lines while it arrives word by word.

use crate::screen::{style, text};

/// Columns left of the words.
const INDENT: &str = "  ";

/// Sets words into lines. What it returns is to be printed as it is.
#[derive(Debug)]
pub(super) struct Prose {
    width: usize,
    column: usize,
    /// The word that may go on.
    word: String,
    /// Line ends that are held back until more follows.
    breaks: usize,
    begun: bool,
}

impl Prose {
    pub(super) fn new(width: usize) -> Self {
        Self { width, column: 0, word: String::new(), breaks: 0, begun: false }
    }

    /// Whether the cursor is inside a line.
    pub(super) fn is_open(&self) -> bool {
        self.begun
    }

    /// Takes a piece in.
    pub(super) fn push(&mut self, piece: &str) -> String {
        let mut shown = String::new();
        for c in text::lines(piece).chars() {
            match c {
                '\n' => {
                    self.flush(&mut shown);
                    self.breaks += 1;
                }
                ' ' | '\t' => self.flush(&mut shown),
                c => self.word.push(c),
            }
        }
        if shown.is_empty() { shown } else { style::dim(&shown) }
    }

    /// Ends it, with the line end.
    pub(super) fn end(&mut self) -> String {
        let mut shown = String::new();
        self.flush(&mut shown);
        let begun = self.begun;
        *self = Self::new(self.width);
        let shown = if shown.is_empty() { shown } else { style::dim(&shown) };
        if begun { shown + "\n" } else { shown }
    }

    fn flush(&mut self, shown: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        let length = word.chars().count();
        // A blank line at most, and none before the first word.
        let breaks = std::mem::take(&mut self.breaks).min(2);
        if !self.begun {
            shown.push_str(INDENT);
            self.column = INDENT.len();
        } else if breaks > 0 || self.column + 1 + length > self.width {
            shown.push_str(&"\n".repeat(breaks.max(1)));
            shown.push_str(INDENT);
            self.column = INDENT.len();
        } else {
            shown.push(' ');
            self.column += 1;
        }
        shown.push_str(&word);
        self.column += length;
        self.begun = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(pieces: &[&str]) -> String {
        let mut prose = Prose::new(16);
        let mut all: String = pieces.iter().map(|piece| prose.push(piece)).collect();
        all.push_str(&prose.end());
        anstream::adapter::strip_str(&all).to_string()
    }

    #[test]
    fn words_split_over_pieces_stay_whole() {
        assert_eq!(set(&["I wi", "ll re", "ad the file."]), "  I will read\n  the file.\n");
    }

    #[test]
    fn blank_lines_are_kept_once() {
        assert_eq!(set(&["\n\none\n", "\n\n\ntwo\n\n"]), "  one\n\n  two\n");
    }

    #[test]
    fn nothing_said_is_nothing_shown() {
        assert_eq!(set(&["", "\n"]), "");
    }
}
