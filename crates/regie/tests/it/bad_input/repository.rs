//! Repositories that no mission can start on: one line says what to do, and nothing has begun.

use std::path::Path;

use crate::world::{MEND, Said, World};

use super::RUN;

/// One line says what is wrong and where, one how to mend it; there is no run.
#[track_caller]
fn check(world: &World, said: &Said, what: &str, mend: &str) {
    assert_eq!(said.code, Some(1), "{said:?}");
    let (error, hint) = said.err.split_once('\n').unwrap();
    let project = world.project();
    assert!(error.starts_with("error: ") && error.contains(what), "no `{what}`: {said:?}");
    assert!(error.contains(project.to_str().unwrap()), "it does not say where: {said:?}");
    assert!(hint.starts_with("hint: ") && hint.contains(mend), "no `{mend}`: {said:?}");
    assert_eq!(hint.lines().count(), 1, "{said:?}");
    assert_eq!(world.ask(&["runs", "--json"]).out, "[]\n");
    world.is_whole();
}

/// A world whose project is no repository yet.
fn bare_ground() -> World {
    let world = World::new(MEND);
    std::fs::remove_dir_all(world.project()).unwrap();
    std::fs::create_dir(world.project()).unwrap();
    world
}

#[track_caller]
fn git(world: &World, args: &[&str]) {
    let output = world.git(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn files(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn no_repository() {
    let world = bare_ground();
    check(&world, &world.ask(&RUN), "is not in a git repository", "git init");
    assert!(files(&world.project()).is_empty());
}

#[test]
fn a_bare_repository() {
    let world = bare_ground();
    git(&world, &["init", "-q", "--bare", "-b", "main"]);
    check(&world, &world.ask(&RUN), "is a bare repository", "git clone");
}

#[test]
fn an_empty_repository() {
    let world = bare_ground();
    git(&world, &["init", "-q", "-b", "main"]);
    check(&world, &world.ask(&RUN), "has no commit yet", "git add -A && git commit");
}

#[test]
fn a_merge_in_progress() {
    let world = World::new(MEND);
    git(&world, &["switch", "-q", "-c", "side"]);
    std::fs::write(world.project().join("side"), "side\n").unwrap();
    git(&world, &["add", "."]);
    git(&world, &["commit", "-q", "-m", "Side"]);
    git(&world, &["switch", "-q", "main"]);
    git(&world, &["merge", "-q", "--no-ff", "--no-commit", "side"]);
    let before = files(&world.project().join(".git"));
    check(&world, &world.ask(&RUN), "a merge is in progress", "git merge --abort");
    assert_eq!(files(&world.project().join(".git")), before);
    // What the line says helps.
    git(&world, &["merge", "--abort"]);
    assert_eq!(world.ask(&super::with(&["--yes"])).code, Some(0));
}
