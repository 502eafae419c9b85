//! How the peers are installed and asked for a jail.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use anyhow::{Context as _, Result, bail};
use sandbox::{Access, Plan};

use crate::ground::Ground;

/// Peers are measured in these versions.
const PACKAGES: [&str; 2] = ["@openai/codex@0.171.0", "@anthropic-ai/sandbox-runtime@0.0.83"];
const CODEX: &str = "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex";

/// Brings the packages. Nothing of them is executed here.
pub(crate) fn install(npm: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(npm)?;
    std::fs::write(npm.join("package.json"), "{\"private\": true}\n")?;
    #[expect(clippy::disallowed_methods, reason = "npm installs what is compared with")]
    let mut command = std::process::Command::new("npm");
    let options = ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"];
    let ended = command.args(options).args(PACKAGES).current_dir(npm).stdout(Stdio::null()).status();
    if !ended.context("npm cannot be started")?.success() {
        bail!("npm did not bring {}", PACKAGES.join(" and "));
    }
    Ok(npm.canonicalize()?)
}

/// bubblewrap with the same view of the files as `plan`, and with every option of its manual that brings it
/// nearer to Regie's jail. What it has no option for (system call filters of its own, Landlock, resource
/// limits, `/etc/passwd` and its like) it does not do.
pub(crate) fn bubblewrap(ground: &Ground, plan: &Plan) -> Vec<OsString> {
    let held = "bwrap --unshare-all --unshare-user --disable-userns --die-with-parent --new-session --cap-drop ALL \
                --clearenv --setenv PATH /usr/bin:/bin --hostname regie --proc /proc --dev /dev --tmpfs /dev/shm \
                --tmpfs /tmp --tmpfs /home/regie";
    let mut words: Vec<OsString> = held.split(' ').filter(|word| !word.is_empty()).map(Into::into).collect();
    for mount in &plan.mounts {
        let how = match mount.access {
            Access::Link => "--symlink",
            Access::Write | Access::WriteNoExec => "--bind",
            _ => "--ro-bind",
        };
        words.extend([how.into(), mount.source.clone().into(), mount.target.clone().into()]);
    }
    words.extend(["--remount-ro", "/", "--chdir"].map(Into::into));
    words.extend([ground.at("work").into(), "--".into(), "/bin/true".into()]);
    words
}

/// Debian's manual's own example: all of `/usr` and `/etc` by one mount each.
pub(crate) fn bubblewrap_coarse(ground: &Ground) -> Vec<OsString> {
    let held = "bwrap --unshare-all --unshare-user --die-with-parent --new-session --ro-bind /usr /usr --ro-bind \
                /etc /etc --symlink usr/bin /bin --symlink usr/sbin /sbin --symlink usr/lib /lib --symlink \
                usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp --bind";
    let mut words: Vec<OsString> = held.split(' ').filter(|word| !word.is_empty()).map(Into::into).collect();
    let work: OsString = ground.at("work").into();
    words.extend([work.clone(), work.clone(), "--chdir".into(), work, "--".into(), "/bin/true".into()]);
    words
}

/// Codex's sandbox, its native binary, with its built-in profile for a workspace.
pub(crate) fn codex(ground: &Ground, npm: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![npm.join(CODEX).into()];
    words.extend(["sandbox", "-P", ":workspace", "-C"].map(Into::into));
    words.extend([ground.at("work").into(), "--".into(), "/bin/true".into()]);
    words
}

/// sandbox-runtime as its own command.
pub(crate) fn sandbox_runtime(ground: &Ground, npm: &Path) -> Result<Vec<OsString>> {
    let settings = settings(ground)?;
    let mut words: Vec<OsString> = vec!["node".into(), npm.join("node_modules/.bin/srt").into()];
    words.extend(["--settings".into(), settings.into(), "--".into(), "/bin/true".into()]);
    Ok(words)
}

/// sandbox-runtime as a library: the process that holds it, and the command line into which it turns a command.
pub(crate) struct Library {
    node: Child,
    pub(crate) words: Vec<OsString>,
}

impl Library {
    pub(crate) fn open(ground: &Ground, npm: &Path) -> Result<Self> {
        let module = npm.join("node_modules/@anthropic-ai/sandbox-runtime/dist/index.js");
        let script = ground.at("wrap.mjs");
        std::fs::write(&script, format!("import {{ SandboxManager }} from {};\n{WRAP}", js(&module)?))?;
        let words = ["node".into(), script.into(), settings(ground)?.into()];
        let mut node = ground.command(&words)?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(node.stdout.take().context("node has no output")?).read_line(&mut line)?;
        let wrapped: String = serde_json::from_str(&line).context("sandbox-runtime gave no command")?;
        Ok(Self { node, words: ["sh".into(), "-c".into(), wrapped.into()].to_vec() })
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        drop(self.node.stdin.take());
        let _ = self.node.wait();
    }
}

const WRAP: &str = "\
import fs from 'node:fs';
await SandboxManager.initialize(JSON.parse(fs.readFileSync(process.argv[2])));
console.log(JSON.stringify(await SandboxManager.wrapWithSandbox('/bin/true')));
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
";

fn js(path: &Path) -> Result<String> {
    Ok(serde_json::to_string(path.to_str().context("a path that is no text")?)?)
}

/// No domains, the owner's home hidden, and writes to the workspace alone.
fn settings(ground: &Ground) -> Result<PathBuf> {
    let path = ground.at("srt-settings.json");
    let settings = serde_json::json!({
        "filesystem": {"denyRead": [ground.at("home")], "allowWrite": ["."], "denyWrite": []},
        "network": {"allowedDomains": [], "deniedDomains": []},
    });
    std::fs::write(&path, settings.to_string())?;
    Ok(path)
}
