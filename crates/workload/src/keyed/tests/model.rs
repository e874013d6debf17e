//! Random statements, compared with a list of rows that is searched from beginning to end.

use proptest::prelude::*;

use super::*;

/// A row of `t`; its price in hundredths.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    a: i64,
    b: i64,
    name: String,
    n: Option<i64>,
    price: Option<i64>,
}

/// `column operator value`; a column of numbers is compared with a number, `name` with a text. `None` is null.
#[derive(Debug, Clone)]
struct Condition {
    column: usize,
    operator: &'static str,
    number: Option<i64>,
    text: Option<String>,
    /// Whether the value is on the left.
    is_flipped: bool,
}

#[derive(Debug, Clone)]
enum ModelStep {
    Insert(Row),
    Read { conditions: Vec<Condition>, order: Option<(Vec<usize>, bool)>, limit: Option<usize> },
    Aggregate(Vec<Condition>),
    Update(Vec<Condition>, i64),
    Delete(Vec<Condition>),
}

const NAMES: [&str; 5] = ["a", "b", "name", "n", "price"];

impl Condition {
    fn sql(&self, parameters: &mut Vec<Value<'static>>) -> String {
        let value = match (self.column, self.number, &self.text) {
            (2, _, Some(text)) => format!("'{text}'"),
            (4, Some(number), _) => format!("{}::numeric", number as f64 / 10.0),
            (_, Some(number), _) if self.column != 2 => {
                parameters.push(Value::Int(number));
                format!("${}::bigint", parameters.len())
            }
            _ => "NULL".to_owned(),
        };
        let name = NAMES[self.column];
        let flipped = [("<", ">"), ("<=", ">="), (">", "<"), (">=", "<=")];
        match (self.is_flipped, flipped.iter().find(|(operator, _)| *operator == self.operator)) {
            (true, Some((_, operator))) => format!("{value} {operator} {name}"),
            (true, None) => format!("{value} {} {name}", self.operator),
            (false, _) => format!("{name} {} {value}", self.operator),
        }
    }

    /// Null counts as false: such a row is not found.
    fn holds(&self, row: &Row) -> bool {
        let order = match self.column {
            2 => self.text.as_ref().map(|text| row.name.as_bytes().cmp(text.as_bytes())),
            column => {
                let stored = [Some(row.a), Some(row.b), None, row.n, row.price][column];
                // A price is compared in tenths, which are ten hundredths.
                let wanted = self.number.map(|number| if column == 4 { number * 10 } else { number });
                stored.zip(wanted).map(|(stored, wanted)| stored.cmp(&wanted))
            }
        };
        order.is_some_and(|order| match self.operator {
            "=" => order.is_eq(),
            "<>" => order.is_ne(),
            "<" => order.is_lt(),
            "<=" => order.is_le(),
            ">" => order.is_gt(),
            ">=" => order.is_ge(),
            other => unreachable!("{other}"),
        })
    }
}

fn condition() -> impl Strategy<Value = Condition> {
    let operator =
        prop_oneof![4 => Just("="), 1 => Just("<>"), 1 => Just("<"), 1 => Just("<="), 1 => Just(">"), 1 => Just(">=")];
    // Numbers and texts that keys cannot have are among them.
    let number = prop_oneof![12 => (-1_i64..6).prop_map(Some), 1 => Just(None), 1 => Just(Some(1 << 40)), 1 => Just(Some(-(1 << 40)))];
    let text = prop_oneof![8 => "[ab]{0,3}".prop_map(Some), 1 => "[aö]{5,9}".prop_map(Some), 1 => Just(None)];
    let column = prop_oneof![4 => Just(0_usize), 3 => Just(1), 3 => Just(2), 1 => Just(3), 1 => Just(4)];
    (column, operator, number, text, any::<bool>()).prop_map(|(column, operator, number, text, is_flipped)| Condition {
        column,
        operator,
        number,
        text,
        is_flipped,
    })
}

fn step() -> impl Strategy<Value = ModelStep> {
    let row = (0_i64..5, 0_i64..5, "[ab]{0,3}|ö{1,3}", prop::option::of(-3_i64..9), prop::option::of(-200_i64..999));
    let row = row.prop_map(|(a, b, name, n, price)| Row { a, b, name, n, price });
    let conditions = || prop::collection::vec(condition(), 0..4);
    let orders = prop::sample::select(vec![vec![0], vec![1], vec![0, 1], vec![2], vec![2, 0], vec![0, 2]]);
    let order = prop::option::of((orders, any::<bool>()));
    prop_oneof![
        6 => row.prop_map(ModelStep::Insert),
        8 => (conditions(), order, prop::option::of(0_usize..5))
            .prop_map(|(conditions, order, limit)| ModelStep::Read { conditions, order, limit }),
        2 => conditions().prop_map(ModelStep::Aggregate),
        3 => (conditions(), -2_i64..3).prop_map(|(conditions, by)| ModelStep::Update(conditions, by)),
        2 => conditions().prop_map(ModelStep::Delete),
    ]
}

fn where_clause(conditions: &[Condition], parameters: &mut Vec<Value<'static>>) -> String {
    let all: Vec<String> = conditions.iter().map(|condition| condition.sql(parameters)).collect();
    if all.is_empty() { String::new() } else { format!(" WHERE {}", all.join(" AND ")) }
}

fn cell(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "null".to_owned(), |value| value.to_string())
}

fn price(hundredths: Option<i64>) -> String {
    let shown =
        |price: i64| format!("{}{}.{:02}", if price < 0 { "-" } else { "" }, price.abs() / 100, price.abs() % 100);
    cell(hundredths.map(shown))
}

fn line(row: &Row) -> String {
    format!("{},{},{},{},{}", row.a, row.b, row.name, cell(row.n), price(row.price))
}

fn key(row: &Row, columns: &[usize]) -> Vec<(i64, String)> {
    let part = |column: &usize| match column {
        0 => (row.a, String::new()),
        1 => (row.b, String::new()),
        _ => (0, row.name.clone()),
    };
    columns.iter().map(part).collect()
}

/// Runs a statement. If it is refused because no index helps, the model does nothing either.
fn ran(sql: &mut Sql, text: &str, parameters: &[Value<'_>]) -> Option<Result<Rows, DatabaseError>> {
    match Program::compile(&Catalog::of(&SCHEMA), text) {
        Ok(program) => Some(sql.run_program(&program, parameters)),
        Err(error) => {
            let words = error.to_string();
            assert!(words.contains("would be looked at") || words.contains("in the order of"), "{text}: {error}");
            None
        }
    }
}

fn found(model: &[Row], conditions: &[Condition]) -> Vec<Row> {
    model.iter().filter(|row| conditions.iter().all(|condition| condition.holds(row))).cloned().collect()
}

fn check_read(
    sql: &mut Sql,
    model: &[Row],
    conditions: &[Condition],
    order: Option<&(Vec<usize>, bool)>,
    limit: Option<usize>,
) -> bool {
    let mut parameters = Vec::new();
    let mut text = format!("SELECT * FROM t{}", where_clause(conditions, &mut parameters));
    if let Some((columns, is_descending)) = order {
        let direction = if *is_descending { " DESC" } else { "" };
        let by: Vec<String> = columns.iter().map(|&column| format!("{}{direction}", NAMES[column])).collect();
        text += &format!(" ORDER BY {}", by.join(", "));
    }
    if let Some(limit) = limit {
        text += &format!(" LIMIT {limit}");
    }
    let Some(outcome) = ran(sql, &text, &parameters) else { return false };
    let answer = shown(&outcome.unwrap());
    let lines: Vec<&str> = if answer.is_empty() { Vec::new() } else { answer.split(';').collect() };
    let all = found(model, conditions);
    assert_eq!(lines.len(), limit.map_or(all.len(), |limit| all.len().min(limit)), "{text}: {answer}");
    // Each row that is returned is one that was to be found, once.
    let mut rows: Vec<&Row> = Vec::new();
    for shown in lines {
        let row = all.iter().find(|row| line(row) == shown && !rows.contains(row));
        rows.push(row.unwrap_or_else(|| panic!("{text}: {shown}")));
    }
    if let Some((columns, is_descending)) = order {
        let mut keys: Vec<_> = all.iter().map(|row| key(row, columns)).collect();
        keys.sort();
        if *is_descending {
            keys.reverse();
        }
        keys.truncate(rows.len());
        assert_eq!(rows.iter().map(|row| key(row, columns)).collect::<Vec<_>>(), keys, "{text}");
    }
    true
}

/// Does one step on both sides and compares them. Returns whether the statement was run.
fn check(sql: &mut Sql, model: &mut Vec<Row>, step: &ModelStep) -> bool {
    let mut parameters = Vec::new();
    match step {
        ModelStep::Insert(row) => {
            let number = |number: Option<i64>| number.map_or(Value::Null, Value::Int);
            let price = price(row.price);
            let price = if row.price.is_some() { Value::Text(&price) } else { Value::Null };
            let values = [Value::Int(row.a), Value::Int(row.b), Value::Text(&row.name), number(row.n), price];
            let outcome = ran(sql, "INSERT INTO t VALUES ($1, $2, $3, $4, $5) RETURNING *", &values).unwrap();
            if model.iter().any(|known| (known.a, known.b) == (row.a, row.b)) {
                assert_eq!(outcome.unwrap_err(), DatabaseError::Duplicate { table: "t".to_owned() });
            } else {
                assert_eq!(shown(&outcome.unwrap()), line(row));
                model.push(row.clone());
            }
            true
        }
        ModelStep::Read { conditions, order, limit } => check_read(sql, model, conditions, order.as_ref(), *limit),
        ModelStep::Aggregate(conditions) => {
            let text = format!(
                "SELECT count(*), count(n), sum(n), min(b), max(name), sum(price) FROM t{}",
                where_clause(conditions, &mut parameters)
            );
            let Some(outcome) = ran(sql, &text, &parameters) else { return false };
            let all = found(model, conditions);
            let sum = |values: Vec<i64>| (!values.is_empty()).then(|| values.iter().sum::<i64>());
            let expect = [
                all.len().to_string(),
                all.iter().filter(|row| row.n.is_some()).count().to_string(),
                cell(sum(all.iter().filter_map(|row| row.n).collect())),
                cell(all.iter().map(|row| row.b).min()),
                cell(all.iter().map(|row| row.name.clone()).max()),
                price(sum(all.iter().filter_map(|row| row.price).collect())),
            ];
            assert_eq!(shown(&outcome.unwrap()), expect.join(","), "{text}");
            true
        }
        ModelStep::Update(conditions, by) => {
            let text = format!(
                "UPDATE t SET n = n % 100 * 2 + b, price = coalesce(price, 0) + {by}{}",
                where_clause(conditions, &mut parameters)
            );
            let Some(outcome) = ran(sql, &text, &parameters) else { return false };
            let mut changed = 0;
            for row in model.iter_mut().filter(|row| conditions.iter().all(|condition| condition.holds(row))) {
                row.n = row.n.map(|n| n % 100 * 2 + row.b);
                row.price = Some(row.price.unwrap_or(0) + by * 100);
                changed += 1;
            }
            assert_eq!(outcome.unwrap().affected(), changed, "{text}");
            true
        }
        ModelStep::Delete(conditions) => {
            let text = format!("DELETE FROM t{}", where_clause(conditions, &mut parameters));
            let Some(outcome) = ran(sql, &text, &parameters) else { return false };
            let before = model.len();
            model.retain(|row| !conditions.iter().all(|condition| condition.holds(row)));
            assert_eq!(outcome.unwrap().affected(), (before - model.len()) as u64, "{text}");
            true
        }
    }
}

proptest! {
    #[test]
    fn statements_do_what_they_do_to_a_list_of_rows(steps in prop::collection::vec(step(), 1..60)) {
        let (mut sql, mut model) = (Sql::new(), Vec::new());
        for step in &steps {
            check(&mut sql, &mut model, step);
        }
        let mut all: Vec<String> = Vec::new();
        for a in 0..5 {
            let answer = sql.run("SELECT * FROM t WHERE a = $1", &[Value::Int(a)]);
            all.extend(answer.split(';').filter(|row| !row.is_empty()).map(str::to_owned));
        }
        let mut expect: Vec<String> = model.iter().map(line).collect();
        all.sort();
        expect.sort();
        prop_assert_eq!(all, expect);
    }
}

/// Most statements that are drawn are run, of every kind.
#[test]
fn the_model_is_compared_with_statements_that_run() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let (mut sql, mut model) = (Sql::new(), Vec::new());
    let mut counts = [[0; 2]; 5];
    for _ in 0..2_000 {
        let step = step().new_tree(&mut runner).unwrap().current();
        let kind = match step {
            ModelStep::Insert(_) => 0,
            ModelStep::Read { .. } => 1,
            ModelStep::Aggregate(_) => 2,
            ModelStep::Update(..) => 3,
            ModelStep::Delete(_) => 4,
        };
        counts[kind][usize::from(check(&mut sql, &mut model, &step))] += 1;
    }
    assert!(counts.iter().all(|[refused, run]| *run > 50 && run * 2 > *refused), "{counts:?}");
}
