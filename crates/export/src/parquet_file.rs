//! A chunk as a Parquet file. Equal rows make equal bytes.

use arrow::record_batch::RecordBatch;
use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

/// The bytes of a file with these rows.
pub(crate) fn encode(batch: &RecordBatch) -> Result<Vec<u8>, ParquetError> {
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    // Without Arrow's own description of the schema, which would have other programs read texts in the form of ours.
    let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new_with_options(&mut bytes, batch.schema(), options)?;
    writer.write(batch)?;
    writer.close()?;
    Ok(bytes)
}
