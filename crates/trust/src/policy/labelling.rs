//! Which labels a file has: by its path, as the owner says and as is usual.
//!
//! Files can only be given more labels: what a repository says of its own adds to what the owner says, and nothing
//! takes a label away.

use domain::{Label, Labels};

use super::resource::Resources;
use super::rule::Paths;

/// What is labelled without anybody saying so: what others have put into the import directory, and the files that
/// usually hold keys and passwords.
const USUAL: [(&str, &[&str]); 2] = [
    (Label::EXTERNAL, &["./import"]),
    (
        Label::SENSITIVE,
        &[
            ".env",
            ".env.*",
            ".netrc",
            ".pgpass",
            "*.pem",
            "*.key",
            "*.p12",
            "id_rsa",
            "id_ed25519",
            "./secrets",
        ],
    ),
];

/// Labels, and the paths that have them.
#[derive(Debug, Clone)]
pub struct Labelling(Vec<(Label, Paths)>);

impl Default for Labelling {
    fn default() -> Self {
        let mut usual = Self(Vec::new());
        for (name, patterns) in USUAL {
            let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
            let found = name.parse::<Label>().ok().zip(Paths::parse(&patterns, true).ok());
            usual.0.extend(found);
        }
        usual
    }
}

impl Labelling {
    /// What one file says: the label, and its patterns as in a rule that denies.
    ///
    /// # Errors
    /// The label that is none, or the pattern.
    pub(super) fn of_one(name: &str, patterns: &[String]) -> Result<Self, String> {
        let label = name.parse::<Label>().map_err(|error| error.to_string())?;
        Ok(Self(vec![(label, Paths::parse(patterns, true)?)]))
    }

    /// Nothing is labelled.
    #[must_use]
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Labels what the other one does, too.
    pub fn join(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The labels of a file, by its path in the workspace.
    pub fn of(&self, path: &str) -> Labels {
        let path = path.to_lowercase();
        self.0.iter().filter(|(_, paths)| paths.hold(&path)).map(|(label, _)| label.clone()).collect()
    }

    /// The labels of what an action is about. What a folder holds that is read as a whole may have any label that is
    /// given below it.
    pub fn about(&self, resources: &Resources) -> Labels {
        self.0.iter().filter(|(_, paths)| paths.any(resources)).map(|(label, _)| label.clone()).collect()
    }
}
