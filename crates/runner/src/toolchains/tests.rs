//! What is shown of a made-up machine, and what is not.

use std::collections::BTreeMap;

use super::*;

/// Files with their text, and the environment.
#[derive(Default)]
struct Made {
    files: BTreeMap<PathBuf, &'static str>,
    variables: BTreeMap<&'static str, &'static str>,
}

impl Made {
    fn new(files: &[(&str, &'static str)], variables: &[(&'static str, &'static str)]) -> Self {
        Self {
            files: files.iter().map(|(path, text)| (PathBuf::from(path), *text)).collect(),
            variables: variables.iter().copied().collect(),
        }
    }

    fn find(&self) -> Toolchains {
        find(Path::new("/home/ada"), &Cache::new("/home/ada/.local/share/regie/cache/p"), self)
    }
}

impl Places for Made {
    fn seen(&self, path: &Path) -> Seen {
        if self.files.contains_key(path) {
            return Seen::File;
        }
        if self.files.keys().any(|file| file.starts_with(path)) { Seen::Directory } else { Seen::Nothing }
    }

    fn names(&self, path: &Path) -> Vec<String> {
        let below = self.files.keys().filter_map(|file| file.strip_prefix(path).ok());
        below.filter_map(|rest| Some(rest.iter().next()?.to_str()?.to_owned())).collect()
    }

    fn text(&self, path: &Path) -> Option<String> {
        self.files.get(path).map(|text| (*text).to_owned())
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).map(|value| (*value).to_owned())
    }
}

fn env<'a>(found: &'a Toolchains, name: &str) -> Option<&'a str> {
    found.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// Where a file of the machine is seen in the jail, if anywhere: the last mount that covers it counts.
fn shown(found: &Toolchains, file: &str) -> bool {
    if found
        .mounts
        .iter()
        .any(|mount| mount.access == Access::Private && file.starts_with(mount.target.to_str().unwrap()))
    {
        return false;
    }
    let covers = |mount: &&Mount| Path::new(file).starts_with(&mount.source);
    let Some(mount) = found.mounts.iter().rev().find(covers) else { return false };
    let rest = Path::new(file).strip_prefix(&mount.source).unwrap();
    let target = if rest.as_os_str().is_empty() { mount.target.clone() } else { mount.target.join(rest) };
    !found.mounts.iter().any(|mask| mask.target == target && mask.source.ends_with("blank"))
}

#[test]
fn programs_are_seen_and_tokens_are_not() {
    let made = Made::new(
        &[
            ("/home/ada/.cargo/bin/cargo", ""),
            ("/home/ada/.cargo/credentials.toml", "token = 1"),
            ("/home/ada/.cargo/config.toml", "[build]\njobs = 2"),
            ("/home/ada/.cargo/registry/index/x/a", ""),
            ("/home/ada/.cargo/registry/cache/x/a.crate", ""),
            ("/home/ada/.rustup/settings.toml", ""),
            ("/home/ada/.nvm/versions/node/v20/bin/node", ""),
            ("/home/ada/.nvm/versions/node/v20/etc/npmrc", "//r/:_authToken=1"),
            ("/home/ada/.pyenv/versions/3.12/bin/python3", ""),
            ("/home/ada/.pyenv/versions/3.12/pip.conf", "index-url = https://a:b@c"),
            ("/home/ada/.pyenv/shims/python3", ""),
            ("/home/ada/.local/share/uv/python/3.12/bin/python3", ""),
            ("/home/ada/.local/share/uv/credentials/x", "secret"),
            ("/home/ada/.local/bin/uv", ""),
            ("/home/ada/.local/bin/deploy", "password"),
            ("/home/ada/go/bin/gopls", ""),
            ("/home/ada/go/pkg/mod/a/b.go", ""),
            ("/home/ada/go/pkg/mod/cache/vcs/a/config", "url = https://a:b@c"),
            ("/home/ada/go/src/private/main.go", ""),
            ("/home/ada/.npmrc", "token"),
            ("/home/ada/.pypirc", "token"),
            ("/home/ada/.config/gh/hosts.yml", "token"),
            ("/home/ada/.ssh/id_ed25519", "key"),
            ("/opt/zig/bin/zig", ""),
            ("/opt/vault/secret", ""),
        ],
        &[("PATH", "/opt/zig/bin:/usr/bin")],
    );
    let found = made.find();
    let seen = [
        ".cargo/bin/cargo",
        ".cargo/config.toml",
        ".cargo/registry/index/x/a",
        ".rustup/settings.toml",
        ".nvm/versions/node/v20/bin/node",
        ".pyenv/versions/3.12/bin/python3",
        ".local/share/uv/python/3.12/bin/python3",
        ".local/bin/uv",
        "go/bin/gopls",
        "go/pkg/mod/a/b.go",
    ];
    for file in seen {
        assert!(shown(&found, &format!("/home/ada/{file}")), "{file}");
    }
    let hidden = [
        ".cargo/credentials.toml",
        ".nvm/versions/node/v20/etc/npmrc",
        ".pyenv/versions/3.12/pip.conf",
        ".local/share/uv/credentials/x",
        ".local/bin/deploy",
        "go/src/private/main.go",
        "go/pkg/mod/cache/vcs/a/config",
        ".npmrc",
        ".pypirc",
        ".config/gh/hosts.yml",
        ".ssh/id_ed25519",
    ];
    for file in hidden {
        assert!(!shown(&found, &format!("/home/ada/{file}")), "{file}");
    }
    assert!(shown(&found, "/opt/zig/bin/zig") && !shown(&found, "/opt/vault/secret"));
    let writable = found.mounts.iter().filter(|mount| mount.access == Access::Write);
    for mount in writable {
        assert!(mount.source.starts_with("/home/ada/.local/share/regie/cache/p"), "{mount:?}");
    }
}

#[test]
fn the_path_keeps_the_owners_order() {
    let made = Made::new(
        &[
            ("/home/ada/.cargo/bin/cargo", ""),
            ("/home/ada/.pyenv/shims/python3", ""),
            ("/home/ada/bin/x", ""),
        ],
        &[("PATH", "/home/ada/.pyenv/shims:/usr/bin:/home/ada/bin:/home/ada/.pyenv/shims:.")],
    );
    assert_eq!(
        env(&made.find(), "PATH"),
        Some(
            "/home/ada/.pyenv/shims:/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin:\
             /home/ada/.cargo/bin"
        )
    );
}

#[test]
fn what_the_environment_names_is_honoured_within_bounds() {
    let made = Made::new(
        &[
            ("/data/cargo/bin/cargo", ""),
            ("/data/rust/settings.toml", ""),
            ("/home/ada/.cargo/bin/cargo", ""),
            ("/home/ada/pkg/mod/a", ""),
            ("/home/ada/.ssh/id", ""),
        ],
        &[
            ("CARGO_HOME", "/data/cargo"),
            ("RUSTUP_HOME", "/data/rust"),
            // The home as a whole is no toolchain, whatever says so.
            ("PYENV_ROOT", "/home/ada"),
            ("JAVA_HOME", "/"),
            ("GOROOT", "/home/ada/../ada"),
            ("GOPATH", "/home/ada"),
        ],
    );
    let found = made.find();
    assert!(shown(&found, "/data/cargo/bin/cargo") && !shown(&found, "/home/ada/.cargo/bin/cargo"));
    assert_eq!(env(&found, "RUSTUP_HOME"), Some("/data/rust"));
    assert!(shown(&found, "/home/ada/pkg/mod/a") && !shown(&found, "/home/ada/.ssh/id"));
    for name in ["PYENV_ROOT", "JAVA_HOME", "GOROOT"] {
        assert_eq!(env(&found, name), None, "{name}");
    }
}

#[test]
fn a_configuration_with_a_secret_is_left_out() {
    for text in ["[registries.x]\nToken = \"1\"", "[http]\nproxy = \"http://a:b@c\""] {
        let made = Made::new(&[("/home/ada/.cargo/config.toml", text)], &[]);
        assert!(!shown(&made.find(), "/home/ada/.cargo/config.toml"), "{text}");
    }
}

#[test]
fn a_machine_without_toolchains_has_the_systems_path() {
    let found = Made::default().find();
    assert_eq!(env(&found, "PATH"), Some(LAST.join(":").as_str()));
    assert!(found.mounts.iter().all(|mount| mount.access == Access::Write), "{:?}", found.mounts);
}

#[test]
fn a_setup_is_told_of_the_way_out_and_of_no_password() {
    let made = Made::new(
        &[("/etc/ssl/certs/ca-certificates.crt", "")],
        &[
            ("https_proxy", "http://proxy:3128"),
            ("http_proxy", "http://ada:secret@proxy:3128"),
            ("no_proxy", "localhost"),
        ],
    );
    let found = made.find();
    let of =
        |name: &str| found.setup_env.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    assert_eq!(of("SSL_CERT_FILE"), Some("/etc/ssl/certs/ca-certificates.crt"));
    assert_eq!(
        (of("https_proxy"), of("http_proxy"), of("no_proxy")),
        (Some("http://proxy:3128"), None, Some("localhost"))
    );
    assert_eq!(env(&found, "https_proxy"), None, "other steps have no way out");
    let own = |part: &str| found.setup_mounts.iter().find(|mount| mount.target.ends_with(part)).unwrap();
    assert_eq!(own("registry/index").access, Access::Write);
    assert!(own("registry/index").source.starts_with("/home/ada/.local/share/regie/cache/p"));
}
