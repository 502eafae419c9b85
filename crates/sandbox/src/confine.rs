//! The last process before the program: gives up everything that it could still misuse,
//! then becomes the program.

use std::{
    convert::Infallible,
    ffi::{CString, OsStr},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    process::{Resource, Rlimit},
    thread::{CapabilitySet, CapabilitySets},
};

use crate::{Access, Exec, Failure, Limits, Part, Plan, resident, rules, sys, wire::Mode as Start};

/// The launcher and the jail's first process, which count as processes of the jail.
const OWN_PROCESSES: u64 = 2;

/// Puts the last walls around this process, which is inside the finished tree, without
/// privileges, filtered already and in a session of its own, and becomes the program. Returns only with the
/// reason why not; a rehearsal ends the process instead of becoming anything.
pub(crate) fn become_program(
    plan: &Plan,
    start: Start,
    stdin: Option<OwnedFd>,
) -> Result<Infallible, Failure> {
    input(stdin)?;
    let processes = plan.limits.processes.saturating_add(OWN_PROCESSES);
    limit(&plan.limits, Some(processes))?;
    rustix::process::chdir(&plan.cwd).map_err(
        Part::Plan.failed(format!("entering the working directory {} in the jail", plan.cwd.display())),
    )?;
    rules::apply(plan)?;
    if start == Start::Rehearse {
        sys::exit_now(0);
    }
    if plan.exec == Exec::Resident {
        resident::confine()?;
    }
    execute(plan)
}

/// Becomes the program without a jail: what is left when the posture allows it.
pub(crate) fn become_program_unjailed(plan: &Plan, stdin: Option<OwnedFd>) -> Result<Infallible, Failure> {
    fresh_session()?;
    input(stdin)?;
    // Without a user namespace the kernel would count all processes of the user.
    limit(&plan.limits, None)?;
    rustix::thread::set_no_new_privs(true).map_err(Part::Privileges.failed("setting no_new_privs"))?;
    let cwd = outside(plan, &plan.cwd);
    rustix::process::chdir(&cwd)
        .map_err(Part::Plan.failed(format!("entering the working directory {}", cwd.display())))?;
    execute(plan)
}

/// No capability, now or by any later exec.
pub(crate) fn drop_privileges() -> Result<(), Failure> {
    let fail = |doing: &'static str| Part::Privileges.failed::<Errno>(doing);
    for bit in 0..64 {
        let one = CapabilitySet::from_bits_retain(1 << bit);
        match rustix::thread::remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            Err(Errno::INVAL) => break,
            Err(error) => return Err(fail("bounding the capabilities")(error)),
        }
    }
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::clear_ambient_capability_set().map_err(fail("clearing the capabilities"))?;
    rustix::thread::set_capabilities(None, none).map_err(fail("dropping the capabilities"))?;
    rustix::thread::set_no_new_privs(true).map_err(fail("setting no_new_privs"))
}

/// As a program starts from a fresh shell: with a session of its own, and signals as they are by default.
pub(crate) fn fresh_session() -> Result<(), Failure> {
    rustix::process::setsid().map_err(Part::Launch.failed::<Errno>("starting a session"))?;
    sys::reset_signals();
    rustix::process::umask(Mode::from_raw_mode(0o022));
    Ok(())
}

/// Sets what the program reads, and that it gets no other descriptor.
fn input(stdin: Option<OwnedFd>) -> Result<(), Failure> {
    let fail = |doing: &'static str| Part::Launch.failed::<Errno>(doing);
    let input = match stdin {
        Some(pipe) => pipe,
        None => rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(fail("opening /dev/null"))?,
    };
    rustix::stdio::dup2_stdin(&input).map_err(fail("setting the standard input"))?;
    sys::close_on_exec().map_err(Part::Launch.failed("closing what is not the program's"))
}

fn limit(limits: &Limits, processes: Option<u64>) -> Result<(), Failure> {
    let wanted = [
        (Resource::Core, Some(0)),
        (Resource::Data, Some(limits.memory_bytes)),
        (Resource::Nofile, Some(limits.open_files)),
        (Resource::Fsize, Some(limits.file_size_bytes)),
        (Resource::Nproc, processes),
        (Resource::Cpu, limits.cpu_seconds),
    ];
    for (resource, value) in wanted {
        let Some(value) = value else { continue };
        // Never more than the caller itself may use: a limit cannot be raised here.
        let value = rustix::process::getrlimit(resource).maximum.map_or(value, |most| value.min(most));
        let limit = Rlimit { current: Some(value), maximum: Some(value) };
        rustix::process::setrlimit(resource, limit)
            .map_err(Part::Limits.failed(format!("setting the limit {resource:?}")))?;
    }
    Ok(())
}

fn execute(plan: &Plan) -> Result<Infallible, Failure> {
    if plan.exec == Exec::Resident {
        return resident::become_tool(plan);
    }
    let string = |bytes: &[u8]| {
        CString::new(bytes).map_err(|_| Failure {
            part: Part::Plan,
            doing: "an argument holds a NUL byte".into(),
            errno: None,
        })
    };
    let argv = plan.argv.iter().map(|arg| string(arg.as_bytes())).collect::<Result<Vec<_>, _>>()?;
    let env = plan
        .env
        .iter()
        .map(|(name, value)| string(format!("{name}={value}").as_bytes()))
        .collect::<Result<Vec<_>, _>>()?;
    let name = plan.argv.first().map_or(OsStr::new(""), |name| name.as_os_str());
    let mut errno = libc::ENOENT;
    let mut programs = candidates(name, &plan.env);
    if plan.exec == Exec::Once {
        // What is let through is one try.
        programs = likeliest(programs).into_iter().collect();
    }
    for program in programs {
        let Err(error) = sys::execute(&string(program.as_os_str().as_bytes())?, &argv, &env);
        // As a shell does: the first refusal is worth more than the last absence.
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) | None => {}
            Some(other) => errno = other,
        }
    }
    let doing = format!("executing {}", name.to_string_lossy());
    Err(Failure { part: Part::Program, doing, errno: Some(errno) })
}

fn candidates(name: &OsStr, env: &[(String, String)]) -> Vec<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return vec![name.into()];
    }
    let path = env.iter().rev().find(|(key, _)| key == "PATH").map_or("", |(_, value)| value);
    path.split(':').filter(|dir| !dir.is_empty()).map(|dir| Path::new(dir).join(name)).collect()
}

/// The program that a search for it would end with.
fn likeliest(programs: Vec<PathBuf>) -> Option<PathBuf> {
    let is_runnable =
        |path: &Path| path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
    let at = programs.iter().position(|path| is_runnable(path));
    let at = at.or_else(|| programs.iter().position(|path| path.exists()));
    programs.into_iter().nth(at.unwrap_or(0))
}

/// Where a path of the jail is outside of it.
fn outside(plan: &Plan, path: &Path) -> PathBuf {
    plan.mounts
        .iter()
        .filter(|mount| !matches!(mount.access, Access::Private | Access::Link | Access::Cover))
        .filter_map(|mount| Some((mount, path.strip_prefix(&mount.target).ok()?)))
        .max_by_key(|(mount, _)| mount.target.components().count())
        .map_or_else(|| path.to_owned(), |(mount, rest)| mount.source.join(rest))
}

/// Points this process's standard descriptors nowhere, so that only the program holds them.
pub(crate) fn let_go_of_stdio() -> Result<(), Failure> {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(Part::Launch.failed::<Errno>("opening /dev/null"))?;
    point_stdio_to(null.as_fd())
}

/// Points this process's standard descriptors there.
pub(crate) fn point_stdio_to(null: BorrowedFd<'_>) -> Result<(), Failure> {
    let fail = |doing: &'static str| Part::Launch.failed::<Errno>(doing);
    rustix::stdio::dup2_stdin(null).map_err(fail("letting go of the standard input"))?;
    rustix::stdio::dup2_stdout(null).map_err(fail("letting go of the standard output"))?;
    rustix::stdio::dup2_stderr(null).map_err(fail("letting go of the standard error"))
}
