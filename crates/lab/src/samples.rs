//! `samples.parquet`: a row for each second and workload of each run, for pandas, DuckDB and the like.
//!
//! Every row says by itself what it is of: the experiment, the hash of its settings, the commit, the machine. A swept key
//! is a column of its own, a number where all of its values are numbers and text otherwise.

use std::io::{self, Write};
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, StringArray, UInt32Array, UInt64Array};
use arrow::datatypes::{Field, Schema};
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use serde_json::Value;

use crate::plan::option_text;
use crate::record::{RunRecord, SampleRow};
use crate::results::{DEVICE_FIGURES, Results, SweptAxis};

/// A row and where it comes from.
struct Row<'a> {
    /// The run's position in `results.json`.
    run: usize,
    record: &'a RunRecord,
    sample: &'a SampleRow,
}

/// Writes the samples of all runs, in the order they ran.
pub fn write(into: &mut (impl Write + Send), results: &Results, records: &[RunRecord]) -> io::Result<()> {
    let rows = records
        .iter()
        .enumerate()
        .flat_map(|(run, record)| record.samples.iter().map(move |sample| Row { run, record, sample }));
    let rows: Vec<Row<'_>> = rows.collect();
    let batch = batch(results, &rows);
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let written = ArrowWriter::try_new(into, batch.schema(), Some(properties)).and_then(|mut writer| {
        writer.write(&batch)?;
        writer.close()
    });
    written.map(drop).map_err(|error| match error {
        // So that a full disk is told as what it is.
        ParquetError::External(source) => io::Error::other(source),
        other => io::Error::other(other),
    })
}

/// A column under its name.
type Column = (String, ArrayRef);

fn batch(results: &Results, rows: &[Row<'_>]) -> RecordBatch {
    let text = |of: &dyn Fn(&Row<'_>) -> Option<String>| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<StringArray>())
    };
    let same = |value: &str| text(&|_| Some(value.to_owned()));
    let mut columns: Vec<Column> = vec![
        ("experiment".to_owned(), same(&results.experiment.name)),
        ("settings_hash".to_owned(), same(&results.experiment.settings_hash)),
        ("commit".to_owned(), text(&|_| results.commit.clone())),
        ("machine".to_owned(), same(&results.machine_fingerprint)),
        ("run".to_owned(), Arc::new(rows.iter().map(|row| Some(row.run as u32)).collect::<UInt32Array>())),
    ];
    columns.extend(results.experiment.sweep.iter().map(|axis| swept(axis, rows)));
    columns.extend([
        ("arm".to_owned(), text(&|row| Some(row.record.point.arm.clone()))),
        (
            "repeat".to_owned(),
            Arc::new(rows.iter().map(|row| Some(row.record.point.repeat)).collect::<UInt32Array>()) as _,
        ),
        (
            "is_again".to_owned(),
            Arc::new(rows.iter().map(|row| Some(row.record.point.is_again)).collect::<BooleanArray>()),
        ),
        ("valid".to_owned(), Arc::new(rows.iter().map(|row| Some(row.record.point.valid)).collect::<BooleanArray>())),
        ("workload".to_owned(), text(&|row| Some(row.sample.workload.clone()))),
    ]);
    columns.extend(figures(rows));
    let fields = columns.iter().map(|(name, array)| Field::new(name, array.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    RecordBatch::try_new(schema, columns.into_iter().map(|(_, array)| array).collect())
        .expect("every column has a value or null for each row")
}

/// The column of a swept key.
fn swept(axis: &SweptAxis, rows: &[Row<'_>]) -> Column {
    let value = |row: &Row<'_>| row.record.point.setting.get(&axis.key).cloned();
    let is_numeric = axis.values.iter().all(Value::is_number);
    let array: ArrayRef = if is_numeric {
        Arc::new(rows.iter().map(|row| value(row)?.as_f64()).collect::<Float64Array>())
    } else {
        Arc::new(rows.iter().map(|row| value(row).as_ref().map(option_text)).collect::<StringArray>())
    };
    (axis.key.clone(), array)
}

/// What was measured.
fn figures(rows: &[Row<'_>]) -> Vec<Column> {
    let float = |name: &str, of: &dyn Fn(&Row<'_>) -> Option<f64>| -> Column {
        (name.to_owned(), Arc::new(rows.iter().map(of).collect::<Float64Array>()))
    };
    let whole = |name: &str, of: &dyn Fn(&Row<'_>) -> Option<u64>| -> Column {
        (name.to_owned(), Arc::new(rows.iter().map(of).collect::<UInt64Array>()))
    };
    let text = |name: &str, of: &dyn Fn(&Row<'_>) -> Option<String>| -> Column {
        (name.to_owned(), Arc::new(rows.iter().map(of).collect::<StringArray>()))
    };
    let devices = DEVICE_FIGURES.iter().filter(|figure| figure.by_second);
    let devices = devices.map(|figure| float(figure.key, &|row| (figure.of)(&row.sample.device)));
    let mut columns = vec![
        float("run_at_s", &|row| Some(row.record.point.at_s)),
        float("second", &|row| Some(row.sample.second)),
        float("seconds", &|row| Some(row.sample.seconds)),
        whole("completed", &|row| Some(row.sample.completed)),
        float("throughput_per_s", &|row| Some(row.sample.throughput_per_s)),
        float("latency_mean_us", &|row| row.sample.latency_mean_us),
        float("latency_max_us", &|row| row.sample.latency_max_us),
        whole("aborted_deadlock", &|row| Some(row.sample.aborted.deadlock)),
        whole("aborted_preempted", &|row| Some(row.sample.aborted.preempted)),
        whole("aborted_conflict", &|row| Some(row.sample.aborted.conflict)),
        whole("aborted_user", &|row| Some(row.sample.aborted.user)),
        whole("aborted_error", &|row| Some(row.sample.aborted.error)),
        float("lock_wait_s", &|row| row.sample.lock_wait_s),
        float("cpu_run_s", &|row| row.sample.cpu_run_s),
        float("cpu_wait_s", &|row| row.sample.cpu_wait_s),
        float("block_io_s", &|row| row.sample.block_io_s),
    ];
    columns.extend(devices);
    columns.push(text("marks", &|row| Some(row.sample.marks.join("; ")).filter(|marks| !marks.is_empty())));
    columns
}

#[cfg(test)]
mod tests {
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use serde_json::json;

    use super::*;
    use crate::record::RunId;
    use crate::report::fixture;
    use crate::results::{Aborted, AxisRole, Device};

    fn record(dop: u64, policy: &str, seconds: usize) -> RunRecord {
        let mut point = fixture::study().points.swap_remove(0);
        point.setting = [("dop".to_owned(), json!(dop)), ("lock_policy".to_owned(), json!(policy))].into();
        let sample = |second: usize| SampleRow {
            workload: "shop".to_owned(),
            second: second as f64,
            seconds: 1.0,
            completed: 10 * dop,
            throughput_per_s: 10.0 * dop as f64,
            latency_mean_us: (second > 0).then_some(1.5),
            latency_max_us: None,
            aborted: Aborted::default(),
            lock_wait_s: None,
            cpu_run_s: None,
            cpu_wait_s: None,
            block_io_s: None,
            device: Device { busy_cores_others: Some(second as f64), ..Device::default() },
            marks: if second == 1 {
                vec!["checkpoint begins".to_owned(), "vacuum of t ends".to_owned()]
            } else {
                Vec::new()
            },
        };
        let id = RunId { setting: 0, arm: 0, repeat: 1, is_again: false };
        RunRecord { id, point, histograms: vec![], samples: (0..seconds).map(sample).collect(), warnings: vec![] }
    }

    #[test]
    fn every_row_says_what_it_is_of() {
        let mut results = fixture::study();
        results.experiment.sweep = vec![
            SweptAxis { key: "dop".to_owned(), values: vec![json!(1), json!(2)], role: AxisRole::Allocation },
            SweptAxis {
                key: "lock_policy".to_owned(),
                values: vec![json!("standard"), json!("nprio")],
                role: AxisRole::Other,
            },
        ];
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let records = [record(1, "standard", 3), record(2, "nprio", 2)];
        write(&mut file.reopen().expect("it is there"), &results, &records).expect("writable");

        let reader = ParquetRecordBatchReaderBuilder::try_new(file.reopen().expect("it is there")).expect("Parquet");
        let batches = reader.build().expect("readable").map(|batch| batch.expect("readable")).collect::<Vec<_>>();
        let [batch] = batches.as_slice() else { panic!("{} batches", batches.len()) };
        assert_eq!(batch.num_rows(), 5);
        let text = |name: &str| {
            let column = batch.column_by_name(name).expect(name).as_any().downcast_ref::<StringArray>().expect(name);
            column.iter().map(|value| value.unwrap_or("null").to_owned()).collect::<Vec<_>>()
        };
        let float = |name: &str| {
            let column = batch.column_by_name(name).expect(name).as_any().downcast_ref::<Float64Array>().expect(name);
            column.iter().collect::<Vec<_>>()
        };
        assert_eq!(text("settings_hash"), vec![results.experiment.settings_hash.clone(); 5]);
        assert_eq!(text("machine"), vec![results.machine_fingerprint.clone(); 5]);
        assert_eq!(text("commit"), vec![results.commit.clone().expect("known"); 5]);
        assert_eq!(text("lock_policy"), ["standard", "standard", "standard", "nprio", "nprio"]);
        let marks =
            ["null", "checkpoint begins; vacuum of t ends", "null", "null", "checkpoint begins; vacuum of t ends"];
        assert_eq!(text("marks"), marks);
        assert_eq!(float("dop"), [1.0, 1.0, 1.0, 2.0, 2.0].map(Some));
        assert_eq!(float("busy_cores_others"), [0.0, 1.0, 2.0, 0.0, 1.0].map(Some));
        let by_second = DEVICE_FIGURES.iter().filter(|figure| figure.by_second);
        assert!(by_second.into_iter().all(|figure| float(figure.key).len() == 5), "each is a column");
        assert_eq!(float("latency_mean_us"), [None, Some(1.5), Some(1.5), None, Some(1.5)], "null, not 0");
    }

    #[test]
    fn an_experiment_without_samples_still_has_its_columns() {
        let mut bytes = Vec::new();
        write(&mut bytes, &fixture::study(), &[]).expect("memory takes it");
        assert_eq!(&bytes[..4], b"PAR1");
    }
}
