//! TLS between the processes of a cluster: the certificate that a worker shows, and the authorities that verify it.

use std::error::Error as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, Error as TlsError, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::transport::{ClientTlsConfig, Error as TransportError, Identity, Server, ServerTlsConfig};

use crate::connection::{CONNECT_WITHIN, innermost};
use crate::error::ClusterError;

/// How a connection of HTTP/2 begins.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The first byte of an alert of TLS.
const ALERT: u8 = 0x15;

/// The first byte of the settings with which HTTP/2 answers: the length of that frame, which is short.
const SETTINGS: u8 = 0;

/// The authorities whose workers a process trusts.
#[derive(Debug, Clone)]
pub struct Authorities(RootCertStore);

/// The files of a worker that encrypts its connections.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// Its certificate, and those of authorities between it and [`TlsFiles::authorities`].
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// Whom it trusts when it connects to other workers.
    pub authorities: PathBuf,
}

impl Authorities {
    /// Reads certificates in PEM.
    pub fn read(file: &Path) -> Result<Authorities, ClusterError> {
        let wrong = |reason: String| ClusterError::Certificates { path: file.to_owned(), reason };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&bytes(file)?) {
            let certificate = certificate.map_err(|error| wrong(format!("it cannot be read: {error}")))?;
            roots.add(certificate).map_err(|error| wrong(format!("it has no certificate of an authority: {error}")))?;
        }
        match roots.is_empty() {
            true => Err(wrong("it has no certificate; one begins with -----BEGIN CERTIFICATE-----".to_owned())),
            false => Ok(Authorities(roots)),
        }
    }

    /// The settings of a connection to a worker, whose certificate must be for the host of its URL.
    pub(crate) fn client(&self) -> ClientTlsConfig {
        ClientTlsConfig::new().trust_anchors(self.0.roots.iter().cloned()).timeout(CONNECT_WITHIN)
    }
}

impl TlsFiles {
    /// A server that shows the certificate.
    pub(crate) fn server(&self) -> Result<Server, ClusterError> {
        let identity = Identity::from_pem(bytes(&self.certificate)?, bytes(&self.key)?);
        let config = ServerTlsConfig::new().identity(identity).timeout(CONNECT_WITHIN);
        Server::builder().tls_config(config).map_err(|error| ClusterError::Certificates {
            path: self.certificate.clone(),
            reason: format!(
                "the certificate cannot be used with the key {}: {}; name the two that were made together",
                self.key.display(),
                innermost(&error)
            ),
        })
    }
}

fn bytes(file: &Path) -> Result<Vec<u8>, ClusterError> {
    fs::read(file).map_err(|error| ClusterError::Path { path: file.to_owned(), error })
}

/// Fails unless HTTP/2 without TLS is spoken at an address, which gets the beginning of it to answer, and no secret.
pub(crate) async fn must_be_plain(address: &str) -> Result<(), ClusterError> {
    let ask = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(HTTP2).await?;
        stream.read_u8().await
    };
    let reason = match timeout(CONNECT_WITHIN, ask).await {
        Ok(Ok(SETTINGS)) => return Ok(()),
        Ok(Ok(ALERT)) => return Err(ClusterError::Encrypted(address.to_owned())),
        Ok(Ok(_)) => "it is no worker".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {CONNECT_WITHIN:?}"),
    };
    Err(ClusterError::Unreachable { address: address.to_owned(), reason })
}

/// Why there is no connection to a worker, and what to do.
pub(crate) fn refusal(address: &str, error: &TransportError) -> ClusterError {
    let address = address.to_owned();
    match tls_error(error) {
        Some(TlsError::InvalidCertificate(cause)) => {
            ClusterError::Untrusted { address, reason: cause.to_string(), remedy: remedy(cause) }
        }
        Some(TlsError::InvalidMessage(_)) => ClusterError::Plain(address),
        _ => ClusterError::Unreachable { address, reason: innermost(error).to_string() },
    }
}

/// The error of TLS below another one; `None` if TLS was not the cause.
fn tls_error(error: &TransportError) -> Option<&TlsError> {
    let mut causes = std::iter::successors(error.source(), |error| (**error).source());
    // An error of the system's kind has the one of TLS inside, which is not called its source.
    causes.find_map(|cause| cause.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref())
}

fn remedy(cause: &CertificateError) -> &'static str {
    match cause {
        CertificateError::UnknownIssuer => {
            "none of the authorities in tls_ca (`--tls-ca` of a worker) has signed its certificate; name the file of the one \
             that has"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for other hosts; connect by a name that it has, or make one with this name as subjectAltName"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "make a new certificate there and start the worker again"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "compare the clocks of both machines"
        }
        _ => "make a certificate as in docs/cluster.md: of X.509 version 3, signed by the authority, not itself one",
    }
}
