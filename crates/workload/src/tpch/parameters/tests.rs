//! Every parameter stays within its range, and many draws reach all of it.

use std::collections::BTreeSet;

use rand_pcg::Pcg64;

use super::*;

/// Draws many times and collects, for each parameter, the values it took.
fn drawn(draw: Draw, name: &str) -> BTreeSet<String> {
    let mut random = Pcg64::new(7, 1);
    let mut value = || draw(&mut random).into_iter().find(|(is, _)| *is == name).expect("no such parameter").1;
    (0..5000).map(|_| value()).collect()
}

fn check(draw: Draw, name: &str, expect: impl IntoIterator<Item = impl ToString>) {
    let expect: BTreeSet<String> = expect.into_iter().map(|value| value.to_string()).collect();
    assert_eq!(drawn(draw, name), expect, "{name}");
}

fn new_years() -> Vec<String> {
    (1993..=1997).map(|year| format!("{year}-01-01")).collect()
}

fn months(first: (i32, i32), count: i32) -> Vec<String> {
    let month = |i: i32| (first.0 * 12 + first.1 - 1 + i).div_euclid(12);
    (0..count).map(|i| format!("{}-{:02}-01", month(i), (first.1 - 1 + i) % 12 + 1)).collect()
}

fn brands() -> Vec<String> {
    (1..=5).flat_map(|m| (1..=5).map(move |n| format!("Brand#{m}{n}"))).collect()
}

const REGIONS: [&str; 5] = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"];
const NATIONS: [(&str, &str); 25] = [
    ("ALGERIA", "AFRICA"),
    ("ARGENTINA", "AMERICA"),
    ("BRAZIL", "AMERICA"),
    ("CANADA", "AMERICA"),
    ("EGYPT", "MIDDLE EAST"),
    ("ETHIOPIA", "AFRICA"),
    ("FRANCE", "EUROPE"),
    ("GERMANY", "EUROPE"),
    ("INDIA", "ASIA"),
    ("INDONESIA", "ASIA"),
    ("IRAN", "MIDDLE EAST"),
    ("IRAQ", "MIDDLE EAST"),
    ("JAPAN", "ASIA"),
    ("JORDAN", "MIDDLE EAST"),
    ("KENYA", "AFRICA"),
    ("MOROCCO", "AFRICA"),
    ("MOZAMBIQUE", "AFRICA"),
    ("PERU", "AMERICA"),
    ("CHINA", "ASIA"),
    ("ROMANIA", "EUROPE"),
    ("SAUDI ARABIA", "MIDDLE EAST"),
    ("VIETNAM", "ASIA"),
    ("RUSSIA", "EUROPE"),
    ("UNITED KINGDOM", "EUROPE"),
    ("UNITED STATES", "AMERICA"),
];

#[test]
fn numbers_reach_both_ends_and_nothing_beyond() {
    check(q1, "delta", 60..=120);
    check(q2, "size", 1..=50);
    check(q6, "discount", (2..=9).map(|percent| format!("0.0{percent}")));
    check(q6, "quantity", [24, 25]);
    check(q16, "size1", 1..=50);
    check(q16, "size8", 1..=50);
    check(q18, "quantity", 312..=315);
    check(q19, "quantity1", 1..=10);
    check(q19, "quantity2", 10..=20);
    check(q19, "quantity3", 20..=30);
    check(q22, "code1", 10..=34);
    check(q22, "code7", 10..=34);
}

#[test]
fn dates_reach_both_ends_and_nothing_beyond() {
    check(q3, "date", (1..=31).map(|day| format!("1995-03-{day:02}")));
    check(q4, "date", months((1993, 1), 58));
    check(q10, "date", months((1993, 2), 24));
    check(q14, "date", months((1993, 1), 60));
    check(q15, "date", months((1993, 1), 58));
    for draw in [q5, q6, q12, q20] as [Draw; 4] {
        check(draw, "date", new_years());
    }
    let q10_months = drawn(q10, "date");
    assert_eq!(q10_months.first().map(String::as_str), Some("1993-02-01"));
    assert_eq!(q10_months.last().map(String::as_str), Some("1995-01-01"));
    assert_eq!(drawn(q4, "date").last().map(String::as_str), Some("1997-10-01"));
}

#[test]
fn words_come_from_the_lists_of_the_specification() {
    for draw in [q2, q5] as [Draw; 2] {
        check(draw, "region", REGIONS);
    }
    for draw in [q11, q20, q21] as [Draw; 3] {
        check(draw, "nation", NATIONS.map(|(nation, _)| nation));
    }
    check(q2, "type", ["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"]);
    check(q3, "segment", ["AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD"]);
    check(q12, "shipmode1", ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"]);
    check(q13, "word1", ["special", "pending", "unusual", "express"]);
    check(q13, "word2", ["packages", "requests", "accounts", "deposits"]);
    for (draw, name) in [(q16 as Draw, "brand"), (q17, "brand"), (q19, "brand1"), (q19, "brand2"), (q19, "brand3")] {
        check(draw, name, brands());
    }
    let syllables =
        [&["SM", "LG", "MED", "JUMBO", "WRAP"][..], &["CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"]];
    let containers = syllables[0].iter().flat_map(|size| syllables[1].iter().map(move |form| format!("{size} {form}")));
    check(q17, "container", containers);
    assert_eq!(drawn(q9, "color").len(), 92);
    assert!(drawn(q9, "color").contains("green") && drawn(q20, "color").contains("forest"));
}

#[test]
fn the_syllables_make_exactly_the_types_of_the_data() {
    let [first, second, third] = TYPE_SYLLABLES;
    let pairs = || first.iter().flat_map(|a| second.iter().map(move |b| format!("{a} {b}")));
    let types: BTreeSet<String> = pairs().flat_map(|pair| third.iter().map(move |c| format!("{pair} {c}"))).collect();
    let data: BTreeSet<String> = lists().part_types().get_values().iter().map(|kind| (*kind).to_owned()).collect();
    assert_eq!(types, data);
    check(q8, "type", &types);
    check(q16, "type", pairs());
}

#[test]
fn query_8_asks_for_the_region_of_its_nation() {
    let mut random = Pcg64::new(7, 1);
    let draws = (0..5000).map(|_| q8(&mut random)).map(|drawn| (drawn[0].1.clone(), drawn[1].1.clone()));
    let draws: BTreeSet<(String, String)> = draws.collect();
    let expect: BTreeSet<(String, String)> =
        NATIONS.iter().map(|(nation, region)| ((*nation).to_owned(), (*region).to_owned())).collect();
    assert_eq!(draws, expect);
}

#[test]
fn what_must_differ_differs() {
    let mut random = Pcg64::new(7, 1);
    for _ in 0..5000 {
        for (draw, prefix, count) in
            [(q7 as Draw, "nation", 2), (q12, "shipmode", 2), (q16, "size", 8), (q22, "code", 7)]
        {
            let values = draw(&mut random).into_iter().filter(|(name, _)| name.starts_with(prefix));
            assert_eq!(values.map(|(_, value)| value).collect::<BTreeSet<_>>().len(), count, "{prefix}");
        }
    }
}

#[test]
fn months_of_a_short_year_weigh_as_much_as_others() {
    let mut random = Pcg64::new(7, 1);
    let draws = 24_000;
    let january_1995 = (0..draws).filter(|_| q10(&mut random)[0].1 == "1995-01-01").count();
    // One of 24 months: 1000 draws expected, with a standard deviation of 31.
    assert!((850..=1150).contains(&january_1995), "{january_1995} of {draws}");
}
