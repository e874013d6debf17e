//! `samples.parquet`: a row for each second and workload of each run, for pandas, DuckDB and similar programs.
//!
//! Every row identifies itself: the experiment, the hash of its settings, the commit, the machine. Each swept key has its own
//! column, of numbers if all of its values are numbers and of text otherwise.

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

use crate::figures::{Figure, figure, figures};
use crate::plan::option_text;
use crate::record::{RunRecord, SampleRow};
use crate::results::{Results, SweptAxis};

/// A row and its origin.
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
        // So that a full disk is reported as such.
        ParquetError::External(source) => io::Error::other(source),
        other => io::Error::other(other),
    })
}

struct Column {
    name: &'static str,
    unit: &'static str,
    meaning: &'static str,
    values: Values,
}

/// The source of a column's values, which determines its type.
enum Values {
    Text(fn(&Results, &Row<'_>) -> Option<String>),
    Flag(fn(&Row<'_>) -> bool),
    Number(fn(&Row<'_>) -> u32),
    Count(fn(&Row<'_>) -> u64),
    Float(fn(&Row<'_>) -> Option<f64>),
    /// A figure of the machine, of this second.
    Device(&'static Figure),
}

/// The columns that identify a row, before the swept keys.
const BEFORE_SWEPT: [Column; 5] = [
    text("experiment", "the experiment's name", |results, _| Some(results.experiment.name.clone())),
    text("settings_hash", "hash of all settings: rows with equal hashes measured the same thing", |results, _| {
        Some(results.experiment.settings_hash.clone())
    }),
    text("commit", "the commit that Plimsoll was built from; null outside a checkout", |results, _| {
        results.commit.clone()
    }),
    text("machine", "hash of the machine, `machine_fingerprint` in `results.json`", |results, _| {
        Some(results.machine_fingerprint.clone())
    }),
    number("run", "the run's number, from 0, in the order in which they ran", |row| row.run as u32),
];

/// The columns that identify a row, after the swept keys.
const BEHIND_SWEPT: [Column; 8] = [
    text("arm", "who ran: `alone:NAME`, `A+B`, `together`", |_, row| Some(row.record.point.arm.clone())),
    number("repeat", "the block, from 1", |row| row.record.point.repeat),
    flag("is_again", "whether it is the second run of the first setting in its block (A/A)", |row| {
        row.record.point.is_again
    }),
    flag("valid", "whether the run's figures may be used; `why_invalid` of its point says why not", |row| {
        row.record.point.valid
    }),
    text("workload", "the workload", |_, row| Some(row.sample.workload.clone())),
    float("run_at_s", "s", "when the run's window opened, since the experiment began", |row| {
        Some(row.record.point.at_s)
    }),
    float("second", "s", "when the sample began, since the window opened", |row| Some(row.sample.second)),
    float("seconds", "s", "how long the sample is: 1, or what was left of the window", |row| Some(row.sample.seconds)),
];

/// Columns in their order. A measurement of the clients has the meaning of the figure of that name of a whole window.
fn columns() -> impl Iterator<Item = Column> {
    let of_figure = |key: &str, name, values| {
        let Figure { unit, meaning, .. } = figure(key);
        Column { name, unit: unit.name(), meaning, values }
    };
    let clients = [
        of_figure("completed", "completed", Values::Count(|row| row.sample.completed)),
        of_figure("throughput_per_s", "throughput_per_s", Values::Float(|row| Some(row.sample.throughput_per_s))),
        of_figure("latency_us.mean", "latency_mean_us", Values::Float(|row| row.sample.latency_mean_us)),
        of_figure("latency_us.max", "latency_max_us", Values::Float(|row| row.sample.latency_max_us)),
        of_figure("aborted.deadlock", "aborted_deadlock", Values::Count(|row| row.sample.aborted.deadlock)),
        of_figure("aborted.preempted", "aborted_preempted", Values::Count(|row| row.sample.aborted.preempted)),
        of_figure("aborted.conflict", "aborted_conflict", Values::Count(|row| row.sample.aborted.conflict)),
        of_figure("aborted.user", "aborted_user", Values::Count(|row| row.sample.aborted.user)),
        of_figure("aborted.error", "aborted_error", Values::Count(|row| row.sample.aborted.error)),
        float("lock_wait_s", "s", "how long the requests that ended in the sample waited for locks, added up", |row| {
            row.sample.lock_wait_s
        }),
        float(
            "cpu_run_s",
            "s",
            "time that the threads or processes which serve the workload were on a core, added up; null if that is not known of all of them",
            |row| row.sample.cpu_run_s,
        ),
        float("cpu_wait_s", "s", "time that they waited for a core", |row| row.sample.cpu_wait_s),
        float(
            "block_io_s",
            "s",
            "time that they waited for block I/O; null where the kernel does not measure it (`kernel.task_delayacct`)",
            |row| row.sample.block_io_s,
        ),
    ];
    let devices = figures().filter_map(|figure| {
        let name = figure.claim.filter(|asked| asked.function == "device")?.subject?;
        Some(Column { name, unit: figure.unit.name(), meaning: figure.meaning, values: Values::Device(figure) })
    });
    let freshness = figures().filter(|figure| figure.key.starts_with("device.freshness.")).filter_map(|figure| {
        let name = figure.claim?.function;
        Some(Column { name, unit: figure.unit.name(), meaning: figure.meaning, values: Values::Device(figure) })
    });
    let marks = text(
        "marks",
        "what a server did in the background that began or ended in the sample: `checkpoint begins`; several with semicolons between them; null if nothing",
        |_, row| Some(row.sample.marks.join("; ")).filter(|marks| !marks.is_empty()),
    );
    clients.into_iter().chain(devices).chain(freshness).chain([marks])
}

const fn text(name: &'static str, meaning: &'static str, values: fn(&Results, &Row<'_>) -> Option<String>) -> Column {
    Column { name, unit: "", meaning, values: Values::Text(values) }
}

const fn flag(name: &'static str, meaning: &'static str, values: fn(&Row<'_>) -> bool) -> Column {
    Column { name, unit: "", meaning, values: Values::Flag(values) }
}

const fn number(name: &'static str, meaning: &'static str, values: fn(&Row<'_>) -> u32) -> Column {
    Column { name, unit: "", meaning, values: Values::Number(values) }
}

const fn float(
    name: &'static str,
    unit: &'static str,
    meaning: &'static str,
    values: fn(&Row<'_>) -> Option<f64>,
) -> Column {
    Column { name, unit, meaning, values: Values::Float(values) }
}

impl Column {
    /// Its type, by its name in DuckDB.
    fn kind(&self) -> &'static str {
        match self.values {
            Values::Text(_) => "VARCHAR",
            Values::Flag(_) => "BOOLEAN",
            Values::Number(_) => "UINTEGER",
            Values::Count(_) => "UBIGINT",
            Values::Float(_) | Values::Device(_) => "DOUBLE",
        }
    }

    fn array(&self, results: &Results, rows: &[Row<'_>]) -> ArrayRef {
        match self.values {
            Values::Text(of) => Arc::new(rows.iter().map(|row| of(results, row)).collect::<StringArray>()),
            Values::Flag(of) => Arc::new(rows.iter().map(|row| Some(of(row))).collect::<BooleanArray>()),
            Values::Number(of) => Arc::new(rows.iter().map(|row| Some(of(row))).collect::<UInt32Array>()),
            Values::Count(of) => Arc::new(rows.iter().map(|row| Some(of(row))).collect::<UInt64Array>()),
            Values::Float(of) => Arc::new(rows.iter().map(of).collect::<Float64Array>()),
            Values::Device(figure) => {
                let of = |row: &Row<'_>| figure.of_device(&row.sample.device);
                Arc::new(rows.iter().map(of).collect::<Float64Array>())
            }
        }
    }
}

/// The columns as the table of the documentation.
pub fn columns_table() -> String {
    let line =
        |name: &str, kind: &str, unit: &str, meaning: &str| format!("| {name} | {kind} | {unit} | {meaning} |\n");
    let row = |column: Column| line(&format!("`{}`", column.name), column.kind(), column.unit, column.meaning);
    let before: String = BEFORE_SWEPT.into_iter().map(row).collect();
    let swept = line(
        "each swept key",
        "DOUBLE, or VARCHAR where a value is not a number",
        "as in the experiment",
        "its value in this run",
    );
    let behind: String = BEHIND_SWEPT.into_iter().chain(columns()).map(row).collect();
    format!("| column | type | unit | what |\n|---|---|---|---|\n{before}{swept}{behind}")
}

fn batch(results: &Results, rows: &[Row<'_>]) -> RecordBatch {
    let array = |column: Column| (column.name.to_owned(), column.array(results, rows));
    let before = BEFORE_SWEPT.into_iter().map(array);
    let swept = results.experiment.sweep.iter().map(|axis| (axis.key.clone(), swept(axis, rows)));
    let columns: Vec<(String, ArrayRef)> =
        before.chain(swept).chain(BEHIND_SWEPT.into_iter().chain(columns()).map(array)).collect();
    let fields = columns.iter().map(|(name, array)| Field::new(name, array.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    RecordBatch::try_new(schema, columns.into_iter().map(|(_, array)| array).collect())
        .expect("every column has a value or null for each row")
}

/// The column of a swept key.
fn swept(axis: &SweptAxis, rows: &[Row<'_>]) -> ArrayRef {
    let value = |row: &Row<'_>| row.record.point.setting.get(&axis.key).cloned();
    if axis.values.iter().all(Value::is_number) {
        Arc::new(rows.iter().map(|row| value(row)?.as_f64()).collect::<Float64Array>())
    } else {
        Arc::new(rows.iter().map(|row| value(row).as_ref().map(option_text)).collect::<StringArray>())
    }
}

#[cfg(test)]
mod tests {
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use serde_json::json;

    use super::*;
    use crate::record::RunId;
    use crate::report::fixture;
    use crate::results::{AxisRole, Device};

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
            device: Device { busy_cores_others: Some(second as f64), ..Device::default() },
            marks: if second == 1 {
                vec!["checkpoint begins".to_owned(), "vacuum of t ends".to_owned()]
            } else {
                Vec::new()
            },
            ..SampleRow::default()
        };
        let id = RunId { setting: 0, arm: 0, repeat: 1, is_again: false };
        RunRecord {
            id,
            point,
            histograms: vec![],
            samples: (0..seconds).map(sample).collect(),
            warnings: vec![],
            notes: vec![],
        }
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
        assert_eq!(float("latency_mean_us"), [None, Some(1.5), Some(1.5), None, Some(1.5)], "null, not 0");
    }

    #[test]
    fn an_experiment_without_samples_still_has_its_columns() {
        let mut bytes = Vec::new();
        write(&mut bytes, &fixture::study(), &[]).expect("memory takes it");
        assert_eq!(&bytes[..4], b"PAR1");
    }
}
