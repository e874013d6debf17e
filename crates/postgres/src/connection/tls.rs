//! TLS as libpq does it: encrypted first, verified as far as was asked.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error as TlsError, RootCertStore,
    SignatureScheme, StreamOwned,
};

use crate::url::{ServerHost, ServerUrl, SslMode};

/// What came of asking a server for encryption.
pub(super) enum Asked {
    /// It speaks TLS from now on.
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
    /// It cannot; the connection is as before.
    Plain(TcpStream),
}

/// Asks the server for TLS, and agrees with it on keys.
pub(super) fn ask(mut stream: TcpStream, url: &ServerUrl) -> io::Result<Asked> {
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    stream.write_all(&request)?;
    let mut answer = [0];
    // Not a byte more: what follows in plain text was not said by the server, but by somebody in between.
    stream.read_exact(&mut answer)?;
    match answer[0] {
        b'S' => {}
        b'N' => return Ok(Asked::Plain(stream)),
        // A server that is so old, or so full, that it answers with an error; it comes in plain text and ends the session.
        b'E' => return Err(io::Error::other("the server refused with an error when it was asked for encryption")),
        other => {
            return Err(io::Error::new(ErrorKind::InvalidData, format!("answer {other:#04x} to a request for TLS")));
        }
    }
    let ServerHost::Tcp(host) = &url.host else { unreachable!("sockets are not encrypted") };
    let name = ServerName::try_from(host.clone()).map_err(|_| {
        io::Error::new(ErrorKind::InvalidInput, format!("`{host}` cannot be the name in a certificate"))
    })?;
    let connection = ClientConnection::new(Arc::new(client_tls(url)?), name).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(connection, stream);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(Asked::Encrypted(Box::new(stream)))
}

/// How TLS is spoken with a server, and what of it is verified; reads the file of root certificates.
pub fn client_tls(url: &ServerUrl) -> io::Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Verifier::new(url, Arc::clone(&provider))?;
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(io::Error::other)?.dangerous();
    Ok(builder.with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

/// What to do about an error that agreeing on TLS has ended with; `None` if the error is of something else.
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

/// Whether a certificate is refused because its form is of X.509 version 1, which has no names of hosts.
pub fn is_version_1(error: &CertificateError) -> bool {
    // The cause is a type of a crate below rustls.
    matches!(error, CertificateError::Other(cause) if cause.to_string() == "UnsupportedCertVersion")
}

/// Verifies what the mode asks for.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// Certificates that are trusted, and who verifies against them; `None` where nothing is verified.
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
        let certificates = certificates(file)?;
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots.add(certificate.clone()).map_err(|error| in_file(file, &error))?;
        }
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let verifier = builder.build().map_err(|error| in_file(file, &error))?;
        Ok(Verifier { provider, trusted: Some((certificates, verifier)), is_name_verified })
    }
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
            // A certificate that signs itself is no authority's to rustls; OpenSSL takes it if it is trusted as it is.
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

    /// A certificate that did not pass was told as "is a server running there?" to clients, and without a remedy to others.
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
