//! Texts of SQL that are hard to read, most of them right.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

/// The contents of literals, comments and names: all of it would have a meaning outside.
const CONTENTS: &[&[u8]] = &[
    b"",
    b"a",
    b"; COMMIT; ",
    b"; ROLLBACK",
    b" begin ",
    b"--",
    b"/*",
    b"*/",
    b"$$",
    b"$a$",
    b"\\",
    b"\\\\",
    b"\\'",
    b"''",
    b"\"\"",
    b"E",
    b"\n",
    b"\\n",
    b"?",
];

/// Statements that end a transaction.
const ENDS: &[&str] = &[
    "COMMIT",
    "end",
    "Commit work",
    "END TRANSACTION",
    "COMMIT AND NO CHAIN",
    "commit and chain",
    "ROLLBACK",
    "abort",
    "ROLLBACK WORK",
    "rollback and chain",
];

/// Statements that begin one.
const BEGINS: &[&str] = &["BEGIN", "begin work", "START TRANSACTION", "BEGIN ISOLATION LEVEL READ COMMITTED"];

/// Statements with words or marks in them that have another meaning elsewhere.
const PUZZLES: &[&str] = &[
    "SELECT 1 AS begin",
    "SELECT 1 AS end",
    "SELECT 1 commit",
    "SELECT CASE WHEN true THEN 1 ELSE 2 END",
    "SELECT CASE 1 WHEN 1 THEN CASE WHEN false THEN 1 END END AS case",
    "CREATE OR REPLACE FUNCTION pg_temp.f(begin int) RETURNS int LANGUAGE sql AS 'SELECT 1; SELECT 2'",
    "CREATE OR REPLACE FUNCTION pg_temp.g(begin int, atomic int) RETURNS int LANGUAGE sql RETURN begin",
    "CREATE OR REPLACE FUNCTION pg_temp.h() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT 1; SELECT 2; END",
    "CREATE OR REPLACE FUNCTION pg_temp.i(begin int) RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT begin; SELECT CASE WHEN true THEN 1 END; END",
    "CREATE OR REPLACE FUNCTION pg_temp.j() RETURNS int LANGUAGE sql BEGIN ATOMIC; SELECT 1 AS \"begin\"; END",
    "CREATE OR REPLACE FUNCTION pg_temp.k(\"begin\" int, begin text) RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT 1 AS begin; END",
    "CREATE OR REPLACE PROCEDURE pg_temp.l() LANGUAGE sql BEGIN ATOMIC INSERT INTO pg_temp.ruled VALUES (1); END",
    "CREATE OR REPLACE RULE r AS ON UPDATE TO ruled DO ALSO (SELECT 1; SELECT 2)",
    "DO $$ BEGIN NULL; END $$",
    "DO $do$ BEGIN PERFORM $$ COMMIT; $$; END $do$",
    "SELECT 1 +-- COMMIT\n 1",
    "SELECT 2*/* ; COMMIT */3",
    "SELECT 2 /*/* ; */ COMMIT; */ AS n",
    "SELECT @-1",
    "SELECT 1 !=-1",
    "SELECT 'a'\n  '; COMMIT; '",
    "SELECT 'a' -- '\n '; COMMIT; --'",
    "SELECT ARRAY[1, 2][1], (ARRAY[1, 2])[1:2]",
    "SELECT 1::int, 1.5e3, .5, 0x AS x",
    "SELECT 1 AS a$1$, 2 AS \"$$\"",
    "SELECT 1 AS _$a$",
    "SET LOCAL work_mem = '1MB'",
    "SAVEPOINT commit",
    "DECLARE begin CURSOR FOR SELECT 1",
    "INSERT INTO ruled VALUES (1), (2)",
    "PREPARE commit AS SELECT 1",
    "DEALLOCATE ALL",
    "VALUES (1), (2)",
    "WITH begin AS (SELECT 1 AS end) SELECT * FROM begin",
    "EXPLAIN (COSTS OFF) SELECT 1",
    "NOTIFY begin, 'commit'",
    "",
];

/// The pieces that damage a text.
const DAMAGE: &[u8] = b"'\"\\$;/*-\n()Ee&a \x83\x5c";

/// Makes one text.
pub struct Generator<'a> {
    random: &'a mut Pcg64Mcg,
    /// Characters of more than one byte; in some encodings the last one is a backslash.
    characters: &'static [&'static [u8]],
}

impl<'a> Generator<'a> {
    /// For a client with that encoding.
    pub fn new(random: &'a mut Pcg64Mcg, encoding: &str) -> Self {
        let characters: &[&[u8]] = match encoding {
            "SJIS" => &[b"\x83\x5c", b"\x95\x5c", b"\x82\xa0", b"\xb1"],
            "GBK" => &[b"\x81\x5c", b"\x95\x5c", b"\xb0\xa1"],
            "BIG5" => &[b"\xa5\x5c", b"\xb3\x5c", b"\xa4\x40"],
            "UHC" | "JOHAB" => &[b"\xb0\xa1"],
            "GB18030" => &[b"\x81\x5c", b"\xb0\xa1", b"\x81\x30\x81\x30"],
            _ => &[b"\xe8\xa1\xa8", b"\xc3\xbc", b"\xf0\x9f\x99\x82"],
        };
        Generator { random, characters }
    }

    pub fn text(&mut self) -> Vec<u8> {
        let mut text = self.space();
        for number in 0..self.random.random_range(1..5) {
            if number > 0 {
                text.push(b';');
            }
            text.extend(self.space());
            text.extend(self.statement());
            text.extend(self.space());
        }
        if self.random.random_bool(0.5) {
            self.damage(&mut text);
        }
        // A zero would be the end of the message's text.
        text.retain(|&byte| byte != 0);
        text
    }

    fn of_these<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.random.random_range(0..these.len())]
    }

    fn statement(&mut self) -> Vec<u8> {
        match self.random.random_range(0..12) {
            0 => self.of_these(ENDS).as_bytes().to_vec(),
            1 => self.of_these(BEGINS).as_bytes().to_vec(),
            2..6 => self.of_these(PUZZLES).as_bytes().to_vec(),
            _ => {
                let mut text = b"SELECT ".to_vec();
                for number in 0..self.random.random_range(1..4) {
                    if number > 0 {
                        text.extend_from_slice(b", ");
                    }
                    text.extend(self.literal());
                    text.extend(self.space());
                    if self.random.random_bool(0.2) {
                        text.extend_from_slice(b" AS ");
                        text.extend(self.quoted_name());
                    }
                }
                text
            }
        }
    }

    fn contents(&mut self) -> Vec<u8> {
        let mut contents = Vec::new();
        for _ in 0..self.random.random_range(0..4) {
            let piece = match self.random.random_range(0..4) {
                0 => self.of_these(self.characters),
                _ => self.of_these(CONTENTS),
            };
            contents.extend_from_slice(piece);
        }
        contents
    }

    fn literal(&mut self) -> Vec<u8> {
        let contents = self.contents();
        let (before, behind): (&[u8], &[u8]) = match self.random.random_range(0..10) {
            0..3 => (b"'", b"'"),
            3..6 => (b"E'", b"'"),
            6 => (b"$$", b"$$"),
            7 => (b"$a$", b"$a$"),
            8 => (b"U&'", b"'"),
            _ => (b"n'", b"'"),
        };
        [before, &contents, behind].concat()
    }

    fn quoted_name(&mut self) -> Vec<u8> {
        let contents = self.contents();
        [&b"\"n"[..], &contents, b"\""].concat()
    }

    fn space(&mut self) -> Vec<u8> {
        let contents = self.contents();
        match self.random.random_range(0..8) {
            0 => [&b"/*"[..], &contents, b"*/"].concat(),
            1 => [&b"--"[..], &contents, b"\n"].concat(),
            2 => b"\n\t ".to_vec(),
            _ => b" ".to_vec(),
        }
    }

    /// Changes, adds or removes a few bytes.
    fn damage(&mut self, text: &mut Vec<u8>) {
        for _ in 0..self.random.random_range(1..3) {
            let place = self.random.random_range(0..=text.len());
            match self.random.random_range(0..3) {
                0 => text.insert(place, self.of_these(DAMAGE)),
                1 if place < text.len() => drop(text.remove(place)),
                _ if place < text.len() => text[place] = self.of_these(DAMAGE),
                _ => {}
            }
        }
    }
}
