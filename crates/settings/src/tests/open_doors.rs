//! Addresses that cannot work, and passwords that every user can read.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use super::{START, faults, good};

/// `plimsoll govern --check` found no problem in a file whose live page had the address of clients. The governor then did not
/// start: the address was in use, by itself.
#[test]
fn an_address_is_listened_at_once() {
    let check = |rest: &str, expect: &str| {
        let told = faults(&format!("{START}{rest}"));
        assert!(told.contains(expect), "{rest}: {told}, expected {expect}");
    };
    check(
        "[listen]\naddresses = [\"127.0.0.1:6432\", \"localhost:6432\"]",
        "x.toml:3:32: 127.0.0.1:6432 and 127.0.0.1:6432 are",
    );
    check(
        "[listen]\naddresses = [\"0.0.0.0:6432\", \"127.0.0.1:6432\"]",
        "127.0.0.1:6432 and 0.0.0.0:6432 are the same",
    );
    check("[listen]\naddresses = [\"127.0.0.1:6432\", \"[::]:6432\"]", "[::]:6432 and 127.0.0.1:6432 are the same");
    check("[http]\naddress = \"127.0.0.1:6432\"", "the live page at 127.0.0.1:6432 has the same address as clients");
    check(
        "[listen]\naddresses = [\"0.0.0.0:6433\"]",
        "the live page at 127.0.0.1:6433 has the same address as clients",
    );
    let told = faults("server = \"postgres://127.0.0.1:6432\"\n");
    assert!(told.contains("`server` is the governor itself"), "{told}");
    for rest in [
        "[listen]\naddresses = [\"127.0.0.1:6432\", \"127.0.0.2:6432\", \"[::1]:6432\", \"127.0.0.1:6434\"]",
        "[listen]\naddresses = [\"127.0.0.1:0\", \"127.0.0.1:0\"]",
        "[http]\naddress = \"off\"\n[listen]\naddresses = [\"127.0.0.1:6433\"]",
    ] {
        good(&format!("{START}{rest}"));
    }
}

/// A settings file with the passwords of the server and the console was readable by every user, and the check found nothing
/// wrong with it.
#[test]
fn passwords_that_every_user_can_read_are_warned_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("p.toml");
    let text = "server = \"postgres://ann@db/shop\"\ncontrol = \"postgres://plimsoll:geheim@db/postgres\"\n\
                [[admin.user]]\nname = \"a\"\npassword = \"x\"\n";
    fs::write(&file, text).expect("a file");
    let told = |mode: u32| -> Vec<String> {
        fs::set_permissions(&file, Permissions::from_mode(mode)).expect("our own file");
        let warnings = crate::read::read(&file, &[]).unwrap_or_else(|error| panic!("{error}")).warnings;
        warnings.into_iter().filter(|warning| warning.contains("chmod")).collect()
    };
    assert_eq!(told(0o600), [""; 0]);
    // A group, such as that of the service, may read it.
    assert_eq!(told(0o640), [""; 0]);
    let [control, console] = &told(0o644)[..] else { panic!("{:?}", told(0o644)) };
    assert!(
        control.contains("p.toml:2: ") && control.contains("`control`") && control.contains("chmod o-r"),
        "{control}"
    );
    assert!(
        console.contains("p.toml:5: ") && console.contains("`password`") && !console.contains("geheim"),
        "{console}"
    );
}
