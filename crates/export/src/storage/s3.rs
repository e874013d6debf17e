//! A bucket of S3, or of a store that speaks its protocol.
//!
//! An object appears whole or not at all, so writing needs no drafts. A [`lease`] keeps two exports from writing one prefix
//! at once; it needs conditional writes. Credentials and the endpoint come from the usual variables `AWS_…`.

mod fault;
mod lease;

use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{ClientOptions, Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutResult, RetryConfig};
use tokio::runtime::Runtime;

use super::{Advised, S3, Storage, StorageError};
use crate::manifest::MANIFEST;
use fault::advised;
use lease::{LOCK, Lease};

/// A server that does not accept a connection within this time cannot be reached.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest that a request may take; a chunk has some megabytes.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);

/// How often a request that the network or the store failed is sent again, and for how long.
const RETRIES: (usize, Duration) = (4, Duration::from_secs(60));

/// How a store is reached, and how long a lease lasts that is not renewed.
#[derive(Clone)]
pub struct Access {
    /// Settings of the client by name, such as `aws_region`. The secrets among them are the reason that this value cannot be
    /// printed.
    settings: Vec<(AmazonS3ConfigKey, String)>,
    /// After this time without renewal a lease may be taken over.
    pub lease: Duration,
}

impl Access {
    /// The access that environment variables describe; variables that mean nothing here are ignored.
    pub fn of_environment(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Access {
        let setting = |(name, value): (OsString, OsString)| {
            let name = name.into_string().ok().filter(|name| name.starts_with("AWS_"))?;
            Some((name.to_ascii_lowercase().parse().ok()?, value.into_string().ok()?))
        };
        Access { settings: variables.into_iter().filter_map(setting).collect(), lease: lease::LENGTH }
    }

    fn store(&self, bucket: &str) -> Result<AmazonS3, Error> {
        let mut builder = AmazonS3Builder::new().with_bucket_name(bucket);
        let mut is_plain = false;
        for (key, value) in &self.settings {
            // An endpoint without TLS is named on purpose.
            is_plain |= *key == AmazonS3ConfigKey::Endpoint && value.starts_with("http://");
            builder = builder.with_config(*key, value);
        }
        let options = ClientOptions::new().with_connect_timeout(CONNECT_TIMEOUT).with_timeout(REQUEST_TIMEOUT);
        let (max_retries, retry_timeout) = RETRIES;
        let retry = RetryConfig { max_retries, retry_timeout, ..RetryConfig::default() };
        let options = if is_plain { options.with_allow_http(true) } else { options };
        builder.with_client_options(options).with_retry(retry).build()
    }
}

impl std::fmt::Debug for Access {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Access").field("lease", &self.lease).finish_non_exhaustive()
    }
}

/// A prefix of a bucket.
#[derive(Debug)]
pub struct S3Storage {
    bucket: Arc<Bucket>,
    /// Held for writing; `None` for reading.
    lease: Option<Lease>,
}

impl S3Storage {
    /// The place `s3://bucket/prefix` for an export. No other process can export to it meanwhile.
    pub fn open(url: &str, access: &Access) -> Result<Self, StorageError> {
        let bucket = Arc::new(Bucket::open(url, access)?);
        let lease = Some(Lease::take(&bucket, access.lease)?);
        Ok(S3Storage { bucket, lease })
    }

    /// A place with an export, for reading.
    pub fn open_to_read(url: &str, access: &Access) -> Result<Self, StorageError> {
        Ok(S3Storage { bucket: Arc::new(Bucket::open(url, access)?), lease: None })
    }

    /// Refuses to change anything for others.
    fn check_lease(&self, act: &'static str, name: &str) -> Result<(), StorageError> {
        match &self.lease {
            // Others read what the manifest names, so it is certain before that is replaced.
            Some(lease) if name == MANIFEST => lease.renew(),
            Some(lease) => lease.check(),
            None => Err(io::Error::other("it was opened for reading")),
        }
        .map_err(|error| StorageError { act, place: self.place(name), error })
    }
}

impl Storage for S3Storage {
    fn place(&self, name: &str) -> String {
        self.bucket.place(name)
    }

    fn names(&self) -> Result<Vec<String>, StorageError> {
        let mut names = self.bucket.names()?;
        names.retain(|name| !name.starts_with(LOCK));
        names.sort_unstable();
        Ok(names)
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StorageError> {
        self.bucket.read(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StorageError> {
        self.check_lease("write", name)?;
        let written = self.bucket.put(name, bytes, PutMode::Overwrite);
        written.map(drop).map_err(|error| self.bucket.failed("write", name, &error))
    }

    fn remove(&self, name: &str) -> Result<(), StorageError> {
        self.check_lease("remove", name)?;
        self.bucket.remove(name).map_err(|error| self.bucket.failed("remove", name, &error))
    }
}

/// The objects below a prefix.
struct Bucket {
    store: AmazonS3,
    runtime: Runtime,
    /// `s3://bucket/prefix`, without a slash at its end.
    url: String,
    prefix: String,
}

impl std::fmt::Debug for Bucket {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Bucket").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Bucket {
    fn open(url: &str, access: &Access) -> Result<Bucket, StorageError> {
        let refused = |why: &str, remedy| Advised { why: why.to_owned(), remedy }.at("open", url.to_owned());
        let rest = url.strip_prefix(S3).unwrap_or_default().trim_end_matches('/');
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(refused("it names no bucket", "write s3://BUCKET/PREFIX"));
        }
        if Path::parse(prefix).is_err() {
            return Err(refused("its prefix is no path of an object", "write s3://BUCKET/PREFIX without // and .."));
        }
        // Requests wait for the network, so one thread drives them all.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| StorageError { act: "open", place: url.to_owned(), error })?;
        let store = access.store(bucket).map_err(|error| advised(&error).at("open", url.to_owned()))?;
        Ok(Bucket { store, runtime, url: format!("{S3}{rest}"), prefix: prefix.to_owned() })
    }

    fn place(&self, name: &str) -> String {
        if name.is_empty() { self.url.clone() } else { format!("{}/{name}", self.url) }
    }

    fn path(&self, name: &str) -> Path {
        let path = if self.prefix.is_empty() { name.to_owned() } else { format!("{}/{name}", self.prefix) };
        Path::parse(path).expect("the prefix was checked, and names of an export are paths")
    }

    fn failed(&self, act: &'static str, name: &str, error: &Error) -> StorageError {
        advised(error).at(act, self.place(name))
    }

    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    fn put(&self, name: &str, bytes: &[u8], mode: PutMode) -> Result<PutResult, Error> {
        let options = PutOptions { mode, ..PutOptions::default() };
        self.wait(self.store.put_opts(&self.path(name), bytes.to_vec().into(), options))
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StorageError> {
        let path = self.path(name);
        let bytes = self.wait(async { self.store.get(&path).await?.bytes().await });
        match bytes {
            Ok(bytes) => Ok(Some(bytes.to_vec())),
            Err(error) if fault::is_missing_object(&error) => Ok(None),
            Err(error) => Err(self.failed("read", name, &error)),
        }
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        self.wait(self.store.delete(&self.path(name)))
    }

    /// The names of all objects below the prefix.
    fn names(&self) -> Result<Vec<String>, StorageError> {
        let prefix = Path::parse(&self.prefix).expect("it was checked");
        let found = self.wait(self.store.list(Some(&prefix)).try_collect::<Vec<_>>());
        let found = found.map_err(|error| self.failed("list", "", &error))?;
        let skip = if self.prefix.is_empty() { 0 } else { self.prefix.len() + 1 };
        Ok(found.iter().map(|object| object.location.as_ref()[skip..].to_owned()).collect())
    }
}
