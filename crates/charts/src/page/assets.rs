//! The style sheet and the script of a page, and the Content Security Policy that allows only these two.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// The style sheet.
pub(super) const STYLE: &str = include_str!("assets/page.css");

/// The script: one module, concatenated from files in order of their dependencies.
pub(super) const SCRIPT: &str = concat!(
    include_str!("assets/element.js"),
    include_str!("assets/unpack.js"),
    include_str!("assets/scale.js"),
    include_str!("assets/marks.js"),
    include_str!("assets/lines.js"),
    include_str!("assets/points.js"),
    include_str!("assets/paint.js"),
    include_str!("assets/axes.js"),
    include_str!("assets/words.js"),
    include_str!("assets/pick.js"),
    include_str!("assets/chart.js"),
    include_str!("assets/gestures.js"),
    include_str!("assets/table.js"),
    include_str!("assets/page.js"),
);

/// The Content Security Policy: it allows the page's own script, its own style sheet and embedded images.
pub(super) fn policy() -> String {
    format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        source(SCRIPT),
        source(STYLE)
    )
}

/// The hash of a source in the format of Content Security Policy (CSP3, section 2.3.1).
fn source(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_hash_matches_the_specification() {
        // The example of CSP Level 2, section 7.17.3.
        assert_eq!(source("alert('Hello, world.');"), "sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng=");
    }

    #[test]
    fn assets_do_not_close_their_element_or_evaluate_text() {
        for text in [STYLE, SCRIPT] {
            assert!(!text.to_ascii_lowercase().contains("</s") && !text.contains("<!--"));
            assert!(
                !text.contains("http://")
                    || text.matches("http://").count() == text.matches("http://www.w3.org").count()
            );
            assert!(!text.contains("https://") && !text.contains("@import") && !text.contains("url("));
        }
        for word in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "fetch("]
        {
            assert!(!SCRIPT.contains(word), "{word}");
        }
    }

    /// The contrast of two colours as defined by WCAG 2.2.
    fn contrast(one: &str, other: &str) -> f64 {
        let luminance = |hex: &str| {
            let channel = |at: usize| {
                let value = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
                if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
        };
        let (a, b) = (luminance(one), luminance(other));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// The light and the dark value of a CSS variable.
    fn variable(name: &str) -> (String, String) {
        let at = STYLE.find(&format!("--{name}: light-dark(")).unwrap_or_else(|| panic!("no --{name}"));
        let inside = STYLE[at..].split_once("light-dark(").unwrap().1.split_once(')').unwrap().0;
        let (light, dark) = inside.split_once(", ").unwrap();
        (light.to_owned(), dark.to_owned())
    }

    #[test]
    fn colours_have_enough_contrast_in_both_themes() {
        // Text appears on paper and on cards, charts appear on paper.
        let named = |name: &str, least| (name.to_owned(), least, vec!["paper"]);
        let mut colours: Vec<_> = (0..8).map(|number| named(&format!("series-{number}"), 3.0)).collect();
        colours.push(named("muted", 3.0));
        for (name, least) in
            [("ink", 7.0), ("quiet", 4.5), ("link", 4.5), ("good", 4.5), ("warning", 4.5), ("bad", 4.5)]
        {
            colours.push((name.to_owned(), least, vec!["paper", "card"]));
        }
        for (name, least, grounds) in colours {
            let (on_light, on_dark) = variable(&name);
            for ground in grounds {
                let (light, dark) = variable(ground);
                assert!(contrast(&on_light, &light) >= least, "{name} on light {ground}");
                assert!(contrast(&on_dark, &dark) >= least, "{name} on dark {ground}");
            }
        }
    }
}
