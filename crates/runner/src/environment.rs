//! What an environment is made of: the command that sets it up, the files that say what it installs,
//! the machine and the toolchains that do it. The same parts make the same environment, which is set up
//! once and kept.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use domain::Digest;

use crate::toolchains::Toolchains;

/// Files at the root of a project that say what is installed, and by which version of what.
pub const NAMED: &[&str] = &[
    ".node-version",
    ".npmrc",
    ".nvmrc",
    ".python-version",
    ".ruby-version",
    ".tool-versions",
    ".yarnrc.yml",
    "Cargo.lock",
    "Cargo.toml",
    "Gemfile",
    "Gemfile.lock",
    "Pipfile",
    "Pipfile.lock",
    "build.gradle",
    "build.gradle.kts",
    "bun.lock",
    "bun.lockb",
    "composer.json",
    "composer.lock",
    "deno.json",
    "deno.lock",
    "go.mod",
    "go.sum",
    "go.work",
    "go.work.sum",
    "gradle.lockfile",
    "mix.exs",
    "mix.lock",
    "npm-shrinkwrap.json",
    "package-lock.json",
    "package.json",
    "pdm.lock",
    "pnpm-lock.yaml",
    "pnpm-workspace.yaml",
    "poetry.lock",
    "pom.xml",
    "pyproject.toml",
    "rust-toolchain",
    "rust-toolchain.toml",
    "settings.gradle",
    "settings.gradle.kts",
    "setup.cfg",
    "setup.py",
    "uv.lock",
    "yarn.lock",
];

/// Files that a command named `make` obeys.
const MAKEFILES: [&str; 3] = ["GNUmakefile", "Makefile", "makefile"];

/// Programs whose change makes another environment of the same files.
const PROGRAMS: &[&str] = &[
    "bun", "bundle", "cargo", "cc", "composer", "deno", "go", "gradle", "java", "mvn", "node", "npm", "pip",
    "pnpm", "poetry", "python3", "ruby", "rustc", "uv", "yarn",
];

/// Where programs are looked for when nothing says it.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// The most bytes of one file that are taken in.
const MOST_BYTES: u64 = 64 << 20;

/// The hash of the environment that `setup` makes in a workspace at `root`, with what stands for the
/// variables that it is given. Links are not followed: what lies outside of a workspace is none of it.
pub fn hash(setup: &str, variables: &str, root: &Path, toolchains: &Toolchains) -> Digest {
    let mut parts: Vec<Vec<u8>> = vec![b"regie/environment/1".to_vec(), setup.into(), variables.into()];
    parts.push(std::env::consts::ARCH.into());
    parts.push(fs::read("/etc/os-release").unwrap_or_default());
    for name in names(setup, root) {
        if let Some(digest) = content(&root.join(&name)) {
            parts.push(name.into());
            parts.push(digest.to_string().into());
        }
    }
    for (name, value) in &toolchains.env {
        if name == "PATH" || crate::toolchains::CHOICES.contains(&name.as_str()) {
            parts.push(format!("{name}={value}").into());
        }
    }
    parts.extend(programs(toolchains).map(String::into_bytes));
    let mut whole = Vec::new();
    for part in parts {
        whole.extend_from_slice(&(part.len() as u64).to_be_bytes());
        whole.extend_from_slice(&part);
    }
    Digest::of(&whole)
}

/// The files that count, sorted: the named ones, and those that the command itself names.
fn names(setup: &str, root: &Path) -> Vec<String> {
    let mut names: Vec<String> = NAMED.iter().map(|name| (*name).to_owned()).collect();
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let listed = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.extend(listed.filter(|name| name.starts_with("requirements") && name.ends_with(".txt")));
    let words = setup.split(|c: char| c.is_whitespace() || ";&|()<>'\"".contains(c));
    for word in words.filter(|word| !word.is_empty()) {
        if word == "make" {
            names.extend(MAKEFILES.map(str::to_owned));
        }
        let path = word.strip_prefix("./").unwrap_or(word);
        let plain = Path::new(path).components().all(|part| matches!(part, std::path::Component::Normal(_)));
        if plain && is_inside(root, path) {
            names.push(path.to_owned());
        }
    }
    names.sort();
    names.dedup();
    names
}

/// Whether no directory above the file is a link.
fn is_inside(root: &Path, path: &str) -> bool {
    let above = Path::new(path).ancestors().skip(1);
    above.into_iter().all(|dir| root.join(dir).symlink_metadata().is_ok_and(|meta| meta.is_dir()))
}

/// The digest of a plain file; `None` for anything else.
fn content(path: &Path) -> Option<Digest> {
    path.symlink_metadata().ok().filter(|meta| meta.is_file())?;
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(Digest::of(&bytes))
}

/// Which programs a step would find: where each lies, and when it was installed.
fn programs(toolchains: &Toolchains) -> impl Iterator<Item = String> {
    let path = toolchains.env.iter().find(|(name, _)| name == "PATH").map_or(PATH, |(_, value)| value);
    let dirs: Vec<PathBuf> = std::env::split_paths(path).collect();
    PROGRAMS.iter().filter_map(move |name| {
        let at = dirs.iter().map(|dir| dir.join(name)).find(|at| at.is_file())?;
        let real = at.canonicalize().ok()?;
        let meta = real.metadata().ok()?;
        let since = meta.modified().ok()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        Some(format!("{} {} {}", real.display(), meta.len(), since.as_secs()))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    fn hashed(setup: &str, files: &[(&str, &str)]) -> Digest {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let at = dir.path().join(path);
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            fs::write(at, text).unwrap();
        }
        hash(setup, "", dir.path(), &Toolchains::default())
    }

    #[test]
    fn what_is_installed_makes_the_environment() {
        let base = hashed("npm ci", &[("package-lock.json", "1"), ("src/index.js", "a")]);
        assert_eq!(base, hashed("npm ci", &[("package-lock.json", "1"), ("src/index.js", "b")]));
        assert_ne!(base, hashed("npm ci", &[("package-lock.json", "2"), ("src/index.js", "a")]));
        assert_ne!(base, hashed("npm install", &[("package-lock.json", "1")]));
        assert_ne!(base, hashed("npm ci", &[("package-lock.json", "1"), ("requirements-dev.txt", "x")]));
        assert_ne!(base, hashed("npm ci", &[("yarn.lock", "1")]));
    }

    #[test]
    fn the_files_that_the_command_names_count() {
        let script = |text: &str| hashed("sh ./tools/setup.sh", &[("tools/setup.sh", text)]);
        assert_ne!(script("one"), script("two"));
        let made = |text: &str| hashed("make deps", &[("Makefile", text)]);
        assert_ne!(made("one"), made("two"));
    }

    #[test]
    fn links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let plain = hash("npm ci", "", dir.path(), &Toolchains::default());
        std::os::unix::fs::symlink("/etc/hostname", dir.path().join("package.json")).unwrap();
        std::os::unix::fs::symlink("/etc", dir.path().join("tools")).unwrap();
        assert_eq!(plain, hash("npm ci", "", dir.path(), &Toolchains::default()));
        assert!(
            !names("sh tools/hostname ../x /etc/passwd", dir.path()).iter().any(|name| name.contains('/'))
        );
    }

    #[test]
    fn variables_count() {
        let dir = tempfile::tempdir().unwrap();
        let with = |variables: &str| hash("npm ci", variables, dir.path(), &Toolchains::default());
        assert_ne!(with("a"), with("b"));
    }

    #[test]
    fn toolchains_count() {
        let dir = tempfile::tempdir().unwrap();
        let with = |path: &str| {
            let env = vec![("PATH".to_owned(), path.to_owned())];
            hash("npm ci", "", dir.path(), &Toolchains { env, ..Toolchains::default() })
        };
        assert_ne!(with("/usr/bin"), with("/opt/node/bin"));
    }
}
