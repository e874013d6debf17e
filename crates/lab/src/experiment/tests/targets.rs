//! Experiments that compare databases: the target is swept, and each has options of its own.

use std::collections::BTreeMap;

use super::{Paper, plan, refused, with};
use crate::targets::own_options;

const COMPARED: &str = r#"
[target]
options = { lock_policy = "pow", buffers = 7 }

[sweep]
target = ["embedded:", "other:"]
dop    = [1, 2]

[[claim]]
text  = "The other is slower"
holds = 'throughput(target="other:", dop=1) < throughput(target="embedded:", dop=1)'
"#;

#[test]
fn each_target_gets_the_options_that_it_has() {
    let plan = plan(&with(COMPARED), false);
    let settings: Vec<_> =
        plan.settings().map(|setting| (setting.url.clone(), own_options(&Paper, &setting))).collect();
    let options = |pairs: [(&str, &str); 2]| -> BTreeMap<String, String> {
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let expect = [
        ("embedded:".to_owned(), options([("dop", "1"), ("lock_policy", "pow")])),
        ("embedded:".to_owned(), options([("dop", "2"), ("lock_policy", "pow")])),
        ("other:".to_owned(), options([("dop", "1"), ("buffers", "7")])),
        ("other:".to_owned(), options([("dop", "2"), ("buffers", "7")])),
    ];
    assert_eq!(settings, expect);
}

#[test]
fn a_quick_form_can_leave_targets_out() {
    let text = with("[sweep]\n\"target.url\" = [\"embedded:\", \"other:\"]\n[quick.sweep]\ntarget = [\"other:\"]");
    assert_eq!(plan(&text, true).setting(0).url, "other:");
}

#[test]
fn what_no_target_or_not_every_target_has_is_refused() {
    let check = |more: &str, place: &str, expect: &str| refused::check(&with(more), place, expect);
    check("[sweep]\ntarget = [\"embedded:\", \"third:\"]", "5:24", "target `third:` is not available");
    check("[sweep]\ntarget = [1]", "5:11", "target `1` is not available");
    check(
        "[target.options]\nbufers = 1\n[sweep]\ntarget = [\"embedded:\", \"other:\"]",
        "5:1",
        "has no option `bufers`",
    );
    check("[target.options]\nbuffers = \"x\"\n[sweep]\ntarget = [\"embedded:\", \"other:\"]", "5:1", "cannot be `x`");
    let only_one = "[sweep]\ntarget = [\"embedded:\", \"other:\"]\nbuffers = [1, 2]";
    check(only_one, "6:1", "there is no `buffers` here");
}
