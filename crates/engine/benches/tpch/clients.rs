//! Many clients at the same time: the policies of parallelism and DuckDB by turns, each with the same streams of queries.
//!
//! A client runs all queries once, in its own random order, without pauses. All contenders of a turn get equal streams,
//! and the order of contenders rotates from turn to turn. A policy that learns first has some turns alone.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::record_batch::RecordBatch;
use plimsoll_engine::columns::ColumnSnapshot;
use plimsoll_engine::query::threads::QueryThreads;
use plimsoll_engine::query::{QueryEngine, QueryOptions};
use plimsoll_policy::parallelism_policy;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

use crate::tpch::arguments::Arguments;
use crate::tpch::duckdb::DuckDb;
use crate::tpch::turns::ratio;
use crate::tpch::workload::Workload;

/// Turns from which a policy may learn before it is measured.
const LEARNING_TURNS: usize = 2;

/// The result of one turn of one contender.
#[derive(Debug, Clone, Copy)]
pub struct Batch {
    /// From the first query to the end of the last.
    pub seconds: f64,
    /// The sum of all response times, in seconds.
    pub responses: f64,
    pub queries: usize,
}

/// One way to run the queries.
struct Contender {
    name: String,
    /// `None` for DuckDB.
    engine: Option<QueryEngine>,
    learns: bool,
    batches: Vec<Batch>,
}

/// The policies, on shared or private threads. `cores` is the number of cores that they may use.
fn contenders(cores: usize, with_duckdb: bool) -> Vec<Contender> {
    use QueryThreads::{Own, Shared};
    let all_cores = format!("static({cores})");
    let policies = [
        (None, Shared),
        (Some("static(1)"), Shared),
        (Some(all_cores.as_str()), Shared),
        (Some("cost"), Shared),
        (Some("adaptive"), Shared),
        (Some(all_cores.as_str()), Own),
        (Some("adaptive"), Own),
    ];
    let engine = |(policy, query_threads): (Option<&str>, QueryThreads)| {
        let parallelism = policy.map(|name| parallelism_policy(name).expect("the name is in the list of policies"));
        let learns = parallelism.as_ref().is_some_and(|policy| policy.learns());
        let options =
            QueryOptions { dop: cores, workers: cores, query_threads, parallelism, ..QueryOptions::default() };
        let engine = QueryEngine::new(options).expect("threads can be started");
        let name = format!("{}, {} threads", policy.unwrap_or("planner"), query_threads.name());
        Contender { name, engine: Some(engine), learns, batches: Vec::new() }
    };
    let ours = policies.into_iter().map(engine);
    let duckdb = Contender { name: "DuckDB".to_owned(), engine: None, learns: false, batches: Vec::new() };
    ours.chain(with_duckdb.then_some(duckdb)).collect()
}

/// Measures all contenders and prints their results.
pub fn run(
    arguments: &Arguments,
    workload: &Workload,
    snapshot: &Arc<ColumnSnapshot>,
    mut duckdb: Option<&mut DuckDb>,
    cores: usize,
) {
    let mut contenders = contenders(cores, duckdb.is_some());
    let texts: HashMap<&str, &str> = workload.queries.iter().map(|(name, sql)| (name.as_str(), sql.as_str())).collect();
    let wanted: Vec<&str> =
        workload.queries.iter().map(|(name, _)| name.as_str()).filter(|name| arguments.wants(name)).collect();
    let mut rows = HashMap::new();
    for turn in 0..LEARNING_TURNS + arguments.repeats {
        let streams: Vec<Vec<&str>> = (0..arguments.clients).map(|client| stream(&wanted, turn, client)).collect();
        let count = contenders.len();
        for place in 0..count {
            let contender = &mut contenders[(turn + place) % count];
            if turn < LEARNING_TURNS && !contender.learns {
                continue;
            }
            let batch = match (&contender.engine, duckdb.as_deref_mut()) {
                (Some(engine), _) => ours(engine, snapshot, &texts, &streams, &mut rows),
                (None, Some(duckdb)) => duckdb.clients(&streams).unwrap_or_else(|why| panic!("DuckDB: {why}")),
                (None, None) => unreachable!("DuckDB is a contender only where it is there"),
            };
            if turn >= LEARNING_TURNS {
                contender.batches.push(batch);
            }
        }
    }
    print(&contenders, arguments.clients, cores);
}

/// All queries in an order that follows from the turn and the client.
fn stream<'a>(queries: &[&'a str], turn: usize, client: usize) -> Vec<&'a str> {
    let mut stream = queries.to_vec();
    stream.shuffle(&mut Pcg64::new(turn as u128, client as u128));
    stream
}

/// Runs the streams, one thread for each. All answers to a query must have the same number of rows, from every
/// contender.
fn ours<'a>(
    engine: &QueryEngine,
    snapshot: &Arc<ColumnSnapshot>,
    texts: &HashMap<&str, &str>,
    streams: &[Vec<&'a str>],
    rows: &mut HashMap<&'a str, usize>,
) -> Batch {
    let started = Instant::now();
    let client = |stream: &Vec<&'a str>| {
        let run = |name: &&'a str| {
            let started = Instant::now();
            let answer = engine.query(snapshot, texts[name], None).unwrap_or_else(|error| panic!("{error} in {name}"));
            (*name, started.elapsed(), answer.batches.iter().map(RecordBatch::num_rows).sum::<usize>())
        };
        stream.iter().map(run).collect::<Vec<_>>()
    };
    let ran: Vec<(&str, Duration, usize)> = std::thread::scope(|scope| {
        let clients: Vec<_> = streams.iter().map(|stream| scope.spawn(move || client(stream))).collect();
        clients.into_iter().flat_map(|client| client.join().expect("a client that fails says so itself")).collect()
    });
    let seconds = started.elapsed().as_secs_f64();
    for (name, _, count) in &ran {
        let known = *rows.entry(*name).or_insert(*count);
        assert_eq!(*count, known, "{name}: another number of rows than before");
    }
    Batch { seconds, responses: ran.iter().map(|(_, time, _)| time.as_secs_f64()).sum(), queries: ran.len() }
}

fn print(contenders: &[Contender], clients: usize, cores: usize) {
    println!("{clients} clients, {cores} threads");
    println!("{:<26} queries/s  response ms  time/planner (95 %)    time/DuckDB (95 %)", "");
    let times = |contender: &Contender| -> Vec<Duration> {
        contender.batches.iter().map(|batch| Duration::from_secs_f64(batch.seconds)).collect()
    };
    let planner = times(&contenders[0]);
    let duckdb = contenders.iter().find(|contender| contender.engine.is_none()).map(times).unwrap_or_default();
    for contender in contenders {
        let sum = |of: fn(&Batch) -> f64| contender.batches.iter().map(of).sum::<f64>();
        let queries = sum(|batch| batch.queries as f64);
        let (rate, response) = (queries / sum(|batch| batch.seconds), 1e3 * sum(|batch| batch.responses) / queries);
        let own = times(contender);
        let (to_planner, to_duckdb) = (ratio(&own, &planner), ratio(&own, &duckdb));
        println!("{:<26} {rate:>9.1} {response:>12.1}  {to_planner:<22} {to_duckdb}", contender.name);
    }
}
