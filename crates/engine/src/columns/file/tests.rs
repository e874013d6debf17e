//! Values of all types are read as they were written, and a full disk is an error.

use std::path::Path;

use arrow::array::{
    BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, StringViewArray, UInt8Array, UInt16Array,
};

use plimsoll_testing::{Need, skip};

use super::*;
use crate::columns::folder::{DEFAULT_FOLDER, DiskFolder};

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
    let folder = DiskFolder::open(Path::new(DEFAULT_FOLDER)).unwrap();
    let mut writer = ColumnFileWriter::new(folder.make_file().unwrap());
    let written = columns();
    let extents: Vec<Extent> = written.iter().map(|column| writer.append(column).unwrap()).collect();
    let file = writer.finish().unwrap();
    assert_eq!(file.bytes(), extents.iter().map(|extent| extent.read_bytes() as u64).sum::<u64>());
    // In another order than they were written in.
    for (column, extent) in written.iter().zip(&extents).rev() {
        assert_eq!(&file.read(extent).unwrap(), column);
    }
}

#[test]
fn a_full_disk_is_an_error_before_anything_can_be_read() {
    let full = File::options().read(true).write(true).open("/dev/full").unwrap();
    let mut writer = ColumnFileWriter::new(full);
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
    let folder = DiskFolder::open(Path::new(DEFAULT_FOLDER)).unwrap();
    let mut writer = ColumnFileWriter::new(folder.make_file().unwrap());
    let extent = writer.append(&columns()[0]).unwrap();
    let file = writer.finish().unwrap();
    let Some(before) = read_from_disk() else {
        return skip(Need::Accounting, "the kernel does not account for the reads of a thread");
    };
    for _ in 0..3 {
        file.read(&extent).unwrap();
    }
    assert_eq!(read_from_disk().unwrap() - before, 3 * extent.read_bytes() as u64);
}
