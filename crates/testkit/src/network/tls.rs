//! An authority of one's own, and TLS in front of a server that has none.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// An authority that nobody believes unasked.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: CertificateDer<'static>,
}

/// Which certificate a server shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certificate<'a> {
    /// The authority's, for this host.
    Of(&'a str),
    /// The same, years too late.
    Expired(&'a str),
    /// The same, years too early.
    Early(&'a str),
    /// The authority's own.
    Own,
}

/// TLS in front of a server; dropping it ends it.
pub struct Front {
    address: SocketAddr,
    protocols: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn new() -> io::Result<Self> {
        Self::made("localhost", IsCa::Ca(BasicConstraints::Unconstrained))
    }

    /// A server that has signed its own certificate, and no other.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn alone(host: &str) -> io::Result<Self> {
        Self::made(host, IsCa::ExplicitNoCa)
    }

    fn made(host: &str, is_ca: IsCa) -> io::Result<Self> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let mut params = CertificateParams::new(vec![host.to_owned()]).map_err(io::Error::other)?;
        params.is_ca = is_ca;
        let own = params.self_signed(&key).map_err(io::Error::other)?;
        let (pem, der) = (own.pem(), own.der().clone());
        Ok(Self { issuer: Issuer::new(params, key), pem, der })
    }

    /// Its own certificate, as `SSL_CERT_FILE` is to hold it.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    fn server(&self, certificate: Certificate<'_>) -> io::Result<ServerConfig> {
        let (chain, key) = match certificate {
            Certificate::Own => (vec![self.der.clone()], self.issuer.key().serialize_der()),
            Certificate::Of(host) => self.issue(host, 1990, 2400)?,
            Certificate::Expired(host) => self.issue(host, 1990, 2001)?,
            Certificate::Early(host) => self.issue(host, 2300, 2400)?,
        };
        let key = PrivateKeyDer::try_from(key).map_err(io::Error::other)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key))
            .map_err(io::Error::other)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    fn issue(
        &self,
        host: &str,
        from: i32,
        until: i32,
    ) -> io::Result<(Vec<CertificateDer<'static>>, Vec<u8>)> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let mut params = CertificateParams::new(vec![host.to_owned()]).map_err(io::Error::other)?;
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let leaf = params.signed_by(&key, &self.issuer).map_err(io::Error::other)?;
        Ok((vec![leaf.der().clone()], key.serialize_der()))
    }
}

impl Front {
    /// Serves on the current runtime what `behind` answers.
    ///
    /// # Errors
    /// When no port or no certificate can be had.
    pub async fn start(
        authority: &Authority,
        certificate: Certificate<'_>,
        behind: SocketAddr,
    ) -> io::Result<Self> {
        let acceptor = TlsAcceptor::from(Arc::new(authority.server(certificate)?));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let protocols: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&protocols);
        let serving = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let (acceptor, seen) = (acceptor.clone(), Arc::clone(&seen));
                tokio::spawn(async move {
                    let mut inside = acceptor.accept(connection).await?;
                    let protocol = inside.get_ref().1.alpn_protocol().unwrap_or_default();
                    let protocol = String::from_utf8_lossy(protocol).into_owned();
                    seen.lock().unwrap_or_else(PoisonError::into_inner).push(protocol);
                    let mut behind = TcpStream::connect(behind).await?;
                    tokio::io::copy_bidirectional(&mut inside, &mut behind).await
                });
            }
        });
        Ok(Self { address, protocols, serving })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The protocols that connections agreed upon, one each.
    #[must_use]
    pub fn protocols(&self) -> Vec<String> {
        self.protocols.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
