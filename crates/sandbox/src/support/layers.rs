//! Whether directories in layers can be had where they would be: tried in earnest, as file systems differ.

use std::{fs, io, os::unix::fs::FileTypeExt, path::Path};

use crate::{Check, Error, Launcher, Layers, Mount, Plan, Status, Stdin, default_system_mounts};

/// Where it is tried, below the directory that it is tried for.
const TRIAL: &str = ".layers-trial";

/// Shows layers to a jail, in a directory of its own made below `dir` and removed again, has it change and remove a
/// file, and looks at what has become of them. One caller at a time.
#[must_use]
pub fn layers(launcher: &Launcher, dir: &Path) -> Check {
    let trial = dir.join(format!("{TRIAL}-{}", std::process::id()));
    let found = attempt(launcher, &trial);
    let _ = fs::remove_dir_all(&trial);
    let id = "jail.layers".to_owned();
    match found {
        Ok(()) => Check {
            id,
            status: Status::Enforced,
            evidence: format!("a jail has changed a directory in layers below {}", dir.display()),
            mend: None,
        },
        Err((why, mend)) => Check {
            id,
            status: Status::Unsupported(format!("no directory can be shown in layers: {why}")),
            evidence: why,
            mend,
        },
    }
}

/// Why not, and how to mend that.
type No = (String, Option<String>);

fn attempt(launcher: &Launcher, trial: &Path) -> Result<(), No> {
    let io = |error: io::Error| (format!("{} cannot be used: {error}", trial.display()), None);
    fs::create_dir(trial).map_err(io)?;
    // A jail's mounts are reached by no link.
    let trial = trial.canonicalize().map_err(io)?;
    let layers = Layers { base: trial.join("base"), upper: trial.join("upper"), work: trial.join("work") };
    for layer in [&layers.base, &layers.upper, &layers.work] {
        fs::create_dir(layer).map_err(io)?;
    }
    for name in ["changed", "removed"] {
        fs::write(layers.base.join(name), "before").map_err(io)?;
    }
    let mut plan = Plan::new("/tmp", ["/bin/sh", "-c", "printf after > changed && rm removed"]);
    plan.mounts = default_system_mounts();
    plan.mounts.push(Mount { target: "/workspace".into(), ..Mount::write(&layers.base) });
    plan.cwd = "/workspace".into();
    plan.layers = Some(layers.clone());
    let refused = |error: Error| match error {
        Error::Refused { failure, mend } => (failure.to_string(), Some(mend)),
        error => (error.to_string(), None),
    };
    let mut child = launcher.spawn(&plan, Stdin::Null).map_err(refused)?;
    let ended = child.wait().map_err(refused)?;
    let reads = |path: &Path, text: &str| fs::read(path).is_ok_and(|found| found == text.as_bytes());
    let is_gone = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.file_type().is_char_device());
    let is_so = reads(&layers.base.join("changed"), "before")
        && reads(&layers.base.join("removed"), "before")
        && reads(&layers.upper.join("changed"), "after")
        && is_gone(&layers.upper.join("removed"));
    if is_so {
        Ok(())
    } else {
        Err((format!("the upper layer did not get what a jail had changed ({ended})"), None))
    }
}
