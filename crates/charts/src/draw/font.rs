//! Measures and shortens text in the font of the PNG.
//!
//! A browser without that font uses its own, which is about as wide.

use std::sync::OnceLock;

use ttf_parser::Face;

/// Regular and semi-bold, reduced to Latin, Greek and symbols; all digits have the same width.
pub(super) const REGULAR: &[u8] = include_bytes!("../../../../assets/fonts/Inter-Regular.otf");
pub(super) const STRONG: &[u8] = include_bytes!("../../../../assets/fonts/Inter-SemiBold.otf");

/// The font weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    Regular,
    Strong,
}

fn face(weight: Weight) -> Option<&'static Face<'static>> {
    static FACES: [OnceLock<Option<Face<'static>>>; 2] = [OnceLock::new(), OnceLock::new()];
    let (slot, bytes) = match weight {
        Weight::Regular => (&FACES[0], REGULAR),
        Weight::Strong => (&FACES[1], STRONG),
    };
    slot.get_or_init(|| Face::parse(bytes, 0).ok()).as_ref()
}

/// Whether the font has this character.
pub(super) fn has(character: char) -> bool {
    face(Weight::Regular).is_some_and(|face| face.glyph_index(character).is_some())
}

/// The width of a character relative to the font size. A character that the font lacks counts as a square, like
/// Chinese.
fn advance(character: char, weight: Weight) -> f64 {
    let measured = face(weight).and_then(|face| {
        let advance = face.glyph_hor_advance(face.glyph_index(character)?)?;
        Some(f64::from(advance) / f64::from(face.units_per_em()))
    });
    measured.unwrap_or(1.0)
}

/// The width of a text in pixels.
pub(super) fn width(text: &str, size: f64, weight: Weight) -> f64 {
    text.chars().map(|character| advance(character, weight)).sum::<f64>() * size
}

/// The text, with its middle replaced by `…` if it is too wide.
pub(super) fn cut(text: &str, room: f64, size: f64, weight: Weight) -> String {
    if width(text, size, weight) <= room {
        return text.to_owned();
    }
    let characters: Vec<char> = text.chars().collect();
    let mut left = room - advance('…', weight) * size;
    let (mut front, mut back) = (0, characters.len());
    while front < back {
        // Keeps both ends, because names differ at both.
        let at_front = front <= characters.len() - back;
        let next = characters[if at_front { front } else { back - 1 }];
        left -= advance(next, weight) * size;
        if left < 0.0 {
            break;
        }
        if at_front {
            front += 1;
        } else {
            back -= 1;
        }
    }
    let head: String = characters[..front].iter().collect();
    let tail: String = characters[back..].iter().collect();
    format!("{}…{}", head.trim_end(), tail.trim_start())
}

/// Wraps a text into at most `most` lines and shortens the last line if the text does not fit.
pub(super) fn wrap(text: &str, room: f64, size: f64, weight: Weight, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let last = lines.len() == most;
        match lines.last_mut() {
            Some(line) if last || width(line, size, weight) + width(word, size, weight) + 0.3 * size <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.into_iter().map(|line| cut(&line, room, size, weight)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_have_the_same_width() {
        for weight in [Weight::Regular, Weight::Strong] {
            assert!(face(weight).is_some());
            let one = width("1", 10.0, weight);
            // The semi-bold 4 of Inter is a thousandth narrower.
            assert!(('0'..='9').all(|digit| (width(&digit.to_string(), 10.0, weight) - one).abs() < 0.02));
            assert!(one > 5.0 && one < 8.0);
        }
    }

    #[test]
    fn the_font_has_the_characters_of_axes() {
        assert!("µ±×…−⁻⁰¹²³⁴⁵⁶⁷⁸⁹→≥≤≈Ωäéß·".chars().all(has));
        assert!(!has('模'));
    }

    #[test]
    fn long_names_are_shortened_in_the_middle() {
        let name = "meta-llama/Llama-3.1-70B-Instruct-FP8";
        let cut = cut(name, 120.0, 12.0, Weight::Regular);
        assert_eq!(cut, "meta-llam…ruct-FP8");
        assert!(width(&cut, 12.0, Weight::Regular) <= 120.0);
        assert_eq!(super::cut("short", 120.0, 12.0, Weight::Regular), "short");
        assert_eq!(super::cut("anything", 0.0, 12.0, Weight::Regular), "…");
    }

    #[test]
    fn text_wraps_and_the_last_line_is_shortened() {
        let lines = wrap("one two three four five six seven", 60.0, 12.0, Weight::Regular, 2);
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| width(line, 12.0, Weight::Regular) <= 60.0));
        assert!(lines[1].contains('…'));
        assert!(wrap("", 60.0, 12.0, Weight::Regular, 2).is_empty());
    }
}
