//! The lists in `docs/postgresql.md` match the code.

use plimsoll_postgres::server::{Effect, SERVER_OPTIONS, ServerOption};

const GUIDE: &str = include_str!("../../../docs/postgresql.md");

#[test]
fn the_guide_lists_every_option_of_a_server() {
    let effect = |effect: Effect| match effect {
        Effect::Session => "in sessions that begin then",
        Effect::Reload => "at once",
        Effect::Restart => "after a restart, which keeps the data",
        Effect::NewServer => "in a new server, with data loaded again",
    };
    let row = |option: &ServerOption| {
        let yours = if option.for_any_server { "yes" } else { "" };
        format!("| `{}` | {} | {} | {yours} |", option.name, option.about, effect(option.effect))
    };
    let expect: Vec<String> = SERVER_OPTIONS.iter().map(row).collect();
    let found: Vec<&str> = GUIDE.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(found, expect, "the table should be:\n{}", expect.join("\n"));
}
