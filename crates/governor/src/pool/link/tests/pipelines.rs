//! Several units under way at once, and copies.

use super::*;

/// A statement that was prepared again in the same pipeline was refused, because its name was taken until the answer.
#[test]
fn statements_are_discarded_for_what_follows_in_a_pipeline() {
    let mut stage = Stage::new(&Arc::default(), "a");
    stage.say("P[s|select 1|00] S");
    stage.attach(connection("a"));
    stage.hear("1 Z[I]");
    for discard in ["DEALLOCATE ALL", "deallocate prepare all;", "DISCARD ALL"] {
        let again = stage.say(&format!("Q[{discard}|] P[s|select 1|00] S"));
        assert_eq!(again, format!("Q[{discard}|]"), "it may fail, and the name is taken then");
        let tag = if discard == "DISCARD ALL" { "C[DISCARD ALL|]" } else { "C[DEALLOCATE ALL|]" };
        assert_eq!(stage.hear(&format!("{tag} Z[I]")), format!("{tag} Z[I]"));
        assert!(stage.go_on().ends_with("|select 1|00] S"));
        assert_eq!(stage.hear("1 Z[I]"), "1 Z[I]");
        assert!(stage.say("B[|s|00] S").starts_with("B[|plimsoll_"));
        assert_eq!(stage.hear("2 Z[I]"), "2 Z[I]");
    }
}

#[test]
fn a_copy_swallows_the_syncs_before_its_end() {
    let mut stage = Stage::new(&Arc::default(), "a");
    stage.say("P[|copy t from stdin|00] B[||00] E[|] S");
    stage.attach(connection("a"));
    assert_eq!(stage.hear("1 2 G"), "1 2 G");
    stage.say("d[1] c S");
    assert_eq!(stage.hear("C[COPY 1|] Z[I]"), "C[COPY 1|] Z[I]");
    assert!(stage.link.is_free());
}

/// In a pipeline, a statement was not prepared, since one before it had failed. The link took its name for taken when the next
/// unit prepared it.
#[test]
fn a_name_is_taken_only_if_its_unit_has_come_to_it() {
    let mut stage = Stage::new(&Arc::default(), "a");
    stage.attach(connection("a"));
    assert_eq!(stage.say("P[|x|00] P[s|select 1|00] S P[s|select 1|00] S"), "P[|x|00] P[plimsoll_1|select 1|00] S");
    assert_eq!(stage.go_on(), "", "nothing is answered yet");
    stage.hear("E[SERROR|C42601||]");
    assert_eq!(stage.go_on(), "P[plimsoll_2|select 1|00] S");
    assert_eq!(stage.hear("Z[I] 1 Z[I]"), "Z[I] 1 Z[I]");
    // A unit that has not closed it.
    assert_eq!(stage.say("B[|x|00] C[Ss|] S B[|s|00] S"), "B[|x|00] S");
    stage.hear("E[SERROR|C26000||] Z[I]");
    assert_eq!(stage.go_on(), "B[|plimsoll_2|00] S");
    stage.hear("2 Z[I]");
    assert!(stage.link.is_free());
}

/// Rows, a `Sync` behind one of them, and an error: only the server knows whether it answers the `Sync`. The link took that
/// answer for another one's, and the session waited for ever.
#[test]
fn a_copy_that_fails_around_a_sync_ends_its_session() {
    for (ahead, later, is_known) in
        [("", "S d[good] d[bad]", true), ("", "d[bad] S", false), ("d[good] S d[bad]", "", false)]
    {
        let mut stage = Stage::new(&Arc::default(), "a");
        stage.say(&format!("P[|copy t from stdin|00] B[||00] E[|] S {ahead}"));
        stage.attach(connection("a"));
        stage.hear("1 2 G");
        stage.say(later);
        stage.hear("E[SERROR|C22P02||]");
        assert_eq!(stage.link.broken().is_none(), is_known, "{ahead}, {later}");
    }
}

/// A copy is cancelled in the moment in which it begins, and the server answers the `Sync` that a copy swallows.
#[test]
fn a_sync_that_no_copy_has_swallowed_ends_what_the_server_skips() {
    let mut stage = Stage::new(&Arc::default(), "a");
    stage.say("P[|copy t from stdin|00] B[||00] E[|] S");
    stage.attach(connection("a"));
    stage.hear("1 2 G E[SERROR|C57014||]");
    assert!(!stage.link.is_free());
    stage.hear("Z[I]");
    assert!(stage.link.is_free());
}
