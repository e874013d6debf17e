//! The data, in the order of the tables in the schema.

use std::fs::File;
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

/// Makes all tables at a scale.
pub fn generate(scale: f64) -> Vec<Vec<RecordBatch>> {
    let one = |table: &plimsoll_workload::schema::Table| make(table.name, scale).expect("the generator makes batches");
    SCHEMA.tables.iter().map(one).collect()
}

fn make(table: &str, scale: f64) -> Result<Vec<RecordBatch>, ArrowError> {
    match table {
        "region" => RegionArrow::new(RegionGenerator::new(scale, 1, 1)).collect(),
        "nation" => NationArrow::new(NationGenerator::new(scale, 1, 1)).collect(),
        "supplier" => SupplierArrow::new(SupplierGenerator::new(scale, 1, 1)).collect(),
        "part" => PartArrow::new(PartGenerator::new(scale, 1, 1)).collect(),
        "partsupp" => PartSuppArrow::new(PartSuppGenerator::new(scale, 1, 1)).collect(),
        "customer" => CustomerArrow::new(CustomerGenerator::new(scale, 1, 1)).collect(),
        "orders" => OrderArrow::new(OrderGenerator::new(scale, 1, 1)).collect(),
        "lineitem" => LineItemArrow::new(LineItemGenerator::new(scale, 1, 1)).collect(),
        other => panic!("TPC-H has no table {other}"),
    }
}

/// Writes each table as `TABLE.arrows`, an Arrow stream, and each query as `QUERY.sql`.
pub fn export(tables: &[Vec<RecordBatch>], scale: f64, folder: &Path) -> Result<(), ArrowError> {
    std::fs::create_dir_all(folder)?;
    for query in &QUERIES {
        std::fs::write(folder.join(format!("{}.sql", query.name)), query.validation_sql(scale))?;
    }
    for (table, batches) in SCHEMA.tables.iter().zip(tables) {
        let file = File::create(folder.join(format!("{}.arrows", table.name)))?;
        let mut writer = StreamWriter::try_new(file, &batches[0].schema())?;
        batches.iter().try_for_each(|batch| writer.write(batch))?;
        writer.finish()?;
    }
    Ok(())
}
