//! The dependencies of the programs, made once by the tools of their languages and kept beside the builds.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};

/// Fails, with the package to install, if a program is missing.
pub fn tool(name: &str, package: &str) {
    let is_there =
        env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|folder| folder.join(name).exists()));
    assert!(
        is_there,
        "{name} is not installed, and this test drives a driver with it; on Debian: apt install {package}"
    );
}

/// A folder with the contents that `make` creates, renewed when a file of `wanted` (names in `from`) has changed.
pub fn made(name: &str, from: &Path, wanted: &[&str], make: impl FnOnce(&Path)) -> PathBuf {
    // One at a time: two tests may need the same folder.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let program = env::current_exe().unwrap();
    // The program is in target/release/deps.
    let folder = program.ancestors().nth(3).unwrap().join("drivers").join(name);
    let contents = wanted.iter().flat_map(|file| fs::read(from.join(file)).unwrap());
    let stamp =
        Sha256::digest(contents.collect::<Vec<u8>>()).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let stamp_file = folder.join("made-from");
    if fs::read_to_string(&stamp_file).is_ok_and(|made_from| made_from == stamp) {
        return folder;
    }
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    make(&folder);
    // Written last, so that an incomplete folder is not taken for a complete one.
    fs::write(stamp_file, stamp).unwrap();
    folder
}

/// The same, with copies of those files in it before `make` sees it.
fn made_from_copies(name: &str, from: &Path, wanted: &[&str], make: impl FnOnce(&Path)) -> PathBuf {
    made(name, from, wanted, |folder| {
        for file in wanted {
            let copy = folder.join(file);
            fs::create_dir_all(copy.parent().expect("it is in a folder")).unwrap();
            fs::copy(from.join(file), copy).unwrap();
        }
        make(folder);
    })
}

/// Runs a program to its end, which must be successful.
pub fn run(command: &mut Command) {
    output_of(command);
}

/// The output of a program that succeeds.
pub fn output_of(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let remedy = "it needs a package registry this once: connect, or configure a mirror";
    assert!(output.status.success(), "{command:?}: {}\n{said}\n({remedy})", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// The python of an environment with the drivers that `requirements.txt` names.
pub fn python(from: &Path) -> PathBuf {
    tool("python3", "python3-venv");
    let name = from.file_name().and_then(|name| name.to_str()).expect("a folder with a name");
    let made = made(name, from, &["requirements.txt"], |folder| {
        run(Command::new("python3").args(["-m", "venv"]).arg(folder));
        let install = "-m pip install --quiet --disable-pip-version-check --only-binary=:all: --requirement";
        let mut pip = Command::new(folder.join("bin/python"));
        run(pip.args(install.split(' ')).arg(from.join("requirements.txt")));
    });
    made.join("bin/python")
}

/// A folder with the programs and, beside them, the modules that they import.
pub fn node_folder(from: &Path) -> PathBuf {
    tool("node", "nodejs");
    tool("npm", "npm");
    let wanted = ["package.json", "package-lock.json", "checks.js", "pg.js", "postgres.js"];
    made_from_copies("node", from, &wanted, |folder| {
        run(Command::new("npm").args(["ci", "--silent", "--no-audit", "--no-fund"]).current_dir(folder));
    })
}

/// The program, which uses libraries that Debian packages: `ruby-activerecord` and `ruby-pg`.
pub fn ruby_program(file: &Path) -> Command {
    tool("ruby", "ruby-activerecord ruby-pg");
    run(Command::new("ruby").args(["-e", "require 'active_record'; require 'pg'"]));
    let mut program = Command::new("ruby");
    program.arg(file);
    program
}

/// The program, built.
pub fn go_program(from: &Path) -> PathBuf {
    tool("go", "golang-go");
    let made = made_from_copies("go", from, &["go.mod", "go.sum", "main.go"], |folder| {
        run(Command::new("go")
            .args(["build", "-o", "checks", "."])
            .current_dir(folder)
            .env("GOFLAGS", "-mod=readonly"));
    });
    made.join("checks")
}

/// The program, built.
pub fn rust_program(from: &Path) -> PathBuf {
    tool("cargo", "cargo");
    let made = made_from_copies("rust", from, &["Cargo.toml", "Cargo.lock", "src/main.rs"], |folder| {
        run(Command::new("cargo").args(["build", "--locked", "--target-dir", "target"]).current_dir(folder));
    });
    made.join("target/debug/tokio-postgres-checks")
}

/// A class path with the libraries that `pom.xml` names and all that they need.
pub fn java_libraries(from: &Path) -> String {
    tool("java", "default-jdk-headless");
    let name = from.file_name().and_then(|name| name.to_str()).expect("a folder with a name");
    let made = made(name, from, &["pom.xml"], |folder| {
        tool("mvn", "maven");
        let copy = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";
        run(Command::new("mvn").args(["--batch-mode", "--quiet", "--file"]).arg(from.join("pom.xml")).args([
            copy.to_owned(),
            format!("-DoutputDirectory={}", folder.join("libraries").display()),
            format!("-Dmaven.repo.local={}", folder.join("repository").display()),
        ]));
    });
    format!("{}/*", made.join("libraries").display())
}

/// The driver's archive, of the version and with the checksum that `jdbc.properties` has.
pub fn java_driver(from: &Path) -> PathBuf {
    tool("java", "default-jdk-headless");
    let properties = fs::read_to_string(from.join("jdbc.properties")).unwrap();
    let property = |name: &str| {
        let value = properties.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_else(|| panic!("jdbc.properties has no {name}")).to_owned()
    };
    let artifact = property("artifact");
    let made = made("java", from, &["jdbc.properties"], |folder| {
        tool("mvn", "maven");
        let get = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:get";
        run(Command::new("mvn").args(["--batch-mode", "--quiet", get, "-Dtransitive=false"]).args([
            format!("-Dartifact={artifact}"),
            format!("-Dmaven.repo.local={}", folder.join("repository").display()),
        ]));
        let parts = artifact.split(':').collect::<Vec<_>>();
        let [group, name, version] = parts[..] else { panic!("{artifact} is not GROUP:NAME:VERSION") };
        let place = format!("repository/{}/{name}/{version}/{name}-{version}.jar", group.replace('.', "/"));
        let archive = fs::read(folder.join(place)).unwrap();
        let sum = Sha256::digest(&archive).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(sum, property("sha256"), "{artifact} is not what was meant");
        fs::write(folder.join("driver.jar"), archive).unwrap();
    });
    made.join("driver.jar")
}
