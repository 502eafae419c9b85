//! Calls of the built-in tools, as models make them, and answers, as hostile jails give them: what is wrong is
//! told in words, what is kept is bounded, and a tool that looks shows nothing from outside of the workspace even
//! where no jail is around it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::LazyLock;

use runner::parsers;

const SECRET: &str = "what-nobody-may-see";
const TOOLS: [&str; 7] = ["read", "list", "search", "edit", "write", "shell", "setup"];

static GROUND: LazyLock<(PathBuf, PathBuf)> = LazyLock::new(|| ground().expect("a workspace"));

/// A workspace with every kind of link, beside what it must not show.
fn ground() -> std::io::Result<(PathBuf, PathBuf)> {
    let top = std::env::temp_dir().join(format!("regie-fuzz-{}", std::process::id()));
    let (work, outputs) = (top.join("work"), top.join("outputs"));
    for dir in [work.join("d/e"), work.join(".git/hooks"), top.join("outside"), outputs.clone()] {
        fs::create_dir_all(dir)?;
    }
    for secret in ["outside/secret", "beside", "work/.git/config", "work/.env"] {
        fs::write(top.join(secret), SECRET)?;
    }
    for file in ["work/a", "work/d/b", "work/d/e/c", "outputs/1.txt"] {
        fs::write(top.join(file), "text\nmore\n")?;
    }
    for (link, to) in [
        ("l", top.join("outside")),
        ("f", top.join("outside/secret")),
        ("n", top.join("nowhere")),
        ("loop", work.join("loop")),
        ("d/up", "../..".into()),
        ("d/git", "../.git".into()),
        ("d/env", "../.env".into()),
        ("root", "/".into()),
    ] {
        symlink(to, work.join(link))?;
    }
    symlink(top.join("outside/secret"), outputs.join("2.txt"))?;
    Ok((work, outputs))
}

/// The first byte says which tool is meant.
pub fn check(data: &[u8]) {
    answered(data);
    let Some((first, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let tool = TOOLS[usize::from(*first) % TOOLS.len()];
    for said in [parsers::call(tool, text), parsers::verdict(text)] {
        assert!(said.err().is_none_or(|said| !said.is_empty()));
    }
    let (work, outputs) = &*GROUND;
    let withheld = [".env".to_owned()];
    // A path or a pattern by itself, and a whole input.
    let quoted = serde_json::Value::from(text);
    let plain = match tool {
        "search" => format!("{{\"pattern\":{quoted}}}"),
        _ => format!("{{\"path\":{quoted}}}"),
    };
    for input in [plain.as_str(), text] {
        let Some(said) = parsers::look(work, outputs, &withheld, tool, input) else { continue };
        assert!(!said.is_empty() && said.len() < 1 << 20);
        assert!(!said.contains(SECRET) || text.contains(SECRET), "{tool} {input}: {said}");
    }
}

fn answered(data: &[u8]) {
    if let Some(kept) = parsers::answer(data) {
        assert!(kept.path.is_none_or(|path| path.len() <= 4096 && !path.contains('\0')));
        assert!(kept.instructions.is_none_or(|told| told.len() <= 13 << 10));
        assert!(kept.image.is_none_or(|image| image.len() <= 4 << 20));
    }
    if let Some(written) = parsers::spooled(data) {
        assert_eq!(parsers::spooled(&written).as_ref(), Some(&written));
    }
    if let Some(written) = parsers::line(data) {
        assert_eq!(parsers::line(&written).as_ref(), Some(&written));
    }
}
