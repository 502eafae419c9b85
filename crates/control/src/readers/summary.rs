//! What a run has read in a few lines, for whoever decides upon its work.

use domain::RunId;
use serde::{Deserialize, Serialize};

use super::{Manifest, listed};
use crate::error::Error;
use crate::policy::Files;
use crate::reads::What;

/// Contents that are named for one label.
const NAMED: usize = 5;

/// What a run has read, in short.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadSummary {
    /// Files that it asked for by name.
    pub files: u64,
    /// Folders that it searched.
    pub searches: u64,
    /// Steps in which a command had the whole workspace before it.
    pub workspace_steps: u64,
    /// Steps that brought something from outside.
    pub outside_steps: u64,
    /// The labels of all that.
    pub taint: Vec<Tainted>,
}

/// A label of what a run has read, and what has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tainted {
    /// The label.
    pub label: String,
    /// The first five contents with it, files by their paths; `(workspace)` and `(outside)` where no file was named.
    pub of: Vec<String>,
    /// How many more there are.
    pub more: u64,
}

/// What a run has read by now.
pub(crate) fn summary(files: &Files, run: RunId) -> Result<ReadSummary, Error> {
    Ok(of(&listed(files, run)?))
}

fn of(manifest: &Manifest) -> ReadSummary {
    let mut summary = ReadSummary::default();
    for entry in &manifest.read {
        let steps = entry.steps.len() as u64;
        match entry.what {
            What::File(_) => summary.files += 1,
            What::Below(_) => summary.searches += 1,
            What::Workspace => summary.workspace_steps += steps,
            What::Outside => summary.outside_steps += steps,
        }
    }
    summary.taint = manifest.taint.iter().map(|label| tainted(manifest, label)).collect();
    summary
}

/// Files that were named come first: they say most.
fn tainted(manifest: &Manifest, label: &str) -> Tainted {
    let mut with: Vec<&What> = manifest
        .read
        .iter()
        .filter(|entry| entry.labels.iter().any(|own| own == label))
        .map(|entry| &entry.what)
        .collect();
    with.sort_by_key(|what| !matches!(what, What::File(_)));
    with.dedup();
    let shown = |what: &What| match what {
        What::File(path) => path.clone(),
        What::Below(folder) if folder.is_empty() => "(searched)".into(),
        What::Below(folder) => format!("{folder}/ (searched)"),
        What::Workspace => "(workspace)".into(),
        What::Outside => "(outside)".into(),
    };
    Tainted {
        label: label.to_owned(),
        of: with.iter().take(NAMED).map(|what| shown(what)).collect(),
        more: with.len().saturating_sub(NAMED) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readers::ManifestEntry;

    fn entry(what: What, labels: &[&str], steps: &[u64]) -> ManifestEntry {
        ManifestEntry {
            what,
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            inherited_from: None,
            tool: "read".into(),
            steps: steps.to_vec(),
            at: 1,
        }
    }

    #[test]
    fn what_was_named_comes_first_and_what_is_too_much_is_counted() {
        let mut read = vec![
            entry(What::Workspace, &["external", "sensitive"], &[2, 4, 6]),
            entry(What::Outside, &["external"], &[1]),
            entry(What::Below(String::new()), &["sensitive"], &[7]),
            entry(What::File("notes".into()), &[], &[8]),
        ];
        read.extend(
            (0..6).map(|at| entry(What::File(format!("import/{at}")), &["external"], &[10 + at, 20 + at])),
        );
        let found = of(&Manifest { taint: vec!["external".into(), "sensitive".into()], read });
        assert_eq!((found.files, found.searches, found.workspace_steps, found.outside_steps), (7, 1, 3, 1));
        let [external, sensitive] = found.taint.as_slice() else { panic!("{found:?}") };
        assert_eq!(external.of, ["import/0", "import/1", "import/2", "import/3", "import/4"]);
        assert_eq!((external.more, sensitive.more), (3, 0));
        assert_eq!(sensitive.of, ["(workspace)", "(searched)"]);
    }
}
