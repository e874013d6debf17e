//! Reads an expression or a query in the form in which the server keeps it (`pg_node_tree`).
//!
//! The server has resolved every name in it: it has numbers. This module does not know the fields of the many kinds of
//! nodes, which differ between versions. Every number from 16384 on is taken for the number of a function, a relation, a type
//! and an operator; most of them are none. Of the numbers below, which denote the server's own objects, only those of
//! functions and relations matter.
//!
//! Users choose names in it, such as those of columns. The server puts a backslash before blanks and parentheses of a name, so
//! that a name can look like a field, but cannot hide one.

/// Objects that PostgreSQL does not provide have numbers from here on.
pub(super) const FIRST_OWN: u32 = 16384;

/// What a tree has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    /// A number of any object that PostgreSQL does not provide.
    Number(u32),
    /// A function of PostgreSQL.
    Function(u32),
    /// An expression whose value differs in another run: a clock, a sequence, a system column.
    Generates,
    /// A command other than SELECT.
    Writes,
    /// A relation of PostgreSQL, such as a view over its state.
    Relation(u32),
    /// What its rows are, and not only their order, may depend on the order in which tables are read.
    Arranges,
}

/// Fields whose numbers are positions in a text, lengths, or modifiers of types.
const OTHER_NUMBERS: [&[u8]; 4] = [b"location", b"stmt_len", b"typmod", b"len"];

/// Fields with the number of a function.
const FUNCTIONS: [&[u8]; 3] = [b":funcid", b":aggfnoid", b":winfnoid"];

/// The types of dates and times, which have input such as `now`.
const TIMES: [&[u8]; 5] = [b"1082", b"1083", b"1114", b"1184", b"1266"];

/// The system column that is the same in another run.
const TABLEOID: &[u8] = b"-6";

/// `ARRAY(SELECT …)`; in versions with another number it is not recognized, and `MULTIEXPR` is taken for it.
const ARRAY_SUBLINK: &[u8] = b"6";

/// Reads a tree.
pub(super) fn read(tree: &[u8], mut take: impl FnMut(Item)) {
    let is_separator = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\t' | b'(' | b')' | b'{' | b'}');
    let (mut field, mut node, mut is_first): (&[u8], &[u8], bool) = (b"", b"", false);
    let (mut has_io, mut has_time) = (false, false);
    for token in tree.split(is_separator).filter(|token| !token.is_empty()) {
        if token.starts_with(b":") {
            (field, is_first) = (token, true);
            continue;
        }
        if token[0].is_ascii_uppercase() {
            node = token;
            has_io |= node == b"COERCEVIAIO";
            if node == b"NEXTVALUEEXPR" {
                take(Item::Generates);
            }
        }
        let is_value = std::mem::replace(&mut is_first, false);
        has_time |= field == b":resulttype" && is_value && TIMES.contains(&token);
        let is_clock = field == b":op" && node == b"SQLVALUEFUNCTION" && matches!(token, [b'0'..=b'8']);
        let is_system = field == b":varattno" && token.starts_with(b"-") && token != TABLEOID;
        if is_value && (is_clock || is_system) {
            take(Item::Generates);
        }
        if is_value && field == b":commandType" && token != b"1" {
            take(Item::Writes);
        }
        let is_limit = matches!(field, b":limitCount" | b":limitOffset") && token != b"<>";
        let is_first = field == b":hasDistinctOn" && token == b"true";
        let is_array = field == b":subLinkType" && token == ARRAY_SUBLINK;
        if is_value && (is_limit || is_first || is_array) {
            take(Item::Arranges);
        }
        let Some(number) = std::str::from_utf8(token).ok().and_then(|token| token.parse::<u32>().ok()) else {
            continue;
        };
        if number >= FIRST_OWN {
            if !OTHER_NUMBERS.iter().any(|other| field.ends_with(other)) {
                take(Item::Number(number));
            }
        } else if is_value && FUNCTIONS.contains(&field) {
            take(Item::Function(number));
        } else if is_value && field == b":relid" && number > 0 {
            take(Item::Relation(number));
        }
    }
    if has_io && has_time {
        take(Item::Generates);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tree: &str, expect: &[Item]) {
        let mut found = Vec::new();
        read(tree.as_bytes(), |item| found.push(item));
        assert_eq!(found, expect, "{tree}");
    }

    #[test]
    fn numbers_and_functions_are_found() {
        use Item::{Arranges, Function, Generates, Number, Relation, Writes};
        check("{FUNCEXPR :funcid 1299 :funcresulttype 1184 :args <> :location 20000}", &[Function(1299)]);
        check(
            "{FUNCEXPR :funcid 16400 :funcresulttype 16500 :args ({CONST :consttype 23})}",
            &[Number(16400), Number(16500)],
        );
        check("({QUERY :commandType 1 :rtable ({RTE :relid 16390})})", &[Number(16390)]);
        check("({QUERY :commandType 3 :utilityStmt <>})", &[Writes]);
        check("{ROWCOMPAREEXPR :opnos (o 97 16401)}", &[Number(16401)]);
        check("{SQLVALUEFUNCTION :op 3 :type 1184}", &[Generates]);
        check("{SQLVALUEFUNCTION :op 10 :type 19}", &[]);
        check("{VAR :varno 1 :varattno -3 :vartypmod 655366}", &[Generates]);
        check("{VAR :varno 1 :varattno -6}", &[]);
        check("{NEXTVALUEEXPR :seqid 16402 :typeId 20}", &[Generates, Number(16402)]);
        check("{COERCEVIAIO :arg {CONST :consttype 25} :resulttype 1184}", &[Generates]);
        check("{COERCEVIAIO :arg {CONST :consttype 25} :resulttype 23}", &[]);
        check("{RTE :rtekind 0 :relid 12146 :relkind v}", &[Relation(12146)]);
        check("{QUERY :hasDistinctOn false :limitOffset <> :limitCount <>}", &[]);
        check("{QUERY :hasDistinctOn true :limitCount {CONST :consttype 20}}", &[Arranges, Arranges]);
        check("{SUBLINK :subLinkType 6}", &[Arranges]);
    }

    /// A user has called a column so that the rest of the tree would be read as a part of its name.
    #[test]
    fn a_name_hides_nothing() {
        let tree = r"{TARGETENTRY :resname a\ \{\ :location :ressortgroupref 0}{FUNCEXPR :funcid 16400 :location -1}";
        check(tree, &[Item::Number(16400)]);
    }
}
