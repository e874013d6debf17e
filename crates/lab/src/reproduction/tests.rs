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
fn how_an_exhibit_was_measured_stands_beside_every_row() {
    let results = fixture::study();
    let measured = ExhibitRun::of(&results);
    assert_eq!(measured.runs.0, results.points.len());
    let page = page::page(&[exhibit("a", vec![claim("x", 1.0), claim("y", 1.0)])], &[], &Causes::default());
    assert_eq!(page.matches(&measured.told()).count(), 2, "{}\n{page}", measured.told());
}
