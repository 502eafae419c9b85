//! The first import of a project: the owner's objects come by links where that is safe, and by a fetch
//! where it is not; what is there afterwards is the same.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use store::Tree;

use crate::world::{World, git, put, try_git};

/// All files below a directory, links not followed.
fn files(top: &Path) -> Vec<PathBuf> {
    let (mut files, mut next) = (Vec::new(), vec![top.to_owned()]);
    while let Some(at) = next.pop() {
        for entry in fs::read_dir(at).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => next.push(entry.path()),
                false => files.push(entry.path()),
            }
        }
    }
    files.sort();
    files
}

/// The files of Regie's store that are the owner's as well, as paths below `objects`.
fn shared(world: &World) -> Vec<PathBuf> {
    let id = |path: &PathBuf| path.symlink_metadata().map(|meta| (meta.dev(), meta.ino())).unwrap();
    let theirs: BTreeSet<_> = files(&objects(world)).iter().map(id).collect();
    let top = world.tree.git_dir().join("objects");
    let ours = files(&top).into_iter().filter(|path| theirs.contains(&id(path)));
    ours.map(|path| path.strip_prefix(&top).unwrap().to_owned()).collect()
}

/// The owner's store.
fn objects(world: &World) -> PathBuf {
    world.repo().join(".git/objects")
}

/// The history that a ref reaches, by name and in order.
fn history(git_dir: &Path, reference: &str) -> Vec<String> {
    let mut all: Vec<_> =
        git(git_dir, &["rev-list", "--objects", reference]).lines().map(str::to_owned).collect();
    all.sort();
    all
}

/// Imports, and compares with what a fetch of the same gives.
fn check(world: &World) {
    let head = world.tree.import(&world.owner()).unwrap();
    let fetched = world.home().join("fetched.git");
    git(world.home(), &["init", "-q", "--bare", "fetched.git"]);
    let from = format!("file://{}", world.repo().display());
    git(&fetched, &["fetch", "-q", "--no-tags", &from, "main:main"]);
    let ours = world.tree.git_dir();
    assert_eq!(history(ours, "refs/heads/lines/main"), history(&fetched, "main"));
    assert_eq!(history(ours, head.to_string().as_str()), history(&fetched, "main"));
    whole(ours);
    fs::remove_dir_all(fetched).unwrap();
}

/// Nothing is missing or wrong in a git dir.
fn whole(dir: &Path) {
    assert_eq!(git(dir, &["fsck", "--strict", "--full", "--no-dangling", "--no-progress"]), "");
}

/// Makes something of the owner's store that must not be linked, and looks that nothing is.
fn check_left(spoil: impl FnOnce(&World)) {
    let world = World::new();
    world.git(&["repack", "-adq"]);
    world.owner_write("second", "2\n");
    world.owner_commit("Second");
    spoil(&world);
    check(&world);
    assert_eq!(shared(&world), Vec::<PathBuf>::new());
}

#[test]
fn packs_and_loose_objects_come_by_links() {
    let world = World::new();
    world.git(&["repack", "-adq"]);
    world.owner_write("second", "2\n");
    world.owner_commit("Second");
    check(&world);
    let shared = shared(&world);
    let with = |end: &str| shared.iter().filter(|path| path.to_string_lossy().ends_with(end)).count();
    assert_eq!((with(".pack"), with(".idx"), shared.len()), (1, 1, 5), "{shared:?}");
    // Nothing was copied beside.
    let packs = world.tree.git_dir().join("objects/pack");
    assert_eq!(files(&packs).len(), 2, "{:?}", files(&packs));
}

#[test]
fn a_project_that_is_known_is_fetched() {
    let world = World::new();
    check(&world);
    let before = shared(&world).len();
    world.owner_write("second", "2\n");
    world.owner_commit("Second");
    check(&world);
    assert_eq!((before, shared(&world).len()), (5, 5));
}

#[test]
fn tidying_up_on_one_side_takes_nothing_from_the_other() {
    let world = World::new();
    world.git(&["repack", "-adq"]);
    world.owner_write("second", "2\n");
    world.owner_commit("Second");
    check(&world);
    let before = history(world.tree.git_dir(), "refs/heads/lines/main");
    // The owner gives the history up, and everything of it goes.
    world.git(&["checkout", "-q", "--orphan", "new"]);
    world.git(&["rm", "-rfq", "."]);
    world.owner_write("other", "x\n");
    world.owner_commit("Begin anew");
    world.git(&["branch", "-D", "main"]);
    world.git(&["reflog", "expire", "--expire=now", "--all"]);
    world.git(&["gc", "-q", "--prune=now"]);
    whole(world.tree.git_dir());
    assert_eq!(history(world.tree.git_dir(), "refs/heads/lines/main"), before);
    // And the other way round.
    let world = World::new();
    world.git(&["repack", "-adq"]);
    world.owner_write("second", "2\n");
    world.owner_commit("Second");
    check(&world);
    let before = history(&world.repo(), "main");
    world.tree.collect().unwrap();
    assert_eq!(shared(&world), Vec::<PathBuf>::new());
    git(world.tree.git_dir(), &["update-ref", "-d", "refs/heads/lines/main"]);
    git(world.tree.git_dir(), &["gc", "-q", "--prune=now"]);
    whole(&world.repo());
    assert_eq!(history(&world.repo(), "main"), before);
}

#[test]
fn a_start_that_was_killed_in_between_is_made_good() {
    let world = World::new();
    world.git(&["repack", "-adq"]);
    world.owner_write("second", "2\n");
    world.owner_commit("Second");
    let to = world.tree.git_dir().join("objects");
    // A pack without its index, a copy that is not whole, and a loose object that is none.
    let pack = files(&objects(&world).join("pack")).into_iter();
    let pack = pack.into_iter().find(|path| path.extension().is_some_and(|end| end == "pack")).unwrap();
    fs::create_dir_all(to.join("pack")).unwrap();
    fs::hard_link(&pack, to.join("pack").join(pack.file_name().unwrap())).unwrap();
    put(&to, "pack/tmp_obj_regie", "half");
    let loose = world.git(&["rev-parse", "HEAD:second"]);
    let (folder, name) = loose.split_at(2);
    put(&to, &format!("{folder}/{name}"), "");
    check(&world);
    assert_eq!(shared(&world).len(), 5);
}

#[test]
fn stores_that_need_others_are_fetched() {
    check_left(|world| {
        // Alternates: the first commits lie elsewhere.
        let other = world.home().join("other.git");
        git(world.home(), &["clone", "-q", "--bare", "owner", "other.git"]);
        let path = format!("{}\n", other.join("objects").display());
        put(&objects(world), "info/alternates", &path);
        world.git(&["repack", "-adlq"]);
    });
    check_left(|world| {
        let pack = world.git(&["rev-parse", "HEAD"]);
        put(&objects(world), &format!("pack/pack-{pack}.promisor"), "");
    });
}

#[test]
fn a_store_that_is_not_laid_out_as_git_does_is_fetched() {
    for folder in ["", "pack"] {
        check_left(|world| {
            let (at, away) = (objects(world).join(folder), world.home().join("away"));
            fs::rename(&at, &away).unwrap();
            symlink(&away, if folder.is_empty() { objects(world) } else { at }).unwrap();
        });
    }
    check_left(|world| {
        let file = world.git(&["rev-parse", "HEAD:second"]);
        let (folder, name) = file.split_at(2);
        let (at, away) = (objects(world).join(folder).join(name), world.home().join("away"));
        fs::rename(&at, &away).unwrap();
        symlink(&away, at).unwrap();
    });
}

#[test]
fn what_the_links_leave_out_is_fetched() {
    let world = World::new();
    world.git(&["repack", "-adq"]);
    world.owner_write("second", "2\n");
    world.owner_commit("Second");
    // git reads packs of any name; only those that it names itself are taken.
    for file in files(&objects(&world).join("pack")) {
        let end = file.extension().unwrap().to_string_lossy().into_owned();
        fs::rename(&file, file.with_file_name(format!("mine.{end}"))).unwrap();
    }
    check(&world);
    let shared = shared(&world);
    assert!(shared.len() == 3 && !shared.iter().any(|path| path.starts_with("pack")), "{shared:?}");
}

#[test]
fn what_others_can_write_to_is_fetched() {
    check_left(|world| {
        for file in files(&objects(world)) {
            fs::set_permissions(file, fs::Permissions::from_mode(0o664)).unwrap();
        }
    });
    // Only root can give files away.
    if rustix::process::geteuid().is_root() {
        check_left(|world| {
            for file in files(&objects(world)) {
                std::os::unix::fs::lchown(file, Some(65534), Some(65534)).unwrap();
            }
        });
    }
}

#[test]
fn a_shallow_clone_is_fetched() {
    let world = World::new();
    world.owner_write("second", "2\n");
    world.owner_commit("Second");
    let url = format!("file://{}", world.repo().display());
    git(world.home(), &["clone", "-q", "--depth=1", &url, "shallow"]);
    let shallow = world.home().join("shallow");
    world.tree.import(&Tree::inspect(&shallow).unwrap()).unwrap();
    let linked = files(&world.tree.git_dir().join("objects")).into_iter();
    assert_eq!(linked.filter(|path| path.metadata().unwrap().nlink() > 1).count(), 0);
    whole(world.tree.git_dir());
}

#[test]
fn a_linked_checkout_shares_the_store_of_its_repository() {
    let world = World::new();
    world.git(&["worktree", "add", "-q", "-b", "side", "../linked"]);
    let owner = Tree::inspect(&world.home().join("linked")).unwrap();
    world.tree.import(&owner).unwrap();
    assert_eq!(shared(&world).len(), 5);
    whole(world.tree.git_dir());
}

#[test]
fn nothing_but_objects_is_taken() {
    let world = World::new();
    world.git(&["repack", "-adq", "--write-bitmap-index"]);
    world.git(&["commit-graph", "write", "--reachable"]);
    world.git(&["multi-pack-index", "write"]);
    world.owner_write("second", "2\n");
    world.owner_commit("Second");
    let at = objects(&world);
    let outside = world.home().join("outside");
    fs::write(&outside, "secret").unwrap();
    let zeros = "0".repeat(40);
    for name in ["pack/pack-evil.pack", "pack/pack-evil.idx", "pack/evil", "info/http-alternates", "zz/evil"]
    {
        put(&at, name, "x");
    }
    for name in [format!("pack/pack-{zeros}.pack"), "ab/evil".to_owned(), "abc/x".to_owned()] {
        put(&at, &name, "x");
    }
    symlink(&outside, at.join("pack/pack-link.idx")).unwrap();
    check(&world);
    let names: Vec<_> = shared(&world).iter().map(|path| path.to_string_lossy().into_owned()).collect();
    let known = |name: &&String| {
        let name = name.rsplit('/').next().unwrap();
        let stem = name.trim_start_matches("pack-").trim_end_matches(".pack").trim_end_matches(".idx");
        matches!(stem.len(), 38 | 40) && stem.bytes().all(|b| b.is_ascii_hexdigit()) && !stem.contains(&zeros)
    };
    assert_eq!(names.iter().filter(known).count(), names.len(), "{names:?}");
    assert_eq!(names.len(), 5, "{names:?}");
    let all = files(&world.tree.git_dir().join("objects"));
    assert_eq!(all.len(), 5, "{all:?}");
}

/// What an owner does between two starts.
#[derive(Clone, Debug)]
enum Did {
    Write(u8, u8),
    Remove(u8),
    Merge,
    Amend,
    Repack,
    RepackAll,
    Tag,
}

fn did() -> impl Strategy<Value = Did> {
    prop_oneof![
        4 => (0u8..6, any::<u8>()).prop_map(|(file, content)| Did::Write(file, content)),
        1 => (0u8..6).prop_map(Did::Remove),
        1 => Just(Did::Merge),
        1 => Just(Did::Amend),
        2 => Just(Did::Repack),
        1 => Just(Did::RepackAll),
        1 => Just(Did::Tag),
    ]
}

fn act(world: &World, number: usize, did: &Did) {
    match did {
        Did::Write(file, content) => {
            let text = format!("{content}\n").repeat(1 + usize::from(*content) * 20);
            world.owner_write(&format!("d{}/f{file}", file % 3), &text);
            world.git(&["add", "-A"]);
            world.git(&["commit", "-q", "--allow-empty", "-m", "Write"]);
        }
        Did::Remove(file) => {
            let _ = fs::remove_file(world.repo().join(format!("d{}/f{file}", file % 3)));
            world.git(&["add", "-A"]);
            world.git(&["commit", "-q", "--allow-empty", "-m", "Remove"]);
        }
        Did::Merge => {
            world.git(&["switch", "-q", "-c", &format!("side{number}")]);
            world.owner_write(&format!("side{number}"), "side\n");
            world.owner_commit("Side");
            world.git(&["switch", "-q", "main"]);
            world.git(&["merge", "-q", "--no-ff", "-m", "Merge", &format!("side{number}")]);
        }
        Did::Amend => drop(world.git(&["commit", "-q", "--amend", "--allow-empty", "-m", "Amended"])),
        Did::Repack => drop(world.git(&["repack", "-dq"])),
        Did::RepackAll => drop(world.git(&["gc", "-q"])),
        Did::Tag => drop(try_git(&world.repo(), &["tag", "-a", "-m", "Tag", &format!("v{number}")])),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn links_give_what_a_fetch_gives(all in prop::collection::vec(did(), 1..8)) {
        let world = World::new();
        for (number, did) in all.iter().enumerate() {
            act(&world, number, did);
        }
        check(&world);
        prop_assert!(!shared(&world).is_empty());
    }
}
