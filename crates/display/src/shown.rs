//! Which characters of a foreign text may be shown: clients and servers choose names, and a terminal obeys some characters.

/// Whether a character is shown as itself, instead of steering a terminal, changing the direction of the text around it, or
/// having no width: with such characters one name can look like another, or like an empty one.
pub fn is_shown(letter: char) -> bool {
    let steers = matches!(letter,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    !letter.is_control() && !steers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_every_script_are_shown_and_what_steers_is_not() {
        assert!("Müller 注文 שלום 😀 \u{fffd}".chars().all(is_shown));
        assert!(
            "\u{1b}\n\u{9b}\u{202e}\u{2066}\u{200b}\u{feff}\u{61c}\u{e0041}".chars().all(|letter| !is_shown(letter))
        );
    }
}
