//! A directory in two layers: one that nobody changes, and one that takes what a jail changes.
//!
//! A jail shows both as one, by an overlay mount of its own. So many workspaces can stand on the files of one, and
//! what a jail has changed is all that there is in its upper layer.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Access, Mount, Plan};

/// The layers of one directory. All three are on one file system, belong to Regie's user, and lie outside of each
/// other and of all else that a jail shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layers {
    /// What is never written. A mount whose source this is shows both layers as one, and so do those nested in it.
    pub base: PathBuf,
    /// What the jail writes: changed files whole, a character device 0:0 for what is removed, and the attribute
    /// `user.overlay.opaque` on a directory of which nothing in `base` is left.
    pub upper: PathBuf,
    /// Where the kernel prepares what goes to `upper`; a directory that is used for nothing else.
    pub work: PathBuf,
}

impl Layers {
    /// Whether `plan` may change what they show.
    pub(crate) fn are_written(&self, plan: &Plan) -> bool {
        let is_written = |access| matches!(access, Access::Write | Access::WriteNoExec);
        plan.mounts.iter().any(|mount| is_written(mount.access) && mount.source.starts_with(&self.base))
    }

    /// What keeps these layers and `mounts` from being of one plan.
    pub(crate) fn check(&self, mounts: &[Mount]) -> Result<(), String> {
        let own = [&self.base, &self.upper, &self.work];
        for (at, one) in own.iter().enumerate() {
            if let Some(other) = own.iter().skip(at + 1).find(|other| overlap(one, other)) {
                return Err(format!("its layers {one:?} and {other:?} are in one another"));
            }
        }
        let mut shown = 0;
        for mount in mounts {
            let source = &mount.source;
            match mount.access {
                Access::Private | Access::Link => continue,
                _ if *source == self.base => shown += 1,
                _ => {}
            }
            let is_above = self.base != *source && self.base.starts_with(source);
            if is_above || own.iter().skip(1).any(|layer| overlap(source, layer)) {
                return Err(format!("its mount of {source:?} shows a layer of {:?} by itself", self.base));
            }
        }
        if shown == 1 { Ok(()) } else { Err(format!("it shows the layers of {:?} {shown} times", self.base)) }
    }
}

fn overlap(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(change: impl Fn(&mut Plan)) -> Result<(), String> {
        let mut plan = Plan::new("/r/base", ["true"]);
        plan.layers =
            Some(Layers { base: "/r/base".into(), upper: "/r/run/upper".into(), work: "/r/run/work".into() });
        change(&mut plan);
        plan.check().map_err(|error| error.to_string())
    }

    #[test]
    fn layers_are_shown_once_and_in_no_other_way() {
        plan(|_| {}).unwrap();
        plan(|plan| plan.mounts.push(Mount::read("/r/base/in"))).unwrap();
        plan(|plan| plan.mounts.push(Mount::read("/r/other"))).unwrap();
        for shown in ["/r", "/r/run", "/r/run/upper", "/r/run/upper/in", "/r/run/work"] {
            let error = plan(|plan| plan.mounts.push(Mount::read(shown))).unwrap_err();
            assert!(error.contains("by itself"), "{error}");
        }
        let twice = |plan: &mut Plan| {
            plan.mounts.push(Mount { target: "/again".into(), ..Mount::read("/r/base") });
        };
        assert!(plan(twice).unwrap_err().contains("2 times"));
        assert!(plan(|plan| plan.mounts.clear()).unwrap_err().contains("0 times"));
        let within = |plan: &mut Plan| plan.layers.as_mut().unwrap().work = "/r/base/work".into();
        assert!(plan(within).unwrap_err().contains("in one another"));
        let relative = |plan: &mut Plan| plan.layers.as_mut().unwrap().work = "work".into();
        assert!(plan(relative).unwrap_err().contains("plain absolute path"));
    }
}
