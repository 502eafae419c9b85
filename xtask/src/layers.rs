//! The floors: a crate imports only crates on lower floors, or the neighbour that is drawn.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use crate::metadata::{self, Metadata, Package};

/// Each crate's floor, from the ground up, with what it is for.
const FLOORS: &[(&str, u8)] = &[
    ("domain", 0),
    ("kernel", 1),
    ("journal", 2),
    ("models", 2),
    ("runner", 2),
    ("sandbox", 2),
    ("store", 2),
    ("trust", 2),
    ("engine", 3),
    ("control", 4),
    ("server", 4),
    ("regie", 5),
];

/// Imports along one floor that are drawn in the plan of the house.
const NEIGHBOURS: &[(&str, &str)] = &[("runner", "sandbox"), ("server", "control")];

/// Beside the house. `testkit` may be imported by tests, and by the binary for the scripted model.
const BESIDE: &[&str] =
    &["bench-injection", "bench-jail", "bench-models", "bench-store", "bench-trust", "testkit", "xtask"];
const MAY_IMPORT_TESTKIT: &[&str] = &["regie"];

/// Prints the floors, and fails on an import that is not allowed.
pub(crate) fn check() -> Result<()> {
    let metadata = metadata::of_workspace()?;
    let floor_of: BTreeMap<&str, u8> = FLOORS.iter().copied().collect();
    let mut faults = Vec::new();
    for package in &metadata.packages {
        let name = package.name.as_str();
        if BESIDE.contains(&name) {
            continue;
        }
        let Some(&floor) = floor_of.get(name) else {
            faults.push(format!("`{name}` has no floor: give it one in xtask/src/layers.rs"));
            continue;
        };
        for import in imports(package) {
            let allowed = match floor_of.get(import) {
                Some(&below) => below < floor || NEIGHBOURS.contains(&(name, import)),
                None => import == "testkit" && MAY_IMPORT_TESTKIT.contains(&name),
            };
            if !allowed {
                faults.push(format!("`{name}` (floor {floor}) must not import `{import}`"));
            }
        }
    }
    print(&metadata, &floor_of);
    if faults.is_empty() {
        println!("\nlayers: every import goes down, or to a drawn neighbour");
        return Ok(());
    }
    bail!("{}", faults.join("\n       "))
}

fn print(metadata: &Metadata, floor_of: &BTreeMap<&str, u8>) {
    for floor in (0..=5).rev() {
        for (name, _) in floor_of.iter().filter(|(_, of)| **of == floor) {
            let Some(package) = metadata.packages.iter().find(|package| package.name == *name) else {
                continue;
            };
            let imports: Vec<_> = imports(package).collect();
            let arrow =
                if imports.is_empty() { String::new() } else { format!("  → {}", imports.join(", ")) };
            println!("{floor}  {name:<8} {}{arrow}", package.description.as_deref().unwrap_or_default());
        }
    }
}

/// The crates of this repository that a package is built from; what only its tests use is left out.
fn imports(package: &Package) -> impl Iterator<Item = &str> {
    package
        .dependencies
        .iter()
        .filter(|dependency| dependency.path.is_some() && dependency.kind.as_deref() != Some("dev"))
        .map(|dependency| dependency.name.as_str())
}
