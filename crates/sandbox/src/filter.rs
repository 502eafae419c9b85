//! The system call filters: what no jailed program needs and many escapes do.
//!
//! Two programs. One goes by the number alone: it refuses (`EPERM`), makes `clone3` and `openat2` unknown
//! (`ENOSYS`, as a filter cannot look into their arguments and libraries then fall back to `clone` and
//! `openat`), and on x86-64 closes the second, differently numbered system call table (x32). The other one
//! refuses by arguments. System calls of another architecture kill the process.
//!
//! The kernel compiles both for each jail, so the first one is put together here, with one instruction a call
//! instead of five.

use std::{collections::BTreeMap, sync::OnceLock};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, sock_filter,
};

use crate::{Failure, Part, lacks::Lack};

/// Refused whatever the arguments.
const REFUSED: &[libc::c_long] = &[
    // Mounts and roots.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fsconfig,
    libc::SYS_fspick,
    SYS_MOUNT_SETATTR,
    SYS_OPEN_TREE_ATTR,
    libc::SYS_setns,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    // Wide doors into the kernel.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie,
    libc::SYS_vmsplice,
    // The machine itself.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    SYS_QUOTACTL_FD,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_nfsservctl,
];

/// Said to be unknown, as what they ask for cannot be seen.
const UNKNOWN: &[libc::c_long] = &[libc::SYS_clone3, libc::SYS_openat2];

/// A program that runs with its owner's rights whoever starts it: what is owned by the agent in the jail is
/// owned by Regie's user on the host.
const SET_ID: &[u32] = &[libc::S_ISUID, libc::S_ISGID];

/// Where modes are given: the call, and the place of the mode among its arguments.
const MODES: &[(libc::c_long, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (SYS_FCHMODAT2, 2),
    (libc::SYS_mkdirat, 2),
    (libc::SYS_mknodat, 2),
];
#[cfg(target_arch = "x86_64")]
const MODES_HERE: &[(libc::c_long, u8)] =
    &[(libc::SYS_chmod, 1), (libc::SYS_creat, 1), (libc::SYS_mkdir, 1), (libc::SYS_mknod, 1)];
#[cfg(not(target_arch = "x86_64"))]
const MODES_HERE: &[(libc::c_long, u8)] = &[];

/// Where files are made: the call, and the places of its flags and its mode.
const OPENS: &[(libc::c_long, u8, u8)] = &[(libc::SYS_openat, 2, 3)];
#[cfg(target_arch = "x86_64")]
const OPENS_HERE: &[(libc::c_long, u8, u8)] = &[(libc::SYS_open, 1, 2)];
#[cfg(not(target_arch = "x86_64"))]
const OPENS_HERE: &[(libc::c_long, u8, u8)] = &[];

// Numbers that are the same on every architecture.
const SYS_MOUNT_SETATTR: libc::c_long = 442;
const SYS_QUOTACTL_FD: libc::c_long = 443;
const SYS_FCHMODAT2: libc::c_long = 452;
const SYS_OPEN_TREE_ATTR: libc::c_long = 467;

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[libc::c_long] =
    &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt, libc::SYS_uselib, libc::SYS__sysctl];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[libc::c_long] = &[];

const NEW_NAMESPACES: &[libc::c_int] = &[
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];
/// Valid for `unshare` only: in `clone` the same bits are the exit signal.
const CLONE_NEWTIME: libc::c_int = 0x80;

/// Personalities that weaken nothing: as it is, 32 bits' address space, the kernel's version as 2.6, and the
/// question for the present one. What is refused turns off the protection of a process's memory, which a
/// program run by this one would keep.
const PERSONALITIES: &[u64] = &[0x0, 0x8, 0x20000, 0x20008, 0xffff_ffff];

/// Terminal requests that type into, or rule, a terminal held by somebody else.
const TERMINAL_REQUESTS: &[u64] = &[0x5412 /* TIOCSTI */, 0x541c /* TIOCLINUX */];

/// The compiled filters, in the order in which they are applied; compiled once in a process and those that
/// are forked from it.
pub(crate) fn programs() -> Result<Vec<BpfProgram>, Failure> {
    static COMPILED: OnceLock<Vec<BpfProgram>> = OnceLock::new();
    if let Some(programs) = COMPILED.get() {
        return Ok(programs.clone());
    }
    let programs = compile()?;
    Ok(COMPILED.get_or_init(|| programs).clone())
}

fn compile() -> Result<Vec<BpfProgram>, Failure> {
    let compiled = |rules, errno: i32| -> Result<BpfProgram, seccompiler::BackendError> {
        let action = SeccompAction::Errno(errno.unsigned_abs());
        let arch = std::env::consts::ARCH.try_into()?;
        SeccompFilter::new(rules, SeccompAction::Allow, action, arch)?.try_into()
    };
    let all = || -> Result<Vec<BpfProgram>, seccompiler::BackendError> {
        Ok(vec![by_number(), compiled(refusals()?, libc::EPERM)?])
    };
    all().map_err(|error| Failure {
        part: Part::Seccomp,
        doing: format!("compiling the system call filters ({error})"),
        errno: None,
    })
}

/// Applies compiled filters to this process, for good.
pub(crate) fn apply(programs: &[BpfProgram]) -> Result<(), Failure> {
    Lack::Seccomp.refuse().map_err(Part::Seccomp.failed("applying the system call filters"))?;
    for program in programs {
        seccompiler::apply_filter(program).map_err(|error| Failure {
            part: Part::Seccomp,
            doing: "applying the system call filters".into(),
            errno: match error {
                seccompiler::Error::Prctl(source) | seccompiler::Error::Seccomp(source) => {
                    source.raw_os_error()
                }
                _ => None,
            },
        })?;
    }
    Ok(())
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn refusals() -> Result<Rules, seccompiler::BackendError> {
    let mut rules = Rules::new();
    let namespaces = || NEW_NAMESPACES.iter().map(|flag| flag.unsigned_abs());
    let flagged = |flag: u32| {
        let flag = u64::from(flag);
        SeccompRule::new(vec![condition(0, SeccompCmpOp::MaskedEq(flag), flag)?])
    };
    rules.insert(libc::SYS_clone, namespaces().map(flagged).collect::<Result<_, _>>()?);
    let unshared = namespaces().chain([CLONE_NEWTIME.unsigned_abs()]);
    rules.insert(libc::SYS_unshare, unshared.map(flagged).collect::<Result<_, _>>()?);
    let requests = TERMINAL_REQUESTS
        .iter()
        .map(|request| SeccompRule::new(vec![condition(1, SeccompCmpOp::Eq, *request)?]));
    rules.insert(libc::SYS_ioctl, requests.collect::<Result<_, _>>()?);
    rules.insert(libc::SYS_socket, sockets()?);
    rules.extend(set_id()?);
    let other = PERSONALITIES.iter().map(|known| condition(0, SeccompCmpOp::Ne, *known));
    rules.insert(libc::SYS_personality, vec![SeccompRule::new(other.collect::<Result<_, _>>()?)?]);
    Ok(rules)
}

/// Files and directories that pass on their owner's rights.
fn set_id() -> Result<Rules, seccompiler::BackendError> {
    let masked = |arg, bits: u32| condition(arg, SeccompCmpOp::MaskedEq(bits.into()), bits.into());
    let mut rules = Rules::new();
    for (number, mode) in MODES.iter().chain(MODES_HERE) {
        let each = SET_ID.iter().map(|bit| SeccompRule::new(vec![masked(*mode, *bit)?]));
        rules.insert(*number, each.collect::<Result<_, _>>()?);
    }
    // Without one of these flags the mode is whatever was there, and means nothing.
    let making = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY].map(libc::c_int::unsigned_abs);
    for (number, flags, mode) in OPENS.iter().chain(OPENS_HERE) {
        let each = making.iter().flat_map(|flag| SET_ID.iter().map(move |bit| (*flag, *bit)));
        let each = each.map(|(flag, bit)| SeccompRule::new(vec![masked(*flags, flag)?, masked(*mode, bit)?]));
        rules.insert(*number, each.collect::<Result<_, _>>()?);
    }
    Ok(rules)
}

/// Sockets other than local ones, TCP, UDP, ping and reading one's own interfaces.
fn sockets() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let not_in = |arg, allowed: &[libc::c_int]| {
        allowed
            .iter()
            .map(|value| condition(arg, SeccompCmpOp::Ne, value.unsigned_abs().into()))
            .collect::<Result<Vec<_>, _>>()
    };
    let family = |family: libc::c_int| condition(0, SeccompCmpOp::Eq, family.unsigned_abs().into());
    let protocols = [
        0,
        libc::IPPROTO_TCP,
        libc::IPPROTO_UDP,
        libc::IPPROTO_ICMP,
        libc::IPPROTO_ICMPV6,
        libc::IPPROTO_MPTCP,
    ];
    let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let mut rules = vec![SeccompRule::new(not_in(0, &families)?)?];
    for inet in [libc::AF_INET, libc::AF_INET6] {
        let mut conditions = vec![family(inet)?];
        conditions.extend(not_in(2, &protocols)?);
        rules.push(SeccompRule::new(conditions)?);
    }
    let mut netlink = vec![family(libc::AF_NETLINK)?];
    netlink.extend(not_in(2, &[libc::NETLINK_ROUTE])?);
    rules.push(SeccompRule::new(netlink)?);
    Ok(rules)
}

fn condition(
    arg: u8,
    operation: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(arg, Dword, operation, value)
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;
#[cfg(target_arch = "riscv64")]
const ARCHITECTURE: u32 = 0xc000_00f3;

/// x32 shares the architecture number of x86-64 and differs in this bit of each call's number, so that a
/// filter by number alone would let all of it pass. Elsewhere no call has it.
const X32_BIT: u32 = 0x4000_0000;

/// What is decided by the number of the call.
fn by_number() -> BpfProgram {
    let op = |code: u32, jt, jf, k| sock_filter { code: code as u16, jt, jf, k };
    // Where a call's data has its number and its architecture.
    let load = |at| op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at);
    let answer = |action| op(libc::BPF_RET | libc::BPF_K, 0, 0, action);
    let errno = |errno: libc::c_int| answer(libc::SECCOMP_RET_ERRNO | errno.unsigned_abs());
    let mut program = vec![
        load(4),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, 0, ARCHITECTURE),
        answer(libc::SECCOMP_RET_KILL_PROCESS),
        load(0),
        op(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, 1, X32_BIT),
        errno(libc::ENOSYS),
    ];
    let refused: Vec<libc::c_long> = REFUSED.iter().chain(REFUSED_HERE).copied().collect();
    for (numbers, error) in [(&refused[..], libc::EPERM), (UNKNOWN, libc::ENOSYS)] {
        for part in numbers.chunks(MOST_JUMP) {
            // To the answer, over what is left of the part and the jump past the answer.
            for (number, over) in part.iter().zip((1..=part.len()).rev()) {
                let number = u32::try_from(*number).unwrap_or(u32::MAX);
                let over = u8::try_from(over).unwrap_or(u8::MAX);
                program.push(op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, over, 0, number));
            }
            program.push(op(libc::BPF_JMP | libc::BPF_JA, 0, 0, 1));
            program.push(errno(error));
        }
    }
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    program
}

/// A conditional jump is told in one byte how far it goes.
const MOST_JUMP: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    /// What a program without arithmetic answers to a call.
    fn run(program: &BpfProgram, number: u32, architecture: u32) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let jump = |is_so: bool| usize::from(if is_so { jt } else { jf });
            match u32::from(code) {
                0x20 => value = if k == 0 { number } else { architecture },
                0x15 => at += jump(value == k),
                0x45 => at += jump(value & k != 0),
                0x05 => at += k as usize,
                0x06 => return k,
                other => panic!("no such instruction: {other:x}"),
            }
        }
    }

    #[test]
    fn each_number_is_answered_as_the_lists_say() {
        let program = by_number();
        for number in (0..2048).chain([X32_BIT, X32_BIT | 59, u32::MAX]) {
            let is_in = |list: &[libc::c_long]| list.contains(&libc::c_long::from(number));
            let wanted = if number & X32_BIT != 0 || is_in(UNKNOWN) {
                libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs()
            } else if is_in(REFUSED) || is_in(REFUSED_HERE) {
                libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs()
            } else {
                libc::SECCOMP_RET_ALLOW
            };
            assert_eq!(run(&program, number, ARCHITECTURE), wanted, "{number}");
            assert_eq!(run(&program, number, 0x4000_0003), libc::SECCOMP_RET_KILL_PROCESS, "{number}");
        }
    }
}
