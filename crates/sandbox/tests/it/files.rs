//! What a jailed program may read and write.

use std::fs;

use sandbox::{Access, Mount};

use crate::jail::{Ground, run};

#[test]
fn writes_reach_the_workspace_and_nothing_outside() {
    let ground = Ground::new();
    let outside = ground.outside().join("file");
    let script = format!("echo in > inside; echo out > {}", outside.display());
    run(&ground.shell(&script)).bad();
    assert_eq!(fs::read_to_string(ground.work().join("inside")).unwrap(), "in\n");
    assert!(!outside.exists());
    // The same place can be written when the plan says so.
    let mut plan = ground.shell(&script);
    plan.mounts.push(Mount::write(ground.outside()));
    run(&plan).good();
    assert_eq!(fs::read_to_string(&outside).unwrap(), "out\n");
}

#[test]
fn a_secret_beside_the_workspace_cannot_be_read() {
    let ground = Ground::new();
    let keys = ground.outside().join(".ssh");
    fs::create_dir(&keys).unwrap();
    fs::write(keys.join("id_ed25519"), "the private key").unwrap();
    let script = format!("cat {}/id_ed25519", keys.display());
    let refused = run(&ground.shell(&script)).bad();
    assert!(!refused.out.contains("private") && !refused.err.contains("private"));
    let mut plan = ground.shell(&script);
    plan.mounts.push(Mount::read(&keys));
    assert_eq!(run(&plan).good(), "the private key");
}

#[test]
fn homes_and_run_directories_are_not_there() {
    let ground = Ground::new();
    let seen = run(&ground.shell("ls -a /home /root /run /var /mnt /srv /sys 2>&1; true")).good();
    for gone in ["/root", "/run", "/mnt", "/srv", "/sys"] {
        assert!(seen.contains(&format!("{gone}'")), "{gone} is there: {seen}");
    }
    assert!(seen.contains("regie") && seen.contains("tmp"), "{seen}");
}

#[test]
fn a_link_out_of_the_workspace_leads_nowhere() {
    let ground = Ground::new();
    let outside = ground.outside().join("file");
    fs::write(&outside, "before").unwrap();
    std::os::unix::fs::symlink(&outside, ground.work().join("link")).unwrap();
    std::os::unix::fs::symlink(ground.outside(), ground.work().join("dir")).unwrap();
    fs::write(ground.work().join("link"), "by the host").unwrap();
    run(&ground.shell("echo x > link")).bad();
    run(&ground.shell("echo x > dir/new")).bad();
    assert_eq!(fs::read_to_string(&outside).unwrap(), "by the host");
    assert!(!ground.outside().join("new").exists());
}

#[test]
fn a_read_only_place_inside_the_workspace_stays_as_it_is() {
    let ground = Ground::new();
    let kept = ground.work().join(".git");
    fs::create_dir(&kept).unwrap();
    fs::write(kept.join("config"), "mine").unwrap();
    let mut plan = ground.shell("echo x > .git/config");
    plan.mounts.push(Mount::read(&kept));
    run(&plan).bad();
    let mut plan = ground.shell("mv .git away");
    plan.mounts.push(Mount::read(&kept));
    run(&plan).bad();
    assert_eq!(fs::read_to_string(kept.join("config")).unwrap(), "mine");
    run(&ground.shell("echo x > .git/config")).good();
}

#[test]
fn a_mount_is_never_steered_by_a_link_of_the_workspace() {
    let ground = Ground::new();
    std::os::unix::fs::symlink("/etc", ground.work().join("cache")).unwrap();
    let mut plan = ground.shell("true");
    plan.mounts.push(Mount {
        source: ground.outside(),
        target: ground.work().join("cache"),
        access: Access::Write,
    });
    let error = crate::jail::start(&plan).unwrap_err();
    assert!(matches!(error, sandbox::Error::Plan { .. }), "{error:?}");
}

#[test]
fn the_system_and_the_root_are_read_only_and_scratch_is_private() {
    let ground = Ground::new();
    for place in ["/usr/x", "/etc/x", "/x", "/dev/x", "/proc/sys/kernel/core_pattern", "/etc/passwd"] {
        let refused = run(&ground.shell(&format!("echo x >> {place}"))).bad();
        assert!(
            ["Read-only", "denied", "create"].iter().any(|word| refused.err.contains(word)),
            "{refused:?}"
        );
    }
    let name = format!("regie-{}", std::process::id());
    let script = format!(
        "echo x > /tmp/{name} && echo x > $HOME/{name} && echo x > /dev/shm/{name} && echo x > /var/tmp/y && cat /tmp/y"
    );
    run(&ground.shell(&script)).good();
    assert!(!std::path::Path::new("/tmp").join(&name).exists());
    assert!(!std::path::Path::new("/dev/shm").join(&name).exists());
}

#[test]
fn scratch_is_bounded() {
    let ground = Ground::new();
    let fill = |bytes: u64| {
        let mut plan = ground.shell("head -c 4000000 /dev/zero > /tmp/big");
        plan.limits.scratch_bytes = bytes;
        run(&plan)
    };
    fill(1 << 20).bad();
    fill(8 << 20).good();
}

#[test]
fn devices_are_the_harmless_ones() {
    let ground = Ground::new();
    let listed = run(&ground.shell("ls /dev; echo x > /dev/null; head -c 1 /dev/urandom | wc -c")).good();
    let found: Vec<&str> = listed.split_whitespace().collect();
    let wanted = ["fd", "full", "null", "random", "shm", "stderr", "stdin", "stdout", "urandom", "zero", "1"];
    assert_eq!(found, wanted);
}

#[test]
fn renames_across_directories_of_the_workspace_work() {
    let ground = Ground::new();
    run(&ground.shell("mkdir a b && echo x > a/f && mv a/f b/f && ln b/f a/g && cat a/g")).good();
}

#[test]
fn a_read_only_mount_covers_what_is_mounted_below_it() {
    let ground = Ground::new();
    // `/dev` has `/dev/shm` mounted below it, which anybody may write.
    let mut plan = ground.shell("echo x > /opt/dev/shm/regie-test");
    plan.mounts.push(Mount { source: "/dev".into(), target: "/opt/dev".into(), access: Access::Read });
    let refused = run(&plan).bad();
    assert!(refused.err.contains("Read-only"), "{refused:?}");
    assert!(!std::path::Path::new("/dev/shm/regie-test").exists());
    // Nor do devices work there.
    plan.argv = ["head", "-c", "1", "/opt/dev/zero"].map(Into::into).into();
    assert!(run(&plan).bad().err.contains("denied"));
    plan.argv = ["head", "-c", "1", "/dev/zero"].map(Into::into).into();
    run(&plan).good();
}

#[test]
fn mounts_carry_the_flags_they_should() {
    let ground = Ground::new();
    let mounts = run(&ground.shell("cat /proc/self/mounts")).good();
    let has = |target: &str, flags: &[&str]| {
        let line = mounts.lines().find(|line| line.split(' ').nth(1) == Some(target)).unwrap();
        let found: Vec<&str> = line.split(' ').nth(3).unwrap().split(',').collect();
        assert!(flags.iter().all(|flag| found.contains(flag)), "{flags:?} are not all in {line}");
    };
    for target in ["/", "/usr"] {
        has(target, &["ro", "nosuid", "nodev"]);
    }
    has("/proc", &["ro", "nosuid", "nodev", "noexec"]);
    has("/dev/null", &["nosuid", "noexec"]);
    let work = ground.work();
    for target in ["/tmp", "/dev/shm", sandbox::HOME, work.to_str().unwrap()] {
        has(target, &["rw", "nosuid", "nodev"]);
    }
    // Nothing is left of the old root.
    let targets: Vec<&str> = mounts.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(targets.iter().filter(|target| **target == "/").count(), 1, "{mounts}");
}
