//! The same random expressions as statements that find rows by their key, which the engine computes without DataFusion.

use plimsoll_workload::keyed::{Catalog, Program};
use plimsoll_workload::statement::{Rows, Statement, Value, sql_only};
use rand::SeedableRng;
use rand_pcg::Pcg64;

use crate::databases::{Databases, SETUP, is_of_value};
use crate::{expressions, seeds};

fn catalog() -> Catalog {
    let mut catalog = Catalog::default();
    for statement in SETUP.split(';').filter(|statement| statement.trim_start().starts_with("CREATE")) {
        catalog.declare(statement).unwrap();
    }
    catalog
}

/// Rows as text, numbers without insignificant zeros.
fn shown(rows: &Rows) -> Vec<String> {
    let cell = |value| match value {
        Value::Null => "NULL".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Text(text) => crate::databases::plain(text),
    };
    let row = |row| (0..rows.columns()).map(|column| cell(rows.value(row, column))).collect::<Vec<_>>().join(" | ");
    (0..rows.len()).map(row).collect()
}

#[test]
fn keyed_expressions_are_postgresqls_or_refused() {
    let (mut databases, catalog) = (Databases::start(), catalog());
    let (mut answered, mut failed, mut refused, mut differ) = (0, 0, 0, Vec::new());
    for seed in seeds() {
        let mut random = Pcg64::seed_from_u64(seed);
        // The last query of a seed reads all rows.
        for sql in expressions::queries(&mut random).iter().take(2) {
            let Ok(program) = Program::compile(&catalog, sql) else {
                refused += 1;
                continue;
            };
            let native = |access: &mut dyn plimsoll_workload::statement::RowAccess,
                          parameters: &[Value<'_>],
                          rows: &mut Rows| { program.run(access, parameters, 0, rows) };
            let mut rows = Rows::new();
            let statement = Statement { name: "expression", sql, native: &native };
            let ours = databases.embedded.execute(&statement, &[], &mut rows);
            let ours = ours.map(|()| shown(&rows)).map_err(|error| error.to_string());
            for (name, server) in &mut databases.servers {
                let statement = Statement { name: "expression", sql, native: &sql_only };
                let theirs = server.execute(&statement, &[], &mut rows);
                let theirs = theirs.map(|()| shown(&rows)).map_err(|error| error.to_string());
                match (&ours, &theirs) {
                    (Ok(a), Ok(b)) if a == b => answered += 1,
                    (Err(_), Err(_)) => failed += 1,
                    // Numerics of keyed statements have fewer digits than PostgreSQL's, and which values are computed is open.
                    (Err(ours), Ok(_)) if ours.contains("digits") || is_of_value(ours) => refused += 1,
                    _ => differ.push(format!("seed {seed}: {sql}\nembedded: {ours:?}\n{name}: {theirs:?}")),
                }
            }
        }
    }
    println!("keyed expressions: {answered} answers equal, {failed} fail alike, {refused} refused");
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ[..differ.len().min(12)].join("\n\n"));
    assert!(seeds().end - seeds().start == 1 || answered > 100, "some are answered");
}
