//! The right to write a prefix, for one export at a time: an object that is made only if there is none.
//!
//! Its owner renews it. One that was not renewed for [`LENGTH`] belongs to a process that was killed, and the next export
//! takes it over. Both times are those of the store, so that clocks of other machines do not matter. Each change is
//! conditional on the version before it, so of two exports that try at once one fails.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use object_store::{Error, ObjectStoreExt, PutMode, PutResult, UpdateVersion};

use super::Bucket;
use crate::storage::{Advised, StorageError};

/// The beginning of the names of objects that are no part of an export.
pub(super) const LOCK: &str = "export-lock";

/// After this time without renewal a lease may be taken over.
pub(super) const LENGTH: Duration = Duration::from_secs(60);

/// A lease is renewed this often within its length, so that one lost request does not end it.
const RENEWALS: u32 = 4;

/// How often taking a lease is tried if others take and release it meanwhile.
const TRIES: usize = 3;

/// A lease that is renewed until it is dropped.
#[derive(Debug)]
pub(super) struct Lease {
    owned: Arc<Owned>,
    /// Dropped to end the thread.
    stop: Option<Sender<()>>,
    renewer: Option<JoinHandle<()>>,
}

/// What the renewing thread shares.
#[derive(Debug)]
struct Owned {
    bucket: Arc<Bucket>,
    /// Tells this lease from all others.
    owner: String,
    version: Mutex<Version>,
    is_lost: AtomicBool,
}

/// The lock as it was written last.
#[derive(Debug)]
struct Version {
    renewals: u64,
    of_store: UpdateVersion,
}

impl Lease {
    /// Takes the lease of a prefix, or says who has it.
    pub fn take(bucket: &Arc<Bucket>, length: Duration) -> Result<Lease, StorageError> {
        let owner = format!("process {} ({:016x})", std::process::id(), RandomState::new().build_hasher().finish());
        let of_store = take(bucket, &owner, length)?;
        let version = Mutex::new(Version { renewals: 0, of_store });
        let owned = Arc::new(Owned { bucket: Arc::clone(bucket), owner, version, is_lost: AtomicBool::new(false) });
        let (stop, stopped) = channel();
        let renewed = Arc::clone(&owned);
        let renewer = std::thread::spawn(move || {
            while stopped.recv_timeout(length / RENEWALS) == Err(RecvTimeoutError::Timeout) {
                // A store that does not answer may answer the next time; one that refuses has another owner by now.
                let _ = renewed.renew();
            }
        });
        Ok(Lease { owned, stop: Some(stop), renewer: Some(renewer) })
    }

    /// Fails if another export has taken it over.
    pub fn check(&self) -> io::Result<()> {
        if self.owned.is_lost.load(Ordering::Relaxed) { Err(lost()) } else { Ok(()) }
    }

    /// Makes sure that it is still ours.
    pub fn renew(&self) -> io::Result<()> {
        self.check()?;
        self.owned.renew()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(renewer) = self.renewer.take() {
            // It holds no lock when it panics, and the object is removed in any case.
            let _ = renewer.join();
        }
        if self.check().is_ok() {
            // One that stays is taken over after its length.
            let _ = self.owned.bucket.remove(LOCK);
        }
    }
}

impl Owned {
    fn renew(&self) -> io::Result<()> {
        let mut version = self.version.lock().expect("no thread panics while holding it");
        let text = text(&self.owner, version.renewals + 1);
        let mode = PutMode::Update(version.of_store.clone());
        let renewed = match self.bucket.put(LOCK, text.as_bytes(), mode) {
            // The first of two equal requests may have been done and its answer lost.
            Err(Error::Precondition { .. }) => self.bucket.lock_of(&self.owner),
            other => other.map(|done| Some(version_of(done))),
        };
        match renewed {
            Ok(Some(of_store)) => {
                *version = Version { renewals: version.renewals + 1, of_store };
                Ok(())
            }
            Ok(None) | Err(Error::NotFound { .. }) => {
                self.is_lost.store(true, Ordering::Relaxed);
                Err(lost())
            }
            Err(error) => Err(io::Error::other(super::advised(&error))),
        }
    }
}

fn lost() -> io::Error {
    io::Error::other(Advised {
        why: "another export has taken over, because this one had not reached the store for a while".to_owned(),
        remedy: "wait for its end, and export again",
    })
}

fn text(owner: &str, renewals: u64) -> String {
    format!("An export by {owner} writes here; renewed {renewals} times.\n")
}

fn version_of(done: PutResult) -> UpdateVersion {
    UpdateVersion { e_tag: done.e_tag, version: done.version }
}

fn take(bucket: &Bucket, owner: &str, length: Duration) -> Result<UpdateVersion, StorageError> {
    let failed = |error: &Error| bucket.failed("export to", "", error);
    let mut mode = PutMode::Create;
    for _ in 0..TRIES {
        match bucket.put(LOCK, text(owner, 0).as_bytes(), mode) {
            Ok(done) => return Ok(version_of(done)),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {}
            Err(error) => return Err(failed(&error)),
        }
        if let Some(own) = bucket.lock_of(owner).map_err(|error| failed(&error))? {
            return Ok(own);
        }
        mode = match bucket.stale_lock(length).map_err(|error| failed(&error))? {
            Standing::None => PutMode::Create,
            Standing::Stale(version) => PutMode::Update(version),
            Standing::Fresh(text) => return Err(refused(bucket, text.trim())),
        };
    }
    Err(refused(bucket, "others take turns there"))
}

fn refused(bucket: &Bucket, who: &str) -> StorageError {
    let why = format!("another process exports to it: {who}");
    let remedy = "wait for its end; if it was killed, try again in a minute";
    Advised { why, remedy }.at("export to", bucket.place(""))
}

/// A lock that another export has made.
enum Standing {
    /// It is gone.
    None,
    /// It was not renewed.
    Stale(UpdateVersion),
    /// Its text.
    Fresh(String),
}

impl Bucket {
    /// The lock's version, if it is this owner's.
    fn lock_of(&self, owner: &str) -> Result<Option<UpdateVersion>, Error> {
        Ok(self.lock()?.filter(|(text, _, _)| text.contains(owner)).map(|(_, version, _)| version))
    }

    /// The lock's text, its version, and when it was written, in seconds of the store's clock.
    fn lock(&self) -> Result<Option<(String, UpdateVersion, i64)>, Error> {
        let path = self.path(LOCK);
        let found = self.wait(async {
            let found = self.store.get(&path).await?;
            let meta = found.meta.clone();
            Ok::<_, Error>((found.bytes().await?, meta))
        });
        match found {
            Ok((bytes, meta)) => {
                let version = UpdateVersion { e_tag: meta.e_tag, version: meta.version };
                Ok(Some((String::from_utf8_lossy(&bytes).into_owned(), version, meta.last_modified.timestamp())))
            }
            Err(error) if super::fault::is_missing_object(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn stale_lock(&self, length: Duration) -> Result<Standing, Error> {
        let now = self.clock()?;
        let Some((text, version, written)) = self.lock()? else { return Ok(Standing::None) };
        // Times of objects are whole seconds.
        let is_stale = now - written > length.as_secs() as i64;
        Ok(if is_stale { Standing::Stale(version) } else { Standing::Fresh(text) })
    }

    /// The store's clock: when an object is written that is written now.
    fn clock(&self) -> Result<i64, Error> {
        let name = format!("{LOCK}.clock-{}", std::process::id());
        self.put(&name, b"", PutMode::Overwrite)?;
        let written = self.wait(self.store.head(&self.path(&name)))?;
        // Others do not take it for a part of an export.
        let _ = self.remove(&name);
        Ok(written.last_modified.timestamp())
    }
}
