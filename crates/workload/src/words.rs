//! Text from a weighted list of words, so that it resembles written text.

use rand::RngExt;
use rand_pcg::Pcg64;

/// Words with their weights; short ones are frequent, as in any text.
const WORDS: [(&str, u32); 40] = [
    ("the", 60),
    ("of", 34),
    ("and", 30),
    ("to", 28),
    ("in", 22),
    ("for", 14),
    ("is", 12),
    ("on", 11),
    ("with", 9),
    ("by", 8),
    ("order", 7),
    ("new", 7),
    ("price", 6),
    ("market", 6),
    ("report", 5),
    ("account", 5),
    ("customer", 5),
    ("payment", 4),
    ("delivery", 4),
    ("monthly", 4),
    ("service", 4),
    ("open", 3),
    ("request", 3),
    ("travel", 3),
    ("garden", 2),
    ("paper", 2),
    ("winter", 2),
    ("summer", 2),
    ("contract", 2),
    ("harbour", 2),
    ("window", 2),
    ("machine", 2),
    ("coffee", 2),
    ("railway", 1),
    ("insurance", 1),
    ("furniture", 1),
    ("instrument", 1),
    ("engineering", 1),
    ("correspondence", 1),
    ("administration", 1),
];

const WEIGHTS: u32 = {
    let (mut sum, mut word) = (0, 0);
    while word < WORDS.len() {
        sum += WORDS[word].1;
        word += 1;
    }
    sum
};

/// Replaces `into` by words, at least one and as many as fit a length that is drawn from `shortest..=longest` bytes.
pub(crate) fn write_words(random: &mut Pcg64, shortest: usize, longest: usize, into: &mut String) {
    let length = random.random_range(shortest..=longest);
    into.clear();
    loop {
        let word = draw(random);
        let gap = usize::from(!into.is_empty());
        if into.len() + gap + word.len() > length {
            if into.is_empty() {
                continue;
            }
            return;
        }
        if gap == 1 {
            into.push(' ');
        }
        into.push_str(word);
    }
}

fn draw(random: &mut Pcg64) -> &'static str {
    let mut left = random.random_range(0..WEIGHTS);
    for (word, weight) in WORDS {
        if left < weight {
            return word;
        }
        left -= weight;
    }
    unreachable!("the weights add up to {WEIGHTS}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_fit_and_the_frequent_ones_are_frequent() {
        let (mut random, mut text, mut all) = (Pcg64::new(1, 2), String::new(), String::new());
        for _ in 0..2_000 {
            write_words(&mut random, 3, 12, &mut text);
            assert!(!text.is_empty() && text.len() <= 12, "{text}");
            write_words(&mut random, 40, 60, &mut text);
            assert!((26..=60).contains(&text.len()) && !text.ends_with(' '), "{text}");
            all += &text;
            all.push(' ');
        }
        let count = |word: &str| all.split(' ').filter(|found| *found == word).count();
        assert!(count("the") > 4 * count("service"), "{} {}", count("the"), count("service"));
        assert!(WORDS.iter().all(|(word, _)| count(word) > 0));
    }
}
