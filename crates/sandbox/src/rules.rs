//! The Landlock rules: a second, independent wall behind the file tree. What is writable is
//! said once more, and abstract sockets and signals do not leave the jail.

use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};

use crate::{Access, Exec, Failure, HOME, Network, Part, Plan, sys};

/// Below this Landlock cannot tell renames across directories apart.
pub(crate) const LEAST_ABI: i32 = 2;

/// The first kernel with [`LEAST_ABI`], and with all else that a jail needs.
pub(crate) const LEAST_KERNEL: &str = "5.19";

/// From here on Landlock holds signals and abstract sockets too.
pub(crate) const SCOPED_ABI: i32 = 6;

/// Applies the rules of `plan` to this process, for good. Called inside the finished tree.
pub(crate) fn apply(plan: &Plan) -> Result<(), Failure> {
    let found = sys::landlock_abi();
    let (least, why) = needed(plan);
    if found < least {
        return Err(Failure {
            part: Part::Landlock,
            doing: format!("the kernel offers Landlock ABI {found}; {why}"),
            errno: None,
        });
    }
    // Everything that both the kernel and this build know, and nothing less.
    let abi = ABI::from(found);
    enforce(plan, abi)
}

/// The least ABI by which everything of a plan is held, and what needs it. What newer ones hold beyond that
/// (truncation from 3 on, devices' own requests from 5, signals and abstract sockets from 6) is held once
/// already, by read-only mounts, by the few devices that there are, and by the namespaces.
fn needed(plan: &Plan) -> (i32, String) {
    match plan.network {
        Network::None => (LEAST_ABI, format!("{LEAST_ABI} is needed")),
        Network::Host => (
            SCOPED_ABI,
            format!(
                "the machine's network needs {SCOPED_ABI}, which keeps the abstract sockets of other programs out \
                 of reach"
            ),
        ),
    }
}

fn enforce(plan: &Plan, abi: ABI) -> Result<(), Failure> {
    let made = || -> Result<RulesetCreated, RulesetError> {
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(abi))?;
        let scopes = Scope::from_all(abi);
        if !scopes.is_empty() {
            rules = rules.scope(scopes)?;
        }
        rules.create()
    };
    let mut rules = made().map_err(|error| failed("creating the Landlock rules", &error))?;
    // What executes nothing gets the right nowhere; otherwise mounts say where there is nothing to execute.
    let kept = if plan.exec == Exec::Resident { AccessFs::Execute.into() } else { BitFlags::empty() };
    rules = allow(rules, Path::new("/"), AccessFs::from_read(abi) & !kept)?;
    let device = AccessFs::WriteFile | AccessFs::ReadFile | AccessFs::Truncate | AccessFs::IoctlDev;
    rules = allow(rules, Path::new("/dev"), device & AccessFs::from_all(abi))?;
    let granted = plan
        .mounts
        .iter()
        .filter(|mount| matches!(mount.access, Access::Write | Access::WriteNoExec | Access::Private))
        .map(|mount| mount.target.as_path());
    let own = ["/tmp", "/dev/shm", HOME].map(Path::new);
    for path in own.into_iter().chain(granted) {
        let access = if path.is_dir() { AccessFs::from_all(abi) } else { AccessFs::from_file(abi) };
        rules = allow(rules, path, access & !kept)?;
    }
    rules.restrict_self().map_err(|error| failed("applying the Landlock rules", &error))?;
    Ok(())
}

fn allow(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated, Failure> {
    let doing = || format!("allowing {} by Landlock", path.display());
    let fd = PathFd::new(path).map_err(|error| failed(&doing(), &error))?;
    rules.add_rule(PathBeneath::new(fd, access)).map_err(|error| failed(&doing(), &error))
}

fn failed(doing: &str, error: &(dyn std::error::Error + 'static)) -> Failure {
    // The kernel's word is somewhere down the chain of the crate's errors.
    let mut next = Some(error);
    let mut errno = None;
    while let Some(error) = next {
        errno = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
        next = error.source();
    }
    Failure { part: Part::Landlock, doing: doing.into(), errno }
}
