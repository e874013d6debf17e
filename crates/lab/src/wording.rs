//! Words in messages: lists of what exists, and suggestions for what was meant.

use std::fmt::Display;

use plimsoll_workload::registry::nearest;

/// The most words of a list in a message; the documentation has the rest.
const SHOWN_MAX: usize = 24;

/// `` (did you mean `dop`?) ``, with a space before, to stand behind an unknown word; nothing if none is near.
pub(crate) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"))
}

/// `` `a`, `b` and `c` ``.
pub(crate) fn choices<T: Display>(words: impl IntoIterator<Item = T>) -> String {
    joined(words, " and ")
}

/// `` `a`, `b` or `c` ``.
pub(crate) fn alternatives<T: Display>(words: impl IntoIterator<Item = T>) -> String {
    joined(words, " or ")
}

fn joined<T: Display>(words: impl IntoIterator<Item = T>, last: &str) -> String {
    let mut words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    if words.len() > SHOWN_MAX {
        words.truncate(SHOWN_MAX);
        return format!("{}, …", words.join(", "));
    }
    match &words[..] {
        [] => "none".to_owned(),
        [only] => only.clone(),
        [head @ .., tail] => format!("{}{last}{tail}", head.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_read_well() {
        assert_eq!(choices::<&str>([]), "none");
        assert_eq!(choices(["a"]), "`a`");
        assert_eq!(choices(["a", "b", "c"]), "`a`, `b` and `c`");
        assert_eq!(alternatives([1, 2]), "`1` or `2`");
        assert!(choices(0..100).ends_with("`23`, …"));
        assert_eq!(did_you_mean("dpo", ["dop", "scale"]), " (did you mean `dop`?)");
        assert_eq!(did_you_mean("xyz", ["dop", "scale"]), "");
    }
}
