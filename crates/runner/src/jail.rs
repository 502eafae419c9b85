//! Starts a plan through `sandbox`, and decides what a machine without jails means.

use std::io::{PipeWriter, Read};
use std::os::fd::AsFd;

use kernel::port::Refused;
use sandbox::{Child, Error, Killer, LAUNCH_ARG, Launcher, Posture, SharedNetwork, Status, Stdin};

use crate::config::{Config, NO_JAIL_ENV};
use crate::orphan;
use crate::plan::{Ground, Program, plan};

/// An output of a jailed process.
pub(crate) trait Output: Read + AsFd + Send {}

impl<T: Read + AsFd + Send> Output for T {}

/// A jailed process, taken apart for its supervisor. Dropping the child ends it.
pub(crate) struct Jailed {
    pub(crate) child: Child,
    pub(crate) killer: Killer,
    pub(crate) stdin: Option<PipeWriter>,
    /// Standard output, then standard error.
    pub(crate) outputs: [Option<Box<dyn Output>>; 2],
    pub(crate) status: Status,
    pub(crate) ground: Ground,
}

/// Starts a step's program: in a jail, or, where the machine has none and the posture allows it,
/// without one and saying so.
///
/// # Errors
/// What is missing and how to mend it; nothing was executed then.
pub(crate) fn start(
    launcher: &Launcher,
    config: &Config,
    effect: domain::Effect,
    program: Program<'_>,
    stdin: Stdin,
    network: Option<&SharedNetwork>,
) -> Result<Jailed, Refused> {
    let pretend = std::env::var_os(NO_JAIL_ENV).is_some();
    let reason = if pretend {
        format!("jails are switched off by {NO_JAIL_ENV}; unset it")
    } else {
        match launch(launcher, config, Ground::Jail, effect, program, stdin, network) {
            Err(error @ (Error::Refused { .. } | Error::NoJail)) => error.to_string(),
            Err(error) => return Err(refused(&error)),
            Ok(child) => return Ok(take_apart(child, Ground::Jail, None)),
        }
    };
    if config.posture == Posture::Deny {
        return Err(Refused {
            code: "jail.unsupported".into(),
            hint: format!(
                "this machine cannot hold a jail: {reason}; `regie doctor` shows what is missing, and \
                 posture `ask` lets steps run without one"
            ),
        });
    }
    let child = launch(launcher, config, Ground::Bare, effect, program, stdin, None)
        .map_err(|error| refused(&error))?;
    Ok(take_apart(child, Ground::Bare, Some(reason)))
}

fn launch(
    launcher: &Launcher,
    config: &Config,
    ground: Ground,
    effect: domain::Effect,
    program: Program<'_>,
    stdin: Stdin,
    network: Option<&SharedNetwork>,
) -> Result<Child, Error> {
    launcher.spawn_in(network, &plan(config, ground, effect, program)?, stdin)
}

/// The running binary, even when its file has been replaced meanwhile.
pub(crate) fn launcher(config: &Config) -> Launcher {
    Launcher::at("/proc/self/exe", vec![LAUNCH_ARG.into(), orphan::mark(&config.spool).into()])
}

/// Has the next step's jail begun, while nobody waits for it.
pub(crate) fn prepare(config: &Config, launcher: &Launcher) {
    if std::env::var_os(NO_JAIL_ENV).is_none() {
        launcher.prepare(&config.limits);
    }
}

/// A network that the jails of a run share. `None` where there are no jails and the posture allows it:
/// all are in the machine's network then.
///
/// # Errors
/// What is missing and how to mend it.
pub(crate) fn network(config: &Config) -> Result<Option<SharedNetwork>, Refused> {
    if std::env::var_os(NO_JAIL_ENV).is_some() {
        return Ok(None);
    }
    match launcher(config).network() {
        Ok(network) => Ok(Some(network)),
        Err(Error::Refused { .. } | Error::NoJail) if config.posture == Posture::Ask => Ok(None),
        Err(error) => Err(refused(&error)),
    }
}

fn take_apart(mut child: Child, ground: Ground, reason: Option<String>) -> Jailed {
    let boxed = |output| Box::new(output) as Box<dyn Output>;
    // What was not asked for is not claimed, even if the second try enforced it after all.
    let status = match (child.status(), reason) {
        (Status::Enforced, Some(reason)) => Status::Degraded(reason),
        (status, _) => status.clone(),
    };
    Jailed {
        killer: child.killer(),
        stdin: child.stdin.take(),
        outputs: [child.stdout.take().map(boxed), child.stderr.take().map(|err| Box::new(err) as _)],
        status,
        ground,
        child,
    }
}

fn refused(error: &Error) -> Refused {
    let code = match error {
        Error::Refused { .. } | Error::NoJail => "jail.unsupported",
        Error::Plan { .. } | Error::Encode { .. } => "jail.plan",
        Error::Program(_) => "jail.program",
        _ => "jail.launcher",
    };
    Refused { code: code.into(), hint: error.to_string() }
}
