//! The lists that native statements make, compared with lists computed from all rows.

use std::cmp::Reverse;

use super::*;
use crate::tpcw::random::search_word;
use crate::tpcw::words::SUBJECTS;

/// The first column of a statement's result.
fn ids(session: &mut dyn Session, name: &str, parameters: &[Value<'_>]) -> Vec<i64> {
    let statement = Tpcw::statements().find(|statement| statement.name == name).unwrap();
    let mut rows = Rows::new();
    session.begin().unwrap();
    session.execute(statement, parameters, &mut rows).unwrap();
    session.commit().unwrap();
    (0..rows.len()).map(|row| rows.int(row, 0)).collect()
}

/// The numbers of the first items, at most `count`.
fn first<Key: Ord>(items: impl Iterator<Item = (Key, i64)>, count: usize) -> Vec<i64> {
    let mut items: Vec<_> = items.collect();
    items.sort();
    items.into_iter().map(|(_, item)| item).take(count).collect()
}

#[test]
fn lists_are_those_that_all_rows_give() {
    let (benchmark, database) = loaded("ordering", 11);
    run(&benchmark, &database, 2, 1_000);
    let facts = Facts::of(&database);
    let mut session = database.session(&SCHEMA).unwrap();
    let mut ids = |name: &str, parameters: &[Value<'_>]| ids(session.as_mut(), name, parameters);
    let last_order = *facts.orders.keys().next_back().unwrap();
    let sold = |item: i64, orders: i64| -> i64 {
        let lines = facts.lines.range((last_order - orders + 1, 0)..);
        lines.filter(|(_, (sold, _))| *sold == item).map(|(_, (_, quantity))| quantity).sum()
    };
    for subject in &SUBJECTS[..6] {
        let of_subject = || facts.items.iter().filter(|(_, item)| item.subject == *subject);
        let parameters = [Value::Text(subject)];
        let newest = of_subject().map(|(id, item)| ((Reverse(item.published), &item.title, *id), *id));
        assert_eq!(ids("tpcw_new_products", &parameters), first(newest, 50));
        let by_title = of_subject().map(|(id, item)| ((&item.title, *id), *id));
        assert_eq!(ids("tpcw_search_subject", &parameters), first(by_title, 50));
        let best = of_subject().map(|(id, _)| ((Reverse(sold(*id, 3_333)), *id), *id));
        let best = best.filter(|((Reverse(quantity), _), _)| *quantity > 0);
        assert_eq!(ids("tpcw_best_sellers", &parameters), first(best, 50));
    }
    for number in [0, 7, 99] {
        let word = search_word(number);
        let bounds = [word.clone(), format!("{word}~")];
        let parameters = [0, 1].map(|end: usize| Value::Text(&bounds[end]));
        let titles = facts.items.iter().filter(|(_, item)| item.title.starts_with(&word));
        let titles = first(titles.map(|(id, item)| ((&item.title, *id), *id)), 50);
        assert!(titles.len() >= 5);
        assert_eq!(ids("tpcw_search_title", &parameters), titles);
        let by_author = facts.items.iter().filter(|(_, item)| facts.authors[&item.author].starts_with(&word));
        let by_author = first(by_author.map(|(id, item)| ((&item.title, *id), *id)), 50);
        assert!(!by_author.is_empty());
        assert_eq!(ids("tpcw_search_author", &parameters), by_author);
    }
}

#[test]
fn items_bought_together_are_those_that_all_rows_give() {
    let (_, database) = loaded("ordering", 12);
    let facts = Facts::of(&database);
    let mut session = database.session(&SCHEMA).unwrap();
    for item in [1, 500, 1_000] {
        let orders = || facts.lines.iter().map(|((order, _), (sold, quantity))| (*order, *sold, *quantity));
        let bought = orders().filter(|(_, sold, _)| *sold == item);
        let customers: BTreeSet<_> = bought.map(|(order, ..)| facts.orders[&order].customer).collect();
        let mut sums = std::collections::BTreeMap::new();
        for (order, sold, quantity) in orders().filter(|(_, sold, _)| *sold != item) {
            if customers.contains(&facts.orders[&order].customer) {
                *sums.entry(sold).or_insert(0) += quantity;
            }
        }
        let expected = first(sums.into_iter().map(|(sold, sum)| ((Reverse(sum), sold), sold)), 5);
        let found = ids(session.as_mut(), "tpcw_find_bought_together", &[Value::Int(item)]);
        assert!(!found.is_empty());
        assert_eq!(found, expected, "item {item}");
    }
}
