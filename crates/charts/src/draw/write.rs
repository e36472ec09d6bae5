//! Writes shapes and untrusted text as well-formed SVG.

use std::fmt::Write as _;

use super::font::Weight;

/// Removes control characters, characters that XML 1.0 forbids and characters that change the writing direction (a name
/// could imitate another). Runs of white space become one space. Keeps at most 1,000 characters.
pub(super) fn clean(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars().take(1000) {
        match character {
            character if character.is_whitespace() => {
                if !out.is_empty() && !out.ends_with(' ') {
                    out.push(' ');
                }
            }
            character if character.is_control() => {}
            '\u{fffe}' | '\u{ffff}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            character => out.push(character),
        }
    }
    out.truncate(out.trim_end().len());
    out
}

fn escape(out: &mut String, text: &str) {
    for character in clean(text).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            character => out.push(character),
        }
    }
}

/// Writes a coordinate with one decimal: a tenth of a pixel is invisible.
pub(super) fn coordinate(out: &mut String, value: f64) {
    let value = if value.is_finite() { value.clamp(-1e5, 1e5) } else { 0.0 };
    let tenths = (value * 10.0).round() / 10.0 + 0.0;
    let _ = write!(out, "{tenths}");
}

/// The alignment of a text relative to its x.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A line of text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text<'a> {
    pub(super) x: f64,
    /// The y of the base line.
    pub(super) y: f64,
    pub(super) size: f64,
    pub(super) weight: Weight,
    pub(super) anchor: Anchor,
    pub(super) colour: &'a str,
    /// The colour of an outline that separates the text from its background.
    pub(super) outline: Option<&'a str>,
    /// The rotation around (x, y), in degrees.
    pub(super) rotation: f64,
    pub(super) content: &'a str,
}

/// A path under construction, in absolute coordinates.
#[derive(Debug, Default)]
pub(super) struct Path(String);

impl Path {
    fn pair(&mut self, (x, y): (f64, f64)) {
        coordinate(&mut self.0, x);
        self.0.push(' ');
        coordinate(&mut self.0, y);
    }

    pub(super) fn start(&mut self, place: (f64, f64)) {
        self.0.push('M');
        self.pair(place);
    }

    pub(super) fn line(&mut self, place: (f64, f64)) {
        self.0.push('L');
        self.pair(place);
    }

    /// Adds a dot, visible if the line has round caps.
    pub(super) fn dot(&mut self, place: (f64, f64)) {
        self.start(place);
        self.0.push_str("h.01");
    }

    pub(super) fn close(&mut self) {
        self.0.push('Z');
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// An SVG under construction.
#[derive(Debug, Default)]
pub(super) struct Svg {
    out: String,
}

impl Svg {
    /// Appends XML unescaped. Never pass untrusted text.
    pub(super) fn raw(&mut self, xml: &str) {
        self.out.push_str(xml);
    }

    /// `name="12.5"`.
    fn place(&mut self, name: &str, value: f64) {
        let _ = write!(self.out, " {name}=\"");
        coordinate(&mut self.out, value);
        self.out.push('"');
    }

    /// Writes a `title` or `desc` element for screen readers.
    pub(super) fn described(&mut self, element: &str, text: &str) {
        let _ = write!(self.out, "<{element}>");
        escape(&mut self.out, text);
        let _ = writeln!(self.out, "</{element}>");
    }

    pub(super) fn text(&mut self, text: &Text<'_>) {
        if text.content.is_empty() {
            return;
        }
        self.out.push_str("<text");
        self.place("x", text.x);
        self.place("y", text.y);
        self.place("font-size", text.size);
        if text.weight == Weight::Strong {
            self.out.push_str(" font-weight=\"600\"");
        }
        match text.anchor {
            Anchor::Start => {}
            Anchor::Middle => self.out.push_str(" text-anchor=\"middle\""),
            Anchor::End => self.out.push_str(" text-anchor=\"end\""),
        }
        let _ = write!(self.out, " fill=\"{}\"", text.colour);
        if let Some(outline) = text.outline {
            let _ = write!(
                self.out,
                " stroke=\"{outline}\" stroke-width=\"3\" stroke-linejoin=\"round\" paint-order=\"stroke\""
            );
        }
        if text.rotation != 0.0 {
            let _ = write!(self.out, " transform=\"rotate({} ", text.rotation);
            coordinate(&mut self.out, text.x);
            self.out.push(' ');
            coordinate(&mut self.out, text.y);
            self.out.push_str(")\"");
        }
        self.out.push('>');
        escape(&mut self.out, text.content);
        self.out.push_str("</text>\n");
    }

    /// Writes a straight line. `style` is written unescaped.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), style: &str) {
        self.out.push_str("<line");
        self.place("x1", from.0);
        self.place("y1", from.1);
        self.place("x2", to.0);
        self.place("y2", to.1);
        let _ = writeln!(self.out, " {style}/>");
    }

    /// Writes a rectangle with round corners.
    pub(super) fn rect(&mut self, area: super::Area, radius: f64, style: &str) {
        self.out.push_str("<rect");
        self.place("x", area.x);
        self.place("y", area.y);
        self.place("width", area.width.max(0.0));
        self.place("height", area.height.max(0.0));
        if radius >= 0.1 {
            self.place("rx", radius);
        }
        if !style.is_empty() {
            let _ = write!(self.out, " {style}");
        }
        self.out.push_str("/>\n");
    }

    pub(super) fn circle(&mut self, centre: (f64, f64), radius: f64, style: &str) {
        self.out.push_str("<circle");
        self.place("cx", centre.0);
        self.place("cy", centre.1);
        self.place("r", radius);
        if !style.is_empty() {
            let _ = write!(self.out, " {style}");
        }
        self.out.push_str("/>\n");
    }

    pub(super) fn path(&mut self, path: &Path, style: &str) {
        if !path.is_empty() {
            let _ = writeln!(self.out, "<path d=\"{}\" {style}/>", path.0);
        }
    }

    /// Appends the content of another SVG.
    pub(super) fn append(&mut self, other: &Self) {
        self.out.push_str(&other.out);
    }

    pub(super) fn finish(mut self) -> String {
        self.out.push_str("</svg>\n");
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        let mut out = String::new();
        escape(&mut out, "</text><script>\"a\" & 'b'\u{0}\u{1b}[31m\u{202e}\u{ffff}");
        assert_eq!(out, "&lt;/text&gt;&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;[31m");
        assert_eq!(clean("  one\n\ttwo \r\n"), "one two");
    }

    #[test]
    fn coordinates_are_short_and_finite() {
        let text = |value| {
            let mut out = String::new();
            coordinate(&mut out, value);
            out
        };
        assert_eq!(text(1.0), "1");
        assert_eq!(text(-0.01), "0");
        assert_eq!(text(12.345), "12.3");
        assert_eq!(text(f64::NAN), "0");
        assert_eq!(text(1e300), "100000");
    }
}
