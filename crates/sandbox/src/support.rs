//! What this machine can enforce, with evidence and the exact mend, for the doctor.

mod layers;

use std::{fs, path::Path};

use crate::{Check, Error, Launcher, Limits, Part, Plan, Status, cgroup, lacks::Lack, rules, sys};

pub use layers::layers;

/// Where the kernel's settings are.
const SETTINGS: &str = "/proc/sys";

/// Probes namespaces, Landlock and seccomp, and builds one whole jail through `launcher`
/// without executing anything in it. Read-only.
#[must_use]
pub fn support(launcher: &Launcher) -> Vec<Check> {
    vec![namespaces(), landlock(), seccomp(), bounds(), rehearsal(launcher)]
}

/// What to do about a part of the confinement that this machine refuses.
pub(crate) fn mend(part: Part) -> String {
    match part {
        Part::Namespaces => match hindrance_here() {
            Some((_, mend)) => mend.into(),
            None => "allow user namespaces to this user, or run Regie outside of the container \
                     that forbids them"
                .into(),
        },
        Part::Files => "run Regie outside of a container, or in one that shows its whole /proc \
                        and allows mounts (for Docker: --security-opt systempaths=unconfined \
                        --security-opt seccomp=unconfined --security-opt apparmor=unconfined)"
            .into(),
        Part::Landlock => format!(
            "boot Linux {} or later with `landlock` in the kernel's lsm= list (of the newest kernels it holds most)",
            rules::LEAST_KERNEL
        ),
        Part::Seccomp => "boot a kernel with CONFIG_SECCOMP_FILTER=y".into(),
        Part::Launch => format!("boot Linux {} or later", rules::LEAST_KERNEL),
        Part::Layers => "boot Linux 5.19 or later with overlayfs, and keep layers on a file system that it takes (ext4, XFS, btrfs)".into(),
        Part::Limits => "run Regie as an ordinary user, or boot Linux 6.14 or later, or hand `memory` and `pids` of cgroup v2 on to it".into(),
        _ => "run `regie doctor` to see what this machine lacks".into(),
    }
}

fn namespaces() -> Check {
    let id = "jail.namespaces".to_owned();
    let limit = setting(Path::new(SETTINGS), "user/max_user_namespaces").unwrap_or_else(|| "absent".into());
    let evidence = format!("user.max_user_namespaces = {limit}");
    match hindrance_here() {
        // Only a hindrance in general: a profile for this binary may lift it. The rehearsal
        // is what decides.
        Some((found, mend)) => Check {
            id,
            status: Status::Degraded(format!("{found} is set")),
            evidence: format!("{evidence}, {found}"),
            mend: Some(mend.into()),
        },
        None => Check { id, status: Status::Enforced, evidence, mend: None },
    }
}

fn hindrance_here() -> Option<(&'static str, &'static str)> {
    let user = if rustix::process::geteuid().is_root() { User::Root } else { User::Ordinary };
    hindrance(Path::new(SETTINGS), user)
}

/// Who wants to have a user namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum User {
    Root,
    Ordinary,
}

/// What of the `settings` forbids user namespaces to a user, and how to change it.
fn hindrance(settings: &Path, user: User) -> Option<(&'static str, &'static str)> {
    let is = |name: &str, value: &str| setting(settings, name).is_some_and(|found| found == value);
    if is("user/max_user_namespaces", "0") {
        Some(("user.max_user_namespaces = 0", "run `sudo sysctl -w user.max_user_namespaces=15000`"))
    } else if user == User::Root {
        None
    } else if is("kernel/apparmor_restrict_unprivileged_userns", "1") {
        Some((
            "kernel.apparmor_restrict_unprivileged_userns = 1",
            "run `sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, or give Regie's \
             binary an AppArmor profile with `userns,`",
        ))
    } else if is("kernel/unprivileged_userns_clone", "0") {
        Some((
            "kernel.unprivileged_userns_clone = 0",
            "run `sudo sysctl -w kernel.unprivileged_userns_clone=1`",
        ))
    } else {
        None
    }
}

fn landlock() -> Check {
    let abi = sys::landlock_abi();
    let status = if abi < rules::LEAST_ABI {
        Status::Unsupported(format!("Landlock ABI {abi} is below {}", rules::LEAST_ABI))
    } else {
        // An older ABI leaves to the namespaces alone what a newer one holds twice; nothing
        // of the plan is missing.
        Status::Enforced
    };
    let evidence = if abi < rules::SCOPED_ABI {
        format!("Landlock ABI {abi} (signals and abstract sockets from {} on)", rules::SCOPED_ABI)
    } else {
        format!("Landlock ABI {abi}")
    };
    let mend = (status != Status::Enforced).then(|| mend(Part::Landlock));
    Check { id: "jail.landlock".into(), status, evidence, mend }
}

fn seccomp() -> Check {
    let actions = setting(Path::new(SETTINGS), "kernel/seccomp/actions_avail");
    let actions = actions.filter(|_| Lack::Seccomp.refuse().is_ok()).unwrap_or_default();
    let has = |wanted: &str| actions.split_whitespace().any(|action| action == wanted);
    let whole = has("errno") && has("kill_process");
    Check {
        id: "jail.seccomp".into(),
        status: if whole {
            Status::Enforced
        } else {
            Status::Unsupported("the kernel does not filter system calls".into())
        },
        evidence: format!("kernel.seccomp.actions_avail = {actions}"),
        mend: (!whole).then(|| mend(Part::Seccomp)),
    }
}

/// What holds a step as a whole: its launcher in any case, which the rehearsal shows, and the kernel where it
/// lets this user make control groups.
fn bounds() -> Check {
    cgroup::sweep();
    let watched = "memory, disk and files of a step as a whole are watched by its launcher";
    let evidence = match cgroup::Group::make(&Limits::default()) {
        Ok(_) => format!("{watched}; memory and processes are held by a control group too"),
        Err(why) => format!("{watched}; no control group: {why}"),
    };
    Check { id: "jail.bounds".into(), status: Status::Enforced, evidence, mend: None }
}

fn rehearsal(launcher: &Launcher) -> Check {
    let mut plan = Plan::new("/tmp", ["true"]);
    // Nothing of this machine is shown writable, not even its /tmp.
    plan.mounts.retain(|mount| mount.target != Path::new("/tmp"));
    let id = "jail.rehearsal".to_owned();
    match launcher.rehearse(&plan) {
        Ok(()) => Check {
            id,
            status: Status::Enforced,
            evidence: "a whole jail was built and taken down".into(),
            mend: None,
        },
        Err(Error::Refused { failure, mend }) => Check {
            id,
            status: Status::Unsupported(format!("no jail can be built: {failure}")),
            evidence: format!("{:?} failed", failure.part),
            mend: Some(mend),
        },
        Err(error) => Check {
            id,
            status: Status::Unsupported("no jail can be built".into()),
            evidence: error.to_string(),
            mend: Some("report this with the output of `regie doctor --json`".into()),
        },
    }
}

fn setting(settings: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(settings.join(name)).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hindrance on a machine with these settings.
    fn of(settings: &[(&str, &str)], user: User) -> Option<(&'static str, &'static str)> {
        let root = tempfile::tempdir().unwrap();
        for (name, value) in settings {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{value}\n")).unwrap();
        }
        hindrance(root.path(), user)
    }

    #[test]
    fn what_forbids_user_namespaces_is_named_with_its_mend() {
        let apparmor =
            [("user/max_user_namespaces", "63000"), ("kernel/apparmor_restrict_unprivileged_userns", "1")];
        let (found, mend) = of(&apparmor, User::Ordinary).unwrap();
        assert_eq!(found, "kernel.apparmor_restrict_unprivileged_userns = 1");
        assert!(mend.contains("sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"), "{mend}");
        assert!(mend.contains("AppArmor profile with `userns,`"), "{mend}");
        assert_eq!(of(&apparmor, User::Root), None);
        let (found, mend) = of(&[("kernel/unprivileged_userns_clone", "0")], User::Ordinary).unwrap();
        assert_eq!(found, "kernel.unprivileged_userns_clone = 0");
        assert!(mend.ends_with("kernel.unprivileged_userns_clone=1`"), "{mend}");
        for user in [User::Root, User::Ordinary] {
            let (found, mend) = of(&[("user/max_user_namespaces", "0")], user).unwrap();
            assert_eq!(found, "user.max_user_namespaces = 0");
            assert!(mend.contains("user.max_user_namespaces="), "{mend}");
        }
    }

    #[test]
    fn a_machine_that_says_nothing_against_it_is_not_suspected() {
        assert_eq!(of(&[], User::Ordinary), None);
        let open = [
            ("user/max_user_namespaces", "63000"),
            ("kernel/apparmor_restrict_unprivileged_userns", "0"),
            ("kernel/unprivileged_userns_clone", "1"),
        ];
        assert_eq!(of(&open, User::Ordinary), None);
    }

    #[test]
    fn each_part_has_a_mend_of_its_own() {
        let parts = [
            Part::Namespaces,
            Part::Files,
            Part::Landlock,
            Part::Seccomp,
            Part::Limits,
            Part::Launch,
            Part::Layers,
        ];
        let mends: std::collections::BTreeSet<_> = parts.map(mend).into();
        assert_eq!(mends.len(), parts.len(), "{mends:?}");
        assert!(mend(Part::Files).contains("whole /proc"));
    }
}
