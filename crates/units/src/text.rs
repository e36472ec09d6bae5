//! Makes text from files and devices safe and short enough for a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Escapes characters that would change the terminal: control characters, line breaks and direction marks.
///
/// Names and messages come from files, and could otherwise clear the screen or start a new line.
///
/// ```
/// # use ergometer_units::text::visible;
/// assert_eq!(visible("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
/// ```
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    let is_harmless = |character: char| !(character.is_control() || is_invisible(character));
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => safe.push_str("\\n"),
            '\t' => safe.push_str("\\t"),
            '\r' => safe.push_str("\\r"),
            harmless if is_harmless(harmless) => safe.push(harmless),
            other => {
                let _ = write!(safe, "{}", other.escape_unicode());
            }
        }
    }
    Cow::Owned(safe)
}

/// Whether a character changes the direction of text, breaks lines, or has no width.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Shortens text to a width in characters by cutting its middle, because the ends often distinguish names.
///
/// ```
/// # use ergometer_units::text::fitted;
/// assert_eq!(fitted("gemm_fusion_dot_39", 10), "gemm_…t_39");
/// ```
#[must_use]
pub fn fitted(text: &str, width: usize) -> Cow<'_, str> {
    let count = text.chars().count();
    if count <= width {
        return Cow::Borrowed(text);
    }
    let kept = width.saturating_sub(1);
    let last = kept / 2;
    let start: String = text.chars().take(kept - last).collect();
    let end: String = text.chars().skip(count - last).collect();
    Cow::Owned(format!("{start}…{end}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_control_characters_are_escaped() {
        assert_eq!(visible("a\u{1b}[2Jb\u{7}\0\nc\u{202e}d"), "a\\u{1b}[2Jb\\u{7}\\u{0}\\nc\\u{202e}d");
        assert_eq!(visible("jit(f)/größe_µ/加 \\n"), "jit(f)/größe_µ/加 \\n");
        // Escaping twice changes nothing.
        assert_eq!(visible(&visible("\u{1b}\t\u{9b}")), "\\u{1b}\\t\\u{9b}");
    }

    #[test]
    fn long_names_are_cut_in_the_middle() {
        let cut = |width| fitted("gemm_fusion_dot_39", width).into_owned();
        assert_eq!([cut(18), cut(10), cut(1), cut(0)], ["gemm_fusion_dot_39", "gemm_…t_39", "…", "…"]);
    }
}
