//! Workers of a user's with TLS: what goes over the network, and who is not trusted.

use std::fs;
use std::path::Path;
use std::process::Command;

use plimsoll_testing::{openssl, says};
use tempfile::TempDir;

use crate::command_line::{SECRET, bench, worker_with};
use crate::pair::{WORKLOAD, exported};
use crate::program::{RunningProgram, assert_ended, items, json, plimsoll, run, said};
use crate::recording_proxy::RecordingProxy;

/// The first letters of [`SECRET`] as HTTP/2 sends them: in the Huffman code of RFC 7541, in which `Bearer ` before them has
/// 40 bits, so that they begin with a byte.
const SECRET_SENT: &[u8] = b"\x00\x44\xcb\x4d\xb8\xeb\xcf\x8e\x32\x48\x59";

const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

/// An authority: the files `name.crt` and `name.key`, by the command of docs/cluster.md.
fn authority(folder: &Path, name: &str) {
    openssl(folder, &format!("req -x509 {KEY} -days 2 -subj /CN={name} -keyout {name}.key -out {name}.crt"));
}

/// A worker's certificate for a host, by the commands of docs/cluster.md.
fn signed(folder: &Path, name: &str, host: &str, authority: &str, days: i32) {
    let names = format!("-subj /CN={name} -addext subjectAltName={host}");
    openssl(folder, &format!("req {KEY} {names} -keyout {name}.key -out {name}.csr"));
    let by = format!("-CA {authority}.crt -CAkey {authority}.key -days {days}");
    openssl(folder, &format!("x509 -req {by} -copy_extensions copy -in {name}.csr -out {name}.crt"));
}

/// An export of several files, the authorities `ca` and `other`, and certificates that `ca` has signed.
fn prepared() -> TempDir {
    let folder = exported(WORKLOAD);
    authority(folder.path(), "ca");
    authority(folder.path(), "other");
    signed(folder.path(), "good", "IP:127.0.0.1", "ca", 2);
    folder
}

/// A worker that shows this certificate and trusts this authority, behind a network that is watched.
fn encrypted(folder: &Path, certificate: &str, authority: &str) -> (RunningProgram, RecordingProxy) {
    let (certificate, key) = (format!("{certificate}.crt"), format!("{certificate}.key"));
    let authority = format!("{authority}.crt");
    let files = ["--tls-cert", &certificate, "--tls-key", &key, "--tls-ca", &authority];
    let (program, address) = worker_with(folder, SECRET, &[&["--listen", "127.0.0.1:0"], &files[..]].concat());
    (program, RecordingProxy::before(&address))
}

/// A run that trusts this authority; none for a run without TLS.
fn trusting(folder: &Path, addresses: &str, authority: Option<&str>) -> Command {
    let data = authority.map_or_else(|| "out".to_owned(), |authority| format!("out&tls_ca={authority}.crt"));
    bench(folder, WORKLOAD, addresses, &data, SECRET)
}

/// Workers reach each other through the proxies, too, because a plan names them as the coordinator does.
#[test]
fn neither_the_secret_nor_rows_go_over_the_network_as_they_are() {
    let folder = prepared();
    let check = |workers: [(RunningProgram, RecordingProxy); 2], authority: Option<&str>| {
        let addresses = format!("{},{}", workers[0].1.address, workers[1].1.address);
        let document = json(&trusting(folder.path(), &addresses, authority).output().unwrap());
        assert!(items(&document["points"])[0]["workloads"][0]["completed"].as_u64() > Some(0), "{document}");
        for (_, proxy) in &workers {
            assert_eq!(proxy.is_encrypted(), Some(authority.is_some()));
            assert_eq!([SECRET_SENT, b"l_orderkey"].map(|text| proxy.has_seen(text)), [authority.is_none(); 2]);
        }
    };
    check([(); 2].map(|()| encrypted(folder.path(), "good", "ca")), Some("ca"));
    // The network would have seen them.
    let plain = |()| worker_with(folder.path(), SECRET, &["--listen", "127.0.0.1:0"]);
    check([(); 2].map(plain).map(|(program, address)| (program, RecordingProxy::before(&address))), None);
}

#[test]
fn a_worker_that_is_not_trusted_gets_no_secret() {
    let folder = prepared();
    let folder = folder.path();
    signed(folder, "elsewhere", "DNS:elsewhere", "ca", 2);
    signed(folder, "expired", "IP:127.0.0.1", "ca", -1);
    let refused = |proxy: &RecordingProxy, authority: Option<&str>, expect: &str| {
        let outcome = trusting(folder, &proxy.address, authority).output().unwrap();
        assert_ended(&outcome, 3);
        let told = said(&outcome);
        says(expect, &told, &format!("the worker at {} ", proxy.address));
        says(expect, &told, expect);
        assert!(!proxy.has_seen(SECRET_SENT), "{expect}");
    };
    let (_good, good) = encrypted(folder, "good", "ca");
    refused(&good, None, "encrypts its connections; name the file of the authority");
    refused(&good, Some("other"), "none of the authorities in tls_ca");
    let (_elsewhere, elsewhere) = encrypted(folder, "elsewhere", "ca");
    refused(&elsewhere, Some("ca"), "its certificate is for other hosts");
    let (_expired, expired) = encrypted(folder, "expired", "ca");
    refused(&expired, Some("ca"), "make a new certificate there");
    let (_plain, address) = worker_with(folder, SECRET, &["--listen", "127.0.0.1:0"]);
    refused(&RecordingProxy::before(&address), Some("ca"), "does not encrypt its connections");
}

/// The coordinator trusts both workers, and one of them does not trust the other.
#[test]
fn workers_verify_each_other() {
    let folder = prepared();
    let folder = folder.path();
    signed(folder, "foreign", "IP:127.0.0.1", "other", 2);
    let both = ["ca.crt", "other.crt"].map(|name| fs::read_to_string(folder.join(name)).unwrap()).concat();
    fs::write(folder.join("both.crt"), both).unwrap();
    let (_one, one) = encrypted(folder, "good", "ca");
    let (_two, two) = encrypted(folder, "foreign", "both");
    let addresses = format!("{},{}", one.address, two.address);
    let outcome = trusting(folder, &addresses, Some("both")).output().unwrap();
    let told = said(&outcome) + &String::from_utf8_lossy(&outcome.stdout);
    says("a query", &told, &format!("the worker at {} is not trusted", two.address));
    says("a query", &told, "`--tls-ca` of a worker");
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let folder = prepared();
    let folder = folder.path();
    fs::write(folder.join("empty"), "").unwrap();
    let start = |files: [&str; 3], expect: &str| {
        let [certificate, key, authority] = files;
        let arguments = ["worker", "--listen", "127.0.0.1:0", "--data", "out", "--tls-cert", certificate];
        let arguments = [&arguments[..], &["--tls-key", key, "--tls-ca", authority]].concat();
        let outcome = plimsoll(&arguments, folder).env("PLIMSOLL_CLUSTER_SECRET", SECRET).output().unwrap();
        assert_ended(&outcome, 3);
        says(expect, &said(&outcome), expect);
    };
    start(["good.crt", "ca.key", "ca.crt"], "good.crt: the certificate cannot be used with the key ca.key");
    start(["good.crt", "empty", "ca.crt"], "good.crt: the certificate cannot be used with the key empty");
    start(["none.crt", "good.key", "ca.crt"], "cannot use none.crt");
    start(["good.crt", "good.key", "empty"], "empty: it has no certificate; one begins with");
    let alone = run(&["worker", "--listen", "127.0.0.1:0", "--data", "out", "--tls-cert", "good.crt"], folder);
    assert_ended(&alone, 2);
    says("a certificate alone", &said(&alone), "--tls-key");
}

#[test]
fn a_worker_that_others_can_reach_says_that_it_is_not_encrypted() {
    let folder = exported("tpch:0.01");
    let start = |listen: &str| worker_with(folder.path(), SECRET, &["--listen", listen]).0.said.clone();
    says("all addresses", &start("0.0.0.0:0"), "warning: connections are not encrypted");
    assert!(!start("127.0.0.1:0").contains("warning"));
}
