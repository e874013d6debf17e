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
use crate::writer::Writer;
use crate::{AsOf, ChunkReader};

/// A table of numbers in chunks, an empty one, and the number of commits.
#[derive(Debug)]
struct Numbers {
    chunks: Vec<Arc<Vec<i64>>>,
    commit: u64,
    tables: [TableShape; 2],
    /// The chunks of the first table that were read.
    read: Mutex<Vec<usize>>,
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
        let chunks = chunks.iter().map(|chunk| Arc::new(chunk.to_vec())).collect();
        Numbers { chunks, commit, tables, read: Mutex::default() }
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
        let numbers = if table == 0 { self.0.chunks[chunk].to_vec() } else { Vec::new() };
        if table == 0 {
            self.0.read.lock().unwrap().push(chunk);
        }
        if numbers.contains(&-1) {
            return Err(SourceError("a row cannot be read".to_owned()));
        }
        let texts: StringViewArray =
            numbers.iter().map(|number| (number % 2 == 0).then(|| number.to_string())).collect();
        let columns = Arc::clone(&self.0.tables[table].columns);
        Ok(RecordBatch::try_new(columns, vec![Arc::new(Int64Array::from(numbers)), Arc::new(texts)]).unwrap())
    }

    fn identity(&mut self, table: usize, chunk: usize) -> Result<Option<ChunkIdentity>, SourceError> {
        Ok((table == 0).then(|| ChunkIdentity::of(&self.0.chunks[chunk])))
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
    let stop = AtomicBool::new(false);
    let options = ExportOptions { threads, progress: &|_, _| {}, stop: &stop, known: None };
    export(source, storage, &options)
}

/// The numbers that an export has, which must be whole.
fn exported(storage: &dyn Storage) -> (AsOf, Vec<i64>) {
    let (manifest, faults) = verify(storage).unwrap();
    assert_eq!(faults, Vec::<String>::new());
    let mut numbers = Vec::new();
    let table = manifest.tables.iter().find(|table| table.name == "numbers").unwrap();
    for file in &table.files {
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
    assert_eq!(numbers.len() as u64, table.rows);
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
fn a_chunk_that_is_known_to_be_the_same_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let storage = FolderStorage::open(&folder.path().join("out")).unwrap();
    let (known, stop) = (KnownChunks::default(), AtomicBool::new(false));
    let run_knowing = |source: &Numbers| {
        let options = ExportOptions { threads: 1, progress: &|_, _| {}, stop: &stop, known: Some(&known) };
        export(source, &storage, &options).unwrap();
        source.read.lock().unwrap().clone()
    };
    let mut numbers = Numbers::new(1, &[&[1, 2], &[], &[3]]);
    assert_eq!(run_knowing(&numbers), [0, 1, 2]);
    // One chunk changes, one goes, and one comes; the allocator may give a new one the address of an old one.
    numbers.chunks[0] = Arc::new(vec![7, 2]);
    numbers.chunks.truncate(2);
    numbers.chunks.push(Arc::new(vec![4]));
    (numbers.commit, numbers.read) = (2, Mutex::default());
    assert_eq!(run_knowing(&numbers), [0, 2], "one without rows is known, too");
    assert_eq!(exported(&storage), (AsOf::Commit(2), vec![7, 2, 4]));
    // An export that knows nothing has replaced the one that the known files are of.
    run(&Numbers::new(3, &[&[5], &[], &[6]]), &storage, 1).unwrap();
    run(&Numbers::new(4, &[&[5], &[], &[6]]), &storage, 1).unwrap();
    (numbers.commit, numbers.read) = (5, Mutex::default());
    assert_eq!(run_knowing(&numbers), [0, 2]);
    assert_eq!(exported(&storage), (AsOf::Commit(5), vec![7, 2, 4]));
}

/// Writes batches of the first table.
fn write(storage: Box<dyn Storage>, batches: &[&[i64]]) -> Result<ExportReport, ExportError> {
    let source = Numbers::new(1, batches);
    let writer = Writer::new(storage, source.tables().to_vec())?;
    let mut reader = source.reader().unwrap();
    for number in 0..batches.len() {
        writer.add(0, reader.read(0, number).unwrap())?;
    }
    writer.finish("a test".to_owned(), AsOf::Commit(0), BTreeMap::new())
}

#[test]
fn rows_that_come_by_themselves_are_exported_in_files_of_many_rows() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let numbers: Vec<i64> = (0..200_000).collect();
    let batches: Vec<&[i64]> = numbers.chunks(999).collect();
    let written = || write(Box::new(FolderStorage::open(&out).unwrap()), &batches).unwrap();
    let first = written();
    assert_eq!(exported(&FolderStorage::open_to_read(&out)), (AsOf::Commit(0), numbers.clone()));
    let files: Vec<usize> = first.manifest.tables.iter().map(|table| table.files.len()).collect();
    assert_eq!((&files[..], first.manifest.tables[0].rows), (&[1, 4][..], 0), "a table without rows can be read, too");
    let second = written();
    assert_eq!((first.files_written, second.files_written, second.manifest), (5, 0, first.manifest));
}

#[test]
fn rows_that_come_by_themselves_leave_the_export_before_until_all_have_come() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    run(&Numbers::new(1, &[&[1], &[2]]), &FolderStorage::open(&out).unwrap(), 1).unwrap();
    let numbers: Vec<i64> = (0..70_000).collect();
    {
        let source = Numbers::new(1, &[&numbers]);
        let writer = Writer::new(Box::new(FolderStorage::open(&out).unwrap()), source.tables().to_vec()).unwrap();
        writer.add(0, source.reader().unwrap().read(0, 0).unwrap()).unwrap();
    }
    assert_eq!(exported(&FolderStorage::open_to_read(&out)), (AsOf::Commit(1), vec![1, 2]), "it was never finished");
    assert_eq!(
        FolderStorage::open_to_read(&out).names().unwrap().len(),
        4,
        "what it wrote is gone: two files of numbers, one without rows, the manifest"
    );
    let dying = Mortal::default().revived(2, Some(ErrorKind::StorageFull));
    let error = write(Box::new(dying), &[&numbers]).unwrap_err().to_string();
    assert!(error.contains("make room there"), "{error}");
    write(Box::new(FolderStorage::open(&out).unwrap()), &[&[3, 4]]).unwrap();
    assert_eq!(exported(&FolderStorage::open_to_read(&out)), (AsOf::Commit(0), vec![3, 4]));
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
    let stop = AtomicBool::new(true);
    let options = ExportOptions { threads: 2, progress: &|_, _| {}, stop: &stop, known: None };
    let error = export(&Numbers::new(3, &[&[4]]), &storage, &options).unwrap_err();
    assert!(matches!(error, ExportError::Stopped));
    assert_eq!(exported(&storage), (AsOf::Commit(1), vec![1, 2]));
}
