//! The certificate that clients are shown.

use std::fs::metadata;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use plimsoll_pg::connection::{PROTOCOL, is_version_1};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{Error, RootCertStore, ServerConfig};

use super::EVERYBODY_READS;
use super::resolve::Reader;
use super::tables::{Placed, is_on, said};
use crate::table::TLS;

/// Reads certificate and key; returns the governor's own certificate without its issuers'.
pub(super) fn resolve(
    given: &Placed<'_>,
    read: &mut Reader<'_>,
) -> Option<(Arc<ServerConfig>, CertificateDer<'static>)> {
    read.rows(TLS, &mut (), given);
    let typed = given.0;
    let (certificate, key_file) = (said(typed, "certificate")?, said(typed, "key")?);
    let file = read.cx.path(certificate.text);
    let certificates = CertificateDer::pem_file_iter(&file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates =
        certificates.map_err(|error| format!("cannot read certificates from {}: {error}", file.display()));
    let certificates = certificates.and_then(|found| match found.is_empty() {
        true => Err(format!(
            "there is no certificate in {}; it should begin with -----BEGIN CERTIFICATE-----",
            file.display()
        )),
        false => Ok(found),
    });
    let certificates = read.problems.note_at(certificate.span.clone(), certificates);
    let own = certificates.as_ref().and_then(|all| all.first().cloned());
    let file = read.cx.path(key_file.text);
    let key = PrivateKeyDer::from_pem_file(&file);
    let key = key.map_err(|error| format!("cannot read a private key from {}: {error}", file.display()));
    let key = read.problems.note_at(key_file.span.clone(), key)?;
    if metadata(&file).is_ok_and(|found| found.permissions().mode() & EVERYBODY_READS != 0) {
        read.warnings.push(format!("every user of this machine can read the key {0}: chmod o-r {0}", file.display()));
    }
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("ring has the protocols' algorithms");
    let builder = match said(typed, "client_ca") {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let verifier = verifier(&read.cx.path(file.text)).and_then(|verifier| match is_on(typed, "required") {
                true => Ok(verifier),
                false => {
                    Err("client_ca needs required = true: clients that do not encrypt show no certificate".to_owned())
                }
            });
            builder.with_client_cert_verifier(read.problems.note_at(file.span, verifier)?)
        }
    };
    let built = builder.with_single_cert(certificates?, key);
    let is_of_key = matches!(built, Err(Error::InconsistentKeys(_)));
    let built = built.map_err(|error| unusable(&error, &read.cx.path(certificate.text), &file));
    let place = if is_of_key { key_file.span } else { certificate.span };
    let mut config = read.problems.note_at(place, built)?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Some((Arc::new(config), own?))
}

/// The verifier that an authority in that file has signed a client's certificate.
fn verifier(file: &Path) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("cannot take authorities from {}: {error}", file.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))? {
        let added = roots.add(certificate.map_err(|error| wrong(&error))?);
        added.map_err(|error| wrong(&error))?;
    }
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    // This also fails if the file contains no certificate.
    verifier.build().map(|verifier| verifier as _).map_err(|error| wrong(&error))
}

/// Why a certificate and a key cannot be shown to clients, and what to do.
fn unusable(error: &Error, certificate: &Path, key: &Path) -> String {
    let (certificate, key) = (certificate.display(), key.display());
    match error {
        Error::InconsistentKeys(_) => format!(
            "certificate and key do not match: {key} is not the key that {certificate} was made for; name the two \
             that were made together"
        ),
        Error::InvalidCertificate(cause) if is_version_1(cause) => format!(
            "the certificate in {certificate} is of X.509 version 1, and clients need version 3; make one with the host's \
             name in it: openssl req -x509 -key {key} -subj /CN=HOST -addext subjectAltName=DNS:HOST -out {certificate}"
        ),
        Error::InvalidCertificate(cause) => {
            format!("the certificate in {certificate} cannot be used: {cause}; make or order a new one")
        }
        error => format!("the certificate in {certificate} cannot be used with {key}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_testing::openssl;

    /// The message for a certificate and a key that cannot be used.
    fn told(folder: &Path, certificate: &str, key: &str) -> String {
        let (certificate, key) = (folder.join(certificate), folder.join(key));
        let chain = CertificateDer::pem_file_iter(&certificate).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
        let private = PrivateKeyDer::from_pem_file(&key).unwrap();
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        unusable(&builder.with_single_cert(chain, private).unwrap_err(), &certificate, &key)
    }

    /// `openssl x509 -req` makes certificates of version 1. That these cannot be used was reported as "certificate and
    /// key do not go together", and the operator made new keys all day.
    #[test]
    fn each_fault_of_a_certificate_is_told_as_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        openssl(folder, "req -new -newkey rsa:2048 -nodes -keyout old.key -out old.csr -subj /CN=localhost");
        openssl(folder, "x509 -req -in old.csr -signkey old.key -out old.crt -days 2");
        openssl(folder, "req -x509 -newkey rsa:2048 -nodes -keyout new.key -out new.crt -days 2 -subj /CN=localhost");
        let old = told(folder, "old.crt", "old.key");
        assert!(
            old.contains("X.509 version 1") && old.contains("subjectAltName") && !old.contains("together"),
            "{old}"
        );
        let mixed = told(folder, "new.crt", "old.key");
        assert!(mixed.contains("do not match") && mixed.contains("old.key"), "{mixed}");
    }
}
