//! The certificate that clients are shown.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::resolve::Reader;
use super::typed::TypedTls;

/// What clients that ask for encryption directly (libpq's `sslnegotiation=direct`) say that they speak.
const PROTOCOL: &[u8] = b"postgresql";

/// Reads certificate and key; the certificate is the governor's own, without those that vouch for it.
pub(super) fn resolve(typed: &TypedTls, read: &mut Reader<'_>) -> Option<(Arc<ServerConfig>, CertificateDer<'static>)> {
    let file = read.path(&typed.certificate);
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
    let certificates = read.problems.note(typed.certificate.span(), certificates);
    let own = certificates.as_ref().and_then(|all| all.first().cloned());
    let file = read.path(&typed.key);
    let key = PrivateKeyDer::from_pem_file(&file);
    let key = key.map_err(|error| format!("cannot read a private key from {}: {error}", file.display()));
    let key = read.problems.note(typed.key.span(), key)?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("ring has the protocols' algorithms");
    let built = builder.with_no_client_auth().with_single_cert(certificates?, key);
    let built = built.map_err(|error| format!("certificate and key do not go together: {error}"));
    let mut config = read.problems.note(typed.key.span(), built)?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Some((Arc::new(config), own?))
}
