//! Patterns of commands: word by word, `*` for the rest.
//!
//! A rule that denies or asks is heard generously: other options may stand between, short ones in any order and
//! grouping, the program by any path, and a word that is only known at run time could be the one. A rule that allows is
//! heard to the letter.

use super::{Command, Word};

/// Why a pattern makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// There is no word in it.
    #[error("it is blank: expected a command, as \"git push *\"")]
    Blank,
    /// A quote is open at its end.
    #[error("a quote is not closed")]
    Quote,
}

/// A piece of a word of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Letter(char),
    /// Any letters.
    Any,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Token(Vec<Piece>);

/// A pattern of commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    tokens: Vec<Token>,
    /// Whether further words may follow.
    open: bool,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// When it is blank, or a quote is not closed.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let mut tokens = Vec::new();
        let mut token: Option<Vec<Piece>> = None;
        let mut quote: Option<char> = None;
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            match (quote, letter) {
                (Some(open), _) if open == letter => quote = None,
                (Some('"') | None, '\\') => {
                    token.get_or_insert_default().extend(letters.next().map(Piece::Letter));
                }
                (Some(_), _) => token.get_or_insert_default().push(Piece::Letter(letter)),
                (None, '\'' | '"') => {
                    quote = Some(letter);
                    token.get_or_insert_default();
                }
                (None, ' ' | '\t' | '\n') => tokens.extend(token.take().map(Token)),
                (None, '*') => token.get_or_insert_default().push(Piece::Any),
                (None, _) => token.get_or_insert_default().push(Piece::Letter(letter)),
            }
        }
        if quote.is_some() {
            return Err(Malformed::Quote);
        }
        tokens.extend(token.map(Token));
        let open = tokens.len() > 1 && tokens.last().is_some_and(Token::is_any);
        if open {
            tokens.pop();
        }
        if tokens.is_empty() { Err(Malformed::Blank) } else { Ok(Self { tokens, open }) }
    }

    /// The program that it names; `None` where that is a pattern itself.
    pub(in crate::policy) fn program(&self) -> Option<String> {
        let letters = self.tokens.first()?.0.iter();
        let name: Option<String> = letters
            .map(|piece| if let Piece::Letter(letter) = piece { Some(*letter) } else { None })
            .collect();
        name.map(|name| name.rsplit('/').next().unwrap_or(&name).to_owned())
    }

    /// Whether a command is, or could be, one of these: for rules that deny or ask.
    pub fn could_be(&self, command: &Command) -> bool {
        let (Some(program), Some(named)) = (command.words.first(), self.tokens.first()) else { return false };
        let own = program.program().unwrap_or_default();
        let is_named = named.is(own) || (own.len() != program.text.len() && named.is(&program.text));
        if !program.known || !is_named {
            return !program.known;
        }
        let arguments = command.words.get(1..).unwrap_or_default();
        let mut options = self.tokens.iter().skip(1).filter(|token| token.is_option());
        self.operands_could_be(arguments) && options.all(|option| option.is_given(arguments))
    }

    fn operands_could_be(&self, arguments: &[Word]) -> bool {
        let mut words = arguments.iter().peekable();
        for operand in self.tokens.iter().skip(1).filter(|token| !token.is_option()) {
            loop {
                let Some(word) = words.next() else { return false };
                if !word.known {
                    return word.text.is_empty() || operand.could_begin(&word.text);
                }
                if operand.is(&word.text) {
                    break;
                }
                if !word.text.starts_with('-') {
                    return false;
                }
                // An option may have its value behind it.
                let is_value =
                    |next: &&Word| next.known && !next.text.starts_with('-') && !operand.is(&next.text);
                if !word.text.contains('=') {
                    words.next_if(|next| is_value(next));
                }
            }
        }
        self.open || words.all(|word| !word.known || word.text.starts_with('-'))
    }

    /// Whether a command is exactly one of these: for rules that allow.
    pub fn is(&self, command: &Command) -> bool {
        let words = &command.words;
        let fits = words.len() == self.tokens.len() || (self.open && words.len() > self.tokens.len());
        fits && !command.assigns
            && self.tokens.iter().zip(words).all(|(token, word)| word.known && token.is(&word.text))
    }
}

impl Token {
    fn is_any(&self) -> bool {
        self.0.as_slice() == [Piece::Any]
    }

    fn is_option(&self) -> bool {
        matches!(self.0.as_slice(), [Piece::Letter('-'), _, ..])
    }

    /// Whether a word is this one.
    fn is(&self, word: &str) -> bool {
        if !self.0.contains(&Piece::Any) {
            return word.chars().map(Piece::Letter).eq(self.0.iter().copied());
        }
        let word: Vec<char> = word.chars().collect();
        let (mut piece, mut at) = (0, 0);
        // Where to go on when the last `*` has to take one letter more.
        let mut again: Option<(usize, usize)> = None;
        loop {
            match (self.0.get(piece), word.get(at)) {
                (None, None) => return true,
                (Some(Piece::Any), _) => {
                    again = Some((piece, at));
                    piece += 1;
                }
                (Some(Piece::Letter(wanted)), Some(letter)) if wanted == letter => {
                    piece += 1;
                    at += 1;
                }
                _ => match again {
                    Some((star, from)) if from < word.len() => {
                        again = Some((star, from + 1));
                        piece = star + 1;
                        at = from + 1;
                    }
                    _ => return false,
                },
            }
        }
    }

    /// Whether a word that begins like this could be it.
    fn could_begin(&self, beginning: &str) -> bool {
        let mut letters = beginning.chars();
        for piece in &self.0 {
            match (piece, letters.next()) {
                (Piece::Any, _) | (_, None) => return true,
                (Piece::Letter(wanted), Some(letter)) if *wanted == letter => {}
                _ => return false,
            }
        }
        letters.next().is_none()
    }

    /// Whether an option is, or could be, among the arguments: long ones also shortened or with a value, short ones
    /// also apart or grouped with others.
    fn is_given(&self, arguments: &[Word]) -> bool {
        let written: String = self
            .0
            .iter()
            .map(|piece| if let Piece::Letter(letter) = piece { *letter } else { '*' })
            .collect();
        let one = |word: &Word| {
            let text = word.text.as_str();
            if !word.known {
                return text.is_empty() || self.could_begin(text) || text.starts_with('-');
            }
            let shortened = text.len() > 3 && text.starts_with("--") && written.starts_with(text);
            self.is(text)
                || shortened
                || text.strip_prefix(&written).is_some_and(|rest| rest.starts_with('='))
        };
        if arguments.iter().any(one) {
            return true;
        }
        let is_short = |text: &str| text.len() > 1 && text.starts_with('-') && !text.starts_with("--");
        is_short(&written)
            && written.chars().skip(1).all(|letter| {
                arguments
                    .iter()
                    .any(|word| is_short(&word.text) && word.text.chars().skip(1).any(|own| own == letter))
            })
    }
}
