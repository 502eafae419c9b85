//! What is wrong with a TLS connection, in plain words, and what mends it.

use std::fmt;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

use crate::call::Endpoint;
use crate::network::CERT_FILE_ENV;

/// Why no TLS connection came about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Nobody that is believed here has signed the certificate.
    UnknownIssuer,
    /// The certificate is an authority's own.
    Authority,
    /// The certificate's time is over.
    Expired,
    /// The certificate's time has not begun.
    NotYetValid,
    /// The certificate is for other hosts.
    WrongName,
    /// The certificate was taken back.
    Revoked,
    /// The certificate is wrong in another way.
    Certificate,
    /// The server wants a certificate from us.
    ClientCertificate,
    /// The server answers without TLS.
    Plain,
    /// The server does not answer in HTTP, most likely because it wants TLS.
    Encrypted,
    /// The server has only versions or ciphers that are broken.
    TooOld,
    /// The server cut the handshake.
    Cut,
    /// Anything else.
    Other,
}

impl Fault {
    /// What the TLS stack's error means.
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::InvalidCertificate(certificate) => Self::of_certificate(certificate),
            Error::InvalidMessage(InvalidMessage::InvalidContentType) => Self::Plain,
            Error::PeerIncompatible(_)
            | Error::AlertReceived(
                AlertDescription::ProtocolVersion
                | AlertDescription::HandshakeFailure
                | AlertDescription::InsufficientSecurity,
            ) => Self::TooOld,
            Error::AlertReceived(AlertDescription::CertificateRequired) => Self::ClientCertificate,
            _ => Self::Other,
        }
    }

    fn of_certificate(error: &CertificateError) -> Self {
        use CertificateError as Certificate;
        match error {
            Certificate::UnknownIssuer | Certificate::BadSignature => Self::UnknownIssuer,
            Certificate::Expired | Certificate::ExpiredContext { .. } => Self::Expired,
            Certificate::NotValidYet | Certificate::NotValidYetContext { .. } => Self::NotYetValid,
            Certificate::NotValidForName | Certificate::NotValidForNameContext { .. } => Self::WrongName,
            Certificate::Revoked => Self::Revoked,
            // The verifier's own error has no type here.
            other if format!("{other:?}").contains("CaUsedAsEndEntity") => Self::Authority,
            _ => Self::Certificate,
        }
    }

    /// Whether the same call may succeed in a while.
    pub(crate) const fn may_pass(&self) -> bool {
        matches!(self, Self::Cut)
    }

    /// What the owner can do.
    pub(crate) fn mend(&self, at: &Endpoint) -> String {
        let url = at.wire.url_env();
        match self {
            Self::UnknownIssuer => format!(
                "if it is your own authority's, set {CERT_FILE_ENV} to that authority's certificate (PEM) and resume"
            ),
            Self::Authority => format!(
                "make one for the server itself (CA:FALSE), set {CERT_FILE_ENV} to its authority's and resume"
            ),
            Self::Expired | Self::NotYetValid => {
                "check this machine's clock, or have the certificate renewed, and resume".to_owned()
            }
            Self::WrongName => format!("check the host in {url}, or the proxy in between, and resume"),
            Self::Revoked | Self::Certificate => {
                "have the server's certificate replaced, and resume".to_owned()
            }
            Self::ClientCertificate => format!("Regie has none; set {url} to a gateway that asks for a key"),
            Self::Plain => format!("if that is meant, set {url} to an http:// address and resume"),
            Self::Encrypted => format!("if it wants TLS, set {url} to an https:// address and resume"),
            Self::TooOld => "have the server speak TLS 1.2 or 1.3, and resume".to_owned(),
            Self::Cut | Self::Other => format!("check that {url} names a TLS server, and resume"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownIssuer => "its certificate is signed by nobody whom this machine believes",
            Self::Authority => "its certificate is an authority's own, and no server's",
            Self::Expired => "its certificate has expired",
            Self::NotYetValid => "its certificate is not valid yet",
            Self::WrongName => "its certificate is for other hosts",
            Self::Revoked => "its certificate was revoked",
            Self::Certificate => "its certificate cannot be accepted",
            Self::ClientCertificate => "it asks for a certificate of the caller",
            Self::Plain => "it answers without TLS",
            Self::Encrypted => "it does not answer in HTTP",
            Self::TooOld => "it offers no version of TLS that is safe",
            Self::Cut => "it closed the connection in the middle of the TLS handshake",
            Self::Other => "the TLS handshake failed",
        })
    }
}
