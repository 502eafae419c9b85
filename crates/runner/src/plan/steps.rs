//! What the plans of the kinds of steps have in common, and what not.

use super::*;

/// A run with a cache, a setup that fills part of it, and a git of its own.
fn config(dir: &Path) -> Config {
    for name in ["work/.git", "spool/outputs", "git", "given", "files/got"] {
        std::fs::create_dir_all(dir.join(name)).unwrap();
    }
    let mount = |source: &str, target: &str| Mount {
        source: dir.join(source),
        target: target.into(),
        access: Access::Write,
    };
    let run = domain::RunId::new(1, [7; 10]);
    let mut config = Config::new(run, dir.join("spool"), dir.join("work"), "/bin/true");
    config.mounts = vec![mount("cache", CACHE), mount("files", "/cache/files")];
    config.setup_mounts = vec![mount("files", "/cache/files")];
    config.git =
        Some(crate::config::Git { dir: dir.join("git"), given: dir.join("given"), told: dir.join("told") });
    config.given.0 = vec![("TOKEN".into(), "value".into())];
    config
}

fn made(config: &Config, effect: Effect, program: Program<'_>) -> Plan {
    plan(config, Ground::Jail, effect, program).unwrap()
}

/// What of the host a plan lets be changed.
fn written(plan: &Plan) -> Vec<PathBuf> {
    let is_written = |mount: &&Mount| matches!(mount.access, Access::Write | Access::WriteNoExec);
    let mut written: Vec<_> = plan.mounts.iter().filter(is_written).map(|it| it.source.clone()).collect();
    written.sort();
    written
}

#[test]
fn a_setup_is_a_command_with_a_network_and_with_what_it_may_fill() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    let config = config(&dir);
    let shell = made(&config, Effect::WorkspaceWrite, Program::Shell("true"));
    let setup = made(&config, Effect::WorkspaceWrite, Program::Setup("true"));
    assert_eq!((shell.network, setup.network), (Network::None, Network::Host));
    let of_setup = |mount: &&Mount| mount.target == Path::new("/cache/files");
    let but = |plan: &Plan| -> Vec<Mount> {
        plan.mounts.iter().filter(|mount| !of_setup(mount)).cloned().collect()
    };
    assert_eq!(but(&setup), but(&shell));
    assert_eq!(shell.mounts.iter().filter(of_setup).map(|it| it.access).collect::<Vec<_>>(), [Access::Read]);
    assert_eq!(setup.mounts.iter().filter(of_setup).map(|it| it.access).collect::<Vec<_>>(), [Access::Write]);
    for plan in [&shell, &setup] {
        assert_eq!((plan.posture, plan.limits, &plan.cwd), (Posture::Deny, config.limits, &shell.cwd));
        assert_eq!(plan.argv, shell.argv);
    }
    assert_eq!(written(&shell), [dir.join("cache"), dir.join("git"), dir.join("work")]);
}

#[test]
fn a_service_is_a_command_that_changes_nothing_of_the_workspace() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(&dir.path().canonicalize().unwrap());
    let service = made(&config, Effect::Read, Program::Service("true"));
    assert_eq!(service, made(&config, Effect::Read, Program::Shell("true")));
    assert_eq!((service.network, service.posture), (Network::None, Posture::Deny));
    assert_eq!(written(&service), Vec::<PathBuf>::new());
}

#[test]
fn a_file_tool_sees_less_than_a_command_and_has_none_of_its_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    let config = config(&dir);
    let shell = made(&config, Effect::WorkspaceWrite, Program::Shell("true"));
    for (effect, wanted) in [(Effect::Read, vec![]), (Effect::WorkspaceWrite, vec![dir.join("work")])] {
        let tool = made(&config, effect, Program::Tool);
        assert_eq!((written(&tool), tool.network, tool.posture), (wanted, Network::None, Posture::Deny));
        let targets = |plan: &Plan| plan.mounts.iter().map(|it| it.target.clone()).collect::<Vec<_>>();
        assert!(targets(&tool).iter().all(|target| targets(&shell).contains(target)));
        assert!(!targets(&tool).iter().any(|target| target.starts_with(CACHE)));
        assert!(!tool.env.iter().any(|(name, _)| name == "TOKEN"));
    }
    assert!(shell.env.iter().any(|(name, _)| name == "TOKEN"));
}

#[test]
fn no_plan_shows_the_spool_or_lets_regies_own_program_be_changed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    let config = config(&dir);
    for effect in [Effect::Read, Effect::WorkspaceWrite] {
        for program in [Program::Tool, Program::Shell("a"), Program::Setup("a"), Program::Service("a")] {
            let plan = made(&config, effect, program);
            for mount in &plan.mounts {
                let is_outputs = mount.source == dir.join("spool/outputs") && mount.access == Access::Read;
                assert!(!dir.join("spool").starts_with(&mount.source), "{mount:?}");
                assert!(is_outputs || !mount.source.starts_with(dir.join("spool")), "{mount:?}");
                assert!(mount.source != config.program || mount.access == Access::Read, "{mount:?}");
            }
            assert!(plan.check().is_ok());
        }
    }
}
