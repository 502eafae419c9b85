//! A jail without any program in it: the launcher itself becomes the tool that its binary brings along.
//!
//! Regie's own file tools are started so. Nothing has to be executed, so nothing can be: the walls that are put
//! up last leave one process that makes no other one, no code and no socket. What it holds in memory is the plan
//! and Regie's own code, which are no secrets.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    ffi::OsString,
    io::Write as _,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::OnceLock,
};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use crate::{Failure, Part, Plan, filter, launch, sys};

/// A tool: takes the arguments of the plan, reads its standard input, writes to its standard outputs, and gives
/// its exit code.
pub type Resident = fn(&[OsString]) -> i32;

/// The tool that this binary brings along. Set once, before anything is read.
static TOOL: OnceLock<Resident> = OnceLock::new();

/// The exit code of a tool that panicked, as of any Rust program.
const PANICKED: i32 = 101;

/// [`crate::launch_main`] of a binary that brings a tool along, for plans with [`crate::Exec::Resident`].
pub fn launch_resident_main(tool: Resident) -> ! {
    let _ = TOOL.set(tool);
    launch::launch_main()
}

/// Refused to a tool, whatever the arguments.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_unshare,
];
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[libc::c_long] = &[libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[libc::c_long] = &[];

/// Calls that make memory executable when their third argument says so.
const PROTECTIONS: &[libc::c_long] = &[libc::SYS_mmap, libc::SYS_mprotect, libc::SYS_pkey_mprotect];

/// Puts the walls around this process, for good, that a tool needs beyond those of every jail.
pub(crate) fn confine() -> Result<(), Failure> {
    let program = program().map_err(|error| Failure {
        part: Part::Seccomp,
        doing: format!("compiling the system call filter of a tool ({error})"),
        errno: None,
    })?;
    filter::apply(&[program])
}

fn program() -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().chain(REFUSED_HERE).map(|number| (*number, vec![])).collect();
    let execute = u64::from(libc::PROT_EXEC.unsigned_abs());
    for number in PROTECTIONS {
        rules.insert(*number, vec![masked(2, execute, execute)?]);
    }
    // Threads are all that may be started.
    let thread = u64::from(libc::CLONE_THREAD.unsigned_abs());
    rules.insert(libc::SYS_clone, vec![masked(0, thread, 0)?]);
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let arch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::Allow, refused, arch)?.try_into()
}

/// Where the `mask` of an argument is `value`.
fn masked(arg: u8, mask: u64, value: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(arg, Dword, SeccompCmpOp::MaskedEq(mask), value)?])
}

/// Becomes the tool: does all of its work, and ends this process. Returns only the reason why not.
pub(crate) fn become_tool(plan: &Plan) -> Result<Infallible, Failure> {
    let Some(tool) = TOOL.get() else {
        let doing = "the launcher's binary brings no tool along".into();
        return Err(Failure { part: Part::Program, doing, errno: None });
    };
    // As an execution would; this is also what says that the tool runs.
    sys::close_inherited().map_err(Part::Launch.failed("closing what is not the tool's"))?;
    let code = catch_unwind(AssertUnwindSafe(|| tool(&plan.argv))).unwrap_or(PANICKED);
    // Nothing else does it for a process that ends at once.
    let _ = std::io::stdout().flush();
    sys::exit_now(code)
}
