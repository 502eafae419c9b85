//! What cannot be carried out is refused before anything runs, in words that help.

use sandbox::{Access, Error, Launcher, Mount, Part, Posture, Status, Stdin};

use crate::jail::{Ground, finish, start};

#[test]
fn plans_that_make_no_sense_are_refused() {
    let ground = Ground::new();
    let spoilt: [fn(&mut sandbox::Plan); 8] = [
        |plan| plan.argv.clear(),
        |plan| plan.cwd = "work".into(),
        |plan| plan.mounts.push(Mount::read("usr")),
        |plan| plan.mounts.push(Mount::read("/")),
        |plan| plan.mounts.push(Mount::write("/usr/../etc")),
        |plan| plan.mounts.push(Mount::write("/proc/sys")),
        |plan| plan.mounts.push(Mount::write("/dev")),
        |plan| plan.env.push(("A=B".into(), "secret".into())),
    ];
    for spoil in spoilt {
        let mut plan = ground.shell("touch ran");
        spoil(&mut plan);
        let error = start(&plan).unwrap_err();
        assert!(matches!(error, Error::Plan { .. }), "{error:?}");
        assert!(!error.to_string().contains("secret"));
    }
    assert!(!ground.work().join("ran").exists());
}

#[test]
fn what_a_plan_names_must_be_there() {
    let ground = Ground::new();
    let mut plan = ground.shell("touch ran");
    plan.mounts.push(Mount::read("/nowhere/at/all"));
    let error = start(&plan).unwrap_err().to_string();
    assert!(error.contains("/nowhere/at/all") && error.contains("No such file"), "{error}");
    let mut plan = ground.shell("touch ran");
    plan.cwd = "/nowhere".into();
    let error = start(&plan).unwrap_err();
    assert!(matches!(&error, Error::Plan { .. }) && error.to_string().contains("/nowhere"), "{error:?}");
    assert!(!ground.work().join("ran").exists());
}

#[test]
fn what_is_to_be_written_must_be_the_callers_own() {
    let ground = Ground::new();
    let mut foreign = ground.outside();
    if std::os::unix::fs::chown(&foreign, Some(12_345), None).is_err() {
        // Not root: then what is root's will do.
        foreign = "/usr/share".into();
    }
    let mut plan = ground.shell("touch ran");
    plan.mounts.push(Mount { source: foreign, target: "/opt/foreign".into(), access: Access::Write });
    let error = start(&plan).unwrap_err();
    assert!(error.to_string().contains("another user"), "{error}");
    assert!(!ground.work().join("ran").exists());
}

#[test]
fn a_missing_program_is_a_typed_error() {
    let ground = Ground::new();
    for name in ["no-such-program", "/usr/bin/no-such-program", "/etc/passwd"] {
        let mut plan = ground.shell("");
        plan.argv = vec![name.into()];
        let Err(Error::Program(failure)) = start(&plan) else { panic!("{name} started") };
        assert_eq!(failure.part, Part::Program);
        assert!(failure.doing.contains(name), "{failure}");
    }
}

#[test]
fn a_missing_or_silent_launcher_is_a_typed_error() {
    let ground = Ground::new();
    let missing = Launcher::at("/no/launcher", vec![]).spawn(&ground.shell("true"), Stdin::Null);
    assert!(matches!(missing, Err(Error::Launcher { .. })), "{missing:?}");
    let silent = Launcher::at("/bin/true", vec![]).spawn(&ground.shell("true"), Stdin::Null);
    assert!(matches!(silent, Err(Error::Silent { .. })), "{silent:?}");
}

/// A launcher that may not enter namespaces, as on a machine that forbids them: it runs
/// in a user namespace of its own, in which the number of mount namespaces is bounded to zero.
fn hindered(ground: &Ground, posture: Posture) -> Result<sandbox::Child, Error> {
    let dir = ground.work();
    let launch =
        std::env::var_os("REGIE_LAUNCHER").unwrap_or_else(|| env!("CARGO_BIN_EXE_sandbox-launch").into());
    let script = format!(
        "echo 0 > /proc/sys/user/max_mnt_namespaces && exec {} {}",
        launch.to_str().unwrap(),
        sandbox::LAUNCH_ARG
    );
    let unshare = Launcher::at(
        "/usr/bin/unshare",
        ["--user", "--map-root-user", "/bin/sh", "-c", &script].map(Into::into).into(),
    );
    let mut plan = sandbox::Plan::new(dir, ["/bin/sh", "-c", "touch ran; echo $HOME; exit 5"]);
    plan.posture = posture;
    unshare.spawn(&plan, Stdin::Null)
}

#[test]
fn a_machine_that_cannot_hold_a_jail_refuses_or_says_so() {
    if !std::path::Path::new("/usr/bin/unshare").exists() {
        return;
    }
    let ground = Ground::new();
    let refused = hindered(&ground, Posture::Deny).unwrap_err();
    let Error::Refused { failure, mend } = &refused else { panic!("{refused:?}") };
    assert_eq!(failure.part, Part::Namespaces, "{failure}");
    assert!(!mend.is_empty() && refused.to_string().contains("nothing was started"));
    assert!(!ground.work().join("ran").exists());

    let child = hindered(&ground, Posture::Ask).unwrap();
    assert!(matches!(child.status(), Status::Degraded(why) if why.contains("no jail")));
    let outcome = finish(child);
    assert_eq!((outcome.status.code(), outcome.out.as_str()), (Some(5), "/home/regie\n"));
    assert!(ground.work().join("ran").exists());
}
