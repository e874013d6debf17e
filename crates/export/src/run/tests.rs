//! Exports of a small made-up database, with storage that fails or dies at every step.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use arrow::array::{Int64Array, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::*;
use crate::storage::FolderStorage;
use crate::verify::verify;
use crate::{AsOf, ChunkReader};

/// A table of numbers in chunks, an empty one, and the number of commits.
#[derive(Debug)]
struct Numbers {
    chunks: Vec<Vec<i64>>,
    commit: u64,
    tables: [TableShape; 2],
}

impl Numbers {
    fn new(commit: u64, chunks: &[&[i64]]) -> Self {
        let columns: SchemaRef = Arc::new(Schema::new(vec![
            Field::new("number", DataType::Int64, false),
            Field::new("text", DataType::Utf8View, true),
        ]));
        let table = |name: &str, chunks| TableShape {
            schema: "test".to_owned(),
            name: name.to_owned(),
            columns: Arc::clone(&columns),
            chunks,
        };
        let tables = [table("numbers", chunks.len()), table("no/rows", 1)];
        Numbers { chunks: chunks.iter().map(|chunk| chunk.to_vec()).collect(), commit, tables }
    }
}

impl Source for Numbers {
    fn origin(&self) -> String {
        "a test".to_owned()
    }

    fn as_of(&self) -> AsOf {
        AsOf::Commit(self.commit)
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
    fn read(&mut self, table: usize, chunk: usize) -> Result<RecordBatch, SourceError> {
        let numbers = if table == 0 { self.0.chunks[chunk].clone() } else { Vec::new() };
        if numbers.contains(&-1) {
            return Err(SourceError("a row cannot be read".to_owned()));
        }
        let texts: StringViewArray =
            numbers.iter().map(|number| (number % 2 == 0).then(|| number.to_string())).collect();
        let columns = Arc::clone(&self.0.tables[table].columns);
        Ok(RecordBatch::try_new(columns, vec![Arc::new(Int64Array::from(numbers)), Arc::new(texts)]).unwrap())
    }
}

/// Storage in memory that stops working after some calls that change it, as if the process was killed then.
#[derive(Debug, Default)]
struct Mortal {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    changes_left: AtomicUsize,
    kind: Option<ErrorKind>,
}

impl Mortal {
    fn revived(&self, changes_left: usize, kind: Option<ErrorKind>) -> Mortal {
        let files = Mutex::new(self.files.lock().unwrap().clone());
        Mortal { files, changes_left: changes_left.into(), kind }
    }

    fn spend(&self, act: &'static str, name: &str) -> Result<(), StorageError> {
        let spent = self.changes_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        let error = || io::Error::from(self.kind.unwrap_or(ErrorKind::Other));
        spent.map(drop).map_err(|_| StorageError { act, place: self.place(name), error: error() })
    }
}

impl Storage for Mortal {
    fn place(&self, name: &str) -> String {
        format!("/memory/{name}")
    }

    fn names(&self) -> Result<Vec<String>, StorageError> {
        Ok(self.files.lock().unwrap().keys().cloned().collect())
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StorageError> {
        Ok(self.files.lock().unwrap().get(name).cloned())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StorageError> {
        self.spend("write", name)?;
        self.files.lock().unwrap().insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), StorageError> {
        self.spend("remove", name)?;
        self.files.lock().unwrap().remove(name);
        Ok(())
    }
}

fn run(source: &Numbers, storage: &dyn Storage, threads: usize) -> Result<ExportReport, ExportError> {
    let (stop, made_by) = (AtomicBool::new(false), "test".to_owned());
    export(source, storage, &ExportOptions { threads, made_by, progress: &|_, _| {}, stop: &stop })
}

/// The numbers that an export has, which must be whole.
fn exported(storage: &dyn Storage) -> (AsOf, Vec<i64>) {
    let (manifest, faults) = verify(storage).unwrap();
    assert_eq!(faults, Vec::<String>::new());
    let mut numbers = Vec::new();
    for file in &manifest.tables[0].files {
        let bytes = storage.read(&file.path).unwrap().unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), bytes).unwrap();
        let file = fs::File::open(folder.path().join("file")).unwrap();
        for batch in ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap() {
            let batch = batch.unwrap();
            let column = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
            numbers.extend_from_slice(column.values());
        }
    }
    assert_eq!(numbers.len() as u64, manifest.tables[0].rows);
    (manifest.as_of, numbers)
}

#[test]
fn an_export_has_all_rows_and_a_second_one_writes_only_what_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let storage = FolderStorage::open(&folder.path().join("out")).unwrap();
    let first = run(&Numbers::new(1, &[&[1, 2], &[], &[3], &[4, 5]]), &storage, 3).unwrap();
    assert_eq!(exported(&storage), (AsOf::Commit(1), vec![1, 2, 3, 4, 5]));
    assert_eq!((first.files_written, first.manifest.files().count(), first.manifest.rows()), (4, 4, 5));
    let no_rows = &first.manifest.tables[1];
    assert_eq!((no_rows.files.len(), no_rows.rows), (1, 0), "a table without rows can be read, too");
    assert!(no_rows.files[0].path.starts_with("data/test.no%2frows/"), "{no_rows:?}");

    let same = run(&Numbers::new(2, &[&[1, 2], &[], &[3], &[4, 5]]), &storage, 1).unwrap();
    assert_eq!((same.files_written, same.bytes_written), (0, 0));
    let second = run(&Numbers::new(3, &[&[1, 2], &[], &[7], &[4, 5]]), &storage, 2).unwrap();
    assert_eq!(second.files_written, 1);
    assert_eq!(exported(&storage), (AsOf::Commit(3), vec![1, 2, 7, 4, 5]));
    let old = &first.manifest.tables[0].files[1].path;
    assert!(storage.read(old).unwrap().is_some(), "a reader of the last export may still need it");
    run(&Numbers::new(4, &[&[1, 2], &[], &[7], &[4, 5]]), &storage, 2).unwrap();
    assert_eq!(storage.read(old).unwrap(), None);
    assert_eq!(storage.names().unwrap().len(), 4 + 1, "the files and the manifest");
}

#[test]
fn a_kill_at_any_moment_leaves_the_export_before_or_the_new_one() {
    let before = Numbers::new(1, &[&[1], &[2, 3]]);
    let after = Numbers::new(2, &[&[1], &[2, 4], &[5]]);
    let first = Mortal::default().revived(usize::MAX, None);
    run(&before, &first, 1).unwrap();
    let mut ends = BTreeMap::new();
    for changes in 0.. {
        let dying = first.revived(changes, None);
        let outcome = run(&after, &dying, 1);
        let found = exported(&dying);
        let is_new = found == (AsOf::Commit(2), vec![1, 2, 4, 5]);
        assert!(is_new || found == (AsOf::Commit(1), vec![1, 2, 3]), "after {changes} changes: {found:?}");
        assert_eq!(outcome.is_ok(), is_new, "an error means that nothing was exported");
        *ends.entry(is_new).or_insert(0) += 1;
        // The next export finishes what this one has begun.
        let next = dying.revived(usize::MAX, None);
        run(&after, &next, 1).unwrap();
        assert_eq!(exported(&next), (AsOf::Commit(2), vec![1, 2, 4, 5]));
        if dying.changes_left.load(Ordering::Relaxed) > 0 {
            break;
        }
    }
    assert!(ends[&false] >= 3 && ends[&true] >= 1, "{ends:?}");
}

#[test]
fn a_first_export_that_was_killed_is_no_export_and_can_be_run_again() {
    let source = Numbers::new(1, &[&[1], &[2, 3]]);
    for changes in 0..5 {
        let dying = Mortal::default().revived(changes, None);
        assert!(run(&source, &dying, 1).is_err());
        let error = verify(&dying).unwrap_err().to_string();
        assert!(error.starts_with("/memory/manifest.json does not exist: no export was finished there"), "{error}");
        let next = dying.revived(usize::MAX, None);
        run(&source, &next, 1).unwrap();
        assert_eq!(exported(&next), (AsOf::Commit(1), vec![1, 2, 3]));
        assert!(!next.names().unwrap().contains(&UNFINISHED.to_owned()));
    }
}

#[test]
fn a_full_disk_is_reported_with_the_file_and_the_remedy() {
    let first = Mortal::default().revived(usize::MAX, None);
    run(&Numbers::new(1, &[&[1]]), &first, 1).unwrap();
    let full = first.revived(0, Some(ErrorKind::StorageFull));
    let error = run(&Numbers::new(2, &[&[2]]), &full, 2).unwrap_err().to_string();
    assert!(error.starts_with("cannot write /memory/data/test.numbers/000000-"), "{error}");
    assert!(error.contains("make room there or export to another disk; an earlier export there is"), "{error}");
    assert_eq!(exported(&full), (AsOf::Commit(1), vec![1]));

    // The kernel's own error: a file of this device is always full.
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(UNFINISHED), "").unwrap();
    std::os::unix::fs::symlink("/dev/full", folder.path().join("manifest.json.new")).unwrap();
    let storage = FolderStorage::open(folder.path()).unwrap();
    let error = run(&Numbers::new(1, &[&[1]]), &storage, 1).unwrap_err().to_string();
    assert!(error.contains("manifest.json: No space left on device (os error 28); make room there"), "{error}");
}

#[test]
fn folders_with_other_files_and_damaged_manifests_are_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("thesis.tex"), "all of it").unwrap();
    let source = Numbers::new(1, &[&[1]]);
    let storage = FolderStorage::open(folder.path()).unwrap();
    let error = run(&source, &storage, 1).unwrap_err().to_string();
    assert!(error.contains("thesis.tex is not a file of an export; export to an empty folder"), "{error}");
    assert_eq!(storage.names().unwrap(), ["thesis.tex"]);
    fs::write(folder.path().join("manifest.json"), "{\"format\": 1, \"ta").unwrap();
    let error = run(&source, &storage, 1).unwrap_err().to_string();
    assert!(error.contains("manifest.json is cut or is not the manifest of an export"), "{error}");
    assert_eq!(storage.names().unwrap(), ["manifest.json", "thesis.tex"]);
    drop(storage);

    let _held = FolderStorage::open(folder.path()).unwrap();
    let error = FolderStorage::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("another process exports to it; wait for its end"), "{error}");
    let error = FolderStorage::open(&folder.path().join("thesis.tex")).unwrap_err().to_string();
    assert!(error.starts_with("cannot make the folder ") && error.contains("thesis.tex"), "{error}");
}

#[test]
fn damaged_files_are_found_and_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let storage = FolderStorage::open(folder.path()).unwrap();
    let source = Numbers::new(1, &[&[1], &[2], &[3]]);
    let report = run(&source, &storage, 1).unwrap();
    let paths: Vec<&str> = report.manifest.tables[0].files.iter().map(|file| &*file.path).collect();
    let mut bytes = storage.read(paths[0]).unwrap().unwrap();
    bytes[9] ^= 1;
    fs::write(folder.path().join(paths[0]), &bytes).unwrap();
    fs::write(folder.path().join(paths[1]), &bytes[..9]).unwrap();
    fs::remove_file(folder.path().join(paths[2])).unwrap();
    let (_, faults) = verify(&storage).unwrap();
    let expect = ["has other contents", "has 9 bytes instead of", "is missing"];
    assert!(faults.len() == 3 && faults.iter().zip(expect).all(|(fault, why)| fault.contains(why)), "{faults:?}");
    assert_eq!(run(&source, &storage, 1).unwrap().files_written, 3);
    assert_eq!(exported(&storage), (AsOf::Commit(1), vec![1, 2, 3]));
}

#[test]
fn an_error_of_the_database_and_ctrl_c_leave_the_export_before() {
    let storage = Mortal::default().revived(usize::MAX, None);
    run(&Numbers::new(1, &[&[1], &[2]]), &storage, 1).unwrap();
    let error = run(&Numbers::new(2, &[&[3], &[-1], &[5]]), &storage, 2).unwrap_err().to_string();
    assert_eq!(error, "cannot read table numbers: a row cannot be read");
    let (stop, made_by) = (AtomicBool::new(true), "test".to_owned());
    let options = ExportOptions { threads: 2, made_by, progress: &|_, _| {}, stop: &stop };
    let error = export(&Numbers::new(3, &[&[4]]), &storage, &options).unwrap_err();
    assert!(matches!(error, ExportError::Stopped));
    assert_eq!(exported(&storage), (AsOf::Commit(1), vec![1, 2]));
}
