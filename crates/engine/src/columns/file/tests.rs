//! Values of all types are read as they were written; what a disk lost or changed is an error, and so is a full disk.

use std::path::Path;

use arrow::array::{
    BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, StringViewArray, UInt8Array, UInt16Array,
};

use plimsoll_testing::{Need, skip};

use super::*;
use crate::columns::folder::{DEFAULT_FOLDER, DiskFolder};

/// Files of which nothing stays in memory.
fn files() -> ColumnFiles {
    DiskFolder::open(Path::new(DEFAULT_FOLDER)).unwrap().into()
}

fn columns() -> Vec<ArrayRef> {
    let rows = 10_000i64;
    let nullable = |row: i64| (row % 7 != 0).then_some(row);
    let text = |row: i64| {
        (row % 11 != 0).then(|| format!("row {row} has a text longer than a view holds").split_off((row % 9) as usize))
    };
    let plain: [ArrayRef; 9] = [
        Arc::new((0..rows).map(nullable).collect::<Int64Array>()),
        Arc::new(Date32Array::from_iter_values((0..rows).map(|row| row as i32))),
        Arc::new(Decimal128Array::from_iter_values((0..rows).map(|row| i128::from(row) << 70))),
        Arc::new(Float64Array::from_iter_values((0..rows).map(|row| row as f64 / 3.0))),
        Arc::new((0..rows).map(|row| nullable(row).map(|row| row % 3 == 0)).collect::<BooleanArray>()),
        Arc::new((0..rows).map(text).collect::<StringViewArray>()),
        Arc::new(StringViewArray::from(vec!["short"; 3])),
        // A part of an array, whose null bits do not start at a byte.
        Arc::new((0..rows).map(nullable).collect::<Int64Array>().slice(13, 1000)),
        Arc::new(Int64Array::from(Vec::<i64>::new())),
    ];
    let codes: [ArrayRef; 2] = [
        Arc::new(UInt8Array::from_iter_values((0..rows).map(|row| row as u8))),
        Arc::new((0..rows).map(|row| nullable(row).map(|row| row as u16)).collect::<UInt16Array>()),
    ];
    plain.into_iter().chain(codes).collect()
}

#[test]
fn every_column_comes_back_as_it_was() {
    let mut writer = files().begin("ship").unwrap();
    let written = columns();
    let extents: Vec<Extent> = written.iter().map(|column| writer.append(column).unwrap()).collect();
    let file = writer.finish().unwrap();
    assert_eq!(file.bytes(), extents.iter().map(|extent| extent.read_bytes() as u64).sum::<u64>());
    // In another order than they were written in.
    for (column, extent) in written.iter().zip(&extents).rev() {
        assert_eq!(file.load(extent).unwrap(), (Arc::clone(column), true));
    }
}

#[test]
fn a_full_disk_is_an_error_before_anything_can_be_read() {
    let full = File::options().read(true).write(true).open("/dev/full").unwrap();
    let mut writer = ColumnFileWriter::new(full, "ship".to_owned(), ColumnCache::new(0));
    let outcome = columns().iter().try_for_each(|column| writer.append(column).map(|_| ()));
    let error = outcome.and_then(|()| Ok(writer.finish().map(|_| ())?)).unwrap_err().to_string();
    assert!(error.contains("No space left on device"), "{error}");
}

/// The bytes that this thread has made the disk read.
fn read_from_disk() -> Option<u64> {
    let account = std::fs::read_to_string("/proc/thread-self/io").ok()?;
    account.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok())
}

#[test]
fn every_read_reaches_the_disk() {
    let mut writer = files().begin("ship").unwrap();
    let extent = writer.append(&columns()[0]).unwrap();
    let file = writer.finish().unwrap();
    let Some(before) = read_from_disk() else {
        return skip(Need::Accounting, "the kernel does not account for the reads of a thread");
    };
    for _ in 0..3 {
        file.load(&extent).unwrap();
    }
    assert_eq!(read_from_disk().unwrap() - before, 3 * extent.read_bytes() as u64);
}

#[test]
fn a_byte_that_changed_on_the_disk_is_an_error_wherever_it_is() {
    let mut writer = files().begin("ship").unwrap();
    let (first, second) = (writer.append(&columns()[0]).unwrap(), writer.append(&columns()[1]).unwrap());
    let file = writer.finish().unwrap();
    let (values, end) = (first.metadata as u64, (first.metadata + first.body) as u64);
    for place in [0, values - 1, values, end / 2, end - 1] {
        file.damage(place);
        let error = file.load(&first).unwrap_err().to_string();
        let expect =
            format!("{} bytes at 0 of the column file of table ship in /var/tmp are not those", first.read_bytes());
        assert!(error.starts_with(&expect), "{error}");
        assert!(file.load(&second).is_ok(), "the other column is as it was");
        file.damage(place);
        assert!(file.load(&first).is_ok(), "the byte is as it was");
    }
}

#[test]
fn a_file_that_was_cut_is_an_error() {
    let mut writer = files().begin("ship").unwrap();
    let extents: Vec<Extent> = columns().iter().map(|column| writer.append(column).unwrap()).collect();
    let file = writer.finish().unwrap();
    file.cut(extents[1].offset + 1);
    assert!(file.load(&extents[0]).is_ok());
    for extent in &extents[1..3] {
        let error = file.load(extent).unwrap_err().to_string();
        let expect =
            format!("cannot read {} bytes at {} of the column file of table ship", extent.read_bytes(), extent.offset);
        assert!(error.starts_with(&expect), "{error}");
    }
}

#[test]
fn a_file_has_no_name_so_that_a_killed_process_leaves_nothing_behind() {
    let folder = tempfile::tempdir_in(DEFAULT_FOLDER).unwrap();
    let files = ColumnFiles::from(DiskFolder::open(folder.path()).unwrap());
    let names = || std::fs::read_dir(folder.path()).unwrap().count();
    let mut writer = files.begin("ship").unwrap();
    assert_eq!(names(), 0, "while it is written");
    let extent = writer.append(&columns()[0]).unwrap();
    let file = writer.finish().unwrap();
    assert_eq!((file.load(&extent).unwrap().0.len(), names()), (10_000, 0), "while it is read");
}
