//! The page from exhibits that were made up.

use super::*;
use crate::claim::grade::{Grade, Published};
use crate::report::fixture;
use crate::reproduction::causes::Causes;
use crate::results::NearResult;

fn claim(text: &str, ours: f64) -> ClaimResult {
    let near = NearResult {
        expression: "gain(nprio, high)".to_owned(),
        published: Published::one(3.7),
        factor: 1.5,
        no_effect: 1.0,
        ours: Some(ours),
        interval: Some([ours * 0.9, ours * 1.1]),
        why_not: None,
    };
    ClaimResult {
        text: text.to_owned(),
        why_not: None,
        grade: near.grade(),
        near: Some(near),
        ..fixture::poor_study().claims[0].clone()
    }
}

fn exhibit(id: &str, claims: Vec<ClaimResult>) -> Exhibit {
    let results = fixture::study();
    Exhibit {
        id: id.to_owned(),
        title: "A title".to_owned(),
        study: Some("MW".to_owned()),
        differs: vec!["smaller | slower".to_owned()],
        file: format!("experiments/{id}.toml"),
        directory: format!("runs/{id}"),
        measured: Some(ExhibitRun::of(&results)),
        claims,
        withdrawn: vec!["it is green".to_owned()],
        why_not_run: None,
        stale: None,
    }
}

#[test]
fn the_page_counts_grades_and_tells_causes_where_they_are_asked_for() {
    let claims = vec![claim("near", 3.4), claim("far", 9.0), claim("against", 0.5)];
    assert_eq!(
        claims.iter().filter_map(|claim| claim.grade).collect::<Vec<_>>(),
        [Grade::Match, Grade::Direction, Grade::Contrary]
    );
    let not_run = Exhibit { measured: None, why_not_run: Some("no server".to_owned()), ..exhibit("b", Vec::new()) };
    let causes = "[a]\n\"near\" = { cause = \"never told\" }\n\"far\" = { cause = \"memory\" }\n\"against\" = { cause = \"luck\", guess = true }";
    let causes = Causes::parse(causes).expect("causes");
    let page = page::page(&[exhibit("a", claims), not_run], &["c"], &causes);
    for expect in [
        "| all | 3 | 0 | 0 | 0 | 3 | 1 | 1 | 1 | 0 |",
        "Of 2 claims that fail or are not matched, the cause of 1 is known, of 1 guessed, of 0 unknown.",
        "| near | – | – | not judged | match: 3.4 (3.06 to 3.74) beside 3.7 |",
        "- *far*: memory\n- *against*: luck (a guess)\n",
        "smaller \\| slower",
        "Claims withdrawn after their first results: *it is green*.",
        "Not run: no server",
        "Not run yet: c.",
    ] {
        assert!(page.contains(expect), "{expect}\n{page}");
    }
    assert!(!page.contains("never told"), "{page}");
}

#[test]
fn stale_runs_are_marked_and_counted_with_the_hashes_of_the_others() {
    let origin =
        Origin { experiment: "5e1f0a2b".to_owned(), code: [("engine/lock".to_owned(), "1".to_owned())].into() };
    let run = ExhibitRun { origin: Some(origin.clone()), ..ExhibitRun::of(&fixture::study()) };
    let fresh = Exhibit { measured: Some(run), ..exhibit("a", Vec::new()) };
    let stale = Exhibit { stale: Some("code has changed: engine/lock".to_owned()), ..exhibit("b", Vec::new()) };
    let page = page::page(&[fresh.clone(), stale], &[], &Causes::default());
    let code = origin.code_hash().expect("it has code");
    for expect in [
        "\n1 of 2 runs are **stale**; `plimsoll reproduce --stale` runs them again.\n",
        &format!(" runs, experiment 5e1f0a2b, code {code}\n"),
        ", **stale**: code has changed: engine/lock\n",
    ] {
        assert!(page.contains(expect), "{expect}\n{page}");
    }
    assert!(!page::page(&[fresh], &[], &Causes::default()).contains("**stale**"));
}

#[test]
fn pauses_between_sittings_are_no_part_of_the_length() {
    let mut results = fixture::study();
    results
        .points
        .iter_mut()
        .enumerate()
        .for_each(|(at, point)| (point.at_s, point.window_s) = (10.0 * at as f64, 5.0));
    results.elapsed_s = 10.0 * results.points.len() as f64;
    assert_eq!(ExhibitRun::of(&results).length_s, Some(results.elapsed_s));
    let before = results.elapsed_s;
    results.points.last_mut().expect("there are some").at_s += 86_400.0;
    results.elapsed_s += 86_400.0;
    let length = ExhibitRun::of(&results).length_s.expect("it is known");
    assert!((before - 10.0..before).contains(&length), "{length} of {before}");
}

#[test]
fn how_an_exhibit_was_measured_stands_beside_every_row() {
    let results = fixture::study();
    let measured = ExhibitRun::of(&results);
    assert_eq!(measured.runs.0, results.points.len());
    let page = page::page(&[exhibit("a", vec![claim("x", 1.0), claim("y", 1.0)])], &[], &Causes::default());
    assert_eq!(page.matches(&measured.told()).count(), 2, "{}\n{page}", measured.told());
}
