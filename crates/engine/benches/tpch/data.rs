//! The data of TPC-H, in the order of the tables in the schema.

use std::fs::File;
use std::ops::RangeInclusive;
use std::path::Path;

use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use arrow::record_batch::RecordBatch;
use plimsoll_workload::tpch::queries::QUERIES;
use plimsoll_workload::tpch::tables::SCHEMA;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow,
};

/// The scale of a part that is made at a time when not all rows are held.
const SCALE_PER_PART: f64 = 1.0;

pub fn generate(scale: f64) -> Vec<Vec<RecordBatch>> {
    SCHEMA.tables.iter().map(|table| make(table.name, scale)).collect()
}

pub fn make(table: &str, scale: f64) -> Vec<RecordBatch> {
    parts(scale).flat_map(|part| make_part(table, scale, part, *parts(scale).end())).collect()
}

/// The numbers of the parts in which large tables are made.
pub fn parts(scale: f64) -> RangeInclusive<i32> {
    1..=(scale / SCALE_PER_PART).ceil().max(1.0) as i32
}

/// Makes a part of a table, of `parts` parts.
pub fn make_part(table: &str, scale: f64, part: i32, parts: i32) -> Vec<RecordBatch> {
    let batches: Result<Vec<RecordBatch>, ArrowError> = match table {
        // Of nations and regions there are too few.
        "region" | "nation" if part > 1 => return Vec::new(),
        "region" => RegionArrow::new(RegionGenerator::new(scale, 1, 1)).collect(),
        "nation" => NationArrow::new(NationGenerator::new(scale, 1, 1)).collect(),
        "supplier" => SupplierArrow::new(SupplierGenerator::new(scale, part, parts)).collect(),
        "part" => PartArrow::new(PartGenerator::new(scale, part, parts)).collect(),
        "partsupp" => PartSuppArrow::new(PartSuppGenerator::new(scale, part, parts)).collect(),
        "customer" => CustomerArrow::new(CustomerGenerator::new(scale, part, parts)).collect(),
        "orders" => OrderArrow::new(OrderGenerator::new(scale, part, parts)).collect(),
        "lineitem" => LineItemArrow::new(LineItemGenerator::new(scale, part, parts)).collect(),
        other => panic!("TPC-H has no table {other}"),
    };
    batches.expect("the generator makes batches")
}

/// Writes each table as `TABLE.arrows`, an Arrow stream, and each query as `QUERY.sql`.
pub fn export(tables: &[Vec<RecordBatch>], scale: f64, folder: &Path) -> Result<(), ArrowError> {
    std::fs::create_dir_all(folder)?;
    for query in &QUERIES {
        std::fs::write(folder.join(format!("{}.sql", query.name)), query.validation_sql(scale))?;
    }
    for (table, batches) in SCHEMA.tables.iter().zip(tables) {
        write(batches, &folder.join(format!("{}.arrows", table.name)))?;
    }
    Ok(())
}

/// Writes batches, at least one, as an Arrow stream.
pub fn write(batches: &[RecordBatch], path: &Path) -> Result<(), ArrowError> {
    let mut writer = StreamWriter::try_new(File::create(path)?, &batches[0].schema())?;
    batches.iter().try_for_each(|batch| writer.write(batch))?;
    writer.finish()
}
