//! Files that are accepted and files that are refused.

use std::fs::{Permissions, set_permissions, write};
use std::os::unix::fs::PermissionsExt;

use plimsoll_pg::scram::server::hash_password;
use proptest::prelude::*;

use super::*;

const MD5: &str = "md5d41d8cd98f00b204e9800998ecf8427e";

fn parsed(text: &str) -> Result<Users, Vec<String>> {
    Users::parse(text.as_bytes(), Path::new("users.txt"))
}

fn form(users: &Users, user: &str) -> &'static str {
    match users.find(user) {
        None => "unknown",
        Some(Secret::Verifier(_)) => "verifier",
        Some(Secret::Md5(_)) => "md5",
        Some(Secret::Clear(_)) => "clear",
    }
}

#[test]
fn the_forms_of_pgbouncer_are_read() {
    let verifier = hash_password("x");
    let text = format!(
        "\u{feff}; a comment\n\"ann\" \"{verifier}\"\r\n\n   ;another\n  \"bob\"\t\"{MD5}\" the rest is ignored \"\n\
         \"a \"\"b\"\"\" \"\"\"quoted\"\"\"\n\"no space\"\"between\"\n\"semi;colon\" \"; x\" ; a comment"
    );
    let told = parsed(&text).unwrap_err();
    assert_eq!(told.len(), 1, "{told:?}");
    // pgbouncer reads `"no space"` and `"between"` there, and we a name with a quote that has no password.
    assert!(told[0].starts_with("users.txt:7: the password of \"no space\"between\" is missing"), "{told:?}");
    let users = parsed(&text.replace("\"no space\"\"between\"", "\"tab\"\t\"password\"")).unwrap();
    assert_eq!(users.count(), 5);
    for (user, expect) in
        [("ann", "verifier"), ("bob", "md5"), ("a \"b\"", "clear"), ("tab", "clear"), ("Ann", "unknown")]
    {
        assert_eq!(form(&users, user), expect, "{user}");
    }
    let password = |user: &str| match users.find(user) {
        Some(Secret::Clear(clear)) => String::from_utf8(clear.password().bytes().to_vec()).unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!((password("a \"b\"").as_str(), password("semi;colon").as_str()), ("\"quoted\"", "; x"));
}

#[test]
fn every_bad_line_is_told_and_no_password() {
    let long = "n".repeat(64);
    let text = format!(
        "ann \"geheim\"\n\"bob\" geheim\n\"eve\"\n\"open \"geheim\"\n\"kim\" \"geheim\n\"\" \"geheim\"\n\"{long}\" \"geheim\"\n\
         \"leo\" \"ge\"heim\"\n\"mia\" \"\"\n\"ned\" \"SCRAM-SHA-256$geheim\"\n\"ora\" \"{}\"\n\"dup\" \"geheim\"\n\"dup\" \"geheim\"\n\
         \"big\" \"{}\"\n# geheim\n\"nul\" \"a\0b\"\n",
        MD5.to_uppercase().replace("MD5", "md5"),
        "x".repeat(2_049)
    );
    let told = parsed(&text).unwrap_err();
    let expect = [
        "1: the name is not in double quotes",
        "2: the password of \"bob\" is missing or not in double quotes",
        "3: the password of \"eve\" is missing",
        "4: the password of \"open \" is missing",
        "5: the quote of the password is not closed",
        "6: the name has 0 bytes",
        "7: the name has 64 bytes",
        "8: the password of \"leo\" ends at a quote",
        "9: the password of \"mia\" is empty",
        "10: user \"ned\": this is not a SCRAM verifier",
        "11: user \"ora\": this is not an MD5 hash",
        "13: the user \"dup\" is on line 12, too",
        "14: the password of \"big\" has 2049 bytes",
        "15: the name is not in double quotes",
        "16: it has a zero byte",
    ];
    assert_eq!(told.len(), expect.len(), "{told:#?}");
    for (told, expect) in told.iter().zip(expect) {
        assert!(told.starts_with(&format!("users.txt:{expect}")), "{told}\nis not\n{expect}");
        assert!(!told.contains("geheim") && !told.contains("heim\""), "{told}");
    }
    let told = Users::parse(b"\"a\" \"b\"\n\"\xff\" \"b\"", Path::new("u")).unwrap_err();
    assert!(told[0].starts_with("u:2: it is not UTF-8"), "{told:?}");
}

#[test]
fn a_file_that_others_can_read_is_warned_about() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users.txt");
    let warnings = |text: &str, mode: u32| {
        write(&file, text).unwrap();
        set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        Users::load(&file).unwrap().warnings.join("\n")
    };
    let clear = "\"ann\" \"geheim\"\n";
    assert_eq!(warnings(clear, 0o600), "");
    assert_eq!(warnings(clear, 0o640), "");
    let told = warnings(clear, 0o644);
    assert!(told.contains("passwords in clear text (1)") && told.contains("chmod o-r"), "{told}");
    let told = warnings(&format!("\"ann\" \"{MD5}\""), 0o644);
    assert!(told.contains("MD5 hashes (1)"), "{told}");
    let told = warnings(&format!("\"ann\" \"{}\"", hash_password("x")), 0o644);
    assert!(told.contains("SCRAM verifiers"), "{told}");
    assert!(warnings("; nobody\n", 0o644).contains("names no user"));
    for (path, expect) in [(folder.path().join("none"), "cannot read"), (folder.path().to_owned(), "is not a file")] {
        let told = Users::load(&path).unwrap_err();
        assert!(told[0].contains(expect), "{told:?}");
    }
}

#[test]
fn unknown_users_resemble_most_of_the_known_ones() {
    let verifier = hash_password("x");
    let many = verifier.replace("$4096:", "$600000:");
    let usual = |secrets: &[&str]| {
        let lines = secrets.iter().enumerate().map(|(number, secret)| format!("\"u{number}\" \"{secret}\"\n"));
        let users = parsed(&lines.collect::<String>()).unwrap();
        users.usual().map(|secret| secret.verifier().map(|verifier| verifier.salt_and_iterations().1))
    };
    assert_eq!(usual(&[]), None);
    assert_eq!(usual(&[MD5, MD5, &verifier]), Some(None));
    assert_eq!(usual(&[MD5, &many, &many, &verifier]), Some(Some(600_000)));
    // Clear passwords are hashed as often as PostgreSQL's default.
    assert_eq!(usual(&["a", "b", &many]), Some(Some(4_096)));
}

proptest! {
    /// Any name and any password survive being written with doubled quotes.
    #[test]
    fn what_is_quoted_is_read_back(name in "[^\0\r\n]{1,15}", password in "[^\0\r\n]{1,40}") {
        let line = format!("\"{}\" \"{}\"", name.replace('"', "\"\""), password.replace('"', "\"\""));
        let mut rest = line.as_str();
        prop_assert_eq!(take(&mut rest, "name"), Ok(Some(name)));
        rest = rest.trim_start();
        prop_assert_eq!(take(&mut rest, "password"), Ok(Some(password)));
        prop_assert_eq!(rest, "");
    }

    #[test]
    fn nothing_makes_it_panic(text in proptest::collection::vec(prop_oneof![Just(b'"'), Just(b'\n'), Just(b' '), any::<u8>()], 0..60)) {
        let _ = Users::parse(&text, Path::new("users.txt"));
    }
}
