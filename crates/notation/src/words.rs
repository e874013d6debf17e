//! Words in messages: lists of what exists, and suggestions for misspelled words.

use std::fmt::Display;

/// The most words of a list in a message; the documentation has the rest.
const SHOWN_MAX: usize = 24;

/// The nearest of some words, if one is near enough to be the intended one.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |known: &str| strsim::damerau_levenshtein(&word.to_lowercase(), &known.to_lowercase());
    let best = known.into_iter().min_by_key(|known| distance(known))?;
    (distance(best) <= best.len().div_ceil(3)).then_some(best)
}

/// The nearest known word as a question to put after an unknown one, `` (did you mean `dop`?) `` with a space before;
/// empty if none is near.
pub fn suggestion(nearest: &Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"))
}

/// The same, after looking for the nearest of some words.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    suggestion(&nearest(word, known))
}

/// The part of an error that names options: the nearest one, or all of them with their descriptions, one per line.
pub fn meant_or_all<'a>(nearest: &Option<&str>, options: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    if nearest.is_some() {
        return suggestion(nearest);
    }
    let lines = options.into_iter().map(|(name, about)| format!("\n  {name}: {about}"));
    format!("; it has{}", lines.collect::<String>())
}

/// `` `a`, `b`, `c` ``, all of them.
pub fn listed<T: Display>(words: impl IntoIterator<Item = T>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

/// `` `a`, `b` and `c` ``.
pub fn choices<T: Display>(words: impl IntoIterator<Item = T>) -> String {
    joined(words, " and ")
}

/// `` `a`, `b` or `c` ``.
pub fn alternatives<T: Display>(words: impl IntoIterator<Item = T>) -> String {
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
        assert_eq!(listed::<&str>([]), "none");
        assert_eq!(listed(["a", "b", "c"]), "`a`, `b`, `c`");
        assert_eq!(choices::<&str>([]), "none");
        assert_eq!(choices(["a"]), "`a`");
        assert_eq!(choices(["a", "b", "c"]), "`a`, `b` and `c`");
        assert_eq!(alternatives([1, 2]), "`1` or `2`");
        assert!(choices(0..100).ends_with("`23`, …"));
        assert_eq!(did_you_mean("dpo", ["dop", "scale"]), " (did you mean `dop`?)");
        assert_eq!(did_you_mean("Show", ["SHOW", "SET"]), " (did you mean `SHOW`?)");
        assert_eq!(did_you_mean("xyz", ["dop", "scale"]), "");
    }
}
