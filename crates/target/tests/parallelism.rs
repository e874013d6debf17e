//! Degrees of parallelism as options of the embedded engine: their effects, and the errors for wrong values.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use plimsoll_policy::Priority;
use plimsoll_target::{Embedded, EmbeddedOptions};
use plimsoll_workload::database::{Database, Login, Session};

use common::{loaded, rows};

#[test]
fn the_queries_of_ch_have_the_same_answers_at_every_degree() {
    let (ch, database) = loaded("ch:1", &["dop=1", "workers=2"]);
    let queries = ch.queries();
    assert_eq!(queries.len(), 22);
    let answers = || {
        let mut session = database.query_session(ch.schema(), Login::default()).unwrap();
        queries.iter().map(|(_, sql)| rows(session.as_mut(), sql)).collect::<Vec<_>>()
    };
    let expect = answers();
    for degree in [1, 2, 3, 4, 5, 6, 8, 11, 16] {
        database.set_option("parallelism", &format!("static({degree})")).unwrap();
        for ((name, _), (had, expect)) in queries.iter().zip(answers().iter().zip(&expect)) {
            assert_eq!(had, expect, "{name} at {degree}");
        }
        let unknown = database.parallelism().unwrap().unknown_plans;
        assert!(unknown.is_empty(), "{unknown:?}");
    }
    database.set_option("parallelism", "cost").unwrap();
    assert_eq!(answers(), expect);
    database.set_option("dop", "4").unwrap();
    database.set_option("parallelism", "adaptive").unwrap();
    for _ in 0..6 {
        assert_eq!(answers(), expect);
    }
    let learned = database.parallelism().unwrap();
    assert_eq!((learned.templates.len(), learned.templates_once), (22, 0));
    assert!(database.warnings().iter().all(|warning| !warning.contains("only once")), "{:?}", database.warnings());
}

#[test]
fn wrong_values_are_refused_with_what_was_meant() {
    let refused = |option: &str| EmbeddedOptions::parse([option]).unwrap_err().to_string();
    for (option, parts) in [
        ("parallelism=adaptiv", &["adaptiv", "`static(2)`", "`cost`", "`planner`", "did you mean `adaptive`"][..]),
        ("parallelism=static(0)", &["static(0)", "a degree is from 1 to 1024"]),
        ("parallelism=static(99999)", &["a degree is from 1 to 1024"]),
        ("parallelism=static", &["`static(2)`", "a degree is from 1 to 1024"]),
        ("parallelism_high=sam", &["`same`"]),
        ("query_threads=owned", &["`own`", "`shared`"]),
        ("workers=0", &["`dop` or a number from 1 to 1024"]),
        ("dop=0", &["a number from 1 to 1024"]),
        ("paralellism=cost", &["parallelism"]),
    ] {
        let message = refused(option);
        assert!(parts.iter().all(|part| message.contains(part)), "{option}: {message}");
    }
}

#[test]
fn a_degree_above_the_threads_and_queries_that_do_not_repeat_are_told() {
    let quiet = Embedded::new(EmbeddedOptions::parse(["dop=8"]).unwrap()).unwrap();
    assert_eq!(quiet.warnings(), [""; 0], "as many threads as partitions, and no policy");
    let wide = Embedded::new(EmbeddedOptions::parse(["dop=2", "parallelism=static(16)"]).unwrap()).unwrap();
    assert_eq!(
        wide.warnings(),
        ["queries have up to 16 partitions on 2 threads: partitions beyond the threads take turns"]
    );
    let (tpch, database) = loaded("tpch:0.01", &["dop=2", "parallelism=adaptive"]);
    let mut session = database.query_session(tpch.schema(), Login::default()).unwrap();
    for column in ["l_tax", "l_discount", "l_quantity"] {
        session.query(&format!("select sum({column}) from lineitem")).unwrap();
    }
    session.query("select l_tax from lineitem where l_orderkey < 4 union all select 1 from region").unwrap();
    let warnings = database.warnings().join("\n");
    for part in ["3 query templates have run only once", "1 runs had one degree", "dop=2", "UnionExec"] {
        assert!(warnings.contains(part), "{warnings}");
    }
}

#[test]
fn queries_of_high_priority_can_have_an_engine_and_a_policy_of_their_own() {
    let options = ["dop=2", "parallelism=static(1)", "parallelism_high=adaptive", "query_threads=own"];
    let (tpch, database) = loaded("tpch:0.01", &options);
    assert_eq!(database.query_threads().len(), 4, "two engines of two threads");
    let mut session = database.query_session(tpch.schema(), Login::default()).unwrap();
    let ask = |session: &mut dyn Session, from: u64| {
        session.query(&format!("select count(*) from orders where o_orderkey > {from}")).unwrap();
    };
    ask(session.as_mut(), 1);
    assert_eq!(database.parallelism().unwrap().templates_once, 0, "only what is of high priority is learned from");
    session.set_priority(Priority::HIGH);
    (1..4).for_each(|from| ask(session.as_mut(), from));
    let learned = database.parallelism().unwrap();
    assert_eq!((learned.policy.as_str(), learned.templates.len()), ("adaptive", 1));
    // Other load on the machine decides the level of load of each run.
    assert_eq!(learned.templates[0].searches.iter().map(|search| search.runs).sum::<u64>(), 2);
}
