//! Certificates for tests, made by openssl.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Runs openssl in a directory; each generated certificate has its own key.
fn openssl(folder: &Path, arguments: &str) {
    let mut command = Command::new("openssl");
    command.current_dir(folder).args(arguments.split_whitespace());
    if arguments.starts_with("req") {
        command.args(["-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Creates a self-signed certificate for the host `subject`, and its key: the files `name.crt` and `name.key`.
pub fn self_signed(folder: &Path, name: &str, subject: &str) {
    let subject = format!("-subj /CN={subject} -addext subjectAltName=DNS:{subject}");
    openssl(folder, &format!("req -x509 -days 2 {subject} -keyout {name}.key -out {name}.crt"));
}

/// Creates a certificate that `authority` has signed, with the given extensions.
pub fn signed(folder: &Path, name: &str, subject: &str, authority: &str, extensions: &str) {
    fs::write(folder.join("extensions"), extensions).unwrap();
    openssl(folder, &format!("req -subj /CN={subject} -keyout {name}.key -out {name}.csr"));
    let sign = format!("-days 2 -CA {authority}.crt -CAkey {authority}.key -CAcreateserial -extfile extensions");
    openssl(folder, &format!("x509 -req {sign} -in {name}.csr -out {name}.crt"));
    fs::set_permissions(folder.join(format!("{name}.key")), Permissions::from_mode(0o600)).unwrap();
}
