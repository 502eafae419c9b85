//! What the launcher is asked, and answers: whatever comes over the socket, nothing starts that the plan's own rules
//! refuse, with no other descriptors than it needs, and a mount is nested only where the same place is shown.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Component, Path};
use std::sync::LazyLock;

use sandbox::parsers::{self, Asked};
use sandbox::{Access, Mount, Plan};

static NULL: LazyLock<File> = LazyLock::new(|| File::open("/dev/null").expect("/dev/null"));

/// The first byte says how many descriptors come along, up to seven, and whether the rest is a frame as it is
/// (from 8 on) or the body of one.
pub fn check(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let fds = vec![NULL.as_fd(); usize::from(first % 8)];
    let length = u32::try_from(rest.len()).expect("short").to_le_bytes();
    let frame = if first & 8 == 0 { [&length[..], rest].concat() } else { rest.to_vec() };
    match parsers::asked(&sent(&frame, &fds)) {
        Ok(Asked::Start(plan, handed)) => {
            assert!(handed <= fds.len().min(3), "{handed} descriptors of {}", fds.len());
            starts(&plan);
        }
        Ok(Asked::Refused(failure)) => {
            let said = failure.to_string();
            assert!(!said.is_empty() && !said.contains(char::is_control), "{said:?}");
        }
        Ok(Asked::Network | Asked::Prepare) | Err(_) => {}
    }
    if let Ok(Some(failure)) = parsers::answered(&sent(&frame, &fds)) {
        assert!(!failure.contains(char::is_control), "{failure:?}");
    }
}

fn sent(frame: &[u8], fds: &[std::os::fd::BorrowedFd<'_>]) -> UnixStream {
    let (here, there) = UnixStream::pair().expect("a socket");
    // Descriptors travel with bytes, and there may be none.
    if !frame.is_empty() {
        parsers::put(&here, frame, fds).expect("room for a frame");
    }
    there
}

/// What holds for any plan that is started.
fn starts(plan: &Plan) {
    assert!(plan.argv.first().is_some_and(|program| !program.is_empty()));
    assert!(plan.argv.iter().all(|argument| !argument.as_encoded_bytes().contains(&0)));
    assert!(is_straight(&plan.cwd), "{:?}", plan.cwd);
    for mount in &plan.mounts {
        let Mount { source, target, .. } = mount;
        assert!(is_straight(target) && target.parent().is_some(), "{target:?}");
        assert!(!target.starts_with("/proc") && !target.starts_with("/dev"), "{target:?}");
        assert!(!source.as_os_str().as_encoded_bytes().contains(&0), "{source:?}");
    }
    for (at, mount) in plan.mounts.iter().enumerate() {
        let (before, _) = plan.mounts.split_at(at);
        if parsers::is_inside(before, mount) {
            let shows = |outer: &&Mount| {
                let is_shown = !matches!(outer.access, Access::Private | Access::Link | Access::Cover);
                let rest = mount.target.strip_prefix(&outer.target).ok();
                is_shown
                    && outer.target != mount.target
                    && rest.is_some_and(|rest| outer.source.join(rest) == mount.source)
            };
            assert!(before.iter().any(|outer| shows(&outer)), "{mount:?} in {before:?}");
        }
    }
    if let Ok(frame) = parsers::order(plan) {
        match parsers::asked(&sent(&frame, &[])) {
            Ok(Asked::Start(again, 0)) => assert_eq!(*again, *plan),
            other => panic!("a plan that was read is another when it is sent: {other:?}"),
        }
    }
}

fn is_straight(path: &Path) -> bool {
    let is_plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    path.is_absolute() && is_plain && !path.as_os_str().as_encoded_bytes().contains(&0)
}
