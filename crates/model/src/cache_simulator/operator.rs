//! The operators that have a model, by name, each with its parameters: the lines that a row reads, and its other costs.
//!
//! Sizes follow from the data: codes have as many bits as their number of values needs, a dictionary 4 bytes for each
//! value, a bit vector a bit for each key. Each thread of an aggregation has a table of groups of its own.
//!
//! Constants that no document states are of three kinds. Those of the packed scan, the aggregation and the join are
//! calibrated on each operator alone in caches of different sizes (NO fig. 4 to 6), and those of the join also on what an
//! aggregation and a join lose beside each other without partitioning (fig. 10). The gains from partitioning took no part.
//! The pipeline uses the constants of the aggregation. Those of the index descent are assumptions, because nothing is
//! published about a transaction alone.

use std::collections::BTreeMap;

use thiserror::Error;

use super::trace::{Access, Pattern, Program};

/// Bits of a line.
const LINE_BITS: f64 = 512.0;
/// Misses under way at once in a stream, whose next lines the processor fetches ahead.
const STREAM_OVERLAP: f64 = 10.0;
/// Nanoseconds for a line of packed codes: NO fig. 4 has a miss in about 52 instructions.
const SCAN_LINE_NS: f64 = 10.0;
/// Nanoseconds for a row of an aggregation (calibrated: fig. 5).
const AGGREGATION_ROW_NS: f64 = 5.0;
/// Misses of an aggregation under way at once (calibrated: fig. 5).
const AGGREGATION_OVERLAP: f64 = 6.0;
/// Bytes of a group in a table (calibrated: fig. 5). Ten to the five groups in 22 tables and 4 MiB of dictionary are 37
/// MiB; the study's curve breaks below 40 MiB.
const GROUP_BYTES: f64 = 16.0;
/// Bytes of a value in a dictionary: 4 MiB for 10^6 (NO fig. 5).
const VALUE_BYTES: f64 = 4.0;
/// Nanoseconds for a row of a join whose bit vector a core can address without a walk (calibrated: fig. 10a, the falls).
const JOIN_ROW_NS: f64 = 0.6;
/// Nanoseconds for the walk through page tables of a look-up whose translation a core does not have (calibrated: fig. 6).
/// Without it a join whose bit vector is in the core's own cache could read its keys no faster than one whose vector fills
/// the shared cache, which fig. 6 and 10 contradict. Only the join has it: its bit vector is made for each statement,
/// and its pages are therefore small, while dictionaries stay and can have large ones.
const JOIN_WALK_NS: f64 = 13.0;
/// Bytes for which a core has translations: 1536 pages of 4 KiB on the study's processor.
const TRANSLATED_BYTES: f64 = 1536.0 * 4096.0;
/// Misses of a join under way at once: no look-up waits for another (calibrated: fig. 6).
const JOIN_OVERLAP: f64 = 8.0;
/// Children of a line of an index.
const INDEX_FANOUT: u64 = 16;
/// Bytes of an entry in the leaves of an index.
const INDEX_ENTRY_BYTES: f64 = 16.0;

/// A parameter of an operator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameter {
    /// As written in files.
    pub name: &'static str,
    /// Its meaning, with the unit.
    pub meaning: &'static str,
    /// If it is not given: the study's.
    pub default: f64,
    /// The smallest allowed value.
    pub least: f64,
    /// The largest allowed value; more is a mistake.
    pub most: f64,
}

/// An operator that can be simulated.
#[derive(Debug, Clone, Copy)]
pub struct Operator {
    /// As written in files.
    pub name: &'static str,
    /// Its meaning.
    pub meaning: &'static str,
    /// The parameters that can be set.
    pub parameters: &'static [Parameter],
    make: fn(&Values<'_>) -> Program,
}

/// The one list.
pub const OPERATORS: [Operator; 5] = [
    Operator {
        name: "packed_scan",
        meaning: "compares all codes of one column with a constant, many at once (NO query 1)",
        parameters: &[ROWS, parameter("code_bits", "bits of a code", 20.0, 1.0, 64.0)],
        make: packed_scan,
    },
    Operator {
        name: "aggregation",
        meaning: "looks up each row's value in a dictionary and its group in a hash table (NO query 2)",
        parameters: &[
            ROWS,
            parameter("values", "distinct values, 4 bytes of dictionary each", 1e6, 1.0, 1e11),
            parameter("groups", "groups", 1e5, 1.0, 1e10),
        ],
        make: aggregation,
    },
    Operator {
        name: "key_join",
        meaning: "looks up each row's foreign key in a bit vector (NO query 3)",
        parameters: &[ROWS, parameter("keys", "primary keys, a bit each", 1e6, 1.0, 1e12)],
        make: key_join,
    },
    Operator {
        name: "pipeline",
        meaning: "reads columns, decodes through a dictionary and probes a shared hash table, as queries of TPC-H do",
        parameters: &[
            ROWS,
            parameter("scanned_bits", "bits that are read of each row in order", 52.0, 1.0, 1e5),
            parameter("dictionary_bytes", "bytes of the dictionary", 29_f64 * (1 << 20) as f64, 0.0, 1e12),
            parameter("decoded", "look-ups in the dictionary per row", 1.0, 0.0, 1e3),
            parameter("table_bytes", "bytes of the hash table of joins", 0.0, 0.0, 1e12),
            parameter("probes", "look-ups in the hash table per row", 0.0, 0.0, 1e3),
            parameter("row_ns", "nanoseconds of a row without waiting for memory", 20.0, 0.01, 1e9),
        ],
        make: pipeline,
    },
    Operator {
        name: "index_descent",
        meaning: "finds one row through indexes and decodes some of its columns, as an OLTP request does",
        parameters: &[
            parameter("rows", "rows of the table", 1.51e8, 1.0, 1e11),
            parameter("indexes", "indexes that are searched, of all rows each", 5.0, 1.0, 100.0),
            parameter("columns", "columns that are decoded", 13.0, 0.0, 1e3),
            parameter(
                "dictionary_bytes",
                "bytes of the dictionary of each of these columns",
                (4 << 20) as f64,
                0.0,
                1e12,
            ),
            parameter("request_ns", "nanoseconds of a request without waiting for memory", 2_000.0, 0.01, 1e9),
        ],
        make: index_descent,
    },
];

const ROWS: Parameter = parameter("rows", "rows of the table", 1e9, 1.0, 1e11);

const fn parameter(name: &'static str, meaning: &'static str, default: f64, least: f64, most: f64) -> Parameter {
    Parameter { name, meaning, default, least, most }
}

/// Why an operator cannot be simulated.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// No operator has the name.
    #[error("the operator `{name}` has no model; those that have one are {}", names(OPERATORS.map(|operator| operator.name)))]
    NoModel {
        /// As requested.
        name: String,
    },
    /// The operator has no parameter of the name.
    #[error("{operator} has no parameter `{name}`; it has {}", names(parameters.iter().map(|parameter| parameter.name)))]
    NoParameter {
        /// The operator's name.
        operator: &'static str,
        /// As requested.
        name: String,
        /// Its parameters.
        parameters: &'static [Parameter],
    },
    /// A value that is not possible.
    #[error("{name} of {operator} is {value}, and must be a number from {least} to {most}")]
    Value {
        /// The operator's name.
        operator: &'static str,
        /// The parameter's name.
        name: &'static str,
        /// As requested.
        value: f64,
        /// The smallest allowed value.
        least: f64,
        /// The largest allowed value.
        most: f64,
    },
}

fn names(names: impl IntoIterator<Item = &'static str>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}

/// The program of an operator with parameters by name; those that are not given have their defaults.
///
/// # Errors
/// [`OperatorError`] for unknown names and impossible values.
pub fn program(name: &str, parameters: &BTreeMap<String, f64>) -> Result<Program, OperatorError> {
    let operator = OPERATORS.iter().find(|operator| operator.name == name);
    let operator = operator.ok_or_else(|| OperatorError::NoModel { name: name.to_owned() })?;
    let is_known = |name: &str| operator.parameters.iter().any(|parameter| parameter.name == name);
    if let Some(unknown) = parameters.keys().find(|name| !is_known(name)) {
        let (name, parameters) = (unknown.clone(), operator.parameters);
        return Err(OperatorError::NoParameter { operator: operator.name, name, parameters });
    }
    for &Parameter { name, least, most, .. } in operator.parameters {
        match parameters.get(name) {
            Some(&value) if !(least..=most).contains(&value) => {
                return Err(OperatorError::Value { operator: operator.name, name, value, least, most });
            }
            _ => (),
        }
    }
    Ok((operator.make)(&Values { parameters: operator.parameters, given: parameters }))
}

/// The given values, and defaults.
struct Values<'a> {
    parameters: &'static [Parameter],
    given: &'a BTreeMap<String, f64>,
}

impl Values<'_> {
    fn get(&self, name: &str) -> f64 {
        let default =
            || self.parameters.iter().find(|parameter| parameter.name == name).map(|parameter| parameter.default);
        self.given.get(name).copied().or_else(default).expect("makers ask for parameters of their operator")
    }
}

/// Bits of a code for one of `values`.
fn code_bits(values: f64) -> f64 {
    values.log2().ceil().max(1.0)
}

/// A column of codes, read in order.
fn column(name: &'static str, rows: f64, bits: f64, rows_per_unit: f64) -> Access {
    let per_unit = rows_per_unit * bits / LINE_BITS;
    let bytes = (rows * bits / 8.0).ceil() as u64;
    Access { name, pattern: Pattern::Stream, bytes, per_unit, overlap: STREAM_OVERLAP }
}

/// A structure that is looked up.
fn lookups(name: &'static str, pattern: Pattern, bytes: f64, per_unit: f64, overlap: f64) -> Access {
    Access { name, pattern, bytes: bytes.ceil() as u64, per_unit, overlap }
}

/// A unit is a line of codes.
fn packed_scan(values: &Values<'_>) -> Program {
    let bits = values.get("code_bits");
    let rows = LINE_BITS / bits;
    Program { rows, compute_ns: SCAN_LINE_NS, accesses: vec![column("column", values.get("rows"), bits, rows)] }
}

fn aggregation(values: &Values<'_>) -> Program {
    let (rows, distinct, groups) = (values.get("rows"), values.get("values"), values.get("groups"));
    let accesses = vec![
        column("values", rows, code_bits(distinct), 1.0),
        column("groups", rows, code_bits(groups), 1.0),
        lookups("dictionary", Pattern::Random, distinct * VALUE_BYTES, 1.0, AGGREGATION_OVERLAP),
        lookups("hash table", Pattern::RandomOwn, groups * GROUP_BYTES, 1.0, AGGREGATION_OVERLAP),
    ];
    Program { rows: 1.0, compute_ns: AGGREGATION_ROW_NS, accesses }
}

fn key_join(values: &Values<'_>) -> Program {
    let (rows, keys) = (values.get("rows"), values.get("keys"));
    let bytes = keys / 8.0;
    let accesses = vec![
        column("foreign keys", rows, code_bits(keys), 1.0),
        lookups("bit vector", Pattern::Random, bytes, 1.0, JOIN_OVERLAP),
    ];
    let walks = 1.0 - (TRANSLATED_BYTES / bytes).min(1.0);
    Program { rows: 1.0, compute_ns: JOIN_ROW_NS + JOIN_WALK_NS * walks, accesses }
}

fn pipeline(values: &Values<'_>) -> Program {
    let mut accesses = vec![column("columns", values.get("rows"), values.get("scanned_bits"), 1.0)];
    let parts = [("dictionary", "dictionary_bytes", "decoded"), ("hash table", "table_bytes", "probes")];
    accesses.extend(parts.into_iter().filter_map(|(name, bytes, per_row)| {
        let (bytes, per_row) = (values.get(bytes), values.get(per_row));
        let is_there = bytes > 0.0 && per_row > 0.0;
        is_there.then(|| lookups(name, Pattern::Random, bytes, per_row, AGGREGATION_OVERLAP))
    }));
    Program { rows: 1.0, compute_ns: values.get("row_ns"), accesses }
}

/// Requests wait for each line of a path, and for a code before its value: nothing overlaps.
fn index_descent(values: &Values<'_>) -> Program {
    let rows = values.get("rows");
    let mut levels = vec![(rows * INDEX_ENTRY_BYTES / 64.0).ceil() as u64];
    while let Some(&below) = levels.last().filter(|lines| **lines > 1) {
        levels.push(below.div_ceil(INDEX_FANOUT));
    }
    let mut accesses = Vec::new();
    for _index in 0..values.get("indexes") as u64 {
        let level = |lines: &u64| lookups("index", Pattern::Path, (lines * 64) as f64, 1.0, 1.0);
        accesses.extend(levels.iter().rev().map(level));
    }
    let dictionary_bytes = values.get("dictionary_bytes");
    for _column in 0..values.get("columns") as u64 {
        let codes = rows * code_bits(dictionary_bytes / VALUE_BYTES) / 8.0;
        accesses.push(lookups("codes", Pattern::Random, codes, 1.0, 1.0));
        accesses.push(lookups("dictionary", Pattern::Random, dictionary_bytes, 1.0, 1.0));
    }
    Program { rows: 1.0, compute_ns: values.get("request_ns"), accesses }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(parameters: &[(&str, f64)]) -> BTreeMap<String, f64> {
        parameters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn structures_have_the_sizes_of_the_study() {
        let check = |name: &str, parameters: &[(&str, f64)], expect: &[(&str, u64)]| {
            let program = program(name, &given(parameters)).unwrap();
            let found: Vec<_> = program.accesses.iter().map(|access| (access.name, access.bytes)).collect();
            assert_eq!(found, expect, "{name}");
        };
        check("packed_scan", &[], &[("column", 2_500_000_000)]);
        check(
            "aggregation",
            &[("values", 1e7), ("groups", 100.0)],
            &[("values", 3_000_000_000), ("groups", 875_000_000), ("dictionary", 40_000_000), ("hash table", 1_600)],
        );
        check("key_join", &[("keys", 1e8)], &[("foreign keys", 3_375_000_000), ("bit vector", 12_500_000)]);
        check("pipeline", &[("rows", 8.0), ("decoded", 0.0)], &[("columns", 52)]);
        let tree = [("index", 64), ("index", 2 * 64), ("index", 25 * 64)];
        let small = [("rows", 100.0), ("indexes", 1.0), ("columns", 0.0)];
        check("index_descent", &small, &tree);
    }

    #[test]
    fn a_scan_reads_a_line_in_a_unit() {
        let scan = program("packed_scan", &given(&[])).unwrap();
        assert_eq!((scan.rows, scan.accesses[0].per_unit), (25.6, 1.0));
    }

    #[test]
    fn faults_name_what_there_is() {
        let check = |name: &str, parameters: &[(&str, f64)], expect: &str| {
            assert_eq!(program(name, &given(parameters)).unwrap_err().to_string(), expect);
        };
        check(
            "window",
            &[],
            "the operator `window` has no model; those that have one are packed_scan, aggregation, key_join, pipeline, index_descent",
        );
        check("key_join", &[("groups", 1.0)], "key_join has no parameter `groups`; it has rows, keys");
        check("key_join", &[("keys", 0.0)], "keys of key_join is 0, and must be a number from 1 to 1000000000000");
        check(
            "key_join",
            &[("keys", f64::NAN)],
            "keys of key_join is NaN, and must be a number from 1 to 1000000000000",
        );
        check(
            "packed_scan",
            &[("code_bits", 65.0)],
            "code_bits of packed_scan is 65, and must be a number from 1 to 64",
        );
    }

    #[test]
    fn all_defaults_are_possible_and_read_something() {
        for operator in OPERATORS {
            for parameter in operator.parameters {
                assert!((parameter.least..=parameter.most).contains(&parameter.default), "{}", parameter.name);
            }
            let program = program(operator.name, &BTreeMap::new()).unwrap();
            assert!(program.accesses.iter().any(|access| access.per_unit > 0.0), "{}", operator.name);
            assert!(program.lines(44) < 1 << 32, "{}", operator.name);
        }
    }
}
