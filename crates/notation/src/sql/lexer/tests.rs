//! Pieces of hand-written texts, and properties that hold for any bytes.

use proptest::prelude::*;

use super::*;

/// A letter for the kind and the piece itself, pieces divided by ` ¦ `.
fn told(sql: &[u8], strings: Strings) -> String {
    let letter = |kind| match kind {
        TokenKind::Word => 'w',
        TokenKind::Quoted => 'q',
        TokenKind::Literal => 'l',
        TokenKind::Number => 'n',
        TokenKind::Parameter => 'p',
        TokenKind::Operator => 'o',
        TokenKind::Mark => 'm',
        TokenKind::Comment => 'c',
    };
    let tell = |token: Token<'_>| format!("{} {}", letter(token.kind), String::from_utf8_lossy(token.text));
    Lexer::new(sql, strings).map(tell).collect::<Vec<_>>().join(" ¦ ")
}

#[test]
fn texts_are_cut_as_postgresql_does() {
    let check = |sql: &str, expect: &str| assert_eq!(told(sql.as_bytes(), Strings::Standard), expect, "{sql}");
    check("select a_1$b, Ä", "w select ¦ w a_1$b ¦ m , ¦ w Ä");
    check("'it''s' '\\' x", "l 'it''s' ¦ l '\\' ¦ w x");
    check("e'it\\'s\\\\' x", "l e'it\\'s\\\\' ¦ w x");
    check("B'01' x'1F' N'a' U&'a' u&\"b\" u & v", "l B'01' ¦ l x'1F' ¦ l N'a' ¦ l U&'a' ¦ q u&\"b\" ¦ w u ¦ o & ¦ w v");
    check("'a'\n  'b' 'c'", "l 'a'\n  'b' ¦ l 'c'");
    check("'a' -- c\n'b'", "l 'a' -- c\n'b'");
    check("e'a'\n'\\'' x", "l e'a'\n'\\'' ¦ w x");
    check("'a' /*c\n*/ 'b'", "l 'a' ¦ c /*c\n*/ ¦ l 'b'");
    check("\"a \"\"b\"\" c\"d", "q \"a \"\"b\"\" c\" ¦ w d");
    check("$$a'$$ $t$ $$ $T$ $t$ $1 $1a", "l $$a'$$ ¦ l $t$ $$ $T$ $t$ ¦ p $1 ¦ p $1 ¦ w a");
    check("a$b$c$b$ $ $é$x$é$", "w a$b$c$b$ ¦ m $ ¦ l $é$x$é$");
    check("$a b$", "m $ ¦ w a ¦ w b$");
    check(
        "1 1.5 .5 1. 1e5 1.5E-3 1e 1e+",
        "n 1 ¦ n 1.5 ¦ n .5 ¦ n 1. ¦ n 1e5 ¦ n 1.5E-3 ¦ n 1 ¦ w e ¦ n 1 ¦ w e ¦ o +",
    );
    check(
        "1..2 1union 0x1F 0xg 1_000 1_a",
        "n 1 ¦ m . ¦ n .2 ¦ n 1 ¦ w union ¦ n 0x1F ¦ n 0 ¦ w xg ¦ n 1_000 ¦ n 1 ¦ w _a",
    );
    check(
        "a<=-1 b@-c d*-e f+-+g",
        "w a ¦ o <= ¦ o - ¦ n 1 ¦ w b ¦ o @- ¦ w c ¦ w d ¦ o * ¦ o - ¦ w e ¦ w f ¦ o + ¦ o - ¦ o + ¦ w g",
    );
    check("a::b := c:d", "w a ¦ o :: ¦ w b ¦ o := ¦ w c ¦ m : ¦ w d");
    check("a+--b\nc", "w a ¦ o + ¦ w c");
    check("a*/*b*/c */", "w a ¦ o * ¦ c /*b*/ ¦ w c ¦ o */");
    check("/* /* */ ' */a /**/ /*/ */", "c /* /* */ ' */ ¦ w a ¦ c /**/ ¦ c /*/ */");
    check("--\ra -- b", "w a");
    check("(a.b[1]);", "m ( ¦ w a ¦ m . ¦ w b ¦ m [ ¦ n 1 ¦ m ] ¦ m ) ¦ m ;");
    check("@--", "o @");
    check("\u{0} \\", "m \u{0} ¦ m \\");
}

#[test]
fn what_is_not_closed_goes_to_the_end() {
    for sql in ["'a; b", "e'a\\", "e'a\\'", "\"a; b", "$$a; b", "$t$a $$ b", "/* a /* */ b", "'a'\n'b", "$t$ $t"] {
        assert_eq!(Lexer::new(sql.as_bytes(), Strings::Standard).count(), 1, "{sql}");
    }
}

#[test]
fn backslashes_are_what_the_setting_says() {
    let sql = br"'\' ; '";
    assert_eq!(told(sql, Strings::Standard), r"l '\' ¦ m ; ¦ l '");
    assert_eq!(told(sql, Strings::Escaped), r"l '\' ; '");
    // These never have escapes.
    assert_eq!(told(br"x'\' b'\' U&'\' x", Strings::Escaped), r"l x'\' ¦ l b'\' ¦ l U&'\' ¦ w x");
}

/// Each of these takes quadratic time if any byte is examined again and again: minutes for a megabyte.
#[test]
fn hostile_texts_take_no_longer_than_others() {
    for part in [
        "+-", "+", "$a", "$a$b", "$", "/*", "*/", "''\n", "'a' ", "'a'\n", "--\n", "-- ", "1_", "1e+", "((", "u&", "=-",
    ] {
        for end in ["", "'", "x"] {
            let sql = part.repeat(1_000_000 / part.len()) + end;
            assert!(Lexer::new(sql.as_bytes(), Strings::Standard).count() <= sql.len(), "{part}");
        }
    }
    let spaces = format!("{}'", "'a'        ".repeat(100_000));
    assert!(Lexer::new(spaces.as_bytes(), Strings::Escaped).count() <= 100_001);
}

/// Texts made of the characters that matter to a lexer, which occur near each other more often than in random bytes.
fn texts() -> impl Strategy<Value = Vec<u8>> {
    let parts: Vec<&[u8]> = vec![
        b"'", b"\"", b"$", b"$$", b"$t$", b"/*", b"*/", b"--", b"\n", b" ", b"e'", b"U&'", b"\\", b"a", b"t", b"1",
        b".", b"+", b"-", b"@", b"=", b"(", b")", b";", b":", b"\xc3", b"\xff", b"\0", b"begin", b"E", b"x'", b"_",
        b"0x",
    ];
    let some = prop::collection::vec(prop::sample::select(parts), 0..40).prop_map(|parts| parts.concat());
    prop_oneof![some, prop::collection::vec(any::<u8>(), 0..100)]
}

proptest! {
    /// No byte is lost or read twice: only white space and comments lie between pieces.
    #[test]
    fn pieces_follow_one_another(sql in texts(), escaped in any::<bool>()) {
        let strings = if escaped { Strings::Escaped } else { Strings::Standard };
        let place = |text: &[u8]| text.as_ptr().addr() - sql.as_ptr().addr();
        let mut end = 0;
        for token in Lexer::new(&sql, strings) {
            prop_assert!(!token.text.is_empty());
            let between = &sql[end..place(token.text)];
            prop_assert!(is_nothing(between), "{:?}", between);
            end = place(token.text) + token.text.len();
        }
        prop_assert!(is_nothing(&sql[end..]));
    }

    /// A word is found outside of open literals and comments, and not found within them.
    #[test]
    fn words_within_other_pieces_are_none(words in "[a-z ;()]{0,20}", at in 0..9_usize) {
        const HIDING: [[&str; 2]; 9] = [
            ["'", "'"], ["\"", "\""], ["$$", "$$"], ["$x$", "$x$"], ["/*", "*/"], ["--", "\n"], ["e'\\'", "'"],
            ["U&'", "'"], ["/* /* */", "*/"],
        ];
        let [begin, end] = HIDING[at];
        let sql = format!("open {begin}{words}{end} close");
        let found: Vec<_> = Lexer::new(sql.as_bytes(), Strings::Standard).collect();
        let kinds: Vec<_> = found.iter().filter(|token| token.kind == TokenKind::Word).map(|token| token.text).collect();
        prop_assert_eq!(kinds, [&b"open"[..], b"close"]);
        prop_assert!(found.len() <= 3);
    }
}

/// Whether the text is only white space and comments to the end of their lines.
fn is_nothing(between: &[u8]) -> bool {
    let lines = between.split(|byte| matches!(byte, b'\n' | b'\r'));
    lines.into_iter().all(|line| {
        let code = memmem::find(line, b"--").map_or(line, |at| &line[..at]);
        code.iter().all(|byte| is_space(*byte))
    })
}
