//! Exports to a bucket of moto, a server that speaks S3's protocol, and to stores that refuse.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use arrow::array::Int64Array;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use plimsoll_export::storage::s3::{Access, S3Storage};
use plimsoll_export::{
    AsOf, ChunkReader, ExportError, ExportOptions, ExportReport, Source, SourceError, Storage, TableShape, export,
    verify,
};
use plimsoll_testing::{python, until};

/// Appears in no message.
const SECRET: &str = "wJalrXUtnFEMI-not-to-be-shown";

/// A table of numbers, a chunk for each.
#[derive(Debug)]
struct Numbers {
    numbers: Vec<i64>,
    tables: [TableShape; 1],
}

/// The export stops at this number, until it is killed.
const STOP: i64 = -1;

impl Numbers {
    fn new(numbers: &[i64]) -> Self {
        let columns = Arc::new(Schema::new(vec![Field::new("number", DataType::Int64, false)]));
        let (schema, name) = ("test".to_owned(), "numbers".to_owned());
        let table = TableShape { schema, name, columns, chunks: numbers.len() };
        Numbers { numbers: numbers.to_vec(), tables: [table] }
    }
}

impl Source for Numbers {
    fn origin(&self) -> String {
        "a test".to_owned()
    }

    fn as_of(&self) -> AsOf {
        AsOf::Commit(self.numbers.len() as u64)
    }

    fn tables(&self) -> &[TableShape] {
        &self.tables
    }

    fn reader(&self) -> Result<Box<dyn ChunkReader + '_>, SourceError> {
        Ok(Box::new(NumbersReader(self)))
    }
}

struct NumbersReader<'a>(&'a Numbers);

impl ChunkReader for NumbersReader<'_> {
    fn read(&mut self, _: usize, chunk: usize) -> Result<RecordBatch, SourceError> {
        if self.0.numbers[chunk] == STOP {
            loop {
                std::thread::park();
            }
        }
        let numbers = Int64Array::from(vec![self.0.numbers[chunk]]);
        Ok(RecordBatch::try_new(Arc::clone(&self.0.tables[0].columns), vec![Arc::new(numbers)]).unwrap())
    }
}

fn exported(numbers: &[i64], storage: &dyn Storage) -> Result<ExportReport, ExportError> {
    let stop = AtomicBool::new(false);
    let options = ExportOptions { threads: 1, progress: &|_, _| {}, stop: &stop, known: None };
    export(&Numbers::new(numbers), storage, &options)
}

/// A server of moto, which ends with its value.
struct Moto {
    server: Child,
    endpoint: String,
}

impl Moto {
    /// A server that serves `free` requests to anybody, and later ones only to users that it knows; `None` for all.
    fn start(free: Option<u32>) -> Moto {
        let mut command = Command::new(python());
        command.args(["-m", "moto.server", "--port", "0"]).stdout(Stdio::null()).stderr(Stdio::piped());
        command.envs(free.map(|count| ("INITIAL_NO_AUTH_ACTION_COUNT", count.to_string())));
        let mut server = command.spawn().unwrap();
        let mut said = BufReader::new(server.stderr.take().unwrap()).lines();
        let endpoint = said.find_map(|line| Some(line.ok()?.split_once("Running on ")?.1.trim().to_owned()));
        // Later lines are read, too, so that the server does not wait for a reader.
        std::thread::spawn(move || said.for_each(drop));
        Moto { server, endpoint: endpoint.expect("moto says where it listens") }
    }

    /// Makes a bucket, by a request of nobody known.
    fn make_bucket(&self, name: &str) {
        let host = self.endpoint.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        let head = format!("PUT /{name} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close");
        write!(stream, "{head}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    fn access(&self) -> Access {
        access(&self.endpoint)
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn access(endpoint: &str) -> Access {
    let variables = [
        ("AWS_ACCESS_KEY_ID", "AKIATEST"),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_REGION", "us-east-1"),
        ("AWS_VAULT", "ignored"),
        ("PATH", "ignored"),
    ];
    Access::of_environment(variables.map(|(name, value)| (OsString::from(name), OsString::from(value))))
}

#[test]
fn an_export_is_written_verified_and_written_again() {
    let moto = Moto::start(None);
    moto.make_bucket("lake");
    let url = "s3://lake/shop/daily";
    let open = || S3Storage::open(url, &moto.access()).unwrap();
    let first = exported(&[1, 2, 3], &open()).unwrap();
    assert_eq!((first.files_written, first.manifest.rows()), (3, 3));
    let (manifest, faults) = verify(&S3Storage::open_to_read(url, &moto.access()).unwrap()).unwrap();
    assert_eq!((manifest, faults), (first.manifest.clone(), Vec::new()));

    let second = exported(&[1, 7, 3], &open()).unwrap();
    assert_eq!(second.files_written, 1, "unchanged chunks keep their files");
    let third = exported(&[1, 7, 3], &open()).unwrap();
    assert_eq!(third.files_written, 0);
    let mut named: Vec<String> = third.manifest.files().map(|file| file.path.clone()).collect();
    named.push("manifest.json".to_owned());
    assert_eq!(
        open().names().unwrap(),
        named,
        "the chunk that was replaced is gone, and the lock is none of the files"
    );

    open().remove(&named[0]).unwrap();
    let (_, faults) = verify(&open()).unwrap();
    assert_eq!(faults, [format!("{url}/{} is missing", named[0])]);
    assert_eq!(exported(&[1, 7, 3], &open()).unwrap().files_written, 1, "what is missing is written again");
    // A prefix does not contain those that begin with the same letters.
    assert_eq!(S3Storage::open("s3://lake/shop/d", &moto.access()).unwrap().names().unwrap(), [] as [String; 0]);
}

#[test]
fn pyarrow_and_iceberg_read_an_export() {
    let moto = Moto::start(None);
    moto.make_bucket("lake");
    exported(&[1, 2, 3], &S3Storage::open("s3://lake/shop", &moto.access()).unwrap()).unwrap();
    let mut command = Command::new(python());
    command.args(["tests/s3_read.py", &moto.endpoint]);
    command.env("AWS_ACCESS_KEY_ID", "AKIATEST").env("AWS_SECRET_ACCESS_KEY", SECRET);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_second_writer_is_refused_until_the_first_ends() {
    let moto = Moto::start(None);
    moto.make_bucket("lake");
    let open = || S3Storage::open("s3://lake", &moto.access());
    let first = open().unwrap();
    let why = open().unwrap_err().to_string();
    assert!(
        why.starts_with("cannot export to s3://lake: another process exports to it: An export by process"),
        "{why}"
    );
    assert!(why.ends_with("wait for its end; if it was killed, try again in a minute"), "{why}");
    assert!(S3Storage::open("s3://lake/other", &moto.access()).is_ok(), "another prefix is free");
    drop(first);
    exported(&[1], &open().unwrap()).unwrap();
}

#[test]
fn a_writer_whose_lease_was_taken_over_changes_nothing() {
    let moto = Moto::start(None);
    moto.make_bucket("lake");
    let first = S3Storage::open("s3://lake", &moto.access()).unwrap();
    exported(&[1], &first).unwrap();
    // To one that waits for a second only, the lease is soon over: it is renewed less often.
    let mut hasty = moto.access();
    hasty.lease = SHORT;
    let mut second = None;
    until("the lease is taken over", || {
        second = S3Storage::open("s3://lake", &hasty).ok();
        second.is_some()
    });
    let why = exported(&[1, 2], &first).unwrap_err().to_string();
    assert!(why.contains("manifest.json: another export has taken over"), "{why}");
    let (manifest, faults) = verify(&first).unwrap();
    assert_eq!((manifest.rows(), faults.len()), (1, 0), "the export before is complete");
    drop(first);
    assert!(S3Storage::open("s3://lake", &moto.access()).is_err(), "its end does not remove the lock of the other one");
    drop(second);
    assert!(S3Storage::open("s3://lake", &moto.access()).is_ok());
}

/// The variable that names the endpoint for [`an_export_that_is_killed`].
const CHILD: &str = "PLIMSOLL_TEST_S3_ENDPOINT";

/// The length of the lease of an export that is killed.
const SHORT: Duration = Duration::from_secs(1);

/// Runs in a process of its own, which is killed at the third chunk.
#[test]
fn an_export_that_is_killed() {
    let Some(endpoint) = env::var_os(CHILD) else { return };
    let mut access = access(endpoint.to_str().unwrap());
    access.lease = SHORT;
    let storage = S3Storage::open("s3://lake/shop", &access).unwrap();
    let _ = exported(&[4, 5, STOP], &storage);
}

#[test]
fn a_killed_export_leaves_the_one_before_and_the_next_one_takes_over() {
    for before in [None, Some([1, 2])] {
        let moto = Moto::start(None);
        moto.make_bucket("lake");
        let mut access = moto.access();
        access.lease = SHORT;
        let open = || S3Storage::open("s3://lake/shop", &access);
        let read = || S3Storage::open_to_read("s3://lake/shop", &access).unwrap();
        if let Some(numbers) = before {
            exported(&numbers, &open().unwrap()).unwrap();
        }
        let count = read().names().unwrap().len();
        let mut killed = Command::new(env::current_exe().unwrap())
            .args(["--exact", "an_export_that_is_killed"])
            .env(CHILD, &moto.endpoint)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // Two chunks; the first export also marks its beginning.
        let more = if before.is_none() { 3 } else { 2 };
        until("two chunks are written", || read().names().unwrap().len() == count + more);
        killed.kill().unwrap();
        killed.wait().unwrap();
        match (before, verify(&read())) {
            (None, Err(ExportError::NoExport { .. })) => {}
            (Some(_), Ok((manifest, faults))) => assert_eq!((manifest.rows(), faults.len()), (2, 0)),
            (_, other) => panic!("{other:?}"),
        }
        let mut storage = None;
        until("the lease of the killed export is over", || {
            storage = open().ok();
            storage.is_some()
        });
        assert_eq!(exported(&[1, 2, 3], storage.as_ref().unwrap()).unwrap().manifest.rows(), 3);
        drop(storage);
        let names = read().names().unwrap();
        assert_eq!(names.len(), 4, "what the killed export has left is gone: {names:?}");
    }
}

/// A store that answers every request with the same status and error.
fn refusing(status: &'static str, code: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // A client that gives up is no concern of a store.
            let _ = stream.read(&mut [0; 65_536]);
            let body = format!("<Error><Code>{code}</Code><Message>no</Message></Error>");
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close", body.len());
            let _ = write!(stream, "{head}\r\n\r\n{body}");
        }
    });
    endpoint
}

#[test]
fn stores_that_refuse_are_named_with_the_remedy_and_without_the_secret() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (endpoint, expect) in [
        (refusing("404 Not Found", "NoSuchBucket"), "the bucket does not exist; create it"),
        (
            refusing("403 Forbidden", "AccessDenied"),
            "access is denied; give these credentials the rights s3:ListBucket",
        ),
        (refusing("403 Forbidden", "SignatureDoesNotMatch"), "the credentials are refused; check AWS_ACCESS_KEY_ID"),
        (refusing("301 Moved Permanently", "PermanentRedirect"), "the bucket is in another region; set AWS_REGION"),
        (refusing("400 Bad Request", "AuthorizationHeaderMalformed"), "in another region; set AWS_REGION"),
        (format!("http://{closed}"), "the store cannot be reached; check AWS_ENDPOINT_URL"),
    ] {
        let access = access(&endpoint);
        let why = S3Storage::open("s3://lake/shop", &access).unwrap_err().to_string();
        assert!(why.starts_with("cannot export to s3://lake/shop: ") && why.contains(expect), "{why}");
        let read = S3Storage::open_to_read("s3://lake/shop", &access).unwrap().read("manifest.json");
        let read = read.unwrap_err().to_string();
        assert!(read.starts_with("cannot read s3://lake/shop/manifest.json: ") && read.contains(expect), "{read}");
        assert!(!format!("{why}{read}{access:?}").contains(SECRET), "{why}{read}");
    }
    for url in ["s3://", "s3:///shop", "s3://lake/a//b"] {
        let why = S3Storage::open(url, &access("http://127.0.0.1:1")).unwrap_err().to_string();
        assert!(why.contains("write s3://BUCKET/PREFIX"), "{why}");
    }
}

#[test]
fn a_bucket_that_is_missing_and_a_user_that_is_unknown_are_told_as_moto_tells_them() {
    let moto = Moto::start(None);
    let why = S3Storage::open("s3://nowhere/shop", &moto.access()).unwrap_err().to_string();
    assert!(why.contains("the bucket does not exist; create it"), "{why}");
    let strict = Moto::start(Some(1));
    strict.make_bucket("lake");
    let why = S3Storage::open("s3://lake/shop", &strict.access()).unwrap_err().to_string();
    assert!(why.contains("the credentials are refused; check AWS_ACCESS_KEY_ID"), "{why}");
}
