//! How the owner's network wants a vendor to be reached: which proxy, and whose certificates. Read as curl and
//! the vendors' SDKs read it, through a lookup, so that the caller decides whose environment it is.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use reqwest::{Certificate, Url};
use rustls::RootCertStore;

/// The file that holds the certificates of authorities to believe, in place of the system's.
pub const CERT_FILE_ENV: &str = "SSL_CERT_FILE";
/// The same as directories.
pub const CERT_DIR_ENV: &str = "SSL_CERT_DIR";

/// The variables that are read.
pub const VARIABLES: [&str; 10] = [
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    CERT_FILE_ENV,
    CERT_DIR_ENV,
];

/// The values of [`VARIABLES`]; what is blank counts as unset. A proxy's address may hold a password, so
/// this shows names alone.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Network(BTreeMap<&'static str, String>);

/// Why the network cannot be used as it is described.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A proxy's address makes no sense.
    #[error(
        "{name} names no proxy that can be used: {why}; set it to something like http://proxy.example:3128, or unset it"
    )]
    Proxy {
        /// The variable.
        name: &'static str,
        /// What is wrong with it; never the address, which may hold a password.
        why: &'static str,
    },
    /// The authorities' certificates cannot be read.
    #[error("{name} names {}, which {why}; set it to a file of certificates in PEM, or unset it", path.display())]
    Certificates {
        /// The variable.
        name: &'static str,
        /// What it names.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// The proxy of an address.
pub(crate) struct Proxy {
    intercept: Intercept,
    /// Scheme, host and port; no name, no password.
    pub shown: String,
}

impl Network {
    /// Reads the variables through a lookup.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let set =
            |name: &'static str| Some((name, lookup(name)?)).filter(|(_, value)| !value.trim().is_empty());
        Self(VARIABLES.into_iter().filter_map(set).collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim())
    }

    /// The first of these that is set.
    fn first(&self, names: [&'static str; 2]) -> Option<(&'static str, &str)> {
        names.into_iter().find_map(|name| Some((name, self.get(name)?)))
    }

    /// The proxy that an address is reached through.
    pub(crate) fn proxy(&self, url: &Url) -> Result<Option<Proxy>, Error> {
        let own = match url.scheme() {
            "https" => ["HTTPS_PROXY", "https_proxy"],
            _ => ["HTTP_PROXY", "http_proxy"],
        };
        let named = self.first(own).or_else(|| self.first(["ALL_PROXY", "all_proxy"]));
        let Some((name, address)) = named else { return Ok(None) };
        let no = self.first(["NO_PROXY", "no_proxy"]).map_or("", |(_, no)| no);
        let wrong = |why| Error::Proxy { name, why };
        let uri = url.as_str().parse().map_err(|_| wrong("the vendor's address fits no proxy"))?;
        // Whoever needs no proxy need not have one that makes sense.
        let stands_aside = Matcher::builder().all("http://proxy.invalid").no(no.to_owned()).build();
        if stands_aside.intercept(&uri).is_none() {
            return Ok(None);
        }
        check(address).map_err(wrong)?;
        let matcher = Matcher::builder().all(address.to_owned()).build();
        let intercept = matcher.intercept(&uri).ok_or_else(|| wrong("it is no URL"))?;
        let shown = intercept.uri().to_string();
        Ok(Some(Proxy { shown: shown.trim_end_matches('/').to_owned(), intercept }))
    }

    /// The authorities to believe; `None` leaves it to the system.
    pub(crate) fn certificates(&self) -> Result<Option<Vec<Certificate>>, Error> {
        let file = self.get(CERT_FILE_ENV).map(PathBuf::from);
        let dirs = self.get(CERT_DIR_ENV);
        if file.is_none() && dirs.is_none() {
            return Ok(None);
        }
        let mut found = Vec::new();
        if let Some(path) = file {
            let wrong = |why| Error::Certificates { name: CERT_FILE_ENV, path: path.clone(), why };
            if std::fs::File::open(&path).is_err() {
                return Err(wrong("cannot be read"));
            }
            let read = load(Some(&path), None);
            if read.is_empty() {
                return Err(wrong("holds no certificate that can be read"));
            }
            found.extend(read);
        }
        // A directory that is not there is passed over, as OpenSSL does.
        for dir in dirs.into_iter().flat_map(std::env::split_paths).filter(|dir| dir.is_dir()) {
            found.extend(load(None, Some(&dir)));
        }
        if let (true, Some(dirs)) = (found.is_empty(), dirs) {
            let why = "holds no certificate that can be read";
            return Err(Error::Certificates { name: CERT_DIR_ENV, path: dirs.into(), why });
        }
        Ok(Some(found))
    }
}

impl Proxy {
    /// As the HTTP client wants it.
    pub(crate) fn to_client(&self) -> reqwest::Result<reqwest::Proxy> {
        let proxy = reqwest::Proxy::all(self.intercept.uri().to_string())?;
        Ok(match self.intercept.basic_auth() {
            Some(auth) => proxy.custom_http_auth(auth.clone()),
            None => proxy,
        })
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A scheme may be left out, as curl has it.
fn check(address: &str) -> Result<(), &'static str> {
    let whole = match address.contains("://") {
        true => address.to_owned(),
        false => format!("http://{address}"),
    };
    let url = Url::parse(&whole).map_err(|_| "it is no URL")?;
    match url.scheme() {
        "http" | "https" if url.host_str().is_some_and(|host| !host.is_empty()) => Ok(()),
        "http" | "https" => Err("it names no host"),
        "socks4" | "socks4a" | "socks5" | "socks5h" => {
            Err("it is a SOCKS proxy, and Regie speaks to HTTP proxies alone")
        }
        _ => Err("it is neither http nor https"),
    }
}

/// The certificates of a file or a directory that make sense.
fn load(file: Option<&Path>, dir: Option<&Path>) -> Vec<Certificate> {
    let read = rustls_native_certs::load_certs_from_paths(file, dir);
    for error in &read.errors {
        tracing::warn!(%error, "certificates are passed over");
    }
    let usable =
        |der: &rustls::pki_types::CertificateDer<'static>| RootCertStore::empty().add(der.clone()).is_ok();
    let certificates = read.certs.into_iter().filter(usable);
    certificates.filter_map(|der| Certificate::from_der(&der).ok()).collect()
}
