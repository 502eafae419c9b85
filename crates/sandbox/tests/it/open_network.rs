//! The machine's network inside a jail: that, and nothing else, is open.

use std::{net::TcpListener, os::linux::net::SocketAddrExt, os::unix::net};

use sandbox::{Network, Plan, Stdin};

use crate::{
    jail::{Ground, finish, launcher, run},
    probe,
};

fn open(plan: Plan) -> Plan {
    Plan { network: Network::Host, ..plan }
}

#[test]
fn a_listener_on_the_hosts_loopback_is_reached() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let ground = Ground::new();
    run(&ground.probe("tcp", &[&address])).bad();
    assert!(run(&open(ground.probe("tcp", &[&address]))).good().contains("reached"));
}

#[test]
fn an_abstract_socket_of_the_host_is_not_reached() {
    let name = format!("regie-open-{}", std::process::id());
    let address = net::SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = net::UnixListener::bind_addr(&address).unwrap();
    assert!(probe::outside("abstract", &[&name]).status.success());
    let ground = Ground::new();
    let refused = run(&open(ground.probe("abstract", &[&name]))).bad();
    assert!(refused.out.contains("refused 1 "), "held by Landlock: {refused:?}");
}

#[test]
fn a_socket_file_outside_is_not_reached() {
    let ground = Ground::new();
    let path = ground.outside().join("socket");
    let _listener = net::UnixListener::bind(&path).unwrap();
    let path = path.to_str().unwrap();
    assert!(probe::outside("unix", &[path]).status.success());
    run(&open(ground.probe("unix", &[path]))).bad();
}

#[test]
fn names_are_resolved_as_on_the_machine() {
    let ground = Ground::new();
    let shown = run(&open(ground.shell("cat /etc/resolv.conf /etc/hosts"))).good();
    let here = |path| std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(shown, here("/etc/resolv.conf") + &here("/etc/hosts"));
    assert!(run(&open(ground.shell("cat /etc/nsswitch.conf"))).good().contains("hosts: files dns"));
}

#[test]
fn unusual_sockets_and_the_networks_settings_are_refused() {
    let ground = Ground::new();
    for name in ["socket_packet", "socket_vsock", "socket_audit", "socket_sctp"] {
        let refused = run(&open(ground.probe("syscall", &[name]))).bad();
        assert!(refused.out.contains("refused 1 "), "{name}: {refused:?}");
    }
    for name in ["unshare_net", "unshare_user", "mount", "ptrace", "bpf"] {
        run(&open(ground.probe("syscall", &[name]))).bad();
    }
    run(&open(ground.shell("echo 1 > /proc/sys/net/ipv4/ip_forward"))).bad();
}

#[test]
fn files_and_processes_outside_stay_out_of_reach() {
    let ground = Ground::new();
    let secret = ground.outside().join("secret");
    std::fs::write(&secret, "hidden").unwrap();
    let own = std::process::id();
    run(&open(ground.shell(&format!("cat {}", secret.display())))).bad();
    run(&open(ground.shell(&format!("echo x > {}", ground.outside().join("new").display())))).bad();
    run(&open(ground.shell("kill -9 -1; test -e /root || test -e /home/owner"))).bad();
    run(&open(ground.shell(&format!("kill -0 {own}")))).bad();
    let processes = run(&open(ground.shell("ls /proc"))).good();
    assert!(!processes.lines().any(|line| line == own.to_string()) || own < 10, "{processes}");
}

#[test]
fn jails_of_one_network_reach_each_other_and_nothing_else() {
    let outside = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = outside.local_addr().unwrap().to_string();
    let (ground, network) = (Ground::new(), launcher().network().unwrap());
    let mut service = launcher()
        .spawn_in(Some(&network), &ground.probe("serve", &["127.0.0.1:4711"]), Stdin::Null)
        .unwrap();
    let mut line = String::new();
    let mut out = std::io::BufReader::new(service.stdout.take().unwrap());
    while !line.contains("listening") {
        assert_ne!(std::io::BufRead::read_line(&mut out, &mut line).unwrap(), 0, "{line}");
    }
    let within = |plan: &Plan| finish(launcher().spawn_in(Some(&network), plan, Stdin::Null).unwrap());
    assert!(within(&ground.probe("tcp", &["127.0.0.1:4711"])).good().contains("reached"));
    // Neither the machine from in here, nor this from another jail or from the machine.
    within(&ground.probe("tcp", &[&host])).bad();
    run(&ground.probe("tcp", &["127.0.0.1:4711"])).bad();
    assert!(!probe::outside("tcp", &["127.0.0.1:4711"]).status.success());
    // A step ends what it started, and no neighbour; it sees no other's processes and files.
    within(&ground.shell("kill -9 -1"));
    let seen = within(&ground.shell("ls /proc | grep -c '^[0-9]'")).good();
    assert!(seen.trim().parse::<u32>().unwrap() < 6, "{seen}");
    for name in ["unshare_net", "unshare_user", "mount", "bpf"] {
        within(&ground.probe("syscall", &[name])).bad();
    }
    within(&ground.shell("ip link set lo down && echo changed || exit 3")).bad();
    assert!(within(&ground.probe("tcp", &["127.0.0.1:4711"])).good().contains("reached"));
    service.kill().unwrap();
    service.wait().unwrap();
    within(&ground.probe("tcp", &["127.0.0.1:4711"])).bad();
}
