//! Installations as folders of programs that only print their version.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn install(root: &Path, folder: &str, version: &str) -> PathBuf {
    let folder = root.join(folder);
    std::fs::create_dir_all(&folder).unwrap();
    for program in ["postgres", "initdb"] {
        let path = folder.join(program);
        // Written by another program: a file that this one has open for writing while another thread forks cannot be
        // run.
        let script = format!("#!/bin/sh\necho '{program} (PostgreSQL) {version}'\n");
        let made = Command::new("sh").args(["-c", "printf %s \"$1\" > \"$2\"", "sh", &script]).arg(&path).status();
        assert!(made.unwrap().success());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

fn find(root: &Path, path: &[PathBuf]) -> Result<Installation, ServerError> {
    Installation::newest(&candidates(root, None, path.iter().cloned()))
}

#[test]
fn versions_as_they_are_told() {
    let check = |text: &str, expect: Option<(u32, u32)>| {
        assert_eq!(Version::parse(text).map(|version| (version.major, version.minor)), expect, "{text}");
    };
    check("postgres (PostgreSQL) 15.4 (Debian 15.4-1.pgdg120+1)\n", Some((15, 4)));
    check("postgres (PostgreSQL) 18beta1", Some((18, 0)));
    check("postgres (PostgreSQL) 9.6.24", Some((9, 6)));
    check("postgres (PostgreSQL) 17rc1 (Homebrew)", Some((17, 0)));
    check("postgres (EnterpriseDB) 15.4", None);
    check("postgres (PostgreSQL) devel", None);
    check("", None);
    assert!(Version { major: 15, minor: 10 } > Version { major: 15, minor: 9 });
}

#[test]
fn the_newest_supported_wins() {
    let root = tempfile::tempdir().unwrap();
    install(root.path(), "usr/lib/postgresql/13/bin", "13.20");
    let newest = install(root.path(), "usr/lib/postgresql/17/bin", "17.5 (Debian)");
    install(root.path(), "usr/pgsql-16/bin", "16.9");
    install(root.path(), "usr/lib/postgresql/99/bin", "99.1");
    std::fs::create_dir_all(root.path().join("usr/lib/postgresql/18/bin")).unwrap();
    let found = find(root.path(), &[]).unwrap();
    assert_eq!(found, Installation { bin_folder: newest, version: Version { major: 17, minor: 5 } });
}

#[test]
fn links_in_the_search_path_are_followed_and_wrappers_are_not_servers() {
    let root = tempfile::tempdir().unwrap();
    let real = install(root.path(), "somewhere/else", "14.1");
    let (links, wrappers) = (root.path().join("links"), root.path().join("wrappers"));
    std::fs::create_dir_all(&links).unwrap();
    symlink(real.join("postgres"), links.join("postgres")).unwrap();
    std::fs::create_dir_all(&wrappers).unwrap();
    std::fs::copy(real.join("postgres"), wrappers.join("postgres")).unwrap();
    let found = find(root.path(), &[wrappers.clone(), links]).unwrap();
    assert_eq!(found.bin_folder.canonicalize().unwrap(), real.canonicalize().unwrap());
    let error = find(root.path(), std::slice::from_ref(&wrappers)).unwrap_err().to_string();
    assert!(error.contains("no PostgreSQL server was found"), "{error}");
    assert!(error.contains("apt install postgresql") && error.contains("/usr/lib/postgresql/*/bin"), "{error}");
    let error = Installation::find(Some(&wrappers)).unwrap_err().to_string();
    assert!(error.contains("it has no initdb; name the folder that has initdb and postgres"), "{error}");
}

#[test]
fn what_is_too_old_or_too_new_is_told() {
    let root = tempfile::tempdir().unwrap();
    let old = install(root.path(), "usr/lib/postgresql/12/bin", "12.22");
    let error = find(root.path(), &[]).unwrap_err().to_string();
    assert!(error.starts_with("PostgreSQL 13 to 18 are supported, but here is 12.22 in "), "{error}");
    let error = Installation::find(Some(&old)).unwrap_err().to_string();
    assert!(error.contains("here is 12.22 in"), "{error}");
    let odd = install(root.path(), "odd", "unknown");
    let error = Installation::find(Some(&odd)).unwrap_err().to_string();
    assert!(error.contains("--version says"), "{error}");
}
