//! A locale without UTF-8, and names that are not. The rule: what Regie writes is UTF-8 whatever the
//! locale says, and a name that is not UTF-8 is shown with replacement characters and kept as it is.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use crate::world::{MEND, Said, World, finish};

/// The same command under a locale.
fn under(world: &World, locale: &str, args: &[&str]) -> Said {
    let mut command = world.regie(args);
    command.env("LANG", locale).env("LC_ALL", locale).env_remove("LC_CTYPE");
    finish(command)
}

#[test]
fn no_locale_changes_what_is_written() {
    let name = "größe-数.txt";
    let call = format!("printf 'ü\\n' > {name}; cat {name}; ls");
    let world = World::new(&format!(
        "[[turn]]\n[[turn.call]]\nname = \"shell\"\ninput = {{ command = {call:?} }}\n{}",
        MEND.replacen("name = \"mend\"", "", 1)
    ));
    let goal = "Prüfe die 数";
    let said = under(&world, "C", &["run", goal, "--done", "sh check.sh", "--yes"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains('✓') && said.err.contains(goal), "{said:?}");
    let shown: Vec<String> =
        ["C", "POSIX", "C.UTF-8"].iter().map(|locale| under(&world, locale, &["show"]).out).collect();
    assert!(shown[0].contains(goal) && shown[0].contains(name), "{}", shown[0]);
    assert!(shown.iter().all(|text| *text == shown[0]), "{shown:?}");
    // The model was told the same.
    let seen = world.asked()[1]["messages"].to_string();
    assert!(seen.contains("ü") && seen.contains(name), "{seen}");
    assert_eq!(fs::read_to_string(world.project().join(name)).unwrap(), "ü\n");
    world.is_whole();
}

#[test]
fn an_argument_that_is_not_utf8() {
    let world = World::new(MEND);
    let odd = OsStr::from_bytes(b"mend \xff it");
    let mut command = world.regie(&["run"]);
    command.arg(odd).env("LC_ALL", "C");
    let said = finish(command);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.starts_with("error: ") && said.err.contains("UTF-8"), "{said:?}");
    assert!(!world.home().exists());
}

#[test]
fn a_project_path_that_is_not_utf8() {
    let world = World::new(MEND);
    let odd = world.scratch().join(OsStr::from_bytes(b"pro\xffject"));
    fs::rename(world.project(), &odd).unwrap();
    fs::create_dir(world.project()).unwrap();
    let mut command = world.regie(&["run", "Mend it", "--project"]);
    command.arg(&odd);
    let said = finish(command);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("is not UTF-8") && said.err.contains("hint: "), "{said:?}");
}

#[test]
fn a_home_whose_path_is_not_utf8() {
    let world = World::new(MEND);
    let odd = world.scratch().join(OsStr::from_bytes(b"home\xff"));
    let mut command = world.regie(&["runs"]);
    command.env("REGIE_HOME", &odd);
    let said = finish(command);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.starts_with("error: ") && said.err.contains("is not UTF-8: set REGIE_HOME"), "{said:?}");
    assert!(!odd.exists());
}

#[test]
fn files_whose_names_are_not_utf8_are_changed_shown_and_delivered() {
    let call = r#"printf "%s\n" new > "$(printf "odd\377name")"; printf x > "$(printf "neu\303\274")""#;
    let scenario = format!(
        "[[turn]]\n[[turn.call]]\nname = \"shell\"\njson = {:?}\n{}",
        serde_json::json!({ "command": call }).to_string(),
        MEND.replacen("name = \"mend\"", "", 1)
    );
    let world = World::new(&scenario);
    let odd = world.project().join(OsStr::from_bytes(b"odd\xffname"));
    fs::write(&odd, "old\n").unwrap();
    assert!(world.git(&["add", "-A"]).status.success());
    assert!(world.git(&["commit", "-q", "-m", "Odd"]).status.success());
    let said = super::mended(&world);
    assert!(said.err.contains("odd\u{fffd}name"), "{}", said.err);
    assert_eq!(fs::read_to_string(&odd).unwrap(), "new\n");
    assert_eq!(fs::read_to_string(world.project().join("neuü")).unwrap(), "x");
    assert_eq!(world.git(&["status", "--porcelain"]).stdout, b"");
    let diff = world.ask(&["diff"]);
    assert_eq!(diff.code, Some(0), "{diff:?}");
    assert!(diff.out.contains("neuü") && diff.out.contains("+new"), "{}", diff.out);
}
