//! Rules as text: which rule matches, and which users may choose which class.

use super::*;

/// `high: user=shop_*, database=shop`, one rule a line; classes are `low`, `high`, and `level2`, which `boss*` may set.
fn rules(text: &str) -> ClassRules {
    let class = |name: &str, settable_by: &[&str]| ClassTerms {
        name: name.to_owned(),
        priority: name.parse().expect("a priority"),
        has_mpl: false,
        settable_by: settable_by.iter().map(|users| pattern(users)).collect(),
    };
    let classes = vec![class("low", &[]), class("high", &[]), class("level2", &["boss*", "x"])];
    let index = |name: &str| {
        ClassIndex(classes.iter().position(|class| class.name == name).expect("one of the classes") as u16)
    };
    let rule = |line: &str| {
        let (class, parts) = line.split_once(':').expect("class: parts");
        let value = |key| parts.split(',').find_map(|part| part.trim().strip_prefix(key)?.strip_prefix('='));
        ClassRule {
            class: index(class.trim()),
            user: value("user").map(pattern),
            database: value("database").map(pattern),
            application_name: value("application_name").map(pattern),
            tag: value("tag").map(pattern),
            fingerprint: value("fingerprint").map(|digits| u64::from_str_radix(digits, 16).expect("digits")),
        }
    };
    let rules = text.lines().map(rule).collect();
    ClassRules::new(classes.clone(), rules, ClassIndex(0))
}

fn pattern(text: &str) -> Pattern {
    Pattern::new(text).expect("a pattern")
}

fn login(words: &[&str; 3]) -> Login {
    let [user, database, application_name] = words.map(str::to_owned);
    Login { user, database, application_name }
}

/// The class and the rule, counted from 1 as people do, 0 for none.
fn told(rules: &ClassRules, matched: Matched) -> String {
    let class = &rules.classes()[usize::from(matched.class.0)].name;
    format!("{class} {}", matched.rule.map_or(0, |rule| rule + 1))
}

#[test]
fn the_first_rule_that_matches_a_login_decides() {
    let rules = rules(
        "low: fingerprint=1\n\
         high: user=shop_?, database=shop\n\
         level2: user=shop_1, application_name=psql*\n\
         low: user=shop_*\n\
         high: user=[a-c]*, database=*\n\
         low: tag=x, user=*",
    );
    let check = |words, expect: &str| assert_eq!(told(&rules, rules.of_login(&login(&words))), expect, "{words:?}");
    check(["shop_1", "shop", "psql"], "high 2");
    check(["shop_1", "other", "psql 15"], "level2 3");
    check(["shop_12", "shop", ""], "low 4");
    check(["bob", "", ""], "high 5");
    check(["BOB", "shop", "PSQL"], "low 0");
    check(["a/b", "x/y", ""], "high 5");
}

#[test]
fn rules_of_statements_look_at_the_login_too() {
    let rules = rules(
        "high: user=web, tag=pay*\n\
         level2: fingerprint=00000000000000ff, user=web\n\
         low: user=web\n\
         low: tag=slow, fingerprint=1",
    );
    let check = |user, tag, fingerprint, expect: Option<&str>| {
        let high = ClassIndex(1);
        let matched = rules.of_statement(&login(&[user, "shop", ""]), high, tag, fingerprint);
        assert_eq!(matched.map(|matched| told(&rules, matched)).as_deref(), expect, "{user} {tag:?} {fingerprint:?}");
    };
    check("web", Some("payment"), None, Some("high 1"));
    check("web", Some("payment"), Some(255), Some("high 1"));
    check("web", None, Some(255), Some("level2 2"));
    check("bob", None, Some(255), None);
    check("web", None, None, None);
    check("web", None, Some(3), None);
    check("bob", Some("slow"), Some(1), Some("low 4"));
    check("bob", Some("slow"), None, None);
    check("bob", Some("low"), Some(3), Some("low 0"));
    check("bob", Some("nonsense"), None, None);
}

#[test]
fn what_a_client_says_of_itself_raises_nothing_unless_it_may() {
    let rules = rules("level2: tag=urgent");
    let [low, high, level2] = [0, 1, 2].map(ClassIndex);
    for (login_class, chosen, user, expect) in [
        (low, low, "bob", true),
        (high, low, "bob", true),
        (low, high, "bob", false),
        (low, high, "boss", false),
        (low, level2, "boss1", true),
        (low, level2, "x", true),
        (high, level2, "the boss", false),
    ] {
        assert_eq!(rules.may_choose(login_class, chosen, user), expect, "{login_class:?} {chosen:?} {user}");
        for tag in ["level2", "urgent"] {
            let matched = rules.of_statement(&login(&[user, "", ""]), login_class, Some(tag), None);
            let may = rules.may_choose(login_class, level2, user);
            assert_eq!(matched.map(|matched| matched.class), may.then_some(level2), "{user} {tag}");
        }
    }
}

/// An operator gives sessions with the application name of the checkout a high class. A reporting tool then put the
/// same name into its connection string, and its reports were as important as the shop.
#[test]
fn an_application_name_raises_nothing_unless_its_user_may() {
    let rules = rules(
        "level2: application_name=checkout\n\
         level2: user=web_*, application_name=cart\n\
         high: user=teller, application_name=till\n\
         low: application_name=batch\n\
         high: user=clerk*",
    );
    let check = |words, expect: &str| assert_eq!(told(&rules, rules.of_login(&login(&words))), expect, "{words:?}");
    check(["report", "shop", "checkout"], "low 0");
    check(["clerk1", "shop", "checkout"], "high 5");
    check(["boss1", "shop", "checkout"], "level2 1");
    check(["web_1", "shop", "cart"], "low 0");
    // A rule that names one user is the administrator's word.
    check(["teller", "shop", "till"], "high 3");
    // A client that lowers its own priority is believed.
    check(["clerk1", "shop", "batch"], "low 4");
    let chosen: Vec<bool> = (0..6).map(|rule| rules.is_chosen_by_clients(rule)).collect();
    assert_eq!(chosen, [true, true, false, false, false, false]);
}

#[test]
fn rules_are_told_as_people_count() {
    let rules = rules("low: user=report_*, database=shop\nhigh: tag=a?, fingerprint=ff\nlow:\nlow: application_name=x");
    let described: Vec<_> = (0..4).map(|at| rules.describe(Some(at))).collect();
    let expect = [
        "rule 1: user report_*, database shop",
        "rule 2: tag a?, fingerprint 00000000000000ff",
        "rule 3: everything",
        "rule 4: application_name x",
    ];
    assert_eq!(described, expect);
    assert_eq!(rules.describe(None), "no rule");
    assert_eq!((rules.class_named("high"), rules.class_named("High")), (Some(ClassIndex(1)), None));
}

#[test]
fn rules_that_can_never_decide_are_told() {
    let check = |text: &str, expect: &[Option<usize>]| {
        let rules = rules(text);
        let told: Vec<_> = (0..rules.rules().len()).map(|rule| rules.shadowed_by(rule)).collect();
        assert_eq!(told, expect, "{text}");
        assert_eq!(rules.shadowed_by(99), None);
    };
    check("low: user=a*\nhigh: user=abc, database=x\nhigh: user=a*\nhigh: user=b", &[None, Some(0), Some(0), None]);
    check("low: user=*\nhigh: database=x\nhigh: tag=x", &[None, Some(0), None]);
    check("low: user=a*, database=x\nhigh: user=a*\nhigh: user=ab*", &[None, None, None]);
    check("low: fingerprint=1\nlow: fingerprint=1, tag=x\nlow: tag=x\nhigh: tag=x", &[None, Some(0), None, None]);
    check("low: tag=*\nlow: fingerprint=1\nlow: tag=x", &[None, None, Some(0)]);
}

#[test]
fn fingerprints_are_needed_only_if_a_rule_names_one() {
    assert!(!rules("low: user=a\nlow: tag=b").needs_fingerprints());
    assert!(rules("low: user=a\nlow: fingerprint=b").needs_fingerprints());
}

#[test]
fn the_table_has_every_key() {
    let documentation = include_str!("../class_rules.rs");
    let rows = documentation.lines().filter_map(|line| line.strip_prefix("//! | "));
    let keys: Vec<&str> = rows.filter_map(|row| row.split(' ').next()).skip(1).collect();
    let rules = rules("low: user=1, database=2, application_name=3, tag=4, fingerprint=5");
    let told = rules.rules()[0].to_string();
    let displayed: Vec<&str> = told.split(", ").filter_map(|part| part.split(' ').next()).collect();
    assert_eq!(keys, displayed);
}

/// A client that had to queue in a class with an `mpl` once evaded the queue by a tag of a class of equal priority without one.
#[test]
fn nobody_leaves_a_queue_by_naming_a_class_of_equal_priority_without_one() {
    let class = |name: &str, has_mpl| ClassTerms {
        name: name.to_owned(),
        priority: Priority::LOW,
        has_mpl,
        settable_by: vec![pattern("boss")],
    };
    let mut rules = ClassRules::new(vec![class("queued", true), class("open", false)], vec![], ClassIndex(0));
    let (queued, open) = (ClassIndex(0), ClassIndex(1));
    let may = |rules: &ClassRules, from, to| rules.may_choose(from, to, "anybody");
    assert!(!may(&rules, queued, open) && may(&rules, open, queued) && may(&rules, open, open));
    assert!(rules.may_choose(queued, open, "boss"));
    rules.set_has_mpl(open, true);
    assert!(may(&rules, queued, open));
}
