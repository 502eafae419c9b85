//! One daemon for a home, whoever starts it and however many at once.

use std::process::{Command, Stdio};

use crate::world::{MEND, Said, World, alive, finish, until};

#[test]
fn a_second_daemon_names_the_first() {
    let world = World::new(MEND);
    assert_eq!(world.ask(&["runs", "--json"]).out, "[]\n");
    let first = world.daemon().unwrap().as_raw_pid();
    let second = world.ask(&["serve"]);
    assert_eq!(second.code, Some(1), "{second:?}");
    let error = second.err.lines().find(|line| line.starts_with("error: ")).unwrap();
    assert!(error.contains(&format!("another daemon (process {first}) serves")), "{second:?}");
    assert!(error.contains(world.home().to_str().unwrap()) && error.contains("--stop"), "{second:?}");
    // The first one is none the worse for it.
    assert_eq!(world.daemon().unwrap().as_raw_pid(), first);
    super::mended(&world);
}

#[test]
fn clients_that_start_at_once_start_one_daemon() {
    let world = World::new(MEND);
    let clients: Vec<_> = (0..6)
        .map(|_| {
            let mut client: Command = world.regie(&["runs", "--json"]);
            client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for client in clients {
        let said = Said::of(client.wait_with_output().unwrap());
        assert_eq!((said.code, said.out.as_str()), (Some(0), "[]\n"), "{said:?}");
    }
    let home = world.home();
    // Those that lost the race for the lock end by themselves, and one stays.
    let serving =
        || alive(home.to_str().unwrap()).into_iter().filter(|line| line.contains(" serve ")).count();
    until("one daemon is left", || serving() == 1);
    let pid = world.daemon().unwrap();
    super::mended(&world);
    assert_eq!((serving(), world.daemon()), (1, Some(pid)));
}

#[test]
fn a_daemon_that_was_killed_leaves_no_lock() {
    let world = World::new(MEND);
    assert_eq!(world.ask(&["runs", "--json"]).out, "[]\n");
    let first = world.daemon().unwrap();
    rustix::process::kill_process(first, rustix::process::Signal::KILL).unwrap();
    let mut again = world.regie(&["runs", "--json"]);
    again.env("LC_ALL", "C");
    assert_eq!(finish(again).out, "[]\n");
    assert_ne!(world.daemon().unwrap(), first);
}
