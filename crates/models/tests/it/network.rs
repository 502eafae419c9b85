//! What lies between: TLS that cannot be trusted, and proxies.

use std::io::Write as _;
use std::net::SocketAddr;

use models::call::{ByProxy, Error};
use models::network::{self, CERT_DIR_ENV, CERT_FILE_ENV};
use models::{Adapter, Config, Network, Response, Wire, config, tls};
use testkit::network::{Authority, Certificate, Front, Mode, Proxy};
use testkit::script::{self, Options, Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::canned::{self, Canned};
use crate::{ask, request_on, say};

async fn server() -> Server {
    Server::start(script::parse("[[turn]]\ntext = 'ok'").unwrap(), Options::default()).await.unwrap()
}

fn address(base_url: &str) -> SocketAddr {
    base_url.trim_start_matches("http://").parse().unwrap()
}

fn network(pairs: &[(&str, &str)]) -> Network {
    Network::from_lookup(|name| {
        pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    })
}

fn on(wire: Wire, base_url: &str, network: Network) -> Result<Adapter, config::Error> {
    Adapter::new(Config { wire, network, max_attempts: 2, ..crate::config(base_url) })
}

async fn call(wire: Wire, base_url: &str, network: Network) -> Result<Response, Error> {
    ask(&on(wire, base_url, network).unwrap(), &request_on(wire, vec![say("Go.")])).await.0
}

/// A file with an authority's certificate, or whatever else.
fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

/// The fault, and what is said of it.
#[track_caller]
fn fault(result: Result<Response, Error>) -> (tls::Fault, String) {
    let error = result.unwrap_err();
    let said = error.to_string();
    assert_eq!(said.lines().count(), 1, "{said}");
    match error {
        Error::Tls { fault, .. } => (fault, said),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_authority_of_ones_own_is_believed_when_it_is_named_and_http2_is_spoken() {
    let (authority, server) = (Authority::new().unwrap(), server().await);
    let pem = file(&format!("# ours\n{}\n-----BEGIN NONSENSE-----\n", authority.pem()));
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(pem.path(), dir.path().join("ours.pem")).unwrap();
    let dirs = format!("/nowhere:{}", dir.path().display());
    for (name, value) in [(CERT_FILE_ENV, pem.path().to_str().unwrap()), (CERT_DIR_ENV, dirs.as_str())] {
        for host in ["localhost", "127.0.0.1"] {
            let certificate = Certificate::Of(host);
            let front = Front::start(&authority, certificate, address(server.base_url())).await.unwrap();
            let url = format!("https://{host}:{}", front.address().port());
            for wire in Wire::ALL {
                let answer = call(wire, &url, network(&[(name, value)])).await.unwrap();
                assert_eq!(answer.text(), "ok", "{wire:?} {name}");
            }
            assert_eq!(front.protocols(), ["h2", "h2", "h2"], "{name}");
        }
    }
}

#[tokio::test]
async fn a_server_that_signed_its_own_certificate_is_believed_when_that_is_named() {
    let (alone, server) = (Authority::alone("localhost").unwrap(), server().await);
    let (pem, other) = (file(alone.pem()), file(Authority::alone("localhost").unwrap().pem()));
    let front = Front::start(&alone, Certificate::Own, address(server.base_url())).await.unwrap();
    let url = format!("https://localhost:{}", front.address().port());
    let named = |file: &tempfile::NamedTempFile| network(&[(CERT_FILE_ENV, file.path().to_str().unwrap())]);
    assert_eq!(call(Wire::Chat, &url, named(&pem)).await.unwrap().text(), "ok");
    let (found, said) = fault(call(Wire::Chat, &url, named(&other)).await);
    assert_eq!(found, tls::Fault::UnknownIssuer, "{said}");
}

#[tokio::test]
async fn a_certificate_that_cannot_be_trusted_says_why_and_is_not_asked_again() {
    let (authority, server) = (Authority::new().unwrap(), server().await);
    let (ours, other) = (file(authority.pem()), file(Authority::new().unwrap().pem()));
    let behind = address(server.base_url());
    for (certificate, believed, want, words) in [
        (Certificate::Of("localhost"), &other, tls::Fault::UnknownIssuer, "set SSL_CERT_FILE"),
        (Certificate::Own, &ours, tls::Fault::Authority, "set SSL_CERT_FILE"),
        (Certificate::Expired("localhost"), &ours, tls::Fault::Expired, "check this machine's clock"),
        (Certificate::Early("localhost"), &ours, tls::Fault::NotYetValid, "check this machine's clock"),
        (Certificate::Of("elsewhere"), &ours, tls::Fault::WrongName, "check the host in ANTHROPIC_BASE_URL"),
    ] {
        let front = Front::start(&authority, certificate, behind).await.unwrap();
        let url = format!("https://localhost:{}", front.address().port());
        let believed = network(&[(CERT_FILE_ENV, believed.path().to_str().unwrap())]);
        let adapter = on(Wire::Messages, &url, believed).unwrap();
        let (result, seen) = ask(&adapter, &crate::request(vec![say("Go.")])).await;
        assert!(!result.as_ref().unwrap_err().is_retryable() && seen.is_empty(), "{certificate:?}: {seen:?}");
        let (found, said) = fault(result);
        assert_eq!(found, want, "{certificate:?}: {said}");
        assert!(said.contains(&url) && said.contains(words), "{said}");
        assert!(front.protocols().is_empty(), "no request was sent");
    }
}

#[tokio::test]
async fn a_scheme_that_does_not_fit_its_server_names_the_other() {
    let (authority, server) = (Authority::new().unwrap(), server().await);
    let plain = server.base_url().replace("http://", "https://");
    let (found, said) = fault(call(Wire::Responses, &plain, Network::default()).await);
    assert_eq!(found, tls::Fault::Plain, "{said}");
    assert!(said.contains("set OPENAI_BASE_URL to an http:// address"), "{said}");

    let front =
        Front::start(&authority, Certificate::Of("localhost"), address(server.base_url())).await.unwrap();
    let url = format!("http://localhost:{}", front.address().port());
    let (found, said) = fault(call(Wire::Responses, &url, Network::default()).await);
    assert_eq!(found, tls::Fault::Encrypted, "{said}");
    assert!(said.contains("set OPENAI_BASE_URL to an https:// address"), "{said}");

    // nginx and Go say it in words.
    for words in
        ["The plain HTTP request was sent to HTTPS port", "Client sent an HTTP request to an HTTPS server."]
    {
        let server = Canned::start(vec![canned::answer("400 Bad Request", "", words)]).await;
        let (found, _) = fault(call(Wire::Responses, &server.base_url, Network::default()).await);
        assert_eq!(found, tls::Fault::Encrypted, "{words}");
    }
}

#[tokio::test]
async fn a_handshake_that_is_old_cut_or_wants_our_certificate() {
    // A server that has heard of no version after TLS 1.1, and one that knows them and wants none.
    let mut hello = b"\x16\x03\x02\x00\x2a\x02\x00\x00\x26\x03\x02".to_vec();
    hello.extend([7; 32]);
    hello.extend(b"\x00\xc0\x13\x00");
    let alert = |code: u8| vec![0x15, 3, 1, 0, 2, 2, code];
    for (bytes, want, again) in [
        (hello, tls::Fault::TooOld, false),
        (alert(70), tls::Fault::TooOld, false),
        (alert(40), tls::Fault::TooOld, false),
        (Vec::new(), tls::Fault::Cut, true),
        (b"\x16\x03\x03\x00".to_vec(), tls::Fault::Cut, true),
        (alert(116), tls::Fault::ClientCertificate, false),
        (alert(80), tls::Fault::Other, false),
    ] {
        let url = format!("https://{}", hello_answered(bytes.clone()).await);
        let result = call(Wire::Messages, &url, Network::default()).await;
        assert_eq!(result.as_ref().unwrap_err().is_retryable(), again, "{bytes:x?}: {result:?}");
        let (found, said) = fault(result);
        assert_eq!(found, want, "{bytes:x?}: {said}");
    }
}

/// A server that answers the first words of every connection with these bytes.
async fn hello_answered(bytes: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            // The whole of it is taken, so that the answer is not lost to a reset.
            let mut head = [0; 5];
            connection.read_exact(&mut head).await.unwrap();
            let mut hello = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
            connection.read_exact(&mut hello).await.unwrap();
            connection.write_all(&bytes).await.unwrap();
            connection.shutdown().await.unwrap();
        }
    });
    address
}

#[test]
fn certificates_that_cannot_be_read_are_named() {
    let empty = file("no certificate here");
    let dir = tempfile::tempdir().unwrap();
    for (name, value) in [
        (CERT_FILE_ENV, "/nowhere/ca.pem"),
        (CERT_FILE_ENV, empty.path().to_str().unwrap()),
        (CERT_DIR_ENV, dir.path().to_str().unwrap()),
        (CERT_DIR_ENV, "/nowhere"),
    ] {
        let error = on(Wire::Messages, "https://localhost", network(&[(name, value)])).unwrap_err();
        assert!(
            matches!(error, config::Error::Network(network::Error::Certificates { .. })),
            "{name} {value}: {error:?}"
        );
        let said = error.to_string();
        assert!(said.contains(name) && said.contains(value) && said.contains("PEM"), "{said}");
        assert!(
            on(Wire::Chat, "http://localhost", network(&[(name, value)])).is_ok(),
            "none is needed there"
        );
    }
}

#[tokio::test]
async fn what_cannot_be_reached_says_how_that_shows() {
    let gone = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    for (wire, words) in [
        (Wire::Chat, "nothing listens there; start the server, or check REGIE_LOCAL_BASE_URL"),
        (Wire::Responses, "nothing listens there; check OPENAI_BASE_URL, the network and the proxy settings"),
    ] {
        let error = call(wire, &gone, Network::default()).await.unwrap_err();
        assert!(matches!(error, Error::Connect { .. }) && error.is_retryable(), "{error:?}");
        assert!(error.to_string().contains(words) && error.to_string().contains(&gone), "{error}");
    }
    let error = call(Wire::Chat, "http://no-such-host.invalid", Network::default()).await.unwrap_err();
    assert!(error.to_string().contains("no address is known for its name"), "{error} {error:?}");
}

const KEY: &str = "Basic dXNlcjpwQHNz";

#[tokio::test]
async fn calls_pass_through_the_proxy_of_their_scheme() {
    let (authority, server) = (Authority::new().unwrap(), server().await);
    let ours = file(authority.pem());
    let ours = (CERT_FILE_ENV, ours.path().to_str().unwrap());
    let front =
        Front::start(&authority, Certificate::Of("model.test"), address(server.base_url())).await.unwrap();
    let proxy = Proxy::start(Mode::Open, address(server.base_url())).await.unwrap();
    let tunnel = Proxy::start(Mode::Keyed(KEY.to_owned()), front.address()).await.unwrap();
    let plain = proxy.address().to_string();
    let keyed = format!("http://user:p%40ss@{}", tunnel.address());
    let both = [("HTTP_PROXY", plain.as_str()), ("HTTPS_PROXY", keyed.as_str()), ours];
    for wire in Wire::ALL {
        for url in ["http://model.test", "https://model.test/v1"] {
            assert_eq!(call(wire, url, network(&both)).await.unwrap().text(), "ok", "{wire:?} {url}");
        }
    }
    let all = [("all_proxy", keyed.as_str()), ours];
    assert_eq!(call(Wire::Chat, "https://model.test", network(&all)).await.unwrap().text(), "ok");
    assert!(
        proxy.heads().iter().all(|head| head.starts_with("POST http://model.test/v1/")),
        "{:?}",
        proxy.heads()
    );
    assert_eq!(tunnel.heads().len(), 4);
    let sent = tunnel.heads().join("");
    assert!(sent.starts_with("CONNECT model.test:443 ") && !sent.contains(crate::KEY), "{sent}");
    assert!(front.protocols().iter().all(|protocol| protocol == "h2"));
}

#[tokio::test]
async fn loopback_and_what_no_proxy_names_pass_by() {
    let server = server().await;
    let proxy = Proxy::start(Mode::Open, address(server.base_url())).await.unwrap();
    let named = format!("http://{}", proxy.address());
    let port = address(server.base_url()).port();
    for host in ["127.0.0.1", "localhost"] {
        let url = format!("http://{host}:{port}");
        assert!(call(Wire::Chat, &url, network(&[("HTTP_PROXY", &named)])).await.is_ok(), "{url}");
    }
    // One that is passed by need not make sense.
    for (proxy, no) in [(named.as_str(), "*"), ("http://", "model.test"), (&named, "other.test, .model.test")]
    {
        let network = network(&[("HTTP_PROXY", proxy), ("NO_PROXY", no)]);
        let adapter = on(Wire::Chat, "http://api.model.test", network.clone());
        let adapter = adapter.or_else(|_| on(Wire::Chat, "http://model.test", network));
        assert!(!format!("{:?}", adapter.unwrap()).contains("proxy: Some"), "{proxy} {no}");
    }
    assert!(proxy.heads().is_empty());
}

#[tokio::test]
async fn a_proxy_that_lets_nothing_through_is_named_without_its_password() {
    let server = server().await;
    let behind = address(server.base_url());
    let page = "<!DOCTYPE html><html><head><title>Blocked by policy</title></head><body>…</body></html>";
    let refuse = |status: &str| Mode::Refuse(status.to_owned(), page.to_owned());
    let gone = {
        let proxy = Proxy::start(Mode::Open, behind).await.unwrap();
        proxy.address()
    };
    let keyed = Proxy::start(Mode::Keyed(KEY.to_owned()), behind).await.unwrap();
    let forbids = Proxy::start(refuse("403 Forbidden"), behind).await.unwrap();
    let fails = Proxy::start(refuse("502 Bad Gateway"), behind).await.unwrap();
    for (address, what) in [
        (gone, ByProxy::Unreachable),
        (keyed.address(), ByProxy::WantsPassword),
        (forbids.address(), ByProxy::Refuses),
        (fails.address(), ByProxy::Refuses),
    ] {
        for url in ["https://model.test", "http://model.test"] {
            let named = format!("http://user:hunter2@{address}");
            let both = network(&[("HTTPS_PROXY", &named), ("HTTP_PROXY", &named)]);
            let error = call(Wire::Messages, url, both).await.unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(shown.contains(&format!("http://{address}")) && shown.contains(url), "{shown}");
            assert!(!shown.contains("hunter2"), "{shown}");
            match error {
                Error::Proxy { what: found, .. } => assert_eq!(found, what, "{shown}"),
                // Without a tunnel the proxy answers in the vendor's place.
                Error::Page(answer) if address == forbids.address() => {
                    assert_eq!((answer.status, answer.message.as_str()), (403, "Blocked by policy"));
                }
                Error::Status(answer) if address == fails.address() => {
                    assert_eq!((answer.status, answer.message.as_str()), (502, "Blocked by policy"));
                }
                other => panic!("{url} {what:?}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_proxy_that_makes_no_sense_is_refused_without_being_shown() {
    for (wrong, why) in [
        ("http://", "no URL"),
        ("http://us er:hunter2@x", "no URL"),
        ("http://user:hunter2@:port", "no URL"),
        ("socks5://user:hunter2@127.0.0.1:1080", "SOCKS"),
        ("ftp://user:hunter2@127.0.0.1", "neither http nor https"),
    ] {
        let error =
            on(Wire::Responses, "https://model.test", network(&[("HTTPS_PROXY", wrong)])).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(shown.contains("HTTPS_PROXY") && !shown.contains("hunter2"), "{wrong}: {shown}");
        assert!(error.to_string().contains(why), "{wrong}: {error}");
    }
    let set = network(&[("HTTPS_PROXY", "http://user:hunter2@x")]);
    assert!(!format!("{set:?}").contains("hunter2"));
}
