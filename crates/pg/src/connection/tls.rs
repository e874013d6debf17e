//! TLS as in libpq: encrypted first, verified as far as requested.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error as TlsError, RootCertStore,
    SignatureScheme, StreamOwned,
};

use crate::url::{ClientCertificate, SYSTEM, ServerHost, ServerUrl, SslMode, SslNegotiation};

/// The protocol that both sides of a PostgreSQL connection announce (ALPN). A server asked for encryption directly must
/// return it. A server of another protocol, to which an attacker redirects the connection, does not.
pub const PROTOCOL: &[u8] = b"postgresql";

/// The file of trusted authorities on Debian, Red Hat, SUSE, Alpine and macOS.
const SYSTEM_FILES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// OpenSSL's variable for a file that replaces the system's.
const SYSTEM_FILE: &str = "SSL_CERT_FILE";

/// The result of asking a server for encryption.
pub(super) enum Asked {
    /// It speaks TLS from now on.
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
    /// It cannot; the connection is unchanged.
    Plain(TcpStream),
}

/// Asks the server for TLS, unless TLS begins at once, and performs the handshake.
pub(super) fn ask(mut stream: TcpStream, url: &ServerUrl) -> io::Result<Asked> {
    if url.ssl_negotiation == SslNegotiation::Direct {
        let stream = agree(stream, url).map_err(not_direct)?;
        check_protocol(stream.conn.alpn_protocol())?;
        return Ok(Asked::Encrypted(Box::new(stream)));
    }
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    stream.write_all(&request)?;
    let mut answer = [0];
    // Not a byte more: plain text after this comes from an attacker in between, not from the server.
    stream.read_exact(&mut answer)?;
    match answer[0] {
        b'S' => {}
        b'N' => return Ok(Asked::Plain(stream)),
        // A server that is too old, or too full, answers with an error in plain text, and ends the session.
        b'E' => return Err(io::Error::other("the server refused with an error when it was asked for encryption")),
        other => {
            return Err(io::Error::new(ErrorKind::InvalidData, format!("answer {other:#04x} to a request for TLS")));
        }
    }
    Ok(Asked::Encrypted(Box::new(agree(stream, url)?)))
}

/// A server that does not support TLS at the beginning of a connection closes it.
fn not_direct(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::UnexpectedEof
        | ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe => {
            let remedy = "sslnegotiation=direct needs PostgreSQL 17 or newer, use sslnegotiation=postgres";
            io::Error::new(error.kind(), format!("{error}; {remedy}"))
        }
        _ => error,
    }
}

/// Performs the TLS handshake.
fn agree(stream: TcpStream, url: &ServerUrl) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let ServerHost::Tcp(host) = &url.host else { unreachable!("sockets are not encrypted") };
    let name = ServerName::try_from(host.clone()).map_err(|_| {
        io::Error::new(ErrorKind::InvalidInput, format!("`{host}` cannot be the name in a certificate"))
    })?;
    let connection = ClientConnection::new(Arc::new(client_tls(url)?), name).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(connection, stream);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(stream)
}

/// Whether a server has announced PostgreSQL's protocol in direct TLS.
pub fn check_protocol(said: Option<&[u8]>) -> io::Result<()> {
    match said {
        Some(PROTOCOL) => Ok(()),
        _ => Err(io::Error::other(
            "it did not confirm that it speaks PostgreSQL's protocol (ALPN), which sslnegotiation=direct requires; use \
             sslnegotiation=postgres",
        )),
    }
}

/// The TLS settings for a server, with its verification; reads the files of certificates and of our key.
pub fn client_tls(url: &ServerUrl) -> io::Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Verifier::new(url, Arc::clone(&provider))?;
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(io::Error::other)?.dangerous();
    let builder = builder.with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match &url.ssl_certificate {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let own_files = format!("{} and {}", own.certificate.display(), own.key.display());
            let (certificates, key) = own_certificate(own)?;
            let built = builder.with_client_auth_cert(certificates, key);
            built.map_err(|error| unusable(&own_files, &error))?
        }
    };
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(config)
}

/// Why our own certificate cannot be used with its key.
fn unusable(files: &str, error: &TlsError) -> io::Error {
    let what = match error {
        TlsError::InconsistentKeys(_) => format!("sslcert and sslkey do not go together: {files}"),
        TlsError::InvalidCertificate(cause) if is_version_1(cause) => {
            format!(
                "sslcert is of X.509 version 1, which cannot be used; sign it with -extfile for one of version 3: {files}"
            )
        }
        error => format!("sslcert and sslkey cannot be used: {error}: {files}"),
    };
    io::Error::new(ErrorKind::InvalidInput, what)
}

/// Our own certificate with its chain, and its key, which no other user may read.
fn own_certificate(own: &ClientCertificate) -> io::Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    let wrong = |file: &Path, error: &dyn std::fmt::Display| {
        io::Error::new(ErrorKind::InvalidInput, format!("{}: {error}", file.display()))
    };
    let metadata = std::fs::metadata(&own.key).map_err(|error| wrong(&own.key, &error))?;
    // As in libpq: root's key may be readable for a group.
    let others = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    if metadata.mode() & others != 0 {
        return Err(wrong(&own.key, &"others may read this key; run chmod 600 on it"));
    }
    let key = PrivateKeyDer::from_pem_file(&own.key).map_err(|error| wrong(&own.key, &error))?;
    let certificates = CertificateDer::pem_file_iter(&own.certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = certificates.map_err(|error| wrong(&own.certificate, &error))?;
    Ok((certificates, key))
}

/// The file of the authorities that this system trusts.
fn system_file() -> io::Result<PathBuf> {
    let named = std::env::var_os(SYSTEM_FILE).map(PathBuf::from);
    let found = named.or_else(|| SYSTEM_FILES.iter().map(PathBuf::from).find(|file| file.is_file()));
    found.ok_or_else(|| {
        let what = format!(
            "sslrootcert=system: this system has none of {}; install its authorities (the package ca-certificates), or name \
             their file in {SYSTEM_FILE}",
            SYSTEM_FILES.join(", ")
        );
        io::Error::new(ErrorKind::InvalidInput, what)
    })
}

/// Advice about an error of the TLS handshake; `None` for any other error.
pub fn tls_remedy(error: &io::Error) -> Option<&'static str> {
    let error = error.get_ref()?.downcast_ref::<TlsError>()?;
    let TlsError::InvalidCertificate(error) = error else {
        return Some("the two sides do not agree on how to encrypt; see the server's log and its ssl_* settings");
    };
    Some(match error {
        CertificateError::UnknownIssuer => {
            "none of the authorities in sslrootcert has signed the server's certificate; give the file of the one that has"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the server's certificate is for another host; use a host name that it has, or sslmode=verify-ca"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the server's certificate has expired; renew it on the server"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet; compare the clocks of both machines"
        }
        other if is_version_1(other) => {
            "the server's certificate is of X.509 version 1; make one of version 3, with the host name as subjectAltName"
        }
        _ => "the server's certificate did not pass the check that sslmode asks for; see sslmode and sslrootcert",
    })
}

/// Whether a certificate is refused because it is of X.509 version 1, which has no host names.
pub fn is_version_1(error: &CertificateError) -> bool {
    // The cause is a type of a crate below rustls.
    matches!(error, CertificateError::Other(cause) if cause.to_string() == "UnsupportedCertVersion")
}

#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// Trusted certificates, and their verifier; `None` if nothing is verified.
    trusted: Option<(Vec<CertificateDer<'static>>, Arc<WebPkiServerVerifier>)>,
    is_name_verified: bool,
}

impl Verifier {
    /// `require` with root certificates is `verify-ca`, as in libpq.
    fn new(url: &ServerUrl, provider: Arc<CryptoProvider>) -> io::Result<Self> {
        let is_name_verified = url.ssl_mode == SslMode::VerifyFull;
        let file = url.ssl_root_certificate.as_deref().filter(|_| url.ssl_mode >= SslMode::Require);
        let Some(file) = file else {
            if url.ssl_mode >= SslMode::VerifyCa {
                let what = format!(
                    "sslmode={} needs the certificates to trust; give their file with sslrootcert=FILE, or put it at \
                     ~/.postgresql/root.crt",
                    url.ssl_mode.name()
                );
                return Err(io::Error::new(ErrorKind::InvalidInput, what));
            }
            return Ok(Verifier { provider, trusted: None, is_name_verified });
        };
        let (file, certificates) = match file.as_os_str() == SYSTEM {
            true => trusted_by_system()?,
            false => (file.to_owned(), certificates(file)?),
        };
        let file = file.as_path();
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots.add(certificate.clone()).map_err(|error| in_file(file, &error))?;
        }
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let verifier = builder.build().map_err(|error| in_file(file, &error))?;
        Ok(Verifier { provider, trusted: Some((certificates, verifier)), is_name_verified })
    }
}

/// The system's authorities, without those that rustls cannot use.
fn trusted_by_system() -> io::Result<(PathBuf, Vec<CertificateDer<'static>>)> {
    let file = system_file()?;
    let mut trusted = certificates(&file)?;
    trusted.retain(|certificate| RootCertStore::empty().add(certificate.clone()).is_ok());
    Ok((file, trusted))
}

fn certificates(file: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let certificates = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = certificates.map_err(|error| in_file(file, &error))?;
    if certificates.is_empty() { Err(in_file(file, &"there is no certificate in it")) } else { Ok(certificates) }
}

fn in_file(file: &Path, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, format!("root certificates {}: {error}", file.display()))
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let Some((certificates, verifier)) = &self.trusted else { return Ok(ServerCertVerified::assertion()) };
        let verified = verifier.verify_server_cert(certificate, intermediates, name, ocsp, now);
        let is_other_name = |error: &CertificateError| {
            matches!(error, CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. })
        };
        match verified {
            Err(TlsError::InvalidCertificate(error)) if is_other_name(&error) && !self.is_name_verified => {
                Ok(ServerCertVerified::assertion())
            }
            // rustls does not accept a self-signed certificate as an authority; OpenSSL does if it is itself trusted.
            Err(TlsError::InvalidCertificate(CertificateError::Other(_) | CertificateError::UnknownIssuer))
                if certificates.iter().any(|trusted| trusted == certificate) =>
            {
                if self.is_name_verified {
                    verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                }
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::refusal::unreachable;

    /// Story: a certificate that failed verification was reported as "is a server running there?" to clients, and
    /// without a remedy to others.
    #[test]
    fn each_certificate_that_does_not_pass_says_what_to_do() {
        let error = |error| io::Error::new(ErrorKind::InvalidData, error);
        let check = |cause, expect: &str| {
            let remedy = tls_remedy(&error(TlsError::InvalidCertificate(cause))).expect("it is of TLS");
            assert!(remedy.contains(expect), "{remedy}, expected {expect}");
        };
        check(CertificateError::UnknownIssuer, "the authorities in sslrootcert");
        check(CertificateError::NotValidForName, "sslmode=verify-ca");
        check(CertificateError::Expired, "renew");
        check(CertificateError::NotValidYet, "clocks");
        check(CertificateError::BadEncoding, "sslmode");
        let url = ServerUrl::parse_in("postgres://ann@db.example/shop?sslmode=verify-full", &|_| None).unwrap();
        let told = unreachable(&error(TlsError::InvalidCertificate(CertificateError::UnknownIssuer)), &url).to_string();
        assert!(
            told.contains("cannot encrypt the connection to db.example:5432") && !told.contains("running"),
            "{told}"
        );
        assert_eq!(tls_remedy(&ErrorKind::ConnectionRefused.into()), None);
    }
}
