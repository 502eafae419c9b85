//! What differs between two trees, read from the objects: whatever the names are, and past everything that
//! an agent could have set up to hide it.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use store::{Alteration, Commit, Content};

use crate::world::{World, message, put, signature};

/// Commits what `write` leaves in a workspace, and gives what that alters.
fn altered(world: &World, write: impl FnOnce(&Path)) -> (Commit, Vec<Alteration>) {
    let workspace = world.workspace("run_1");
    let before = world.tree.branch_head(workspace.branch()).unwrap();
    write(workspace.dir());
    workspace.commit(&message("Change", "1"), &signature()).unwrap();
    let after = world.tree.branch_head(workspace.branch()).unwrap();
    let mut all = Vec::new();
    world.tree.alterations(&before, &after, |one| all.push(one.clone())).unwrap();
    (after, all)
}

fn find<'a>(all: &'a [Alteration], path: &[u8]) -> &'a Alteration {
    all.iter().find(|one| one.path == path).unwrap_or_else(|| panic!("{} in {all:?}", path.escape_ascii()))
}

#[test]
fn every_change_is_given_with_its_modes_and_contents() {
    let world = World::new();
    let (_, all) = altered(&world, |dir| {
        fs::write(dir.join("README"), "bye\n").unwrap();
        fs::set_permissions(dir.join("src/run.sh"), fs::Permissions::from_mode(0o644)).unwrap();
        symlink("../../etc/passwd", dir.join("link")).unwrap();
        put(dir, "a\nb\u{202e}", "new");
        fs::write(dir.join(std::ffi::OsStr::from_bytes(b"\xff")), "bytes").unwrap();
        put(dir, "empty", "");
    });
    assert_eq!(all.len(), 6, "{all:?}");
    let readme = find(&all, b"README");
    let content = |side: &Option<store::Entry>| side.as_ref().map(|side| (side.mode, side.content.clone()));
    let whole = |text: &str| Content::Whole(text.as_bytes().to_vec());
    assert_eq!(content(&readme.before), Some((0o100_644, whole("hello\n"))));
    assert_eq!(content(&readme.after), Some((0o100_644, whole("bye\n"))));
    let script = find(&all, b"src/run.sh");
    assert_eq!(script.before.as_ref().unwrap().mode, 0o100_755);
    assert_eq!(script.after.as_ref().unwrap().mode, 0o100_644);
    assert_eq!(content(&find(&all, b"link").after), Some((0o120_000, whole("../../etc/passwd"))));
    assert_eq!(content(&find(&all, "a\nb\u{202e}".as_bytes()).after), Some((0o100_644, whole("new"))));
    assert_eq!(content(&find(&all, b"\xff").after), Some((0o100_644, whole("bytes"))));
    assert_eq!(content(&find(&all, b"empty").after), Some((0o100_644, whole(""))));
    assert_eq!(find(&all, b"empty").before, None);
}

#[test]
fn renames_are_a_path_that_is_gone_and_one_that_is_new() {
    let world = World::new();
    let (after, all) = altered(&world, |dir| {
        fs::create_dir(dir.join(".husky")).unwrap();
        fs::rename(dir.join("src/run.sh"), dir.join(".husky/pre-push")).unwrap();
    });
    assert_eq!((find(&all, b"src/run.sh").after.is_none(), all.len()), (true, 2));
    let hook = find(&all, b".husky/pre-push");
    assert_eq!(hook.after.as_ref().unwrap().content, Content::Whole(b"#!/bin/sh\necho run\n".to_vec()));
    let mut names = Vec::new();
    world.tree.each_name(&after, |name| names.push(name.to_vec())).unwrap();
    assert_eq!(names, [&b".husky/pre-push"[..], b"README"]);
}

#[test]
fn filters_and_drivers_of_the_tree_hide_nothing() {
    let world = World::new();
    let (_, all) = altered(&world, |dir| {
        put(dir, ".gitattributes", "* filter=lie diff=lie -text export-ignore ident\n*.sh binary -diff\n");
        put(dir, "x.sh", "#!/bin/sh\r\n$Id$\n");
    });
    assert_eq!(
        find(&all, b"x.sh").after.as_ref().unwrap().content,
        Content::Whole(b"#!/bin/sh\r\n$Id$\n".to_vec())
    );
}

#[test]
fn what_is_too_large_is_said_and_the_rest_is_read() {
    let world = World::new();
    let (_, all) = altered(&world, |dir| {
        fs::write(dir.join("a"), vec![b'x'; (4 << 20) + 1]).unwrap();
        for number in 0..12 {
            fs::write(dir.join(format!("b{number:02}")), vec![b'0' + number; 4 << 20]).unwrap();
        }
        put(dir, "c", "end");
    });
    assert_eq!(find(&all, b"a").after.as_ref().unwrap().content, Content::Unread);
    for number in 0..12 {
        let name = format!("b{number:02}");
        let Content::Whole(bytes) = &find(&all, name.as_bytes()).after.as_ref().unwrap().content else {
            panic!()
        };
        assert!(bytes.len() == 4 << 20 && bytes.iter().all(|byte| *byte == b'0' + number), "{name}");
    }
    assert_eq!(find(&all, b"c").after.as_ref().unwrap().content, Content::Whole(b"end".to_vec()));
}

#[test]
fn another_commit_of_a_submodule_is_a_change() {
    let world = World::new();
    let commit = |id: &str| {
        world.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{id},lib/x")]);
        let tree = world.git(&["write-tree"]);
        let made = world.git(&["commit-tree", "-m", "Submodule", &tree]);
        world.git(&["update-ref", "refs/heads/main", &made]);
        world.tree.import(&world.owner()).unwrap()
    };
    let one = commit("1111111111111111111111111111111111111111");
    let other = commit("2222222222222222222222222222222222222222");
    let mut all = Vec::new();
    world.tree.alterations(&one, &other, |one| all.push(one.clone())).unwrap();
    let link = find(&all, b"lib/x");
    assert_eq!(link.after.as_ref().unwrap().content, Content::Elsewhere);
    assert_eq!(link.before.as_ref().unwrap().mode, 0o160_000);
}

#[test]
fn the_same_tree_has_no_alterations_and_many_files_come_in_order() {
    let world = World::new();
    let (after, all) = altered(&world, |dir| {
        for number in 0..5_000 {
            put(dir, &format!("d{}/f{number:04}", number % 7), &format!("content {number}"));
        }
    });
    assert_eq!(all.len(), 5_000);
    assert!(all.is_sorted_by(|one, other| one.path < other.path));
    for one in &all {
        let number = std::str::from_utf8(one.path.split(|b| *b == b'f').next_back().unwrap()).unwrap();
        let wanted = format!("content {}", number.parse::<u32>().unwrap());
        assert_eq!(one.after.as_ref().unwrap().content, Content::Whole(wanted.into_bytes()));
    }
    let mut none = 0;
    world.tree.alterations(&after, &after, |_| none += 1).unwrap();
    assert_eq!(none, 0);
}

#[test]
fn a_folder_of_hooks_in_the_owners_tree_is_known() {
    let world = World::new();
    assert_eq!(store::Tree::hooks_in_tree(&world.repo()), None);
    world.git(&["config", "core.hooksPath", "tools/hooks"]);
    assert_eq!(store::Tree::hooks_in_tree(&world.repo()).as_deref(), Some(Path::new("tools/hooks")));
    world.git(&["config", "core.hooksPath", "/etc/hooks"]);
    assert_eq!(store::Tree::hooks_in_tree(&world.repo()), None);
    assert_eq!(store::Tree::hooks_in_tree(Path::new("/nowhere")), None);
}
