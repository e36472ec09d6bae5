//! The colours of each theme, as `#rrggbb`.
//!
//! The eight series colours are those of Okabe and Ito (2008), which people with common colour blindness can tell
//! apart. On white, the bright ones are darkened. Every colour has a contrast of at least 3:1 against the background,
//! text at least 4.5:1 (WCAG 2.1, 1.4.11 and 1.4.3).

use crate::Hue;

/// Light or dark colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Theme {
    /// Dark colours on white.
    #[default]
    Light,
    /// Bright colours on nearly black.
    Dark,
}

/// The colours of background, text, grid and axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paper {
    /// The background.
    pub background: &'static str,
    /// Titles and names.
    pub text: &'static str,
    /// Subtitles, ticks and notes.
    pub muted: &'static str,
    /// Grid lines.
    pub grid: &'static str,
    /// The line at the bottom of a panel.
    pub axis: &'static str,
}

const LIGHT: Paper =
    Paper { background: "#ffffff", text: "#1b1f24", muted: "#5d656f", grid: "#e4e7ea", axis: "#9aa1a9" };
const DARK: Paper =
    Paper { background: "#15181c", text: "#eceff2", muted: "#a2aab3", grid: "#2b3036", axis: "#69717a" };

// Blue, vermilion, green, purple, orange, sky, olive, grey.
const SERIES_LIGHT: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#c57ba9", "#c48700", "#4a9bc8", "#a29500", "#6b6b6b"];
const SERIES_LIGHT_TEXT: [&str; 8] =
    ["#0072b2", "#c05500", "#008662", "#9d6287", "#9c6c00", "#3b7ca1", "#817600", "#6b6b6b"];
const SERIES_DARK: [&str; 8] = ["#4a9fe0", "#f07a3a", "#2bb98d", "#db93c0", "#efb02f", "#7cc9f5", "#d6cb3c", "#a3a8af"];

impl Theme {
    /// The colours of background, text, grid and axes.
    #[must_use]
    pub fn paper(self) -> Paper {
        match self {
            Self::Light => LIGHT,
            Self::Dark => DARK,
        }
    }
}

impl Hue {
    /// The colour of dots, lines and areas.
    #[must_use]
    pub fn colour(self, theme: Theme) -> &'static str {
        match (self, theme) {
            (Self::Series(number), Theme::Light) => SERIES_LIGHT[usize::from(number % 8)],
            (Self::Series(number), Theme::Dark) => SERIES_DARK[usize::from(number % 8)],
            (Self::Muted, Theme::Light) => "#8a8f98",
            (Self::Muted, Theme::Dark) => "#7d848e",
            (Self::Bad, Theme::Light) => "#c8102e",
            (Self::Bad, Theme::Dark) => "#ff6b6b",
            (Self::Good, Theme::Light) => "#1a7f37",
            (Self::Good, Theme::Dark) => "#4cc26a",
        }
    }

    /// The colour of text: the same colour, or a darker one if that is too pale to read.
    #[must_use]
    pub fn text_colour(self, theme: Theme) -> &'static str {
        match (self, theme) {
            (Self::Series(number), Theme::Light) => SERIES_LIGHT_TEXT[usize::from(number % 8)],
            (Self::Muted, Theme::Light) => "#71757d",
            _ => self.colour(theme),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEMES: [Theme; 2] = [Theme::Light, Theme::Dark];

    fn hues() -> Vec<Hue> {
        (0..9).map(Hue::Series).chain([Hue::Muted, Hue::Bad, Hue::Good]).collect()
    }

    /// Relative luminance, WCAG 2.1.
    fn luminance(colour: &str) -> f64 {
        let part = |from: usize| {
            let value = f64::from(u8::from_str_radix(&colour[from..from + 2], 16).unwrap()) / 255.0;
            if value <= 0.03928 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    fn contrast(one: &str, other: &str) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn black_on_white_is_21() {
        assert!((contrast("#000000", "#ffffff") - 21.0).abs() < 1e-9);
    }

    #[test]
    fn colours_have_enough_contrast() {
        for theme in THEMES {
            let paper = theme.paper();
            for hue in hues() {
                let shape = contrast(hue.colour(theme), paper.background);
                assert!(shape >= 3.0, "{hue:?} {theme:?} {shape}");
                let text = contrast(hue.text_colour(theme), paper.background);
                assert!(text >= 4.5, "text of {hue:?} {theme:?} {text}");
            }
            assert!(contrast(paper.text, paper.background) >= 7.0);
            assert!(contrast(paper.muted, paper.background) >= 4.5);
        }
    }

    #[test]
    fn the_eight_series_colours_differ_and_repeat() {
        for theme in THEMES {
            assert_eq!(Hue::Series(8).colour(theme), Hue::Series(0).colour(theme));
            let mut eight: Vec<_> = (0..8).map(|number| Hue::Series(number).colour(theme)).collect();
            eight.sort_unstable();
            eight.dedup();
            assert_eq!(eight.len(), 8);
        }
    }
}
