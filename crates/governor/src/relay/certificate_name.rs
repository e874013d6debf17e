//! The name in a client's certificate: the common name of its subject, as for PostgreSQL's `cert`.

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// Tags of DER.
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT: u8 = 0x06;
const UTF8: u8 = 0x0c;
const PRINTABLE: u8 = 0x13;
const IA5: u8 = 0x16;

/// The number of the attribute `commonName`, 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// The common name, if there is exactly one and its text has no zero byte: programs differ in which of several names
/// they use.
pub(super) fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    let mut names = Vec::new();
    let mut subject = certificate.subject();
    while !subject.is_empty() {
        let mut attributes = element(&mut subject, SET)?;
        while !attributes.is_empty() {
            let mut attribute = element(&mut attributes, SEQUENCE)?;
            if element(&mut attribute, OBJECT)? == COMMON_NAME {
                names.push(attribute);
            }
        }
    }
    let [mut name] = names[..] else { return None };
    let tag = *name.first().filter(|tag| [UTF8, PRINTABLE, IA5].contains(tag))?;
    let text = element(&mut name, tag)?;
    let is_whole = name.is_empty() && !text.is_empty() && !text.contains(&0);
    is_whole.then(|| String::from_utf8(text.to_vec()).ok()).flatten()
}

/// The contents of the next element, which must have the given tag.
fn element<'a>(rest: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    let (head, after) = rest.split_first_chunk::<2>()?;
    if head[0] != tag {
        return None;
    }
    let (length, after) = match head[1] {
        length @ 0..=0x7f => (usize::from(length), after),
        0x81 => (usize::from(*after.first()?), &after[1..]),
        0x82 => (usize::from(u16::from_be_bytes(*after.first_chunk()?)), &after[2..]),
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
    use rustls::pki_types::pem::PemObject;

    use super::*;

    fn named(subject: &str) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let arguments = ["req", "-x509", "-nodes", "-days", "2", "-utf8", "-newkey", "rsa:2048", "-keyout", "own.key"];
        let mut command = Command::new("openssl");
        command.current_dir(folder.path()).args(arguments).args(["-out", "own.crt", "-subj", subject]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        common_name(&CertificateDer::from_pem_file(folder.path().join("own.crt")).unwrap())
    }

    #[test]
    fn the_one_common_name_counts() {
        assert_eq!(named("/O=shop/CN=ann").as_deref(), Some("ann"));
        assert_eq!(named("/CN=änn/OU=ann").as_deref(), Some("änn"));
        assert_eq!(named("/O=ann"), None);
        // The server may use the other name.
        assert_eq!(named("/CN=ann/CN=root"), None);
        let long = "x".repeat(60);
        assert_eq!(named(&format!("/O={long}/CN={long}")), Some(long));
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40), tag: u8) {
            let mut rest = &bytes[..];
            while element(&mut rest, tag).is_some() {}
            let _ = common_name(&CertificateDer::from(bytes));
        }
    }
}
