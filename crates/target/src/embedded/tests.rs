//! Options that decide where queries read and how much they keep, from their names to their effect.

use std::path::Path;

use plimsoll_engine::query::QueryUsage;
use plimsoll_machine::placement::process_cores;
use plimsoll_testing::{Need, skip};
use plimsoll_workload::tpch::load::batches;
use plimsoll_workload::tpch::tables::{LINEITEM, SCHEMA};

use super::*;
use crate::embedded::{Embedded, EmbeddedOptions};

/// One table at a hundredth of the smallest scale; the others are empty.
fn loaded<'a>(options: impl IntoIterator<Item = &'a str>) -> Embedded {
    let database = Embedded::new(EmbeddedOptions::parse(options).unwrap()).unwrap();
    database.create(&SCHEMA).unwrap();
    for batch in batches(LINEITEM, 0.01, 1, 1).unwrap() {
        database.load(&SCHEMA, LINEITEM, batch).unwrap();
    }
    database.finish_load(&SCHEMA).unwrap();
    database
}

fn answer(database: &Embedded, sql: &str) -> Result<String, DatabaseError> {
    let answer = database.session(&SCHEMA).unwrap().query(sql)?;
    Ok(arrow::util::pretty::pretty_format_batches(&answer.batches).unwrap().to_string())
}

/// The queries' reads from disk since the last change of an option.
fn usage(database: &Embedded) -> QueryUsage {
    let mut usage = QueryUsage::default();
    database.queries.read().all().for_each(|engine| usage += engine.usage());
    usage
}

const SUMS: &str = "select l_returnflag, sum(l_quantity), count(*) from lineitem group by 1 order by 1";

#[test]
fn columns_in_files_give_the_same_answers_and_are_read_from_the_disk() {
    let (memory, file) = (loaded([]), loaded(["column_store=file", "dop=2"]));
    assert_eq!(answer(&memory, SUMS), answer(&file, SUMS));
    assert_eq!(usage(&memory).column_bytes_read, 0);
    // One byte for the flag and two for the quantity of each of about 60 000 rows.
    assert!((180_000..200_000).contains(&usage(&file).column_bytes_read), "{:?}", usage(&file));
}

#[test]
fn workers_follow_dop_unless_they_are_said() {
    let count = |database: &Embedded| database.query_threads().len();
    let database = Embedded::new(EmbeddedOptions::parse(["dop=3"]).unwrap()).unwrap();
    assert_eq!(count(&database), 3);
    assert_eq!(database.set_option("dop", "1"), Ok(OptionChange::Applied));
    assert_eq!(count(&database), 1, "a second query would wait for the first");
    for (option, value) in [("workers", "2"), ("dop", "4")] {
        assert_eq!(database.set_option(option, value), Ok(OptionChange::Applied));
        assert_eq!(count(&database), 2, "{option}={value}");
    }
}

#[test]
fn the_grant_changes_in_place_and_the_place_of_columns_does_not() {
    let database = loaded(["dop=2"]);
    let sort = "select sum(place * l_orderkey) from (
                    select l_orderkey, row_number() over (order by l_comment, l_orderkey, l_linenumber) as place from lineitem)";
    let free = answer(&database, sort).unwrap();
    assert_eq!(database.set_option("memory_grant_mib", "4"), Ok(OptionChange::Applied));
    assert_eq!(answer(&database, sort).unwrap(), free);
    assert!(usage(&database).spilled_bytes > 0, "{:?}", usage(&database));
    let error = answer(&database, "select count(*) from lineitem a, lineitem b where a.l_comment = b.l_comment");
    let error = error.unwrap_err().to_string();
    assert!(error.contains("memory grant of 4 MiB"), "{error}");
    assert_eq!(database.set_option("memory_grant_mib", "unlimited"), Ok(OptionChange::Applied));
    assert_eq!(answer(&database, sort).unwrap(), free);
    assert_eq!(usage(&database).spill_files, 0);
    assert_eq!(database.set_option("column_store", "file"), Ok(OptionChange::NeedsReopening));
    for (option, value) in [
        ("lock_policy", "pow"),
        ("cpu_policy", "cpu-prio"),
        ("starvation_bound", "none"),
        ("early_lock_release", "on"),
        ("undo_delay", "12ms"),
        ("durability", "sync"),
        ("data_folder", "/var/tmp/elsewhere"),
        ("checkpoint_mib", "1"),
        ("propagation", "background"),
        ("delta_mib", "1"),
        ("index", "hash"),
    ] {
        assert_eq!(database.set_option(option, value), Ok(OptionChange::NeedsReopening), "{option}");
    }
    let as_it_is =
        [("lock_policy", "standard"), ("starvation_bound", "5"), ("early_lock_release", "off"), ("undo_delay", "0s")];
    for (option, value) in as_it_is {
        assert_eq!(database.set_option(option, value), Ok(OptionChange::Applied), "{option}");
    }
}

#[test]
fn the_memory_of_columns_changes_in_place_and_its_reads_are_counted() {
    let database = loaded(["column_store=file", "column_memory_mib=64"]);
    let sum = "select sum(l_quantity), count(*) from lineitem where l_tax > 0";
    let expect = answer(&loaded([]), sum).unwrap();
    let read = |database: &Embedded| {
        let before = database.column_reads().unwrap();
        assert_eq!(answer(database, sum).unwrap(), expect);
        let after = database.column_reads().unwrap();
        (after.read_bytes - before.read_bytes, after.found_bytes.map(|found| found - before.found_bytes.unwrap_or(0)))
    };
    let (first, again) = (read(&database), read(&database));
    assert!(first.0 > 0 && first.1 == Some(0), "{first:?}");
    assert_eq!(again, (0, Some(first.0)));
    assert!(database.column_reads().unwrap().held_bytes_peak >= first.0);
    assert_eq!(database.set_option("column_memory_mib", "none"), Ok(OptionChange::Applied));
    assert_eq!((read(&database), read(&database)), ((first.0, None), (first.0, None)));
    assert!(loaded([]).column_reads().is_none());
    let parsed = EmbeddedOptions::parse(["column_memory_mib=4"]).unwrap_err().to_string();
    let set = loaded([]).set_option("column_memory_mib", "4").unwrap_err().to_string();
    for error in [parsed, set] {
        assert!(error.contains("use `column_store=file`"), "{error}");
    }
}

#[test]
fn a_folder_in_memory_is_refused_when_the_target_is_opened() {
    if !Path::new("/dev/shm").is_dir() {
        return skip(Need::Shm, "there is no /dev/shm to refuse");
    }
    for options in [["column_store=file", "column_folder=/dev/shm"], ["memory_grant_mib=4", "spill_folder=/dev/shm"]] {
        let error = Embedded::new(EmbeddedOptions::parse(options).unwrap()).unwrap_err().to_string();
        assert!(error.contains("/dev/shm is on a tmpfs, which is memory"), "{error}");
    }
    assert!(Embedded::new(EmbeddedOptions::parse(["column_folder=/dev/shm"]).unwrap()).is_ok(), "nothing is put there");
}

/// Which cores a thread of this process may run on, as the kernel numbers them.
fn allowed(thread: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.unwrap().trim().to_owned()
}

/// The same of a client's thread that begins a transaction and then sends a query.
fn client(database: &Embedded) -> [String; 2] {
    std::thread::scope(|scope| {
        let work = || {
            let mut session = database.session(&SCHEMA).unwrap();
            session.begin().unwrap();
            let in_transaction = allowed("thread-self");
            session.rollback().unwrap();
            session.query("select count(*) from lineitem").unwrap();
            [in_transaction, allowed("thread-self")]
        };
        scope.spawn(work).join().unwrap()
    })
}

#[test]
fn threads_of_each_role_run_where_they_were_put() {
    let cores = process_cores();
    let (first, last) = (cores[0].to_string(), cores[cores.len() - 1].to_string());
    let at = cores.len() - 1;
    let options = [
        "transaction_cores=0",
        &format!("query_cores={at}"),
        &format!("propagation_cores={at}"),
        "propagation=background",
    ];
    let database = loaded(options);
    assert_eq!(client(&database), [first.clone(), last.clone()]);
    let workers = |database: &Embedded| {
        let of_propagation = database.tables(&SCHEMA).unwrap().propagation_threads();
        [database.query_threads(), of_propagation].map(|threads| {
            let places: Vec<String> = threads.iter().map(|thread| allowed(&format!("self/task/{thread}"))).collect();
            assert!(!places.is_empty());
            places
        })
    };
    assert!(workers(&database).iter().flatten().all(|place| *place == last), "{:?}", workers(&database));
    let own = allowed("self");
    for (option, value) in [("query_cores", "0"), ("propagation_cores", "all"), ("transaction_cores", "all")] {
        assert_eq!(database.set_option(option, value), Ok(OptionChange::Applied));
    }
    assert_eq!(client(&database), [own.clone(), first.clone()]);
    let [queries, propagation] = workers(&database);
    assert!(queries.iter().all(|place| *place == first) && propagation.iter().all(|place| *place == own));
    let error = database.set_option("query_cores", "5000").unwrap_err().to_string();
    assert!(error.contains("there is no core 5000: this process has"), "{error}");
    assert_eq!(allowed("self"), own, "the first thread stays where it is");
}

#[test]
fn cores_that_are_not_there_are_refused_before_anything_is_loaded() {
    let open = |options: &[&str]| Embedded::new(EmbeddedOptions::parse(options.iter().copied()).unwrap());
    let refused = |options: &[&str], expect: &str| {
        let error = open(options).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    let many = format!("propagation_threads={}", process_cores().len() + 1);
    refused(&["transaction_cores=5000"], "there is no core 5000");
    refused(&["propagation=background", &many], "say propagation_oversubscribe=on");
    assert!(open(&["propagation=background", &many, "propagation_oversubscribe=on"]).is_ok());
    assert!(open(&[&many]).is_ok(), "nothing is propagated");
}

#[test]
fn queries_that_merge_more_and_more_are_warned_of() {
    let warnings =
        |options: &[&str]| Embedded::new(EmbeddedOptions::parse(options.iter().copied()).unwrap()).unwrap().warnings();
    let told = warnings(&["propagation=paused"]);
    assert!(told.len() == 1 && told[0].contains("measures mu_merge"), "{told:?}");
    for fine in [&["propagation=paused", "freshness=bounded(1s)"][..], &["propagation=background"], &[]] {
        assert_eq!(warnings(fine), Vec::<String>::new());
    }
}

/// The nice value and the policy of each thread of queries (fields 19 and 41 of proc(5)).
fn shares(database: &Embedded) -> Vec<(String, String)> {
    let of = |thread: i32| {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        (fields[16].to_owned(), fields[38].to_owned())
    };
    database.query_threads().into_iter().map(of).collect()
}

#[test]
fn threads_of_queries_have_the_share_that_is_said_and_the_answers_stay() {
    let database = loaded(["dop=2", "query_share=nice-19"]);
    let pair = |nice: &str, policy: &str| (nice.to_owned(), policy.to_owned());
    assert_eq!(shares(&database), vec![pair("19", "0"); 2]);
    let expect = answer(&loaded([]), SUMS).unwrap();
    assert_eq!(answer(&database, SUMS).unwrap(), expect);
    assert_eq!(database.set_option("query_share", "idle"), Ok(OptionChange::Applied));
    assert!(shares(&database).iter().all(|(_, policy)| policy == "5"), "{:?}", shares(&database));
    assert_eq!(answer(&database, SUMS).unwrap(), expect);
    assert_eq!(database.set_option("query_share", "untouched"), Ok(OptionChange::Applied));
    assert_eq!(shares(&database), vec![pair("0", "0"); 2]);
    let refused = database.set_option("query_share", "nice-20").unwrap_err().to_string();
    assert!(refused.contains("`nice-1` to `nice-19`, or `idle`"), "{refused}");
}

#[test]
fn queries_that_are_admitted_one_by_one_have_the_same_answers() {
    let database = loaded(["query_mpl=1"]);
    let expect = answer(&database, SUMS).unwrap();
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(|| answer(&database, SUMS).unwrap())).collect();
        assert!(all.into_iter().all(|one| one.join().unwrap() == expect));
    });
    assert_eq!(database.set_option("query_mpl", "none"), Ok(OptionChange::Applied));
    assert_eq!(answer(&database, SUMS).unwrap(), expect);
}

#[test]
fn keys_of_which_no_ranges_are_read_have_the_index_that_is_set() {
    let schema = || plimsoll_workload::registry::benchmark("tpcc:1", 7).unwrap().0;
    let indexes = |options: &[&str]| {
        let database = Embedded::new(EmbeddedOptions::parse(options.iter().copied()).unwrap()).unwrap();
        database.create(schema().schema()).unwrap();
        database.indexes(schema().schema())
    };
    assert_eq!(indexes(&[]), BTreeMap::new(), "all of them are trees");
    let made = indexes(&["index=hash"]);
    let hash = ["customer", "district", "item", "orders", "stock", "warehouse"];
    let expected = hash.map(|table| (table, "hash")).into_iter().chain([("new_order", "tree"), ("order_line", "tree")]);
    assert_eq!(made, expected.map(|(table, kind)| (table.to_owned(), kind)).collect());
    let refused = |options: [&str; 3]| EmbeddedOptions::parse(options).unwrap_err().to_string();
    let folder = refused(["index=hash", "durability=sync", "data_folder=/var/tmp/elsewhere"]);
    assert!(folder.contains("use `index=tree`, or leave `data_folder` out"), "{folder}");
    let unknown = EmbeddedOptions::parse(["index=hsah"]).unwrap_err().to_string();
    assert!(unknown.contains("`tree` or `hash`"), "{unknown}");
}
