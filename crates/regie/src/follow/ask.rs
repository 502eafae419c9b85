//! Questions to whoever sits at the terminal, and their answers.

use std::io::BufRead;

use rustix::termios::QueueSelector;
use tokio::sync::mpsc;

/// Lines that are typed, read by a thread of their own: a read from a terminal cannot be given up.
#[derive(Debug, Default)]
pub(super) struct Keyboard {
    lines: Option<mpsc::UnboundedReceiver<Option<String>>>,
}

impl Keyboard {
    /// Forgets what was typed before a question was asked: it is no answer to it.
    pub(super) fn forget(&mut self) {
        let _ = rustix::termios::tcflush(std::io::stdin(), QueueSelector::IFlush);
        let lines = self.lines.get_or_insert_with(listen);
        while lines.try_recv().is_ok() {}
    }

    /// The next line, in lower case; `None` at the end of the input. Cancel-safe.
    pub(super) async fn line(&mut self) -> Option<String> {
        match &mut self.lines {
            Some(lines) => lines.recv().await.flatten(),
            None => std::future::pending().await,
        }
    }
}

fn listen() -> mpsc::UnboundedReceiver<Option<String>> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if sender.send(Some(line.trim().to_lowercase())).is_err() {
                return;
            }
        }
        let _ = sender.send(None);
    });
    receiver
}

/// An answer to a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    /// As the API names it.
    Answer(&'static str),
    /// Yes, and always in this project.
    Always,
    /// Show the changes first.
    Diff,
    /// Not now.
    Later,
    /// Not understood.
    Again,
}

/// What a line means as an answer to a gate. No answer is ever guessed: an empty line asks again.
pub(super) fn reply(question: &str, line: Option<&str>) -> Reply {
    match (question, line) {
        (_, None | Some("l" | "later")) => Reply::Later,
        ("was_it_done", Some("w" | "was done" | "was-done")) => Reply::Answer("was_done"),
        ("was_it_done", Some("r" | "repeat")) => Reply::Answer("repeat"),
        ("was_it_done", Some("n" | "no" | "refuse")) => Reply::Answer("refuse"),
        ("was_it_done", Some(_)) => Reply::Again,
        (_, Some("y" | "yes")) => Reply::Answer("approve"),
        (_, Some("a" | "always")) => Reply::Always,
        (_, Some("n" | "no")) => Reply::Answer("refuse"),
        (_, Some("d" | "diff")) => Reply::Diff,
        (_, Some(_)) => Reply::Again,
    }
}

/// The choices that a question offers.
pub(super) fn choices(question: &str, can_always: bool) -> &'static str {
    match question {
        _ if can_always => "[y / n / a = always in this project / d = diff / l = later]",
        "was_it_done" => "[w = it was done / r = repeat it / n = refuse / l = later]",
        _ => "[y / n / d = diff / l = later]",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_answer_is_guessed() {
        assert_eq!(reply("approve", Some("")), Reply::Again);
        assert_eq!(reply("approve", Some("w")), Reply::Again);
        assert_eq!(reply("was_it_done", Some("y")), Reply::Again);
        assert_eq!(reply("approve", None), Reply::Later);
        assert_eq!(reply("approve", Some("y")), Reply::Answer("approve"));
    }
}
