//! The certificate that clients are shown.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{CertificateError, ServerConfig};

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
    let built = built.map_err(|error| unusable(&error));
    let mut config = read.problems.note(typed.key.span(), built)?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Some((Arc::new(config), own?))
}

/// What is wrong with a certificate and its key, and what to do.
fn unusable(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InconsistentKeys(_) => "the key does not belong to the certificate".to_owned(),
        rustls::Error::InvalidCertificate(CertificateError::Other(other))
            if other.to_string().contains("UnsupportedCertVersion") =>
        {
            "the certificate has X.509 version 1, which TLS libraries no longer accept; make one of version 3, for example \
             with `openssl req -x509 -addext subjectAltName=DNS:NAME`"
                .to_owned()
        }
        other => format!("the certificate and its key cannot be used: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;

    fn openssl(folder: &Path, arguments: &str) {
        let output = Command::new("openssl").current_dir(folder).args(arguments.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn problem(folder: &Path, certificate: &str, key: &str) -> String {
        let certificate = CertificateDer::from_pem_file(folder.join(certificate)).unwrap();
        let key = PrivateKeyDer::from_pem_file(folder.join(key)).unwrap();
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        unusable(&builder.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap_err())
    }

    /// An operator made a certificate by `openssl x509 -req`, of version 1, and was told to look for another key.
    #[test]
    fn an_old_certificate_is_told_from_a_foreign_key() {
        let folder = tempfile::tempdir().unwrap();
        let new_key = "-nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -subj /CN=localhost";
        openssl(folder.path(), &format!("req {new_key} -new -keyout old.key -out old.csr"));
        openssl(folder.path(), "x509 -req -in old.csr -signkey old.key -out old.crt");
        openssl(folder.path(), &format!("req {new_key} -x509 -keyout new.key -out new.crt"));
        let old = problem(folder.path(), "old.crt", "old.key");
        assert!(old.contains("X.509 version 1"), "{old}");
        let foreign = problem(folder.path(), "new.crt", "old.key");
        assert!(foreign.contains("does not belong"), "{foreign}");
    }
}
