//! Commit messages with provenance: subject, body and trailers that an agent's text cannot forge.

/// The trailer that makes a commit or a merge idempotent.
pub const KEY_TRAILER: &str = "Regie-Key";

/// Who a commit names as author and committer, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The name, for example `agent:mender`.
    pub name: String,
    /// The address; need not exist.
    pub email: String,
    /// Seconds since 1970-01-01 UTC. The same time gives the same commit on a repetition.
    pub seconds: i64,
}

/// What a commit says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// One line.
    pub subject: String,
    /// Free text; may be empty.
    pub body: String,
    /// Provenance, `(name, value)`: `Regie-Run`, `Regie-Mission`, `Regie-Principal`, …
    pub trailers: Vec<(String, String)>,
}

/// Where a commit comes from. What is not known is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// Who acted: `agent:mender`, `human:owner`, `svc:regie`.
    pub principal: String,
    /// For whom.
    pub on_behalf_of: String,
    /// In which run.
    pub run: String,
    /// Under which lease.
    pub lease: String,
}

impl Provenance {
    /// As trailers of a message, those that are known.
    pub fn trailers(&self) -> Vec<(String, String)> {
        let all = [
            ("Regie-Run", &self.run),
            ("Regie-Principal", &self.principal),
            ("Regie-On-Behalf-Of", &self.on_behalf_of),
            ("Regie-Lease", &self.lease),
        ];
        let known = all.into_iter().filter(|(_, value)| !value.is_empty());
        known.map(|(name, value)| (name.to_owned(), value.clone())).collect()
    }

    /// What the last paragraph of a message says. Text above it may say what it likes.
    pub(crate) fn of(message: &str) -> Self {
        let value = |name: &str| {
            let mut lines = trailers(message).filter_map(|line| line.split_once(": "));
            lines.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned()).unwrap_or_default()
        };
        Self {
            principal: value("Regie-Principal"),
            on_behalf_of: value("Regie-On-Behalf-Of"),
            run: value("Regie-Run"),
            lease: value("Regie-Lease"),
        }
    }
}

impl Message {
    /// The key under which the commit is made once, if there is one.
    pub(crate) fn key(&self) -> Option<&str> {
        let found = self.trailers.iter().find(|(name, _)| name.eq_ignore_ascii_case(KEY_TRAILER));
        found.map(|(_, value)| value.as_str())
    }

    /// The same message under the key `key` and no other.
    pub(crate) fn keyed(&self, key: &str) -> Self {
        let mut message = self.clone();
        message.trailers.retain(|(name, _)| !name.eq_ignore_ascii_case(KEY_TRAILER));
        message.trailers.push((KEY_TRAILER.to_owned(), key.to_owned()));
        message
    }

    /// The text of the commit. A body line that looks like one of Regie's trailers is indented,
    /// so that only the caller's trailers are read as such.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut text = match one_line(&self.subject) {
            subject if subject.is_empty() => "Change files".to_owned(),
            subject => subject,
        };
        text.push('\n');
        let body = plain(&self.body);
        let body = body.trim_matches('\n');
        if !body.is_empty() {
            text.push('\n');
        }
        for line in body.lines() {
            if line.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("regie-")) {
                text.push(' ');
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        if !self.trailers.is_empty() {
            text.push('\n');
        }
        for (name, value) in &self.trailers {
            let name: String = name.chars().map(|c| if is_token(c) { c } else { '-' }).collect();
            text.push_str(&format!("{name}: {}\n", one_line(value)));
        }
        text.into_bytes()
    }
}

impl Signature {
    /// The values of git's environment variables for name, address and date.
    pub(crate) fn parts(&self) -> [String; 3] {
        let clean = |text: &str, otherwise: &str| {
            let text = one_line(&text.replace(['<', '>'], ""));
            if text.chars().any(char::is_alphanumeric) { text } else { otherwise.to_owned() }
        };
        [
            clean(&self.name, "regie"),
            clean(&self.email, "regie@localhost"),
            format!("@{} +0000", self.seconds.max(0)),
        ]
    }
}

/// Whether the commit object `raw` carries the key `key` in its last paragraph.
pub(crate) fn carries_key(raw: &[u8], key: &str) -> bool {
    let text = String::from_utf8_lossy(raw);
    let Some((_, message)) = text.split_once("\n\n") else { return false };
    let wanted = format!("{KEY_TRAILER}: {}", one_line(key));
    trailers(message).any(|line| line == wanted)
}

/// The lines of the last paragraph of a message, which only the caller of [`Message::text`] writes. A message
/// of one paragraph has none: that is its subject.
fn trailers(message: &str) -> impl Iterator<Item = &str> {
    let last = message.trim_end().rsplit_once("\n\n").map(|(_, last)| last).unwrap_or_default();
    last.lines()
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-'
}

fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

fn one_line(text: &str) -> String {
    plain(text).split_whitespace().collect::<Vec<_>>().join(" ")
}
