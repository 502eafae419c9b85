//! The spool of a run that goes on from another one: what the agent has seen, and the outputs that its
//! conversation names.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use domain::StepNo;
use runner::spool::{Inherited, inherit, restore_output};
use serde_json::{Value, json};

fn put(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    fs::create_dir_all(dir.join("outputs")).unwrap();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn outputs(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir.join("outputs")).unwrap().flatten();
    let mut names: Vec<_> = names.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn json_of(dir: &Path, name: &str) -> Value {
    serde_json::from_slice(&fs::read(dir.join(name)).unwrap()).unwrap()
}

#[test]
fn outputs_keep_their_names_over_forks_of_forks_and_later_ones_are_left() {
    let scratch = tempfile::tempdir().unwrap();
    let [first, second, third] = ["first", "second", "third"].map(|name| scratch.path().join(name));
    put(&first, "outputs/2.txt", "two");
    put(&first, "outputs/5.txt", "five");
    let steps = |numbers: &[u64]| numbers.iter().copied().map(StepNo).collect::<BTreeSet<_>>();
    let told: BTreeSet<String> = ["web/AGENTS.md".to_owned()].into();
    inherit(
        &second,
        &Inherited { from: first.clone(), generation: 1, steps: steps(&[1, 2, 3]), told: told.clone() },
    )
    .unwrap();
    assert_eq!(outputs(&second), ["2.txt"]);
    assert_eq!(json_of(&second, "generation"), json!(1));
    assert_eq!(json_of(&second, "seen"), json!({"upto": 0, "files": {}, "told": ["web/AGENTS.md"]}));
    // Its own outputs have names of their own, so that step 2 of it is another file.
    put(&second, "outputs/f1-2.txt", "its own two");
    put(&second, "outputs/f1-4.txt", "its own four");
    // Nor are its services those of another run.
    put(&second, "outputs/services/web.log", "listening");
    inherit(&third, &Inherited { from: second.clone(), generation: 2, steps: steps(&[2]), told }).unwrap();
    assert_eq!(outputs(&third), ["2.txt", "f1-2.txt"]);
    assert_eq!(json_of(&third, "generation"), json!(2));
    // Repeating it after a crash in between is harmless, and the files outlive the other spool.
    let again = Inherited { from: second.clone(), generation: 2, steps: steps(&[2]), told: BTreeSet::new() };
    inherit(&third, &again).unwrap();
    fs::remove_dir_all(&second).unwrap();
    fs::remove_dir_all(&first).unwrap();
    assert_eq!(fs::read_to_string(third.join("outputs/2.txt")).unwrap(), "two");
    assert_eq!(fs::read_to_string(third.join("outputs/f1-2.txt")).unwrap(), "its own two");
}

#[test]
fn what_was_seen_comes_along_and_a_spool_that_is_gone_has_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
    let digest = domain::Digest::of(b"content").to_string();
    put(
        &from,
        "seen",
        &json!({"upto": 3, "files": {"a.txt": digest}, "told": ["old/AGENTS.md"]}).to_string(),
    );
    let inherited = Inherited { from, generation: 1, steps: [StepNo(1)].into(), told: BTreeSet::new() };
    inherit(&to, &inherited).unwrap();
    // What a step after the point was told is told again.
    assert_eq!(json_of(&to, "seen"), json!({"upto": 0, "files": {"a.txt": digest}, "told": []}));
    let gone = Inherited { from: scratch.path().join("gone"), ..inherited };
    let other = scratch.path().join("other");
    inherit(&other, &gone).unwrap();
    assert_eq!((outputs(&other), json_of(&other, "generation")), (vec![], json!(1)));
    // From what is kept elsewhere, and never over what is there.
    restore_output(&other, "f1-2.txt", b"two").unwrap();
    restore_output(&other, "f1-2.txt", b"another").unwrap();
    for wrong in ["../seen", "a/b", ".hidden"] {
        restore_output(&other, wrong, b"x").unwrap();
    }
    assert_eq!(outputs(&other), ["f1-2.txt"]);
    assert_eq!(fs::read_to_string(other.join("outputs/f1-2.txt")).unwrap(), "two");
}
