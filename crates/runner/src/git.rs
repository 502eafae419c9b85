//! The git that commands see: a git dir of the run's own, mounted as `.git` of the workspace.
//!
//! An agent writes in there what it likes. So this process looks at its size, takes a stale lock away, and
//! reads nothing of it; whatever has to be done with git is done by a git in a jail.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::Effect;
use sandbox::{Access, Mount};

use crate::config::{Config, Git};
use crate::plan::{Ground, Program, WORKSPACE};
use crate::shown;

/// Where commands see what the host gives; the git dir names it.
const GIVEN: &str = "/.regie/git";
/// Where every git in a jail finds its first settings, however it was built.
pub(crate) const SYSTEM: &str = "/etc/gitconfig";
pub(crate) const SYSTEM_ENV: &str = "GIT_CONFIG_SYSTEM";
/// How long a chore may take. It takes a second for 30,000 files; an agent can make it take for ever.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// In bytes: what holds more is not written to any more.
const LARGEST: u64 = 2 << 30;
/// More files than these are not counted.
const MOST_FILES: usize = 200_000;
/// What a git that was killed leaves at the top. Locks further down are found in the jail.
const LOCKS: [&str; 4] = ["index.lock", "HEAD.lock", "config.lock", "packed-refs.lock"];

/// What a jail is given so that git works in it; nothing where it cannot.
pub(crate) fn mounts(config: &Config, ground: Ground, effect: Effect, program: Program<'_>) -> Vec<Mount> {
    // The history holds all files, whatever a lease shows of them.
    let can_have = |git: &&Git| ground == Ground::Jail && shown::is_whole(config) && has_place(config, git);
    let Some(git) = config.git.as_ref().filter(can_have) else {
        return Vec::new();
    };
    let is_tool = matches!(program, Program::Tool);
    let access = match effect {
        Effect::Read => Access::Read,
        _ if is_tool || is_full(git) => Access::Read,
        _ => Access::Write,
    };
    let place = Path::new(WORKSPACE).join(".git");
    let mut mounts = vec![Mount { source: git.dir.clone(), target: place, access }];
    // A file tool needs no git: that it cannot write there is all.
    if !is_tool {
        mounts.push(Mount { source: git.given.clone(), target: GIVEN.into(), access: Access::Read });
        let settings = git.given.join("gitconfig");
        mounts.push(Mount { source: settings, target: SYSTEM.into(), access: Access::Read });
    }
    mounts
}

/// Whether the workspace has the directory that a git dir is mounted on: an empty one, made if need be. What
/// an agent has left there in a step without a jail is not covered, as it may be what it works with.
fn has_place(config: &Config, git: &Git) -> bool {
    let place = config.workspace.join(".git");
    let _ = fs::create_dir(&place);
    let is_empty = || fs::read_dir(&place).is_ok_and(|mut entries| entries.next().is_none());
    git.dir.is_dir() && place.symlink_metadata().is_ok_and(|meta| meta.is_dir()) && is_empty()
}

/// What has to be done in the git dir before a command sees it.
#[derive(Debug)]
pub(crate) struct Chore {
    /// For a shell in a jail.
    pub(crate) script: String,
    head: Option<String>,
}

impl Chore {
    /// Notes that it was done, or was not to be done: an agent that breaks its own git is not waited for
    /// again and again.
    pub(crate) fn done(&self, git: &Git) {
        let Some(head) = &self.head else { return };
        let draft = git.told.with_extension("new");
        let noted = fs::write(&draft, head).and_then(|()| fs::rename(&draft, &git.told));
        if let Err(error) = noted {
            tracing::warn!(%error, "what the agent's git was told is not noted");
        }
    }
}

/// What is to be done before the next command; mostly nothing. `again`: an earlier attempt was cut short, and
/// the files are as before it.
pub(crate) fn chore(git: &Git, again: bool) -> Option<Chore> {
    for lock in LOCKS {
        // Nobody else works in there between two commands.
        let _ = fs::remove_file(git.dir.join(lock));
    }
    let name = |path: &Path| fs::read_to_string(path).ok().filter(|text| is_name(text.trim()));
    let head = name(&git.given.join("head")).filter(|head| name(&git.told).as_ref() != Some(head));
    if head.is_none() && !again {
        return None;
    }
    let mut script = String::from("find .git -name '*.lock' -type f -exec rm -f {} +\n");
    match &head {
        Some(head) => {
            script.push_str(&format!("head={}\n", head.trim()));
            script.push_str(MERGED);
        }
        None => script.push_str(REWOUND),
    }
    Some(Chore { script, head })
}

/// The files are what the host's branch has at `head`: the line was merged into it, and so is the scratch
/// history, of which nothing is lost.
const MERGED: &str = "\
own=$(git rev-parse -q --verify 'HEAD^{commit}')
new=$head
if [ -n \"$own\" ] && ! git merge-base --is-ancestor \"$own\" \"$head\"; then
  new=$(git commit-tree \"$head^{tree}\" -p \"$own\" -p \"$head\" -m 'Merge what others have changed') || exit
fi
git update-ref -m 'regie: what others have merged' HEAD \"$new\" &&
git read-tree --reset \"$new\" && git update-index -q --refresh
";

/// The files were rolled back, and the index may say otherwise: `git status` compares them with HEAD then.
const REWOUND: &str = "git read-tree --reset HEAD && git update-index -q --refresh\n";

/// What the agent should know of a git dir that is too large.
pub(crate) fn full(git: &Git) -> Option<String> {
    is_full(git).then(|| {
        format!(
            "[your git directory holds more than {} GiB, or something that cannot be looked into: it can be read and \
             not written to any more]",
            LARGEST >> 30
        )
    })
}

/// Whether it holds too much, as far as can be told: what cannot be looked into may hold anything.
fn is_full(git: &Git) -> bool {
    let (mut bytes, mut files) = (0_u64, 0_usize);
    let mut dirs: Vec<PathBuf> = vec![git.dir.clone()];
    while let Some(dir) = dirs.pop() {
        let Ok(entries) = fs::read_dir(dir) else { return true };
        for entry in entries {
            let Ok((meta, path)) = entry.and_then(|entry| Ok((entry.metadata()?, entry.path()))) else {
                return true;
            };
            files += 1;
            match meta.is_dir() {
                true => dirs.push(path),
                false => bytes = bytes.saturating_add(meta.len()),
            }
            if bytes > LARGEST || files > MOST_FILES {
                return true;
            }
        }
    }
    false
}

fn is_name(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
