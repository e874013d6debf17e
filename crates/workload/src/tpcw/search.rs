//! Search Results (TPC-W 2.11): items by author, by title or by subject, in order of title.
//!
//! Authors' last names and titles begin with one of the words that users search for; those that do are a range of an index.
//! The specification has words anywhere in the text, which no ordered index finds.

use super::browse::{list, promotions};
use super::random::search_word;
use super::schema::*;
use super::shop::{Shop, find_all, text};
use crate::database::DatabaseError;
use crate::statement::{RowAccess, RowRef, Rows, Statement, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Search {
    /// Authors whose last names begin with the word of that number.
    Author(i64),
    /// Titles that begin with the word of that number.
    Title(i64),
    /// A subject.
    Subject(&'static str),
}

/// Ends the range of texts that begin with a word: no name or title has this character, and it comes after all that they
/// have.
const LAST_CHARACTER: char = '~';

impl Search {
    /// Searches; the rows of the last statement are the result.
    pub(super) fn run(&self, shop: &mut Shop<'_>, promoted: i64) -> Result<(), DatabaseError> {
        promotions(shop, promoted)?;
        match *self {
            Search::Author(number) => by_word(shop, &SEARCH_AUTHOR, number),
            Search::Title(number) => by_word(shop, &SEARCH_TITLE, number),
            Search::Subject(subject) => shop.execute(&SEARCH_SUBJECT, &[Value::Text(subject)]),
        }
    }
}

fn by_word(shop: &mut Shop<'_>, statement: &Statement<'_>, number: i64) -> Result<(), DatabaseError> {
    let low = search_word(number);
    let high = format!("{low}{LAST_CHARACTER}");
    shop.execute(statement, &[Value::Text(&low), Value::Text(&high)])
}

/// (least last name, greatest last name) → (item, title, author's first and last name), by title.
static SEARCH_AUTHOR: Statement = Statement {
    name: "tpcw_search_author",
    sql: "SELECT i_id, i_title, a_fname, a_lname FROM author JOIN item ON i_a_id = a_id \
          WHERE a_lname >= $1 AND a_lname <= $2 ORDER BY i_title, i_id LIMIT 50",
    native: &|access, parameters, rows| {
        let mut items = Vec::new();
        for author in find_all(access, AUTHOR_BY_NAME, &parameters[..1], &parameters[1..])? {
            let id = [Value::Int(access.int(author, A_ID))];
            items.extend(find_all(access, ITEM_BY_AUTHOR, &id, &id)?);
        }
        by_title(access, items, rows)
    },
};

/// (least title, greatest title) → as [`SEARCH_AUTHOR`].
static SEARCH_TITLE: Statement = Statement {
    name: "tpcw_search_title",
    sql: "SELECT i_id, i_title, a_fname, a_lname FROM item JOIN author ON a_id = i_a_id \
          WHERE i_title >= $1 AND i_title <= $2 ORDER BY i_title, i_id LIMIT 50",
    native: &|access, parameters, rows| {
        let items = find_all(access, ITEM_BY_TITLE, &parameters[..1], &parameters[1..])?;
        by_title(access, items, rows)
    },
};

/// (subject) → as [`SEARCH_AUTHOR`].
static SEARCH_SUBJECT: Statement = Statement {
    name: "tpcw_search_subject",
    sql: "SELECT i_id, i_title, a_fname, a_lname FROM item JOIN author ON a_id = i_a_id \
          WHERE i_subject = $1 ORDER BY i_title, i_id LIMIT 50",
    native: &|access, parameters, rows| {
        let items = find_all(access, ITEM_BY_SUBJECT, parameters, parameters)?;
        by_title(access, items, rows)
    },
};

fn by_title(access: &mut dyn RowAccess, mut items: Vec<RowRef>, rows: &mut Rows) -> Result<(), DatabaseError> {
    items.sort_by_cached_key(|&item| (text(access, item, I_TITLE), access.int(item, I_ID)));
    list(access, &items, rows)
}

pub(super) static STATEMENTS: [&Statement; 3] = [&SEARCH_AUTHOR, &SEARCH_TITLE, &SEARCH_SUBJECT];
