//! A watch over prescribed answers.

use plimsoll_policy::Doing;

use super::*;

/// A text, and the answer to statements that contain it.
type Answer = (&'static str, Result<Vec<Vec<Option<&'static str>>>, DatabaseError>);

/// Answers each statement by the first entry whose text it contains.
struct Written {
    answers: Vec<Answer>,
    version: u32,
}

impl Ask for Written {
    fn rows(&mut self, sql: &str, each: &mut dyn FnMut(&[Option<&str>])) -> Result<(), DatabaseError> {
        let (_, answer) = self.answers.iter().find(|(part, _)| sql.contains(part)).unwrap_or_else(|| panic!("{sql}"));
        answer.clone()?.iter().for_each(|row| each(row));
        Ok(())
    }

    fn server_process(&self) -> Option<i32> {
        Some(77)
    }

    fn major_version(&self) -> u32 {
        self.version
    }
}

fn watch(version: u32, answers: Vec<Answer>) -> Watch<Written> {
    let mut all = vec![("pg_roles", Ok(vec![vec![Some("16384")]]))];
    all.extend(answers);
    Watch::new(Written { answers: all, version }).expect("it is written")
}

const NO_EXTENSION: Answer = ("pg_extension", Ok(Vec::new()));

#[test]
fn sessions_are_read_and_what_may_not_be_seen_is_left_out() {
    let rows = vec![
        vec![Some("10"), None, Some("active"), Some("Lock"), Some("transactionid")],
        vec![Some("11"), None, Some("idle"), Some("Client"), Some("ClientRead")],
        vec![Some("12"), Some("13"), Some("active"), None, None],
        vec![Some("14"), None, None, None, None],
    ];
    let mut watch = watch(15, vec![NO_EXTENSION, ("usesysid = 16384", Ok(rows))]);
    let mut seen = Vec::new();
    watch.look(&mut seen).expect("it is written");
    let expect = [
        Activity { process: 10, leader: None, doing: Doing::Lock },
        Activity { process: 11, leader: None, doing: Doing::Idle },
        Activity { process: 12, leader: Some(13), doing: Doing::Running },
    ];
    assert_eq!((seen.as_slice(), watch.server_process()), (expect.as_slice(), Some(77)));
}

#[test]
fn upkeep_is_where_the_version_keeps_it() {
    for (version, source) in
        [(13, "from pg_stat_bgwriter"), (16, "from pg_stat_bgwriter"), (17, "from pg_stat_checkpointer")]
    {
        let answers = vec![
            NO_EXTENSION,
            (source, Ok(vec![vec![Some("7"), Some("1234.5")]])),
            ("pg_stat_progress_vacuum", Ok(vec![vec![Some("orders")], vec![Some("stock")]])),
        ];
        let upkeep = watch(version, answers).upkeep().expect("it is written");
        let expect = Upkeep {
            checkpoints_begun: Some(7),
            checkpoint_write: Some(Duration::from_micros(1_234_500)),
            vacuums: vec!["orders".to_owned(), "stock".to_owned()],
        };
        assert_eq!(upkeep, expect, "{version}");
    }
}

#[test]
fn statements_are_kept_or_there_is_a_reason() {
    let Statements::NotKept(why) = watch(15, vec![NO_EXTENSION]).statements(true).expect("written") else { panic!() };
    assert!(why.contains("create extension pg_stat_statements"), "{why}");

    let row = vec![Some("-5"), Some("3"), Some("12.5"), Some("6"), Some("100"), Some("2"), Some("select 1")];
    let kept = ("\"my \"\"own\".pg_stat_statements(true)", Ok(vec![row]));
    let mut there = watch(15, vec![("pg_extension", Ok(vec![vec![Some("my \"own")]])), kept]);
    let expect = StatementTotals {
        id: -5,
        text: "select 1".to_owned(),
        calls: 3,
        time: Duration::from_micros(12_500),
        rows: 6,
        pages_hit: 100,
        pages_read: 2,
    };
    assert_eq!(there.statements(true), Ok(Statements::Kept(vec![expect])));

    let refused = DatabaseError::Failed("pg_stat_statements must be loaded".to_owned());
    let mut unloaded = watch(15, vec![("pg_extension", Ok(vec![vec![Some("public")]])), ("queryid", Err(refused))]);
    for _ in 0..2 {
        let why = Statements::NotKept("pg_stat_statements must be loaded".to_owned());
        assert_eq!(unloaded.statements(false), Ok(why));
    }
}
