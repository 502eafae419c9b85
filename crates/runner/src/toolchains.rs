//! The owner's own toolchains, as steps may see them: programs and libraries read-only, at the paths
//! where they are outside, so that shims and links work; caches that are the project's alone.
//!
//! What is shown is listed here, directory by directory: a home of a tool is also where it keeps its
//! tokens, and a file that appears there tomorrow must not be seen because nobody thought of it today.

use std::path::{Component, Path, PathBuf};

use sandbox::{Access, Mount};

/// What stands at a path, as the user of this process may read it. Links are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// Nothing, or nothing readable.
    Nothing,
    /// A directory.
    Directory,
    /// A file.
    File,
}

/// A look at the machine.
pub trait Places {
    /// What stands at a path.
    fn seen(&self, path: &Path) -> Seen;
    /// The names in a directory; none when it cannot be read.
    fn names(&self, path: &Path) -> Vec<String>;
    /// The text of a small file.
    fn text(&self, path: &Path) -> Option<String>;
    /// A variable of the environment.
    fn variable(&self, name: &str) -> Option<String>;
}

/// This machine.
#[derive(Debug, Clone, Copy)]
pub struct Machine;

/// Where steps find the caches: not where they lie, as nothing of Regie's home is told to a step.
pub(crate) const CACHE: &str = "/.regie/cache";

/// Where the caches of one project lie. Steps write to directories in it, never to itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    root: PathBuf,
}

/// What a step sees of the owner's toolchains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Toolchains {
    /// For [`crate::Config::mounts`].
    pub mounts: Vec<Mount>,
    /// For [`crate::Config::env`].
    pub env: Vec<(String, String)>,
    /// For [`crate::Config::setup_mounts`].
    pub setup_mounts: Vec<Mount>,
    /// For [`crate::Config::setup_env`].
    pub setup_env: Vec<(String, String)>,
}

/// One kind of toolchain.
struct Kind {
    /// The variable that says where it is, and that steps are told again; may be empty.
    variable: &'static str,
    /// Where it is otherwise, in the owner's home; empty when only the variable says so.
    usual: &'static str,
    /// What of it is shown; an empty name is all of it.
    shown: &'static [&'static str],
    /// What of that goes on the path.
    programs: &'static [&'static str],
    /// What of it may hold a token, with one `*` for any name.
    secrets: &'static [&'static str],
}

const KINDS: &[Kind] = &[
    Kind { variable: "RUSTUP_HOME", usual: ".rustup", shown: &[""], programs: &[], secrets: &[] },
    Kind {
        variable: "NVM_DIR",
        usual: ".nvm",
        shown: &["versions", "alias", "nvm.sh", "nvm-exec"],
        programs: &[],
        secrets: &["versions/node/*/etc/npmrc"],
    },
    Kind {
        variable: "PYENV_ROOT",
        usual: ".pyenv",
        shown: &[""],
        programs: &["shims", "bin"],
        secrets: &["versions/*/pip.conf"],
    },
    Kind {
        variable: "",
        usual: ".local/share/uv",
        shown: &["python", "tools"],
        programs: &[],
        secrets: &["tools/*/pip.conf"],
    },
    Kind { variable: "", usual: ".local/bin", shown: &["uv", "uvx"], programs: &[""], secrets: &[] },
    Kind { variable: "GOROOT", usual: "", shown: &[""], programs: &["bin"], secrets: &[] },
    Kind {
        variable: "GOPATH",
        usual: "go",
        shown: &["bin", "pkg/mod"],
        programs: &["bin"],
        // Clones, whose settings name the addresses that they came from.
        secrets: &["pkg/mod/cache/vcs"],
    },
    Kind { variable: "JAVA_HOME", usual: "", shown: &[""], programs: &["bin"], secrets: &[] },
    Kind {
        variable: "SDKMAN_DIR",
        usual: ".sdkman",
        shown: &["bin", "candidates", "libexec", "src"],
        programs: &[],
        secrets: &[],
    },
    Kind {
        variable: "BUN_INSTALL",
        usual: ".bun",
        shown: &["bin", "install/global/node_modules"],
        programs: &["bin"],
        secrets: &[],
    },
    Kind { variable: "DENO_INSTALL", usual: ".deno", shown: &["bin"], programs: &["bin"], secrets: &[] },
    Kind {
        variable: "VOLTA_HOME",
        usual: ".volta",
        shown: &["bin", "tools"],
        programs: &["bin"],
        secrets: &["tools/image/node/*/etc/npmrc"],
    },
    Kind {
        variable: "",
        usual: ".local/share/fnm",
        shown: &["node-versions", "aliases"],
        programs: &[],
        secrets: &["node-versions/*/installation/etc/npmrc"],
    },
    Kind {
        variable: "RBENV_ROOT",
        usual: ".rbenv",
        shown: &["bin", "libexec", "shims", "version", "versions"],
        programs: &["shims", "bin"],
        secrets: &[],
    },
];

/// Where the system's programs are, which every jail shows.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib64", "/nix/store", "/gnu/store"];
/// What of Cargo's home is fetched.
const REGISTRY: [&str; 3] = ["registry/index", "registry/cache", "git/db"];
/// Where systems keep the certificates that they trust, and how programs that bring their own are told.
const BUNDLES: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];
const TRUST: [&str; 4] = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "NODE_EXTRA_CA_CERTS"];
/// Variables that name a proxy, or what goes past it.
const PROXIES: [&str; 6] = ["http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];
/// Where a setup fetches Go's modules to.
pub(crate) const GO_MODULES: &str = "go-mod";
/// The end of every path.
const LAST: &[&str] = &["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// Words whose presence makes a configuration one that may hold a secret.
const SUSPICIOUS: &[&str] = &["token", "secret", "password", "passwd", "credential", "authorization"];
/// Variables that choose among toolchains and are handed on as they are.
pub(crate) const CHOICES: &[&str] = &["RUSTUP_TOOLCHAIN", "PYENV_VERSION", "GOFLAGS", "GOTOOLCHAIN"];

impl Cache {
    /// The caches of one project below `root`, in the home of Regie.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Makes what has to be there before a step starts. Repeating it is harmless.
    ///
    /// # Errors
    /// When a directory cannot be made.
    pub fn prepare(&self) -> std::io::Result<()> {
        let registry = REGISTRY.map(|part| self.registry().join(part));
        for dir in [self.files(), self.sources()].iter().chain(&registry) {
            std::fs::create_dir_all(dir)?;
        }
        std::fs::write(self.blank(), "")
    }

    /// What tools keep for the next time.
    fn files(&self) -> PathBuf {
        self.root.join("files")
    }

    /// Sources that Cargo unpacks. A directory of its own: what a step may write to is never where a
    /// mount comes from, as a link in it would be followed.
    fn sources(&self) -> PathBuf {
        self.root.join("cargo-sources")
    }

    /// What a setup has fetched for Cargo.
    fn registry(&self) -> PathBuf {
        self.root.join("cargo-registry")
    }

    /// An empty file, shown in the place of one that may hold a secret.
    fn blank(&self) -> PathBuf {
        self.root.join("blank")
    }
}

/// What of the toolchains below `home`, and elsewhere as the environment says, steps see.
pub fn find(home: &Path, cache: &Cache, places: &dyn Places) -> Toolchains {
    let mut found = Finding {
        home,
        cache,
        places,
        mounts: Vec::new(),
        env: Vec::new(),
        setup_mounts: Vec::new(),
        programs: Vec::new(),
    };
    found.cargo();
    for kind in KINDS {
        found.kind(kind);
    }
    found.optional_software();
    found.caches();
    let path = found.path();
    found.set("PATH", path);
    for name in CHOICES {
        if let Some(value) = places.variable(name) {
            found.set(name, value);
        }
    }
    let setup_env = way_out(places);
    Toolchains { mounts: found.mounts, env: found.env, setup_mounts: found.setup_mounts, setup_env }
}

/// What programs have to know of this machine's way out: whom it trusts, and its proxy. One that needs a
/// password is for the owner to pass on.
fn way_out(places: &dyn Places) -> Vec<(String, String)> {
    let mut all = Vec::new();
    if let Some(bundle) = BUNDLES.iter().find(|path| places.seen(Path::new(path)) == Seen::File) {
        all.extend(TRUST.map(|name| (name.to_owned(), (*bundle).to_owned())));
    }
    let proxies = PROXIES.iter().filter_map(|name| Some(((*name).to_owned(), places.variable(name)?)));
    all.extend(proxies.filter(|(_, value)| !value.contains('@')));
    all
}

/// The search under way.
struct Finding<'a> {
    home: &'a Path,
    cache: &'a Cache,
    places: &'a dyn Places,
    mounts: Vec<Mount>,
    env: Vec<(String, String)>,
    setup_mounts: Vec<Mount>,
    programs: Vec<PathBuf>,
}

impl Finding<'_> {
    fn set(&mut self, name: &str, value: impl Into<String>) {
        self.env.push((name.to_owned(), value.into()));
    }

    fn set_path(&mut self, name: &str, path: &Path) {
        if let Some(text) = path.to_str() {
            self.set(name, text);
        }
    }

    /// Where the toolchain of a variable is.
    fn base(&self, variable: &str, usual: &str) -> Option<PathBuf> {
        let named = (!variable.is_empty()).then(|| self.places.variable(variable)).flatten();
        let first = named.and_then(|value| std::env::split_paths(&value).next());
        let base = first.filter(|path| !path.as_os_str().is_empty());
        let base = base.or_else(|| (!usual.is_empty()).then(|| self.home.join(usual)))?;
        is_plain(&base).then_some(base)
    }

    /// Shows `path` read-only in the jail at `target`; says whether it is seen there.
    fn show(&mut self, path: &Path, target: &Path) -> bool {
        if is_system(path) && path == target {
            return self.places.seen(path) != Seen::Nothing;
        }
        if self.is_too_much(path) || self.places.seen(path) == Seen::Nothing {
            return false;
        }
        self.mounts.push(Mount { source: path.to_owned(), target: target.to_owned(), access: Access::Read });
        true
    }

    /// Whether more would be seen than a toolchain: the home itself, Regie's own, the machine's.
    fn is_too_much(&self, path: &Path) -> bool {
        let kept = ["/proc", "/dev", "/sys", "/etc", "/run", "/var", "/boot", "/workspace", "/.regie"];
        !is_plain(path)
            || path.parent().is_none()
            || self.home.starts_with(path)
            || self.cache.root.starts_with(path)
            || kept.iter().any(|kept| path.starts_with(kept) && !self.home.starts_with(kept))
            || ["/home", "/root", "/opt", "/tmp", "/srv", "/mnt"].iter().any(|top| path == Path::new(top))
    }

    fn kind(&mut self, kind: &Kind) {
        let Some(base) = self.base(kind.variable, kind.usual) else { return };
        let mut is_seen = false;
        for part in kind.shown {
            let path = below(&base, part);
            is_seen |= self.show(&path, &path);
        }
        if !is_seen {
            return;
        }
        for secret in kind.secrets {
            self.blank_out(&base, secret);
        }
        self.programs.extend(kind.programs.iter().map(|part| below(&base, part)));
        if !kind.variable.is_empty() {
            self.set_path(kind.variable, &base);
        }
    }

    /// Shows something empty in the place of each that the pattern means.
    fn blank_out(&mut self, base: &Path, pattern: &str) {
        let paths: Vec<PathBuf> = match pattern.split_once("/*/") {
            Some((before, after)) => {
                let before = base.join(before);
                let names = self.places.names(&before).into_iter();
                names.map(|name| before.join(name).join(after)).collect()
            }
            None => vec![base.join(pattern)],
        };
        for path in paths {
            match self.places.seen(&path) {
                Seen::Nothing => {}
                Seen::Directory => self.mounts.push(Mount::private(path)),
                Seen::File => {
                    let source = self.cache.blank();
                    self.mounts.push(Mount { source, target: path, access: Access::Read });
                }
            }
        }
    }

    /// Cargo's home in the jail is made of the owner's registry, read-only, and a place of the project's
    /// own where sources are unpacked. The owner's tokens are no part of it.
    fn cargo(&mut self) {
        let Some(base) = self.base("CARGO_HOME", ".cargo") else { return };
        let programs = base.join("bin");
        if self.show(&programs, &programs) {
            self.programs.push(programs);
        }
        let home = Path::new(CACHE).join("cargo");
        // What a setup fetches takes the place of the owner's registry, which a setup must not fill.
        for part in REGISTRY {
            let (source, target) = (self.cache.registry().join(part), home.join(part));
            self.show(&base.join(part), &target);
            self.setup_mounts.push(Mount { source, target, access: Access::Write });
        }
        let sources =
            Mount { source: self.cache.sources(), target: home.join("registry/src"), access: Access::Write };
        self.mounts.push(sources);
        for name in ["config.toml", "config"] {
            let path = base.join(name);
            let text = self.places.text(&path).map(|text| text.to_lowercase());
            if text
                .is_some_and(|text| !text.contains('@') && !SUSPICIOUS.iter().any(|word| text.contains(word)))
            {
                self.show(&path, &home.join(name));
                break;
            }
        }
        self.set_path("CARGO_HOME", &home);
        self.set("CARGO_NET_OFFLINE", "true");
    }

    /// `/opt/<name>` of what the owner's path names there.
    fn optional_software(&mut self) {
        for entry in self.owners_path() {
            let Ok(rest) = entry.strip_prefix("/opt") else { continue };
            let Some(Component::Normal(name)) = rest.components().next() else { continue };
            let top = Path::new("/opt").join(name);
            if !self.mounts.iter().any(|mount| mount.target == top) {
                self.show(&top, &top);
            }
        }
    }

    /// What tools write for the next time is the project's alone.
    fn caches(&mut self) {
        let files = Path::new(CACHE).join("files");
        self.mounts.push(Mount { source: self.cache.files(), target: files.clone(), access: Access::Write });
        for (name, part) in [
            ("XDG_CACHE_HOME", "xdg"),
            ("npm_config_cache", "npm"),
            ("PIP_CACHE_DIR", "pip"),
            ("UV_CACHE_DIR", "uv"),
            ("GOCACHE", "go-build"),
            ("GRADLE_USER_HOME", "gradle"),
        ] {
            self.set_path(name, &files.join(part));
        }
        // Python takes a compiled file for fresh when second and size of its source are the same: an
        // agent edits faster than that.
        self.set("PYTHONDONTWRITEBYTECODE", "1");
        // There is no network: saying so ends what would otherwise wait for it.
        for (name, value) in [
            ("GOPROXY", "off"),
            ("UV_OFFLINE", "1"),
            ("npm_config_prefer_offline", "true"),
            ("npm_config_update_notifier", "false"),
            ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
        ] {
            self.set(name, value);
        }
    }

    fn owners_path(&self) -> Vec<PathBuf> {
        let path = self.places.variable("PATH").unwrap_or_default();
        std::env::split_paths(&path).filter(|entry| is_plain(entry)).collect()
    }

    /// The owner's path in its order, as far as it is seen; then what was found besides.
    fn path(&self) -> String {
        let is_seen = |entry: &PathBuf| {
            is_system(entry)
                || self.mounts.iter().any(|mount| {
                    mount.access == Access::Read
                        && (entry.starts_with(&mount.target) || mount.target.starts_with(entry))
                })
        };
        let mut entries: Vec<String> = Vec::new();
        let owners = self.owners_path().into_iter().filter(is_seen);
        let more = self.programs.iter().filter(|entry| self.places.seen(entry) == Seen::Directory).cloned();
        let last = LAST.iter().map(PathBuf::from);
        // The system's own come before what the owner has not put on the path.
        for entry in owners.chain(last).chain(more) {
            let Some(text) = entry.to_str().filter(|text| !text.contains(':')) else { continue };
            if !entries.iter().any(|known| known == text) {
                entries.push(text.to_owned());
            }
        }
        entries.join(":")
    }
}

impl Places for Machine {
    fn seen(&self, path: &Path) -> Seen {
        match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() && std::fs::read_dir(path).is_ok() => Seen::Directory,
            Ok(meta) if meta.is_file() && std::fs::File::open(path).is_ok() => Seen::File,
            _ => Seen::Nothing,
        }
    }

    fn names(&self, path: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    fn text(&self, path: &Path) -> Option<String> {
        let small = std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() < 64 << 10);
        small.then(|| std::fs::read_to_string(path).ok()).flatten()
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    }
}

fn below(base: &Path, part: &str) -> PathBuf {
    if part.is_empty() { base.to_owned() } else { base.join(part) }
}

fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|top| path.starts_with(top))
}

/// An absolute UTF-8 path without detours.
fn is_plain(path: &Path) -> bool {
    path.is_absolute()
        && path.to_str().is_some()
        && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}

#[cfg(test)]
#[path = "toolchains/tests.rs"]
mod tests;
