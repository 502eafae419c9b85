//! The reference of the command line: a change of it is seen.

use std::process::Command;

/// The help of a command and of all below it.
fn help(path: &[&str], all: &mut String) {
    let output = Command::new(env!("CARGO_BIN_EXE_regie"))
        .args(path)
        .arg("--help")
        .env_remove("REGIE_HOME")
        .output()
        .unwrap();
    assert!(output.status.success(), "{path:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    all.push_str(&format!("# regie {}\n\n{text}\n", path.join(" ")));
    let listed = text.lines().skip_while(|line| *line != "Commands:").skip(1);
    for line in listed.take_while(|line| !line.is_empty()) {
        let name = line.split_whitespace().next().unwrap();
        if name != "help" && line.starts_with("  ") && !line.starts_with("   ") {
            help(&[path, &[name]].concat(), all);
        }
    }
}

#[test]
fn the_reference_is_as_written() {
    let mut all = String::new();
    help(&[], &mut all);
    insta::assert_snapshot!("reference", all);
}
