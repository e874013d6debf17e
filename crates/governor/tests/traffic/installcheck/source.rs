//! The test suites of the installed version, from the source package of the distribution.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::drivers::environment::{made, output_of, run, tool};
use plimsoll_postgres::server::Installation;

/// The suites, unpacked, with the library that the regression tests load.
pub struct Suite {
    /// The regression tests: `sql`, `data`, `expected`, `parallel_schedule` and `regress.so`.
    pub folder: PathBuf,
    /// The isolation tests: `specs`, `expected` and `isolation_schedule`.
    pub isolation: PathBuf,
    /// The version of the package.
    pub version: String,
}

/// The self-chosen names of repositories with source packages.
const ORIGINS: [&str; 3] = ["Debian", "Ubuntu", "apt.postgresql.org"];

impl Suite {
    /// Fetches them once for each version of the server that is installed.
    pub fn fetched() -> Suite {
        tool("apt-get", "apt");
        tool("dpkg-deb", "dpkg");
        tool("bzip2", "bzip2");
        tool("cc", "build-essential");
        let major = Installation::find(None).unwrap().version.major;
        let package = format!("postgresql-{major}");
        let version = output_of(Command::new("dpkg-query").args(["-W", "-f", "${Version}", &package]));
        let folder = made(&format!("suites-{version}"), Path::new(""), &[], |folder| {
            let apt = Apt::new(&folder.join("apt"));
            // The repositories may no longer have the installed version. A similar version serves as well, because both
            // outputs that are compared come from the same server.
            let found =
                apt.versions(&package, &version).into_iter().find(|version| apt.fetch(&package, version, folder));
            assert!(found.is_some(), "no source package of {package} can be fetched");
            unpack(folder, major);
            fs::remove_dir_all(folder.join("apt")).unwrap();
        });
        Suite { folder: folder.join("regress"), isolation: folder.join("isolation"), version }
    }
}

/// apt with lists of its own: those of the machine need not have source packages, and are not changed.
struct Apt {
    options: Vec<String>,
}

impl Apt {
    fn new(folder: &Path) -> Apt {
        fs::create_dir_all(folder.join("lists/partial")).unwrap();
        fs::create_dir_all(folder.join("archives/partial")).unwrap();
        let format = "$(ORIGIN)|deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)|deb $(REPO_URI) $(RELEASE) $(COMPONENT)";
        let known =
            output_of(Command::new("apt-get").args(["indextargets", "--format", format, "Created-By: Packages"]));
        let mut lines = known
            .lines()
            .filter_map(|line| line.split_once('|'))
            .filter(|(origin, _)| ORIGINS.contains(origin))
            .map(|(_, lines)| lines.replace('|', "\n") + "\n")
            .collect::<Vec<_>>();
        assert!(!lines.is_empty(), "apt knows no repository of {ORIGINS:?}; run apt-get update");
        lines.sort();
        lines.dedup();
        fs::write(folder.join("sources.list"), lines.concat()).unwrap();
        let place = |name: &str| folder.join(name).display().to_string();
        let options = [
            format!("Dir::Etc::SourceList={}", place("sources.list")),
            "Dir::Etc::SourceParts=/dev/null".to_owned(),
            format!("Dir::State::Lists={}", place("lists")),
            format!("Dir::Cache={}", place("")),
            // The folder may be in a home that apt's own account cannot read.
            "APT::Sandbox::User=root".to_owned(),
        ];
        let apt = Apt { options: options.into_iter().flat_map(|option| ["-o".to_owned(), option]).collect() };
        run(apt.command("apt-get").args(["-qq", "update"]));
        apt
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(&self.options);
        command
    }

    /// Versions with source packages, the wanted one first.
    fn versions(&self, package: &str, wanted: &str) -> Vec<String> {
        let shown = output_of(self.command("apt-cache").args(["showsrc", package]));
        let versions = shown.lines().filter_map(|line| line.strip_prefix("Version: ")).map(str::to_owned);
        let mut versions = versions.collect::<Vec<_>>();
        versions.sort_by_key(|version| version != wanted);
        versions
    }

    /// Downloads the source and the headers of a version; returns whether both exist.
    fn fetch(&self, package: &str, version: &str, folder: &Path) -> bool {
        let headers = package.replace("postgresql-", "postgresql-server-dev-");
        let mut source = self.command("apt-get");
        source.args(["-qq", "source", "--download-only", &format!("{package}={version}")]);
        let mut download = self.command("apt-get");
        download.args(["-qq", "download", &format!("{headers}={version}")]);
        [source, download]
            .iter_mut()
            .all(|command| command.current_dir(folder).output().is_ok_and(|output| output.status.success()))
    }
}

/// Unpacks the suites and builds the library of functions that its tests call.
fn unpack(folder: &Path, major: u32) {
    let file = |ends: &str| {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.into_iter().find(|path| path.to_string_lossy().ends_with(ends)).unwrap_or_else(|| panic!("no {ends}"))
    };
    let archive = file(".orig.tar.bz2");
    run(Command::new("tar")
        .args(["--extract", "--bzip2", "--strip-components=3", "--wildcards"])
        .args(["*/src/test/regress", "*/src/test/isolation"])
        .arg("--file")
        .arg(&archive)
        .current_dir(folder));
    let headers = file(".deb");
    run(Command::new("dpkg-deb").arg("--extract").arg(&headers).arg(folder.join("headers")));
    run(Command::new("cc")
        .args(["-O1", "-fPIC", "-shared", "-w", "-o", "regress.so", "regress.c", "-I"])
        .arg(folder.join(format!("headers/usr/include/postgresql/{major}/server")))
        .current_dir(folder.join("regress")));
    fs::remove_file(archive).unwrap();
    fs::remove_file(headers).unwrap();
}
