//! A coordinator before workers that it must not use.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use datafusion_distributed::Worker;
use plimsoll_cluster::ClusterDatabase;
use plimsoll_cluster::options::ClusterOptions;
use plimsoll_export::manifest::{FORMAT, MANIFEST};
use plimsoll_export::{AsOf, Manifest};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;

/// A worker that says this of itself, while the run time lives.
fn worker(threads: &Runtime, words: &str) -> SocketAddr {
    let listener = threads.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let service = Worker::default().with_version(words.to_owned()).into_worker_server();
    threads.spawn(Server::builder().add_service(service).serve_with_incoming(TcpListenerStream::new(listener)));
    address
}

fn error(folder: &Path, address: SocketAddr) -> String {
    let mut options = ClusterOptions::of_url(&format!("cluster://{address}")).unwrap();
    options.set("data", &folder.display().to_string()).unwrap();
    options.set("secret_file", &folder.join("secret").display().to_string()).unwrap();
    match ClusterDatabase::open(&options, Path::new("none"), |_, _| unreachable!("the data are given")) {
        Ok(_) => panic!("the worker is used"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_worker_of_another_version_is_refused_with_both_versions() {
    let (folder, threads) = (tempfile::tempdir().unwrap(), Runtime::new().unwrap());
    std::fs::write(folder.path().join("secret"), "0123456789abcdef\n").unwrap();
    let manifest = Manifest {
        format: FORMAT,
        made_by: "a test".to_owned(),
        origin: "a test".to_owned(),
        as_of: AsOf::Commit(0),
        data: BTreeMap::new(),
        tables: Vec::new(),
    };
    std::fs::write(folder.path().join(MANIFEST), manifest.to_bytes()).unwrap();
    let check = |words: &str, expect: &str| {
        let error = error(folder.path(), worker(&threads, words));
        assert!(error.contains(expect) && error.contains("this program is plimsoll "), "{error}, not {expect}");
    };
    check(
        r#"{"version": "plimsoll 0.0.9 (protocol 0, DataFusion 54.0.0)", "data": null}"#,
        "is plimsoll 0.0.9 (protocol 0",
    );
    check("2.3", "is `2.3`");
}
