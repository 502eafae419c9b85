//! No way out: not by TCP, not by local sockets of any kind.

use std::{net::TcpListener, os::linux::net::SocketAddrExt, os::unix::net};

use crate::{
    jail::{Ground, run},
    probe,
};

#[test]
fn a_listener_on_the_hosts_loopback_is_not_reached() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    assert!(probe::outside("tcp", &[&address]).status.success());
    let ground = Ground::new();
    let refused = run(&ground.probe("tcp", &[&address])).bad();
    assert!(refused.out.contains("refused 111"), "{refused:?}");
}

#[test]
fn other_machines_are_not_reached() {
    let ground = Ground::new();
    let refused = run(&ground.probe("tcp", &["192.0.2.1:80"])).bad();
    assert!(refused.out.contains("refused 101"), "{refused:?}");
}

#[test]
fn the_jails_own_loopback_works() {
    let ground = Ground::new();
    assert!(run(&ground.probe("loopback", &[])).good().contains("reached"));
}

#[test]
fn an_abstract_socket_of_the_host_is_not_reached() {
    let name = format!("regie-test-{}", std::process::id());
    let address = net::SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = net::UnixListener::bind_addr(&address).unwrap();
    assert!(probe::outside("abstract", &[&name]).status.success());
    let ground = Ground::new();
    run(&ground.probe("abstract", &[&name])).bad();
}

#[test]
fn a_socket_file_outside_is_not_reached() {
    let ground = Ground::new();
    let path = ground.outside().join("socket");
    let _listener = net::UnixListener::bind(&path).unwrap();
    let path = path.to_str().unwrap();
    assert!(probe::outside("unix", &[path]).status.success());
    run(&ground.probe("unix", &[path])).bad();
}

#[test]
fn unusual_sockets_are_refused() {
    let ground = Ground::new();
    for name in ["socket_packet", "socket_vsock", "socket_audit", "socket_sctp"] {
        let refused = run(&ground.probe("syscall", &[name])).bad();
        assert!(refused.out.contains("refused 1 "), "{name}: {refused:?}");
    }
    run(&ground.probe("syscall", &["socket_route"])).good();
}
