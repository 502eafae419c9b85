//! From the text of a script to its commands: quotes, expansions, lists, here-documents.

use super::{Command, DEEPEST, LONGEST, MOST, Seen, Word, start};

/// Words of the shell that a command may follow.
const BEFORE: [&str; 16] = [
    "if", "then", "elif", "else", "fi", "while", "until", "do", "done", "{", "}", "!", "time", "coproc",
    "esac", "-p",
];

/// Reads a script, and adds what it would start.
pub(super) fn script(text: &str, depth: usize, seen: &mut Seen, room: &mut usize) {
    if text.len() > LONGEST || text.len() > *room || depth > DEEPEST {
        return seen.stop("it is longer or deeper than what is looked into");
    }
    *room -= text.len();
    let text: Vec<char> = text.chars().collect();
    let mut reader = Reader { text: &text, at: 0, depth, seen, room, waiting: Vec::new() };
    reader.list(Until::End);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    End,
    Bracket,
}

/// A here-document whose body comes after the line.
struct Document {
    end: Word,
    strips: bool,
    is_script: bool,
}

/// A command that is being read.
#[derive(Default)]
struct Simple {
    words: Vec<Word>,
    /// What it is given as its input in the text.
    input: Option<Word>,
    documents: usize,
}

struct Reader<'a> {
    text: &'a [char],
    at: usize,
    depth: usize,
    seen: &'a mut Seen,
    room: &'a mut usize,
    waiting: Vec<Document>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn after(&self, by: usize) -> Option<char> {
        self.text.get(self.at + by).copied()
    }

    fn takes(&mut self, wanted: char) -> bool {
        let is = self.peek() == Some(wanted);
        self.at += usize::from(is);
        is
    }

    fn blanks(&mut self) {
        loop {
            match (self.peek(), self.after(1)) {
                (Some(' ' | '\t' | '\r'), _) => self.at += 1,
                (Some('\\'), Some('\n')) => self.at += 2,
                _ => return,
            }
        }
    }

    /// A list of commands, up to the end of the text or the bracket that closes it.
    fn list(&mut self, until: Until) {
        let mut simple = Simple::default();
        loop {
            self.blanks();
            let Some(letter) = self.peek() else {
                self.finish(&mut simple, until);
                if until == Until::Bracket {
                    self.seen.stop("a bracket or a quote is not closed");
                }
                return;
            };
            match letter {
                '#' => {
                    while self.peek().is_some_and(|letter| letter != '\n') {
                        self.at += 1;
                    }
                }
                '\n' => {
                    self.at += 1;
                    self.finish(&mut simple, until);
                    self.documents();
                }
                '&' if self.after(1) == Some('>') => {
                    self.at += 1;
                    self.redirect(&mut simple);
                }
                ';' | '&' | '|' => {
                    self.at += 1;
                    self.finish(&mut simple, until);
                }
                ')' => {
                    self.at += 1;
                    self.finish(&mut simple, until);
                    if until == Until::Bracket {
                        return;
                    }
                }
                '(' => self.bracket(&mut simple, until),
                '<' | '>' if self.after(1) == Some('(') => {
                    self.at += 2;
                    self.nested();
                    simple.words.push(Word::unknown());
                }
                '<' | '>' => self.redirect(&mut simple),
                _ => {
                    let word = self.word();
                    let is_number =
                        !word.text.is_empty() && word.text.bytes().all(|byte| byte.is_ascii_digit());
                    // As in `2>file`: no argument.
                    let is_descriptor = is_number && matches!(self.peek(), Some('<' | '>'));
                    if !is_descriptor || word.quoted {
                        simple.words.push(word);
                    }
                }
            }
        }
    }

    /// An opening bracket: a subshell, a function, an array or arithmetic.
    fn bracket(&mut self, simple: &mut Simple, until: Until) {
        self.at += 1;
        let begin = self.at + 1;
        if self.peek() == Some('(') && simple.words.is_empty() && self.arithmetic() {
            // To some shells it is two subshells.
            let inner = self.text.get(begin..self.at.saturating_sub(2)).unwrap_or_default();
            let inner: String = inner.iter().collect();
            return script(&inner, self.depth + 1, self.seen, self.room);
        }
        if !simple.words.is_empty() {
            self.seen.stop("a function or an array is defined in it");
        }
        self.finish(simple, until);
        self.nested();
    }

    /// What stands in brackets, after the opening one.
    fn nested(&mut self) {
        if self.depth >= DEEPEST {
            self.at = self.text.len();
            return self.seen.stop("it is longer or deeper than what is looked into");
        }
        self.depth += 1;
        let waiting = std::mem::take(&mut self.waiting);
        self.list(Until::Bracket);
        self.waiting = waiting;
        self.depth -= 1;
    }

    /// Arithmetic in double brackets, from the second one on: whether it is that. Expansions in it are seen.
    fn arithmetic(&mut self) -> bool {
        let (begin, mut open, mut end) = (self.at + 1, 2_usize, self.at + 1);
        while let Some(&letter) = self.text.get(end) {
            match letter {
                '(' => open += 1,
                ')' if open == 2 => break,
                ')' => open -= 1,
                _ => {}
            }
            end += 1;
        }
        if self.text.get(end) != Some(&')') || self.text.get(end + 1) != Some(&')') {
            return false;
        }
        self.at = begin;
        self.expansions(end);
        self.at = end + 2;
        true
    }

    /// Sees what is expanded up to a place.
    fn expansions(&mut self, end: usize) {
        while self.at < end {
            match self.peek() {
                Some('\\') => self.at += 2,
                Some('$') => {
                    self.dollar();
                }
                Some('`') => self.backticks(),
                _ => self.at += 1,
            }
        }
    }

    fn redirect(&mut self, simple: &mut Simple) {
        let mut sign = String::new();
        while let Some(letter @ ('<' | '>' | '&' | '|')) = self.peek() {
            if sign.len() >= 3 || (letter == '|' && sign != ">") || (letter == '&' && sign.is_empty()) {
                break;
            }
            // What follows a here-document's sign is its end.
            sign.push(letter);
            self.at += 1;
        }
        let strips = sign == "<<" && self.takes('-');
        self.blanks();
        if matches!(self.peek(), Some('<' | '>')) && self.after(1) == Some('(') {
            self.at += 2;
            return self.nested();
        }
        let word = self.word();
        match sign.as_str() {
            "<<" => {
                simple.documents += 1;
                self.waiting.push(Document { end: word, strips, is_script: false });
            }
            "<<<" => simple.input = Some(word),
            // Another descriptor.
            "<&" | ">&" if word.text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') => {}
            _ if word.known => self.seen.redirected.push(word.text),
            _ => {}
        }
    }

    /// The bodies of the here-documents of the line that has ended.
    fn documents(&mut self) {
        for document in std::mem::take(&mut self.waiting) {
            let begin = self.at;
            let mut end = self.text.len();
            while self.at < self.text.len() {
                let line = self.at;
                while self.peek().is_some_and(|letter| letter != '\n') {
                    self.at += 1;
                }
                let text: String = self.text.get(line..self.at).unwrap_or_default().iter().collect();
                self.at += 1;
                let text = if document.strips { text.trim_start_matches('\t') } else { &text };
                if text == document.end.text {
                    end = line;
                    break;
                }
            }
            let (next, body) = (self.at.min(self.text.len()), self.text.get(begin..end).unwrap_or_default());
            if !document.end.quoted {
                self.at = begin;
                self.expansions(end);
            }
            self.at = next;
            if document.is_script {
                let expands = !document.end.quoted && body.iter().any(|letter| matches!(letter, '$' | '`'));
                if expands {
                    self.seen.stop("a shell is given a script that is made at run time");
                }
                let body: String = body.iter().collect();
                script(&body, self.depth + 1, self.seen, self.room);
            }
        }
    }

    fn finish(&mut self, simple: &mut Simple, until: Until) {
        let Simple { mut words, input, documents } = std::mem::take(simple);
        let is_own =
            |word: &Word, names: &[&str]| !word.quoted && word.known && names.contains(&word.text.as_str());
        let skipped = words.iter().take_while(|word| is_own(word, &BEFORE)).count();
        words.drain(..skipped);
        match words.first() {
            Some(word) if is_own(word, &["for", "select"]) => return,
            Some(word) if is_own(word, &["case"]) => {
                if until == Until::Bracket {
                    self.seen.stop("there is a `case` in brackets");
                }
                return;
            }
            Some(word) if is_own(word, &["function"]) => {
                self.seen.stop("a function or an array is defined in it");
                return;
            }
            _ => {}
        }
        let assigned = words.iter().take_while(|word| is_assignment(word)).count();
        words.drain(..assigned);
        if words.is_empty() {
            return;
        }
        if self.seen.commands.len() + self.seen.started.len() > MOST {
            return self.seen.stop("it is longer or deeper than what is looked into");
        }
        let needs = start::look(&words, self.depth, self.seen, self.room);
        self.seen.commands.push(Command { words, assigns: assigned > 0 });
        if needs != start::Needs::Input {
            return;
        }
        match input {
            Some(text) if text.known => script(&text.text, self.depth + 1, self.seen, self.room),
            None if documents > 0 => {
                let first = self.waiting.len().saturating_sub(documents);
                self.waiting.iter_mut().skip(first).for_each(|document| document.is_script = true);
            }
            _ => self.seen.stop("a shell reads its script from elsewhere"),
        }
    }

    /// A word, up to what ends it.
    fn word(&mut self) -> Word {
        let begin = self.at;
        let mut word = Word { text: String::new(), known: true, quoted: false };
        let add = |word: &mut Word, letter: char| {
            if word.known {
                word.text.push(letter);
            }
        };
        while let Some(letter) = self.peek() {
            match letter {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                '\\' => {
                    match self.after(1) {
                        Some('\n') => {}
                        Some(next) => {
                            add(&mut word, next);
                            word.quoted = true;
                        }
                        None => word.known = false,
                    }
                    self.at += 2;
                }
                '\'' => self.literal(&mut word),
                '"' => self.quoted(&mut word),
                '`' => {
                    self.backticks();
                    word.known = false;
                }
                '$' => {
                    if self.dollar() {
                        word.known = false;
                    } else {
                        add(&mut word, '$');
                    }
                }
                '{' if self.after(1) == Some('}') => {
                    add(&mut word, '{');
                    add(&mut word, '}');
                    self.at += 2;
                }
                '[' if self.at == begin && matches!(self.after(1), Some(' ' | '[')) => {
                    add(&mut word, '[');
                    self.at += 1;
                    if self.takes('[') {
                        add(&mut word, '[');
                    }
                }
                '{' if self.at != begin || !matches!(self.after(1), Some(' ' | '\t' | '\n') | None) => {
                    word.known = false;
                    self.at += 1;
                }
                '*' | '?' | '[' => {
                    word.known = false;
                    self.at += 1;
                }
                other => {
                    add(&mut word, other);
                    self.at += 1;
                }
            }
        }
        word
    }

    fn closes(&mut self, quote: char) {
        if !self.takes(quote) {
            self.seen.stop("a bracket or a quote is not closed");
        }
    }

    /// What stands between single quotes.
    fn literal(&mut self, word: &mut Word) {
        self.at += 1;
        word.quoted = true;
        while let Some(letter) = self.peek().filter(|letter| *letter != '\'') {
            if word.known {
                word.text.push(letter);
            }
            self.at += 1;
        }
        self.closes('\'');
    }

    /// What stands between double quotes.
    fn quoted(&mut self, word: &mut Word) {
        self.at += 1;
        word.quoted = true;
        while let Some(letter) = self.peek() {
            match letter {
                '"' => break,
                '\\' => {
                    match self.after(1) {
                        Some('\n') => {}
                        Some(next @ ('$' | '`' | '"' | '\\')) if word.known => word.text.push(next),
                        Some(next) if word.known => word.text.extend(['\\', next]),
                        _ => {}
                    }
                    self.at += 2;
                }
                '$' => match self.dollar() {
                    true => word.known = false,
                    false if word.known => word.text.push('$'),
                    false => {}
                },
                '`' => {
                    self.backticks();
                    word.known = false;
                }
                other => {
                    if word.known {
                        word.text.push(other);
                    }
                    self.at += 1;
                }
            }
        }
        self.closes('"');
    }

    /// What a `$` begins: whether anything is expanded.
    fn dollar(&mut self) -> bool {
        self.at += 1;
        match self.peek() {
            Some('(') => {
                self.at += 1;
                if self.peek() != Some('(') || !self.arithmetic() {
                    self.nested();
                }
            }
            Some('{') => {
                self.at += 1;
                self.braces();
            }
            Some('\'') => {
                self.at += 1;
                while let Some(letter) = self.peek().filter(|letter| *letter != '\'') {
                    self.at += if letter == '\\' { 2 } else { 1 };
                }
                self.closes('\'');
            }
            Some('"') => {}
            Some(letter) if letter == '_' || letter.is_ascii_alphabetic() => {
                while self.peek().is_some_and(|letter| letter == '_' || letter.is_ascii_alphanumeric()) {
                    self.at += 1;
                }
            }
            Some('0'..='9' | '@' | '*' | '#' | '?' | '-' | '$' | '!') => self.at += 1,
            _ => return false,
        }
        true
    }

    /// What stands in `${…}`, with what is expanded in it.
    fn braces(&mut self) {
        if self.depth >= DEEPEST {
            self.at = self.text.len();
            return self.seen.stop("it is longer or deeper than what is looked into");
        }
        self.depth += 1;
        let mut word = Word::unknown();
        loop {
            match self.peek() {
                None => {
                    self.seen.stop("a bracket or a quote is not closed");
                    break;
                }
                Some('}') => {
                    self.at += 1;
                    break;
                }
                Some('\\') => self.at += 2,
                Some('"') => self.quoted(&mut word),
                Some('`') => self.backticks(),
                Some('$') => {
                    self.dollar();
                }
                Some(_) => self.at += 1,
            }
        }
        self.depth -= 1;
    }

    /// An old substitution: its text is a script, with one level of backslashes taken away.
    fn backticks(&mut self) {
        self.at += 1;
        let mut inner = String::new();
        while let Some(letter) = self.peek().filter(|letter| *letter != '`') {
            self.at += 1;
            match (letter, self.peek()) {
                ('\\', Some(next @ ('`' | '$' | '\\' | '"'))) => {
                    inner.push(next);
                    self.at += 1;
                }
                _ => inner.push(letter),
            }
        }
        self.closes('`');
        script(&inner, self.depth + 1, self.seen, self.room);
    }
}

/// Whether a word sets a variable, as `NAME=value` or `NAME+=value`.
fn is_assignment(word: &Word) -> bool {
    let Some((name, _)) = word.text.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    let mut letters = name.chars();
    letters.next().is_some_and(|first| first == '_' || first.is_ascii_alphabetic())
        && letters.all(|letter| letter == '_' || letter.is_ascii_alphanumeric())
}
