//! Generated texts: long ones, arbitrary bytes, and combined statements.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

/// A megabyte, in every adverse form. Reading it byte by byte takes well under a second; a reader that goes back for
/// each part takes minutes, and blocks the relay's worker.
#[test]
fn long_texts_are_read_in_time() {
    const CPU_MAX: Duration = Duration::from_secs(10);
    for part in
        ["(", "/*class='", "/*class='a'*/", "begin;", "set plimsoll.class=", "dblink(", "create function begin "]
    {
        let before = cpu_time();
        let long = told(&read(part.repeat(1_000_000 / part.len()).as_bytes()));
        let took = cpu_time() - before;
        assert!(took < CPU_MAX, "a megabyte of `{part}` took {took:?}");
        assert_eq!(long, told(&read(part.repeat(3).as_bytes())), "a megabyte of `{part}` says what three say");
    }
}

/// This thread's CPU time, which other processes on the machine do not affect.
fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

proptest! {
    #[test]
    fn any_bytes_can_be_read(sql in prop::collection::vec(any::<u8>(), 0..300), escaped in any::<bool>()) {
        let _ = read_with(&sql, if escaped { Strings::Escaped } else { Strings::Standard });
    }

    /// Words hidden in literals, comments and quoted names have no effect.
    #[test]
    fn hidden_words_say_nothing(
        words in prop::collection::vec(prop::sample::select(vec![
            "commit", ";", "begin", "copy t from stdin", "set plimsoll.class = x", "pg_advisory_lock(1)", "temp", " ", "(",
        ]), 0..8),
        at in 0..6_usize,
    ) {
        const HIDING: [[&str; 2]; 6] =
            [["'", "'"], ["\"", "\""], ["$$", "$$"], ["$x$", "$x$"], ["/*", "*/"], ["--", "\n"]];
        let [begin, end] = HIDING[at];
        let sql = format!("select a {begin}{}{end} from b", words.join(" "));
        prop_assert_eq!(read(sql.as_bytes()), Statement::default(), "{}", sql);
    }

    /// Statements have the same facts one by one and together.
    #[test]
    fn several_statements_say_what_each_does(
        texts in prop::collection::vec(prop::sample::select(vec![
            "begin", "commit", "rollback", "rollback to a", "select 1", "copy t to stdout", "listen x", "", "do 'x'",
            "set plimsoll.class = a", "reset all", "select ';'", "insert into temp values (1)", "select pg_advisory_xact_lock(1)",
        ]), 0..6),
    ) {
        let together = texts.join(" ; ");
        let together = read(together.as_bytes());
        let each: Vec<_> = texts.iter().map(|text| read(text.as_bytes())).collect();
        prop_assert_eq!(together.begins, each.iter().any(|it| it.begins));
        prop_assert_eq!(together.copy, each.iter().any(|it| it.copy));
        prop_assert_eq!(together.ends, each.iter().filter_map(|it| it.ends).max());
        prop_assert_eq!(together.unreplayable, each.iter().find_map(|it| it.unreplayable));
        prop_assert_eq!(together.takes_advisory_lock, each.iter().any(|it| it.takes_advisory_lock));
        prop_assert_eq!(&together.set_class, &each.iter().rev().find_map(|it| it.set_class.clone()));
        prop_assert_eq!(together.several, texts.iter().filter(|text| !text.is_empty()).count() > 1);
    }
}
