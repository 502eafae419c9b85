//! Machines that lack a part of the jail (X6, A13): each part alone, taken away by a test switch. Refused before
//! anything runs, or, where that was asked for, started and said to be degraded.

use sandbox::{Child, Error, Exec, LAUNCH_ARG, Launcher, Network, Part, Plan, Posture, Status, Stdin};

use crate::jail::{Ground, finish, run};

/// A launcher on a machine that lacks `what`.
pub(crate) fn lacking(what: &str) -> Launcher {
    let program =
        std::env::var_os("REGIE_LAUNCHER").unwrap_or_else(|| env!("CARGO_BIN_EXE_sandbox-launch").into());
    let switch = format!("REGIE_JAIL_LACKS={what}");
    Launcher::at("/usr/bin/env", vec![switch.into(), program, LAUNCH_ARG.into()])
}

fn start(what: &str, plan: &Plan) -> Result<Child, Error> {
    lacking(what).spawn(plan, Stdin::Null)
}

/// Each part: what takes it away, where it shows, and what the mend speaks of.
const PARTS: [(&str, Part, &str); 8] = [
    ("user-namespaces", Part::Namespaces, "user namespaces"),
    ("mounts", Part::Files, "allows mounts"),
    ("proc", Part::Files, "whole /proc"),
    ("landlock", Part::Landlock, "landlock"),
    ("landlock-abi=1", Part::Landlock, "boot Linux 5.19"),
    ("seccomp", Part::Seccomp, "CONFIG_SECCOMP_FILTER"),
    ("pidfd", Part::Launch, "boot Linux 5.19"),
    ("seccomp,landlock", Part::Seccomp, "CONFIG_SECCOMP_FILTER"),
];

#[test]
fn denied_nothing_starts_and_one_line_says_what_is_missing() {
    let ground = Ground::new();
    for (what, part, mending) in PARTS {
        for exec in [Exec::Any, Exec::Once, Exec::Resident] {
            let mut plan = ground.shell("touch ran");
            plan.exec = exec;
            if exec == Exec::Resident {
                plan.argv = ["attempt", "write", "ran"].map(Into::into).into();
            }
            let error = start(what, &plan).unwrap_err();
            let Error::Refused { failure, mend } = &error else { panic!("{what}: {error:?}") };
            assert_eq!(failure.part, part, "{what}: {failure}");
            // On a machine that restricts namespaces in earnest the mend is that one.
            assert!(mend.contains(mending) || part == Part::Namespaces, "{what}: {mend}");
            let line = error.to_string();
            assert!(line.contains("nothing was started") && !line.contains('\n'), "{what}: {line}");
        }
    }
    assert!(!ground.work().join("ran").exists());
    // The very same starts where nothing is missing.
    run(&ground.shell("touch ran")).good();
    assert!(ground.work().join("ran").exists());
}

#[test]
fn asked_it_starts_and_says_that_it_is_degraded() {
    for (what, part, _) in PARTS {
        let ground = Ground::new();
        let mut plan = ground.shell("touch ran; exit 5");
        plan.posture = Posture::Ask;
        if part == Part::Launch {
            // Without this nothing could be followed to its end, with or without a jail.
            assert!(matches!(start(what, &plan), Err(Error::Refused { .. })));
            continue;
        }
        let child = start(what, &plan).unwrap();
        let Status::Degraded(why) = child.status() else { panic!("{what}: {:?}", child.status()) };
        assert!(why.contains("no jail") && !why.contains('\n'), "{what}: {why}");
        assert_eq!(finish(child).status.code(), Some(5), "{what}");
        assert!(ground.work().join("ran").exists(), "{what}");
        let mut plan = ground.shell("");
        plan.argv = ["attempt", "write", "tool"].map(Into::into).into();
        (plan.exec, plan.posture) = (Exec::Resident, Posture::Ask);
        let child = start(what, &plan).unwrap();
        assert!(matches!(child.status(), Status::Degraded(_)), "{what}");
        assert_eq!(finish(child).good(), "reached tool", "{what}");
    }
}

#[test]
fn an_older_landlock_leaves_nothing_of_a_plan_out() {
    let ground = Ground::new();
    let secret = ground.outside().join("secret");
    std::fs::write(&secret, "host").unwrap();
    let script = format!(
        "cat {0}; echo x > {0}; truncate -s 0 /usr/bin/env; echo x > /usr/x; mv /usr/bin /usr/b; echo in > in && \
         mkdir d && mv in d/in && cat d/in",
        secret.display()
    );
    for abi in 2..=6 {
        let what = format!("landlock-abi={abi}");
        let child = start(&what, &ground.shell(&script)).unwrap();
        assert_eq!(*child.status(), Status::Enforced, "{what}");
        let outcome = finish(child);
        assert_eq!(outcome.out, "in\n", "{what}: {outcome:?}");
        assert_eq!(outcome.err.lines().count(), 5, "{what}: {outcome:?}");
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "host");
        std::fs::remove_dir_all(ground.work().join("d")).unwrap();
        // The one plan that needs more says so.
        let open = Plan { network: Network::Host, ..ground.shell("true") };
        match start(&what, &open) {
            Ok(child) if abi >= 6 => assert!(finish(child).status.success()),
            Err(Error::Refused { failure, .. }) if abi < 6 => {
                assert!(
                    failure.doing.contains(&format!("ABI {abi}")) && failure.doing.contains("needs 6"),
                    "{failure}"
                );
            }
            other => panic!("{what}: {other:?}"),
        }
    }
}

#[test]
fn two_jails_with_grants_apart_share_nothing() {
    let ground = Ground::new();
    for own in ["a", "b"] {
        std::fs::create_dir(ground.work().join(own)).unwrap();
        std::fs::write(ground.work().join(own).join("own"), own).unwrap();
    }
    // At the same time, each in its own grant, with the other's path in hand.
    let dirs = ["a", "b"].map(|own| ground.work().join(own));
    let children = [(&dirs[0], &dirs[1]), (&dirs[1], &dirs[0])].map(|(own, other)| {
        let script = format!(
            "read both; cat own; cat {0}/own; echo x > {0}/left; ls {0}; echo x > left; echo x > /tmp/left; ls /tmp/shared; \
             echo x > /tmp/shared; cat /dev/shm/x; echo x > /dev/shm/x",
            other.display()
        );
        crate::jail::launcher().spawn(&Plan::new(own, ["/bin/sh", "-c", &script]), Stdin::Piped).unwrap()
    });
    // Both run; let them go.
    let children = children.map(|mut child| {
        drop(child.stdin.take());
        child
    });
    for (child, own) in children.into_iter().zip(["a", "b"]) {
        let outcome = finish(child);
        assert_eq!(outcome.out, own, "{outcome:?}");
    }
    for dir in &dirs {
        let mut names: Vec<_> =
            std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["left", "own"]);
    }
}
