//! Folders that are made, marked and removed, or refused.

use std::os::unix::fs::symlink;

use plimsoll_testing::until;

use super::*;

fn settings(base: &Path) -> ServerSettings {
    let options = [("folder", base.to_str().unwrap()), ("max_wal_size", "32MB"), ("allow_tmpfs", "on")];
    ServerSettings::for_this_machine().with(&options).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

/// A folder for servers that every user can enter, and one for state.
fn places() -> (tempfile::TempDir, tempfile::TempDir) {
    let base = tempfile::tempdir().unwrap();
    std::fs::set_permissions(base.path(), Permissions::from_mode(0o755)).unwrap();
    (base, tempfile::tempdir().unwrap())
}

#[test]
fn a_home_is_noted_marked_and_gone_when_dropped() {
    let (base, state) = places();
    let account = Account::choose().unwrap();
    let home = Home::make(&settings(base.path()), account.as_ref(), state.path()).unwrap();
    let folder = home.folder.clone();
    assert_eq!(marked(&folder).as_ref(), Some(&home.note.record));
    assert_eq!(Note::all(state.path()).len(), 1);
    assert!(home.note.record.has_owner());
    for path in [home.data(), home.socket_folder()] {
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }
    std::fs::write(home.data().join("table"), "rows").unwrap();
    drop(home);
    assert_eq!((names(base.path()), Note::all(state.path()).len()), (Vec::new(), 0));
}

#[test]
fn what_bears_no_mark_of_ours_stays() {
    let (base, _state) = places();
    let folder = base.path().canonicalize().unwrap().join(format!("{PREFIX}1-0"));
    let make = || {
        std::fs::create_dir(&folder).unwrap();
        std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    };
    make();
    // Stopped between making and marking.
    assert_eq!(remove_folder(&folder), Ok(true));
    assert_eq!(remove_folder(&folder), Ok(false));
    make();
    let precious = folder.join("precious");
    std::fs::write(&precious, "mine").unwrap();
    let refused = remove_folder(&folder).unwrap_err();
    assert!(refused.contains("does not bear our mark, and stays"), "{refused}");
    // The mark of another folder.
    write_file(&folder.join(MARK), &Record::new(base.path().join("other"))).unwrap();
    remove_folder(&folder).unwrap_err();
    // A mark that others could have put there.
    write_file(&folder.join(MARK), &Record::new(folder.clone())).unwrap();
    std::fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
    remove_folder(&folder).unwrap_err();
    assert!(precious.exists());
    std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    // The target of a link within stays.
    let outside = base.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("kept"), "").unwrap();
    symlink(&outside, folder.join("data")).unwrap();
    assert_eq!(remove_folder(&folder), Ok(true));
    assert!(outside.join("kept").exists() && !folder.exists());
    // A link in the place of the folder.
    symlink(&outside, &folder).unwrap();
    remove_folder(&folder).unwrap_err();
    assert!(outside.join("kept").exists());
}

#[test]
fn folders_that_will_not_do_are_refused_and_nothing_stays() {
    let (base, state) = places();
    let account = Account::choose().unwrap();
    let check = |settings: &ServerSettings, expect: &str| {
        let error = Home::make(settings, account.as_ref(), state.path()).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
        assert_eq!(Note::all(state.path()).len(), 0);
    };
    check(&settings(&base.path().join("none")), "none: No such file or directory");
    let mut large = settings(base.path());
    large.set("max_wal_size", "1TB").unwrap();
    check(&large, "but 1099.6 GB are needed: 80 MB for an empty cluster, 1099.5 GB for the log (max_wal_size");
    let deep = base.path().join("d".repeat(100));
    std::fs::create_dir(&deep).unwrap();
    check(&settings(&deep), "its path is too long: that of the socket would have");
    // Root can enter every folder; the account that the server runs as cannot, and other users can enter none.
    let closed = base.path().join("closed");
    std::fs::create_dir_all(closed.join("within")).unwrap();
    std::fs::set_permissions(closed.join("within"), Permissions::from_mode(0o555)).unwrap();
    std::fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
    match account {
        Some(_) => check(&settings(&closed.join("within")), "as whom the server runs, cannot write there"),
        None => check(&settings(&closed.join("within")), "Permission denied"),
    }
    assert_eq!(names(&closed.join("within")), Vec::<String>::new());
    if Path::new("/dev/shm").exists() {
        let mut memory = settings(Path::new("/dev/shm"));
        memory.set("allow_tmpfs", "off").unwrap();
        check(&memory, "/dev/shm is on a tmpfs, which is memory and not a disk");
    }
}

#[test]
fn processes_of_a_folder_end_whoever_began_them() {
    let (base, _state) = places();
    let data = base.path().canonicalize().unwrap();
    assert_eq!(end_processes(&data, None), Ok(0));
    let mut command = std::process::Command::new("sh");
    let mut shell = command.args(["-c", "trap '' INT QUIT TERM; sleep 1000; true"]).current_dir(&data).spawn().unwrap();
    until("the shell and its child", || ProcessIdentity::working_in(&Host::real(), &data).len() == 2);
    assert_eq!(end_processes(&data, None), Ok(2));
    assert!(!shell.wait().unwrap().success());
}
