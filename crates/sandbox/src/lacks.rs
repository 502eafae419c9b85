//! What a test takes away from the machine: a part of the jail that the kernel then seems to refuse.
//!
//! It only ever makes a jail fail, or weaker where its posture allows that and it says so. A release build has
//! none of it.

#[cfg(target_os = "linux")]
use rustix::io::Errno;

/// Names what is taken away, separated by commas: `user-namespaces`, `landlock`, `landlock-abi=N`, `seccomp`,
/// `mounts`, `proc`, `pidfd`, `overlay`.
#[cfg(any(debug_assertions, feature = "testkit"))]
const ENV: &str = "REGIE_JAIL_LACKS";

/// The variables by which a process that starts jails says to another one what is taken away.
#[cfg(any(debug_assertions, feature = "testkit"))]
pub fn switches() -> impl Iterator<Item = (&'static str, String)> {
    std::env::var(ENV).into_iter().map(|value| (ENV, value))
}

/// The variables by which a process that starts jails says to another one what is taken away: none.
#[cfg(not(any(debug_assertions, feature = "testkit")))]
pub fn switches() -> impl Iterator<Item = (&'static str, String)> {
    std::iter::empty()
}

/// A part that can be taken away.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// New user namespaces, as on systems that restrict them.
    UserNamespaces,
    /// System call filters.
    Seccomp,
    /// Changes of mounts, as in many containers.
    Mounts,
    /// A `/proc` of one's own, as in containers that cover parts of theirs.
    Proc,
    /// Process descriptors.
    Pidfd,
    /// Overlay mounts in user namespaces.
    Overlay,
}

#[cfg(target_os = "linux")]
impl Lack {
    /// The kernel's refusal, where this is taken away.
    pub(crate) fn refuse(self) -> Result<(), Errno> {
        let (name, error) = match self {
            Self::UserNamespaces => ("user-namespaces", Errno::PERM),
            Self::Seccomp => ("seccomp", Errno::INVAL),
            Self::Mounts => ("mounts", Errno::PERM),
            Self::Proc => ("proc", Errno::PERM),
            Self::Pidfd => ("pidfd", Errno::NOSYS),
            Self::Overlay => ("overlay", Errno::NODEV),
        };
        if taken().any(|taken| taken == name) { Err(error) } else { Ok(()) }
    }
}

/// What is left of the Landlock ABI that the kernel offers.
#[cfg(target_os = "linux")]
pub(crate) fn landlock(found: i32) -> i32 {
    taken().fold(found, |left, taken| match taken.strip_prefix("landlock") {
        Some("") => 0,
        Some(rest) => {
            rest.strip_prefix("-abi=").and_then(|abi| abi.parse().ok()).map_or(left, |abi| left.min(abi))
        }
        None => left,
    })
}

#[cfg(target_os = "linux")]
fn taken() -> impl Iterator<Item = String> {
    switches().flat_map(|(_, value)| value.split(',').map(str::to_owned).collect::<Vec<_>>())
}
