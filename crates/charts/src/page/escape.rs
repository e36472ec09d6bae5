//! Escapes untrusted text for HTML.
//!
//! Invisible characters become visible: control characters become their symbols, and characters that change the writing
//! direction become their code points, so that a name cannot imitate another one.

use std::fmt::Write;

/// Escapes text for use between tags or inside a quoted attribute.
pub(super) fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => push_visible(&mut out, other),
        }
    }
    out
}

/// Appends a character, or a visible replacement for a control character or a change of direction.
pub(super) fn push_visible(out: &mut String, character: char) {
    match character {
        '\n' | '\t' => out.push(character),
        '\0'..='\u{1f}' => out.push(symbol(character as u8)),
        '\u{7f}' => out.push('\u{2421}'),
        '\u{80}'..='\u{9f}' => out.push(char::REPLACEMENT_CHARACTER),
        other if turns_direction(other) => {
            // Writing to a String never fails.
            let _ = write!(out, "[U+{:04X}]", u32::from(other));
        }
        other => out.push(other),
    }
}

/// The symbol of a control character: ␀ for 0.
pub(super) fn symbol(control: u8) -> char {
    char::from_u32(0x2400 + u32::from(control)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Marks, embeddings, overrides and isolates of the Unicode Bidirectional Algorithm (UAX #9, table 4).
pub(super) fn turns_direction(character: char) -> bool {
    matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tags_and_quotes_are_escaped() {
        assert_eq!(html("</script><script>alert(1)</script>"), "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;");
        assert_eq!(html("<!-- ]]> &amp;"), "&lt;!-- ]]&gt; &amp;amp;");
        assert_eq!(html("\" onload='x'"), "&quot; onload=&#39;x&#39;");
    }

    #[test]
    fn control_characters_become_visible() {
        assert_eq!(html("a\0b\u{1b}[31m\u{7f}\u{85}\r"), "a␀b␛[31m␡\u{fffd}␍");
        assert_eq!(html("two\nlines\tapart"), "two\nlines\tapart");
    }

    #[test]
    fn direction_changes_become_visible() {
        assert_eq!(html("gpt\u{202e}4-tpg\u{2066}\u{200f}"), "gpt[U+202E]4-tpg[U+2066][U+200F]");
    }

    #[test]
    fn other_scripts_are_unchanged() {
        assert_eq!(html("µs · Ω · 模型 · مرحبا"), "µs · Ω · 模型 · مرحبا");
    }

    proptest! {
        #[test]
        fn nothing_opens_a_tag_or_ends_an_attribute(text in any::<String>()) {
            let out = html(&text);
            prop_assert!(!out.contains(['<', '>', '"', '\'']));
            prop_assert!(!out.chars().any(|c| turns_direction(c) || (c.is_control() && c != '\n' && c != '\t')));
        }
    }
}
