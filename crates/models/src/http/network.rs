//! What the network said when no answer came, as one of our errors.

use std::error::Error as StdError;
use std::io;

use crate::call::{self, Endpoint, Unreached};
use crate::tls::Fault;

/// Classifies a failure below HTTP. The address in it is left out: it is in `at`.
pub(super) fn classify(at: &Endpoint, error: reqwest::Error) -> call::Error {
    let error = error.without_url();
    let at = at.clone();
    if let (Some(proxy), Some(what)) = (&at.proxy, of_proxy(&at, &error)) {
        let proxy = proxy.clone();
        return call::Error::Proxy { at, proxy, what, source: Some(Box::new(error)) };
    }
    match of_tls(&at, &error) {
        Some(fault) => call::Error::Tls { at, fault, source: Some(Box::new(error)) },
        None if error.is_connect() => {
            call::Error::Connect { at, how: unreached(&error), source: Box::new(error) }
        }
        None => call::Error::Cut { at, source: Some(Box::new(error)) },
    }
}

/// What the network says of an address that nothing came back from.
fn unreached(error: &reqwest::Error) -> Unreached {
    use io::ErrorKind;
    if error.is_dns() {
        return Unreached::NoAddress;
    }
    let known = |kind| match kind {
        ErrorKind::ConnectionRefused => Some(Unreached::Refused),
        ErrorKind::TimedOut => Some(Unreached::Silent),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => Some(Unreached::NoWay),
        _ => None,
    };
    let kinds = causes(error).filter_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    kinds.into_iter().find_map(known).unwrap_or_default()
}

/// What is the proxy's fault.
fn of_proxy(at: &Endpoint, error: &reqwest::Error) -> Option<call::ByProxy> {
    if !error.is_connect() {
        return None;
    }
    let told = |words: &str| causes(error).any(|cause| cause.to_string().contains(words));
    // These errors have no type that can be named here.
    if told("proxy authorization required") {
        return Some(call::ByProxy::WantsPassword);
    }
    if told("failed to create underlying connection") {
        return Some(call::ByProxy::Unreachable);
    }
    if told("tunnel error") {
        return Some(call::ByProxy::Refuses);
    }
    // Without a tunnel the only connection is the one to the proxy.
    at.url.starts_with("http://").then_some(call::ByProxy::Unreachable)
}

/// What is wrong with TLS, if that is what it is.
fn of_tls(at: &Endpoint, error: &reqwest::Error) -> Option<Fault> {
    if !at.url.starts_with("https://") {
        // The first bytes were no status line; the parser's error has no type that can be named here.
        let is_other =
            causes(error).any(|cause| cause.to_string().starts_with("invalid HTTP version parsed"));
        return is_other.then_some(Fault::Encrypted);
    }
    let fault = causes(error).find_map(|cause| cause.downcast_ref::<rustls::Error>()).map(Fault::of);
    if !error.is_connect() {
        // A certificate may be asked for once the connection stands.
        return fault.filter(|fault| *fault == Fault::ClientCertificate);
    }
    fault.or_else(|| {
        let kinds = causes(error).filter_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
        let cut = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
        kinds.into_iter().any(|kind| cut.contains(&kind)).then_some(Fault::Cut)
    })
}

/// The error and all that lies below it. What an I/O error wraps is no source of it, and counts.
fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn StdError + 'static)| {
        let error: &'a (dyn StdError + 'static) = *error;
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        match wrapped {
            Some(inner) => Some(inner as &(dyn StdError + 'static)),
            None => error.source(),
        }
    })
}
