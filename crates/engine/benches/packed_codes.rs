//! What packing columns below whole bytes gains: scans of codes of 20 bits, which the engine packs, beside the same codes in 32, by turns.
//!
//! `cargo bench -p plimsoll-engine --bench packed_codes -- [MILLION_VALUES [TURNS]]`
//!
//! First counts the codes below a bound without the engine, as query 1 of "Accelerating Concurrent Workloads with CPU Cache Partitioning" does:
//! from integers of 32 bits, from packed codes, and from packed codes of which integers are made first. Then the engine answers queries over
//! three tables with the same codes: as integers of 32 bits, as distances of four bytes, and packed. Of the former two one code in each chunk is
//! too far from the others for packing. Per core it prints codes per second and the ratios of times to the first form's with their 95 % interval. Under
//! `cargo test` the columns are small, and answers are compared.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use plimsoll_engine::columns::packed::Packed;
use plimsoll_engine::columns::table::CHUNK_ROWS;
use plimsoll_engine::columns::{ColumnSnapshot, ColumnTable};
use plimsoll_engine::query::{QueryEngine, QueryOptions};
use plimsoll_model::statistics::{Samples, compare_settings};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Bits of a code: the study's columns have 10^6 distinct values.
const BITS: usize = 20;
/// Every second code is below it.
const BOUND: u32 = 1 << (BITS - 1);
/// Codes that are counted in one go, as by a scan.
const MORSEL: usize = 32 * 1024;
/// Every row belongs to one of these.
const PARTS: u8 = 100;
/// A code that is too far from the others for packing.
const FAR: u32 = 1 << 30;

/// Which codes of which parts a query counts or adds up.
type Answer = fn(u32, u8) -> i64;

const QUERIES: [(&str, &str, Answer); 5] = [
    ("count below a bound", "select count(*) from t where code < 524288", |code, _| i64::from(code < BOUND)),
    ("sum of one row in 100", "select sum(code) from t where part = 7", |code, part| {
        i64::from(code) * i64::from(part == 7)
    }),
    ("sum of every second row", "select sum(code) from t where part < 50", |code, part| {
        i64::from(code) * i64::from(part < 50)
    }),
    ("sum of all rows", "select sum(code) from t", |code, _| i64::from(code)),
    (
        "sums of 100 groups",
        "select sum(total) from (select part, sum(code) as total from t group by part) s",
        |code, _| i64::from(code),
    ),
];

/// One way to get an answer, on some cores.
struct Contender<'a> {
    name: &'static str,
    expect: i64,
    run: Box<dyn Fn(usize) -> i64 + 'a>,
}

/// The codes and parts of all rows.
struct Rows {
    codes: Vec<u32>,
    parts: Vec<u8>,
}

impl Rows {
    fn new(count: usize) -> Self {
        let mut random = Pcg64::seed_from_u64(7);
        let codes = (0..count).map(|_| random.random_range(0..1 << BITS)).collect();
        Rows { codes, parts: (0..count).map(|_| random.random_range(0..PARTS)).collect() }
    }

    /// The same with a code in each chunk that is far away.
    fn with_far_codes(&self) -> Self {
        let mut codes = self.codes.clone();
        codes.iter_mut().step_by(CHUNK_ROWS).for_each(|code| *code = FAR);
        Rows { codes, parts: self.parts.clone() }
    }

    fn answer(&self, answer: Answer) -> i64 {
        self.codes.iter().zip(&self.parts).map(|(code, part)| answer(*code, *part)).sum()
    }

    /// A table with codes of this type.
    fn table(&self, kind: &DataType, is_packed: bool) -> Arc<ColumnSnapshot> {
        let fields = [("code", kind.clone()), ("part", DataType::Int32)];
        let schema = Arc::new(Schema::new(fields.map(|(name, kind)| Field::new(name, kind, false)).to_vec()));
        let batch = |(codes, parts): (&[u32], &[u8])| {
            let codes: ArrayRef = match kind {
                DataType::Int32 => Arc::new(Int32Array::from_iter_values(codes.iter().map(|code| *code as i32))),
                _ => Arc::new(Int64Array::from_iter_values(codes.iter().map(|code| i64::from(*code)))),
            };
            let parts = Arc::new(Int32Array::from_iter_values(parts.iter().map(|part| i32::from(*part))));
            RecordBatch::try_new(Arc::clone(&schema), vec![codes, parts]).expect("columns of the schema")
        };
        let batches = self.codes.chunks(CHUNK_ROWS).zip(self.parts.chunks(CHUNK_ROWS)).map(batch).collect();
        let table = ColumnTable::build("t", Arc::clone(&schema), vec![], batches).expect("batches of the schema");
        let first = table.load(0, &[0]).expect("it is in memory");
        assert_eq!(first.column(0).packed().is_some(), is_packed, "whether codes of type {kind} are packed");
        Arc::new(ColumnSnapshot::new("as loaded", [Arc::new(table)]))
    }
}

/// The sum of what all cores find in their parts of some rows.
fn on_cores(cores: usize, rows: usize, count: impl Fn(usize, usize) -> usize + Sync) -> i64 {
    let part = rows.div_ceil(cores).next_multiple_of(MORSEL);
    let total: usize = thread::scope(|scope| {
        let spawn = |start: usize| {
            let count = &count;
            scope.spawn(move || {
                let morsels = (start..rows.min(start + part)).step_by(MORSEL);
                morsels.map(|offset| count(offset, MORSEL.min(rows - offset))).sum::<usize>()
            })
        };
        let threads: Vec<_> = (0..rows).step_by(part).map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().expect("it only counts")).sum()
    });
    total as i64
}

fn below(codes: &[u32]) -> usize {
    codes.iter().map(|code| u32::from(*code < BOUND)).sum::<u32>() as usize
}

/// Counting without the engine.
fn kernels<'a>(rows: &'a Rows, packed: &'a Packed) -> Vec<Contender<'a>> {
    let count = rows.codes.len();
    let expect = rows.answer(|code, _| i64::from(code < BOUND));
    let contender = |name, run| Contender { name, expect, run };
    vec![
        contender(
            "integers",
            Box::new(move |cores| on_cores(cores, count, |start, length| below(&rows.codes[start..start + length]))),
        ),
        contender(
            "packed",
            Box::new(move |cores| {
                on_cores(cores, count, |start, length| {
                    packed.slice(start, length).within(0, BOUND - 1).count_set_bits()
                })
            }),
        ),
        contender(
            "packed, made into integers first",
            Box::new(move |cores| {
                on_cores(cores, count, |start, length| {
                    let mut found = 0;
                    packed.slice(start, length).for_each_run(|run| found += below(run));
                    found
                })
            }),
        ),
    ]
}

fn ask(engine: &QueryEngine, snapshot: &Arc<ColumnSnapshot>, sql: &str) -> i64 {
    let output = engine.query(snapshot, sql, None).unwrap_or_else(|error| panic!("{error} in {sql}"));
    output.batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

/// Runs contenders by turns and prints how they compare with the first one.
fn compete(title: &str, cores: usize, turns: usize, rows: usize, contenders: &[Contender<'_>], is_test: bool) {
    let mut times = vec![Vec::new(); contenders.len()];
    // The first turn finds pages that were never read, and is left out.
    for turn in 0..=turns {
        for place in 0..contenders.len() {
            let at = (turn + place) % contenders.len();
            let began = Instant::now();
            let found = (contenders[at].run)(cores);
            let time = began.elapsed().as_secs_f64();
            assert_eq!(found, contenders[at].expect, "{title}, {}", contenders[at].name);
            if turn > 0 {
                times[at].push(time);
            }
        }
    }
    if is_test {
        return;
    }
    let samples = Samples::complete(&times);
    for (at, contender) in contenders.iter().enumerate() {
        let mean = times[at].iter().sum::<f64>() / times[at].len() as f64;
        let rate = rows as f64 / mean / 1e9;
        let ratio = compare_settings(&samples, at, 0, None).ratio.filter(|_| at > 0);
        let ratio = ratio.and_then(|ratio| Some((ratio.value, ratio.low?, ratio.high?)));
        let told = ratio.map_or(String::new(), |(value, low, high)| {
            format!(", {value:.2} ({low:.2} to {high:.2}) of the time of {}", contenders[0].name)
        });
        println!("{cores} cores, {title}, {}: {rate:.2} * 10^9 codes per second{told}", contender.name);
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let is_test = !std::env::args().any(|word| word == "--bench");
    let number =
        |place: usize, otherwise: usize| words.get(place).map_or(otherwise, |word| word.parse().expect("a number"));
    let (count, turns) = if is_test { (CHUNK_ROWS + 20_000, 1) } else { (number(0, 100) * 1_000_000, number(1, 20)) };
    let rows = Rows::new(count);
    let packed = Packed::new(rows.codes.iter().copied(), BITS);
    let far = rows.with_far_codes();
    let tables = [
        ("integers", &far, far.table(&DataType::Int32, false)),
        ("distances", &far, far.table(&DataType::Int64, false)),
        ("packed", &rows, rows.table(&DataType::Int64, true)),
    ];
    for cores in 1..=thread::available_parallelism().map_or(1, usize::from).min(2) {
        compete("count without the engine", cores, turns, count, &kernels(&rows, &packed), is_test);
        let engine = QueryEngine::new(QueryOptions { dop: cores, workers: cores, ..QueryOptions::default() });
        let engine = engine.expect("threads can be started");
        for (title, sql, answer) in QUERIES {
            let contenders = tables.each_ref().map(|(name, rows, table)| Contender {
                name,
                expect: rows.answer(answer),
                run: Box::new(|_| ask(&engine, table, sql)),
            });
            compete(title, cores, turns, count, &contenders, is_test);
        }
    }
}
