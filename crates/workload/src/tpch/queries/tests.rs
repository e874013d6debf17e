//! The texts are complete, and the validation parameters are those of the specification.

use rand_pcg::Pcg64;

use super::*;

#[test]
fn the_list_is_in_order() {
    let names: Vec<&str> = QUERIES.iter().map(|query| query.name).collect();
    assert_eq!(names, NAMES);
    for query in &QUERIES {
        assert!(query.order_by.iter().all(|&column| column < query.columns.len()), "{}", query.name);
    }
}

/// One statement, nothing left to fill in, braces and quotes in pairs.
fn check_text(name: &str, sql: &str) {
    for foreign in ["{", "}", ":", ";", "date ''", "\t"] {
        assert!(!sql.contains(foreign), "{name} contains {foreign:?}:\n{sql}");
    }
    assert_eq!(sql.matches('\'').count() % 2, 0, "{name} has an open quote");
    assert_eq!(sql.matches('(').count(), sql.matches(')').count(), "{name} has an open bracket");
}

#[test]
fn no_text_has_a_placeholder_left() {
    let mut random = Pcg64::new(7, 1);
    for query in &QUERIES {
        check_text(query.name, &query.validation_sql(1.0));
        for _ in 0..100 {
            check_text(query.name, &query.sql_with(&(query.draw)(&mut random), 0.01));
        }
    }
}

#[test]
fn drawn_and_validation_parameters_have_the_same_names_and_all_are_used() {
    let mut random = Pcg64::new(7, 1);
    for query in &QUERIES {
        let drawn: Vec<&str> = (query.draw)(&mut random).iter().map(|(name, _)| *name).collect();
        let validation: Vec<&str> = query.validation.iter().map(|(name, _)| *name).collect();
        assert_eq!(drawn, validation, "{}", query.name);
        for name in drawn {
            assert!(query.template.contains(&format!("{{{name}}}")), "{} has no {name}", query.name);
        }
    }
}

#[test]
fn limits_are_those_of_the_specification() {
    let limit = |query: &QuerySpec| query.template.trim_end().rsplit_once("\nlimit ").map(|(_, rows)| rows.to_owned());
    let limited = QUERIES.iter().filter_map(|query| Some((query.name, limit(query)?)));
    let expect = [("q2", "100"), ("q3", "10"), ("q10", "20"), ("q18", "100"), ("q21", "100")];
    assert_eq!(limited.collect::<Vec<_>>(), expect.map(|(name, rows)| (name, rows.to_owned())));
}

#[test]
fn the_fraction_of_query_11_follows_the_scale() {
    let check = |scale, expect| assert_eq!(fraction(scale), expect, "scale {scale}");
    check(1.0, "0.0001");
    check(0.01, "0.01");
    check(0.5, "0.0002");
    check(3.0, "0.000033333333");
    check(100_000.0, "0.000000001");
}

/// TPC-H 2.4.x.4, as the phrases that the parameters make in the texts.
#[test]
fn validation_parameters_are_those_of_the_specification() {
    let expect: [(usize, &[&str]); 22] = [
        (1, &["date '1998-12-01' - interval '90' day"]),
        (2, &["p_size = 15", "like '%BRASS'", "r_name = 'EUROPE'"]),
        (3, &["c_mktsegment = 'BUILDING'", "o_orderdate < date '1995-03-15'", "l_shipdate > date '1995-03-15'"]),
        (4, &["date '1993-07-01' + interval '3' month"]),
        (5, &["r_name = 'ASIA'", "date '1994-01-01' + interval '1' year"]),
        (6, &["date '1994-01-01' + interval '1' year", "(0.06 - 0.01 as", "(0.06 + 0.01 as", "l_quantity < 24\n"]),
        (7, &["n1.n_name = 'FRANCE' and n2.n_name = 'GERMANY'", "n1.n_name = 'GERMANY' and n2.n_name = 'FRANCE'"]),
        (8, &["nation = 'BRAZIL'", "r_name = 'AMERICA'", "p_type = 'ECONOMY ANODIZED STEEL'"]),
        (9, &["like '%green%'"]),
        (10, &["date '1993-10-01' + interval '3' month"]),
        (11, &["n_name = 'GERMANY'", "* 0.0001\n"]),
        (12, &["in ('MAIL', 'SHIP')", "date '1994-01-01' + interval '1' year"]),
        (13, &["like '%special%requests%'"]),
        (14, &["date '1995-09-01' + interval '1' month"]),
        (15, &["date '1996-01-01' + interval '3' month"]),
        (16, &["'Brand#45'", "not like 'MEDIUM POLISHED%'", "in (49, 14, 23, 45, 19, 3, 36, 9)"]),
        (17, &["'Brand#23'", "'MED BOX'"]),
        (18, &["> 300\n"]),
        (19, &["'Brand#12'", "'Brand#23'", "'Brand#34'", ">= 1 and l_quantity <= 1 + 10", ">= 10 and", ">= 20 and"]),
        (20, &["like 'forest%'", "date '1994-01-01' + interval '1' year", "'CANADA'"]),
        (21, &["'SAUDI ARABIA'"]),
        (22, &["('13', '31', '23', '29', '30', '18', '17')"]),
    ];
    for (number, phrases) in expect {
        let sql = QUERIES[number - 1].validation_sql(1.0);
        for phrase in phrases {
            assert!(sql.contains(phrase), "q{number} lacks {phrase}:\n{sql}");
        }
    }
}
