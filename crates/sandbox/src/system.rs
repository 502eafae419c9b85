//! What of the system a jail shows by default: programs and their libraries, read-only.

use std::path::Path;

use crate::{Access, Mount};

/// The home directory inside every jail: a private tmpfs, gone with the step.
pub const HOME: &str = "/home/regie";

/// Directories whose content is the distribution's own: programs, libraries, headers.
const DIRECTORIES: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"];

/// What programs need of `/etc`. Private keys (`/etc/ssl/private`) are not among it, as a
/// caller that is root could read them.
const SETTINGS: &[&str] = &[
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/os-release",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
];

/// Read-only mounts of this machine's programs and of the few settings that they need.
/// Nothing of `/root`, `/home`, `/var`, `/run`, `/opt`, `/srv` or `/mnt` is among them.
#[must_use]
pub fn default_system_mounts() -> Vec<Mount> {
    let mut mounts = Vec::new();
    for path in DIRECTORIES {
        let path = Path::new(path);
        match std::fs::read_link(path) {
            // `/bin -> usr/bin` stays a link: cheaper than a mount, and paths look alike.
            Ok(content) => {
                mounts.push(Mount { source: content, target: path.to_owned(), access: Access::Link })
            }
            Err(_) if path.is_dir() => mounts.push(Mount::read(path)),
            Err(_) => {}
        }
    }
    let java = std::fs::read_dir("/etc")
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("java"))
        .map(|entry| entry.path());
    let settings = SETTINGS.iter().map(|path| Path::new(path).to_owned());
    mounts.extend(settings.chain(java).filter(|path| path.exists()).map(Mount::read));
    mounts
}
