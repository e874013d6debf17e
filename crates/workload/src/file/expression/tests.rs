//! Expressions against the values that pgbench of PostgreSQL 15 computes.

use rand_pcg::Pcg64;

use super::*;

fn value(text: &str) -> Result<Datum, String> {
    let parsed = parse(text, &mut |name| Err(format!("there is no variable `{name}`")));
    let mut random = Pcg64::new(1, 1);
    let mut variables = Variables { slots: &[], random: &mut random, default_seed: 0 };
    evaluate(&parsed.map_err(|error| error.message)?, &mut variables)
}

/// As pgbench's `debug()` prints it.
fn printed(value: &Datum) -> String {
    let kind = match value {
        Datum::Null => return "null".to_owned(),
        Datum::Bool(_) => "boolean",
        Datum::Int(_) => "int",
        Datum::Double(_) => "double",
        Datum::Text(_) => "text",
    };
    format!("{kind} {}", value.text())
}

/// Each with the output of `\set x debug(…)`.
const PRINTED: [(&str, &str); 100] = [
    ("1 + 2 * 3", "int 7"),
    ("(1 + 2) * 3", "int 9"),
    ("10 - 4 - 3", "int 3"),
    ("7 / 2", "int 3"),
    ("-7 / 2", "int -3"),
    ("-7 % 3", "int -1"),
    ("7 % -3", "int 1"),
    ("7.0 / 2", "double 3.5"),
    ("7.5 % 2", "int 0"),
    ("2 * 3.5", "double 7"),
    ("1e3", "double 1000"),
    (".5 + 1", "double 1.5"),
    ("5 & 3 | 8", "int 9"),
    ("5 # 1", "int 4"),
    ("~5", "int -6"),
    ("1 << 4 + 1", "int 32"),
    ("-5 >> 1", "int -3"),
    ("1 | 2 = 3", "boolean true"),
    ("1 < 2 and 2 < 3", "boolean true"),
    ("not 1 = 2", "boolean true"),
    ("not true or true", "boolean true"),
    ("1 = 1.0", "boolean true"),
    ("true and null", "null"),
    ("false and null", "boolean false"),
    ("true or null", "boolean true"),
    ("null or false", "null"),
    ("null is null", "boolean true"),
    ("1 is null", "boolean false"),
    ("null isnull", "boolean true"),
    ("1 notnull", "boolean true"),
    ("true is not false", "boolean true"),
    ("case when 1 = 2 then 10 when 2 = 2 then 20 else 30 end", "int 20"),
    ("case when false then 1 end", "null"),
    ("abs(-17)", "int 17"),
    ("abs(-1.5)", "double 1.5"),
    ("double(5)", "double 5"),
    ("int(5.4 + 3.8)", "int 9"),
    ("int(2.5)", "int 2"),
    ("int(3.5)", "int 4"),
    ("greatest(5, 4, 3, 2)", "int 5"),
    ("greatest(5, 4.0)", "double 5"),
    ("least(5, 4, 3, 2.1)", "double 2.1"),
    ("mod(54, 32)", "int 22"),
    ("pi()", "double 3.14159265358979"),
    ("pow(2, 10)", "double 1024"),
    ("power(2, 0.5)", "double 1.4142135623731"),
    ("sqrt(2.0)", "double 1.4142135623731"),
    ("exp(1.0)", "double 2.71828182845905"),
    ("ln(2.718281828459045)", "double 1"),
    ("hash(10, 5432)", "int -5817877081768721676"),
    ("hash_murmur2(10, 5432)", "int -5817877081768721676"),
    ("hash_fnv1a(10, 5432)", "int -7793829335365542153"),
    ("hash(-1, 0)", "int 4219408603045787357"),
    ("permute(0, 4, 5432)", "int 3"),
    ("permute(1, 4, 5432)", "int 2"),
    ("permute(2, 4, 5432)", "int 1"),
    ("permute(3, 4, 5432)", "int 0"),
    ("permute(10, 1000000, 7)", "int 367170"),
    ("permute(-3, 17, 42)", "int 0"),
    ("permute(12345, 9223372036854775807, 99)", "int 8283324813568595293"),
    ("permute(5, 1, 3)", "int 0"),
    ("permute(1, 2, 3)", "int 1"),
    ("1.0 / 3", "double 0.333333333333333"),
    ("-9223372036854775808", "int -9223372036854775808"),
    ("9223372036854775807", "int 9223372036854775807"),
    ("- 3 + 5", "int 2"),
    ("+ 3", "int 3"),
    ("2 - -2", "int 4"),
    ("1 <> 2", "boolean true"),
    ("1 != 1", "boolean false"),
    ("not null", "null"),
    ("-(2.5)", "double -2.5"),
    ("1 + null", "null"),
    ("greatest(1, null)", "null"),
    ("hash(10, 5432) % 100", "int -76"),
    ("1e15 * 10", "double 1e+16"),
    ("0.1 + 0.2", "double 0.3"),
    ("1.0 / 0", "double Infinity"),
    ("-9223372036854775808 % -1", "int 0"),
    ("case when 1 then 2 end", "int 2"),
    ("1 << 64", "int 1"),
    ("1 << -1", "int -9223372036854775808"),
    ("~ 1.5", "int -3"),
    ("5 is true", "boolean false"),
    ("(1 = 1) is true", "boolean true"),
    ("TRUE OR false", "boolean true"),
    ("CASE WHEN null THEN 1 ELSE 2 END", "int 2"),
    ("- 2 * 3", "int -6"),
    ("3 - - 2", "int 5"),
    ("2 * - 3", "int -6"),
    ("not 5 < 3", "boolean true"),
    ("1 + 2 << 3", "int 24"),
    ("1 = 2 is true", "boolean false"),
    ("1 | 2 | 4 & 1", "int 1"),
    ("null and false", "null"),
    ("null or true", "null"),
    ("1000000000000000.5", "double 1e+15"),
    ("123456789.123456789", "double 123456789.123457"),
    ("permute(7, 100, 8)", "int 38"),
    ("1 isnull is true", "boolean false"),
];

/// Expressions that pgbench refuses, when reading or when computing them.
const REFUSED: [&str; 19] = [
    "true = true",
    "1 between 2",
    "1 < 2 < 3",
    "1 / 0",
    "9223372036854775807 + 1",
    "int(1e30)",
    "-9223372036854775808 / -1",
    "true + 1",
    "1 and true",
    "true = 1",
    "random(5, 4)",
    "random_zipfian(1, 10, 1.0)",
    "random_gaussian(1, 10, 1.9)",
    "random_exponential(1, 10, 0)",
    "permute(1, 0, 3)",
    "nosuch(1)",
    "pi(1)",
    "1 in (1)",
    "9223372036854775808",
];

#[test]
fn values_are_those_of_pgbench() {
    for (text, expect) in PRINTED {
        let found = value(text).map(|value| printed(&value));
        assert_eq!(found.as_deref(), Ok(expect), "{text}");
    }
}

#[test]
fn what_pgbench_refuses_is_refused() {
    for text in REFUSED {
        assert!(value(text).is_err(), "{text}: {:?}", value(text));
    }
}

#[test]
fn mistakes_are_told_with_their_place() {
    for (text, at, expect) in [
        ("1 + ", 4, "here a value is missing"),
        ("1 + * 2", 4, "here should be a value, not `*`"),
        ("(1 + 2", 6, "here a parenthesis should close"),
        ("1 2", 2, "`2` is too much here"),
        ("randon(1, 2)", 0, "there is no function `randon` (did you mean `random`?)"),
        ("scale * 2", 0, "a variable is written `:scale`"),
        ("random(1)", 0, "`random` takes 2, and is given 1"),
        ("greatest()", 0, "`greatest` takes at least 1, and is given 0"),
        ("1 ? 2", 2, "`?` means nothing here"),
        (":x + 1", 0, "there is no variable `x`"),
        ("case 1 end", 5, "CASE needs WHEN"),
        ("1 is 2", 5, "after IS stands NULL, TRUE or FALSE"),
    ] {
        let error = parse(text, &mut |name| Err(format!("there is no variable `{name}`"))).unwrap_err();
        assert_eq!(error.at, at, "{text}: {error:?}");
        assert!(error.message.contains(expect), "{text}: {}", error.message);
    }
    let deep = "(".repeat(100_000);
    assert!(parse(&deep, &mut |_| Ok(0)).is_err());
}

/// Each function's numbers within its bounds, and about where they should be.
#[test]
fn random_numbers_have_their_distributions() {
    let mut random = Pcg64::new(3, 5);
    let mut draw = |text: &str| {
        let parsed = parse(text, &mut |_| Ok(0)).unwrap();
        let mut counts = [0_u32; 10];
        for _ in 0..100_000 {
            let mut variables = Variables { slots: &[], random: &mut random, default_seed: 0 };
            let Datum::Int(number) = evaluate(&parsed, &mut variables).unwrap() else { panic!("{text} is an integer") };
            counts[usize::try_from(number - 11).unwrap()] += 1;
        }
        counts
    };
    let near = |count: u32, share: f64| (f64::from(count) - 100_000.0 * share).abs() < 700.0;
    assert!(draw("random(11, 20)").into_iter().all(|count| near(count, 0.1)));
    // f(i) = (Phi(p * (2i - n) / n) - Phi(p * (2i - 2 - n) / n)) / (2 Phi(p) - 1), p = 4; 0.2882 in the middle.
    let gaussian = draw("random_gaussian(11, 20, 4.0)");
    assert!(near(gaussian[4], 0.2881) && near(gaussian[5], 0.2881), "{gaussian:?}");
    assert!(gaussian[0] < 100 && gaussian[9] < 100);
    // Shares fall by exp(-5 / 10) from tenth to tenth; the first has (1 - exp(-0.5)) / (1 - exp(-5)).
    let exponential = draw("random_exponential(11, 20, 5.0)");
    assert!(near(exponential[0], 0.3961) && near(exponential[1], 0.2403), "{exponential:?}");
    // 1 / H(10, 1.5) = 0.5013.
    let zipfian = draw("random_zipfian(11, 20, 1.5)");
    assert!(near(zipfian[0], 0.5011) && near(zipfian[1], 0.1772), "{zipfian:?}");
}

#[test]
fn a_permutation_has_every_value_once() {
    for size in [1, 2, 3, 7, 64, 1000] {
        let permuted: std::collections::BTreeSet<i64> =
            (0..size).map(|number| functions::permute(number, size, 42).unwrap()).collect();
        assert_eq!(permuted, (0..size).collect());
    }
}
