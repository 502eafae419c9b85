//! Which programs a step in the jail finds. It sees the system's directories and the toolchains of the
//! owner's home, and nothing else of that home.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use runner::toolchains::{self, Cache, Toolchains};
use sandbox::{Access, Mount};

/// Where a step looks for programs when there is no home.
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Stands for a project's caches, which hold no programs.
const NO_CACHE: &str = "/nonexistent";

/// Where a program is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reach {
    /// A step finds it, here.
    Jail(PathBuf),
    /// Only its owner's shell does.
    Owner(PathBuf),
    /// Nobody does.
    Absent,
}

/// The owner's toolchains, as steps see them.
pub(crate) fn found() -> Toolchains {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    home.map_or_else(Toolchains::default, |home| {
        toolchains::find(Path::new(&home), &Cache::new(NO_CACHE), &toolchains::Machine)
    })
}

/// Looks for a program, as a step does and as the owner's shell does.
pub(crate) fn of(program: &str) -> Reach {
    let own = found();
    let path = own.env.iter().find(|(name, _)| name == "PATH").map_or(SYSTEM_PATH, |(_, path)| path.as_str());
    let system = sandbox::default_system_mounts();
    let is_read = |mount: &&Mount| mount.access == Access::Read;
    let roots: Vec<&Path> =
        system.iter().chain(&own.mounts).filter(is_read).map(|mount| mount.source.as_path()).collect();
    look(program, &roots, OsStr::new(path), std::env::var_os("PATH").as_deref())
}

fn look(program: &str, roots: &[&Path], jail_path: &OsStr, path: Option<&OsStr>) -> Reach {
    // A link out of what the jail shows leads nowhere in there.
    let is_shown = |found: &PathBuf| {
        found.canonicalize().is_ok_and(|real| roots.iter().any(|root| real.starts_with(root)))
    };
    let places = |path: &OsStr| -> Vec<PathBuf> {
        std::env::split_paths(path).map(|dir| dir.join(program)).filter(|found| is_program(found)).collect()
    };
    if let Some(found) = places(jail_path).into_iter().find(is_shown) {
        return Reach::Jail(found);
    }
    let outside = path.map(places).unwrap_or_default().into_iter().next();
    outside.map_or(Reach::Absent, Reach::Owner)
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_link_out_of_what_is_shown_is_out_of_reach() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        let (system, home) = (root.join("usr/bin"), root.join("home/bin"));
        for (dir, name) in [(&system, "inside"), (&home, "tool"), (&home, "own")] {
            fs::create_dir_all(dir).unwrap();
            fs::write(dir.join(name), "").unwrap();
            fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        symlink(home.join("tool"), system.join("tool")).unwrap();
        fs::write(system.join("data"), "").unwrap();
        let usr = root.join("usr");
        let find = |name| look(name, &[usr.as_path()], system.as_os_str(), Some(home.as_os_str()));
        assert_eq!(find("inside"), Reach::Jail(system.join("inside")));
        assert_eq!(find("tool"), Reach::Owner(home.join("tool")));
        assert_eq!(find("own"), Reach::Owner(home.join("own")));
        assert_eq!(find("data"), Reach::Absent);
    }
}
