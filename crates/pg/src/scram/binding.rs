//! Channel binding to a server's certificate: `tls-server-end-point` of RFC 5929, which SCRAM-SHA-256-PLUS proves.

use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

/// The tag of a sequence in DER, and that of an object's number.
const SEQUENCE: u8 = 0x30;
const OBJECT: u8 = 0x06;

/// The beginnings of the numbers of signature algorithms: RSA (1.2.840.113549.1.1), and ECDSA with SHA-2
/// (1.2.840.10045.4.3).
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
/// ECDSA with SHA-1 (1.2.840.10045.4.1).
const ECDSA_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01];

/// The data that a proof is bound to: the certificate's hash, by the hash function of its signature, and by SHA-256 in
/// place of MD5 and SHA-1. `None` for a signature without a hash function of its own (Ed25519) and for RSA-PSS, whose
/// function is a parameter: there is no binding to such a certificate, as in most versions of PostgreSQL.
pub fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let mut outer = certificate;
    let mut inner = element(&mut outer, SEQUENCE)?;
    element(&mut inner, SEQUENCE)?;
    let mut algorithm = element(&mut inner, SEQUENCE)?;
    let algorithm = element(&mut algorithm, OBJECT)?;
    let of_rsa = algorithm.strip_prefix(RSA).and_then(|last| <[u8; 1]>::try_from(last).ok());
    let of_ecdsa = algorithm.strip_prefix(ECDSA).and_then(|last| <[u8; 1]>::try_from(last).ok());
    match (of_rsa, of_ecdsa) {
        (Some([0x04 | 0x05 | 0x0b]), _) | (_, Some([0x02])) => Some(Sha256::digest(certificate).to_vec()),
        (Some([0x0c]), _) | (_, Some([0x03])) => Some(Sha384::digest(certificate).to_vec()),
        (Some([0x0d]), _) | (_, Some([0x04])) => Some(Sha512::digest(certificate).to_vec()),
        (Some([0x0e]), _) | (_, Some([0x01])) => Some(Sha224::digest(certificate).to_vec()),
        _ if algorithm == ECDSA_SHA1 => Some(Sha256::digest(certificate).to_vec()),
        _ => None,
    }
}

/// The contents of the next element, which must have that tag.
fn element<'a>(rest: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    let (head, after) = rest.split_first_chunk::<2>()?;
    if head[0] != tag {
        return None;
    }
    let (length, after) = match head[1] {
        length @ 0..=0x7f => (usize::from(length), after),
        // The length follows in up to three bytes: a certificate is not longer.
        count @ 0x81..=0x83 => {
            let (bytes, after) = after.split_at_checked(usize::from(count & 0x7f))?;
            (bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), after)
        }
        _ => return None,
    };
    let (contents, after) = after.split_at_checked(length)?;
    *rest = after;
    Some(contents)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    /// A certificate in DER that openssl makes with these arguments.
    fn certificate(key: &[&str], hash: &str) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("openssl");
        command.current_dir(folder.path()).args(["req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=server"]);
        command.args(key).args(["-outform", "DER", "-keyout", "own.key", "-out", "own.crt", hash]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::read(folder.path().join("own.crt")).unwrap()
    }

    #[test]
    fn the_hash_is_that_of_the_signature() {
        let ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
        let rsa = ["-newkey", "rsa:2048"];
        for key in [&ec[..], &rsa[..]] {
            let made = certificate(key, "-sha256");
            assert_eq!(end_point(&made), Some(Sha256::digest(&made).to_vec()));
            let made = certificate(key, "-sha384");
            assert_eq!(end_point(&made), Some(Sha384::digest(&made).to_vec()));
            let made = certificate(key, "-sha512");
            assert_eq!(end_point(&made), Some(Sha512::digest(&made).to_vec()));
        }
        assert_eq!(end_point(&certificate(&["-newkey", "ed25519"], "-sha256")), None);
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = end_point(&bytes);
            let _ = end_point(&[&[SEQUENCE, bytes.len() as u8, SEQUENCE][..], &bytes].concat());
        }
    }
}
