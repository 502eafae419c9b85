//! The questions that are asked at a terminal. `script` of util-linux lends one.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::world::{MEND, World};

/// A command in a terminal of its own.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: ChildStdout,
    seen: String,
}

impl Terminal {
    fn open(world: &World, line: &str) -> Self {
        let like = world.regie(&[]);
        let mut command = Command::new("script");
        command.args([
            "-q",
            "-e",
            "-f",
            "-c",
            &format!("{} {line}", env!("CARGO_BIN_EXE_regie")),
            "/dev/null",
        ]);
        for (name, value) in like.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut child = command
            .current_dir(world.project())
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (keys, screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, keys, screen, seen: String::new() }
    }

    /// Reads until `what` is on the screen, and forgets what came before.
    #[track_caller]
    fn until(&mut self, what: &str) {
        let mut bytes = [0; 4096];
        loop {
            if let Some(at) = self.seen.find(what) {
                self.seen = self.seen.split_off(at + what.len());
                return;
            }
            let read = self.screen.read(&mut bytes).unwrap();
            assert!(read > 0, "the terminal closed before `{what}`: {}", self.seen);
            let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
            self.seen.push_str(&anstream::adapter::strip_str(&text).to_string());
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    fn close(mut self) -> Option<i32> {
        let mut rest = Vec::new();
        self.screen.read_to_end(&mut rest).unwrap();
        self.child.wait().unwrap().code()
    }
}

const RUN: &str = "run 'Make the check pass' --done 'sh check.sh'";
const QUESTION: &str = "[y / n / d = diff / l = later] ";

#[test]
fn a_gate_is_answered_where_it_is_asked() {
    let world = World::new(MEND);
    let mut terminal = Terminal::open(&world, RUN);
    terminal.until(QUESTION);
    // Neither of these is an answer.
    for line in ["\n", "perhaps\n"] {
        terminal.press(line);
        terminal.until(QUESTION);
    }
    terminal.press("d\n");
    terminal.until("+echo $(($1 + $2))");
    terminal.until(QUESTION);
    terminal.press("y\n");
    terminal.until("✓ done");
    terminal.until("worth trying next");
    assert_eq!(terminal.close(), Some(0));
}

#[test]
fn a_gate_refused_at_the_terminal_is_denied() {
    let world = World::new(MEND);
    let mut terminal = Terminal::open(&world, RUN);
    terminal.until(QUESTION);
    terminal.press("n\n");
    assert_eq!(terminal.close(), Some(4));
}

#[test]
fn a_gate_can_be_left_for_later() {
    let world = World::new(MEND);
    let mut terminal = Terminal::open(&world, RUN);
    terminal.until(QUESTION);
    terminal.press("l\n");
    terminal.until("hint: regie gate approve gate_");
    assert_eq!(terminal.close(), Some(3));
}

#[test]
fn an_undo_asks_first_and_no_answer_is_no() {
    let world = World::new(MEND);
    assert_eq!(world.ask(&["run", "Make the check pass", "--done", "sh check.sh", "--yes"]).code, Some(0));
    let merge = world.git(&["rev-parse", "main"]).stdout;
    for (answer, code) in [("\n", 4), ("n\n", 4), ("y\n", 0)] {
        assert_eq!(world.git(&["rev-parse", "main"]).stdout, merge);
        let mut terminal = Terminal::open(&world, "undo last");
        terminal.until("Undo the merge of “Make the check pass” on main? [y / n] ");
        terminal.press(answer);
        assert_eq!(terminal.close(), Some(code), "{answer:?}");
    }
    assert_ne!(world.git(&["rev-parse", "main"]).stdout, merge);
}

#[test]
fn an_interrupt_asks_before_it_stops() {
    let world = World::new(&MEND.replacen("[[turn]]\n", "[[turn]]\ndelay_ms = 2000\n", 1));
    let mut terminal = Terminal::open(&world, RUN);
    // The moving line shows that the first turn is under way.
    terminal.until("thinking");
    terminal.press("\x03");
    terminal.until("Leave it?");
    terminal.until("Enter = stay] ");
    terminal.press("s\n");
    terminal.until("stop asked for");
    terminal.until("hint: regie resume ");
    assert_eq!(terminal.close(), Some(130));
    assert_eq!(world.ask(&["runs", "--json"]).json()[0]["status"], "parked");
}

#[test]
fn a_file_is_written_only_after_a_clear_yes() {
    let world = World::new(MEND);
    let file = world.project().join("regie.toml");
    let question = "regie.toml? [y / n] ";
    for (key, is_there) in [("n\n", false), ("y\n", true)] {
        let mut terminal = Terminal::open(&world, "init");
        terminal.until(question);
        terminal.press("\n");
        terminal.until(question);
        assert!(!file.exists());
        terminal.press(key);
        assert_eq!(terminal.close(), Some(0));
        assert_eq!(file.exists(), is_there);
    }
}

#[test]
fn a_key_is_checked_only_after_a_clear_yes() {
    let world = World::new("name = \"ok\"\n[[turn]]\ntext = \"ok\"\n");
    for (key, calls) in [("n\n", 0), ("y\n", 1)] {
        let mut terminal = Terminal::open(&world, "init --check-key");
        terminal.until("at most $0.00");
        terminal.until("Make this call? [y / n] ");
        assert!(world.asked().is_empty());
        terminal.press(key);
        terminal.until("regie.toml? [y / n] ");
        terminal.press("n\n");
        assert_eq!(terminal.close(), Some(0));
        assert_eq!(world.asked().len(), calls);
    }
}
