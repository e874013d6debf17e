//! The syntax of `--only`.

use super::*;

fn check(text: &str, expect: Result<&[(usize, usize)], &str>) {
    let plan = plan(&TWO.replace("dop = [1, 2]", "dop = [1, 2]\npolicy = [\"a\", \"b c\"]"), &Watched::default());
    let selected = Selection::parse(text, &plan).map_err(|error| error.to_string()).map(|selection| {
        let all = (0..4).flat_map(|setting| (0..3).map(move |arm| (setting, arm)));
        all.filter(|(setting, arm)| selection.wants(&plan, *setting, *arm)).collect::<Vec<_>>()
    });
    if let (Ok(selection), Ok(selected)) = (Selection::parse(text, &plan), &selected) {
        let again = selected.iter().filter(|(setting, _)| *setting == 0).count();
        assert_eq!(selection.run_count(&plan), (selected.len() + again) * plan.run.repeats as usize, "{text}");
    }
    assert_eq!(selected, expect.map(<[_]>::to_vec).map_err(str::to_owned), "{text}");
}

#[test]
fn words_select_arms_and_values() {
    check("together", Ok(&[(0, 2), (1, 2), (2, 2), (3, 2)]));
    check("dop=2,alone:ints", Ok(&[(2, 0), (3, 0)]));
    check(" dop = 2 , policy = b c , together,", Ok(&[(3, 2)]));
    check("dop=2,policy=a,alone:ints,alone:texts", Ok(&[(2, 0), (2, 1)]));
    check("policy=a,policy=b c,dop=1,together", Ok(&[(0, 2), (1, 2)]));
}

#[test]
fn lists_of_words_are_alternatives() {
    check("dop=1,policy=a,alone:ints; dop=2,policy=b c,together", Ok(&[(0, 0), (3, 2)]));
    check("dop=1,together;together;", Ok(&[(0, 2), (1, 2), (2, 2), (3, 2)]));
}

#[test]
fn no_words_select_everything() {
    let all: Vec<(usize, usize)> = (0..4).flat_map(|setting| (0..3).map(move |arm| (setting, arm))).collect();
    check("", Ok(&all));
    check(" , ", Ok(&all));
}

#[test]
fn words_that_select_nothing_are_told_what_there_is() {
    let there_is = "there is no such point; the arms are `alone:ints`, `alone:texts`, `together`; `dop` is one of 1, 2; \
                    `policy` is one of a, b c";
    for word in ["alone", "dop", "dop=3", "dop=", "=2", "clients=1", "Together", "policy=b"] {
        check(&format!("together,{word}"), Err(&format!("--only {word}: {there_is}")));
    }
}
