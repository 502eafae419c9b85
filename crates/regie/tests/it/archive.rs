//! A project in a standard form, and back, byte for byte.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::world::{MEND, World};

/// A world with a merge on its line, and a second run of which the bin has more.
fn worked() -> (World, String) {
    let world = World::new(MEND);
    symlink("sum.sh", world.project().join("link")).unwrap();
    fs::write(world.project().join("run me"), [0, 159, 10]).unwrap();
    fs::set_permissions(world.project().join("run me"), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(world.git(&["add", "."]).status.success());
    assert!(world.git(&["commit", "-q", "-m", "More"]).status.success());
    let said = world.ask(&["run", "Make the check pass", "--done", "sh check.sh", "--yes"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let run = world.ask(&["runs", "--json"]).json()[0]["run"].as_str().unwrap().to_owned();
    fs::write(world.workspace(&run).join("late"), "nobody merged it\n").unwrap();
    fs::write(world.home().join("config.toml"), "[keep]\nworkspaces = \"0d\"\nbranches = \"0d\"\n").unwrap();
    assert_eq!(world.ask(&["gc"]).code, Some(0));
    (world, run)
}

/// Everything below a directory: its mode and its bytes, or where a link leads.
fn content(dir: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let (mut found, mut next) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(at) = next.pop() {
        for entry in fs::read_dir(&at).unwrap().map(Result::unwrap) {
            let (path, meta) = (entry.path(), entry.path().symlink_metadata().unwrap());
            let name = path.strip_prefix(dir).unwrap().to_owned();
            if meta.is_dir() {
                next.push(path);
                found.insert(name, (1, Vec::new()));
            } else if meta.is_symlink() {
                found.insert(name, (2, fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()));
            } else {
                found.insert(name, (meta.permissions().mode(), fs::read(&path).unwrap()));
            }
        }
    }
    found
}

fn export(world: &World, home: &Path, to: &Path, project: &str) {
    let (home, to) = (home.to_str().unwrap(), to.to_str().unwrap());
    let said = world.ask(&["--home", home, "export", to, "--project", project]);
    assert_eq!(said.code, Some(0), "{said:?}");
}

fn sh(dir: &Path, line: &str) -> String {
    let out = Command::new("sh").args(["-c", line]).current_dir(dir).output().unwrap();
    assert!(out.status.success(), "{line}: {out:?}");
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn what_was_exported_comes_back_byte_for_byte() {
    let (world, run) = worked();
    let scratch = world.scratch();
    let (first, again, other) = (scratch.join("first"), scratch.join("again"), scratch.join("home-other"));
    let project = world.project();
    export(&world, &world.home(), &first, project.to_str().unwrap());
    export(&world, &world.home(), &again, project.to_str().unwrap());
    assert!(content(&first) == content(&again), "the same tree gives the same bytes");
    let acts = world.ask(&["audit", "acts"]).out;
    assert_eq!(acts.matches("project.export").count(), 2, "each is on record: {acts}");

    // The owner's repository is gone, and so is the home: all that is left is the export.
    fs::rename(&project, scratch.join("moved")).unwrap();
    fs::create_dir(&project).unwrap();
    let (home, from) = (other.to_str().unwrap(), first.to_str().unwrap());
    let said = world.ask(&["--home", home, "import", from, "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let id = said.json()["project"].as_str().unwrap().to_owned();
    let back = scratch.join("back");
    export(&world, &other, &back, &id);
    let (one, two) = (content(&first), content(&back));
    let names: (Vec<_>, Vec<_>) = (one.keys().collect(), two.keys().collect());
    assert_eq!(names.0, names.1);
    let differ: Vec<_> =
        one.iter().filter(|(path, bytes)| two.get(*path) != Some(bytes)).map(|(p, _)| p).collect();
    assert_eq!(differ, Vec::<&PathBuf>::new());

    // It needs no Regie to be read.
    sh(&back, "sha256sum --quiet -c .nas/SHA256SUMS");
    sh(&scratch, "git clone -q first/history.git cloned && git -C cloned fsck --strict");
    assert_eq!(fs::read(scratch.join("cloned/sum.sh")).unwrap(), b"echo $(($1 + $2))\n");
    assert_eq!(fs::read(first.join("files/sum.sh")).unwrap(), b"echo $(($1 + $2))\n");
    assert_eq!(fs::read_link(first.join("files/link")).unwrap(), Path::new("sum.sh"));
    let late = sh(&first, &format!("git --git-dir history.git show refs/regie/bin/coder/{run}:late"));
    assert_eq!(late, "nobody merged it\n");
    let commits = fs::read_to_string(first.join(".nas/commits.jsonl")).unwrap();
    let is_of_the_run = |line: &&str| line.contains(&run) && line.contains("\"lease\":");
    let merge = commits.lines().find(is_of_the_run).unwrap();
    for part in ["\"principal\":\"agent:coder\"", "\"on_behalf_of\":\"human:owner\"", "\"lease\":\"lease_"] {
        assert!(merge.contains(part), "{merge}");
    }
    let names = fs::read_to_string(first.join(".nas/names.jsonl")).unwrap();
    assert!(names.contains("\"kind\":\"bin\"") && names.contains("\"kind\":\"line\""), "{names}");
    assert!(world.ask(&["--home", home, "serve", "--stop"]).code == Some(0));
}

#[test]
fn what_is_not_as_it_was_exported_is_refused_and_leaves_nothing() {
    let (world, _) = worked();
    let (scratch, other) = (world.scratch(), world.scratch().join("home-other"));
    export(&world, &world.home(), &scratch.join("whole"), ".");
    let home = other.to_str().unwrap();
    let spoil = |name: &str, how: &str| {
        sh(&scratch, &format!("rm -rf spoilt && cp -a whole spoilt && cd spoilt && chmod -R u+w . && {how}"));
        let said = world.ask(&["--home", home, "import", scratch.join("spoilt").to_str().unwrap()]);
        assert_eq!(said.code, Some(1), "{name}: {said:?}");
        let trees = fs::read_dir(other.join("trees")).map_or(0, Iterator::count);
        assert_eq!(trees, 0, "{name}");
        said.err
    };
    let sums = "(find .nas history.git -type f ! -name SHA256SUMS | LC_ALL=C sort | xargs sha256sum) > .nas/SHA256SUMS";
    let flip =
        "printf x | dd of=$(ls history.git/objects/pack/*.pack) bs=1 seek=200 conv=notrunc 2>/dev/null";
    assert!(spoil("a byte", flip).contains("not what was exported"));
    assert!(spoil("a byte, with its sum", &format!("{flip} && {sums}")).contains("damaged"));
    assert!(spoil("a file", "echo more >> files/sum.sh").contains("files/sum.sh"));
    assert!(spoil("a new file", "echo more > files/new").contains("files/new"));
    assert!(spoil("a mode", "chmod -x 'files/run me'").contains("run me"));
    assert!(spoil("no sums", "rm .nas/SHA256SUMS").contains("SHA256SUMS"));
    spoil("a sum that leads out", "echo \"$(sha256sum ../whole/.nas/SHA256SUMS)\" > .nas/SHA256SUMS");
    spoil(
        "a link",
        "mv .nas away && ln -s away .nas && rm .nas/SHA256SUMS && ln -s /etc/passwd .nas/SHA256SUMS",
    );
    spoil("a form to come", &format!("sed -i 's/\"format\":1/\"format\":2/' .nas/project.json && {sums}"));
    spoil("no pack", &format!("rm history.git/objects/pack/*.pack && {sums}"));
    spoil(
        "a name that leads out",
        &format!("sed -i 's#refs/heads/lines/main#refs/heads/../../x#' history.git/packed-refs && {sums}"),
    );
    spoil("no history", "rm -r history.git");
    spoil("nothing", "rm -rf .nas files history.git");

    let whole = scratch.join("whole");
    let whole = whole.to_str().unwrap();
    assert_eq!(world.ask(&["--home", home, "import", whole]).code, Some(0));
    let twice = world.ask(&["--home", home, "import", whole]);
    assert!(twice.code == Some(1) && twice.err.contains("already"), "{twice:?}");
    let here = world.ask(&["import", whole]);
    assert!(here.code == Some(1) && here.err.contains("already"), "the home that it comes from: {here:?}");
    let onto = world.ask(&["export", whole]);
    assert!(onto.code == Some(1) && onto.err.contains("is there already"), "{onto:?}");
    for args in [&["export", "x", "--line", "none"][..], &["export", "x", "--project", "project_none"]] {
        assert_eq!(world.ask(args).code, Some(1));
        assert!(!world.project().join("x").exists() && !world.project().join("x.part").exists());
    }
    assert!(world.ask(&["--home", home, "serve", "--stop"]).code == Some(0));
}
