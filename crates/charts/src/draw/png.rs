//! The SVG as pixels. The font is embedded, so that it is the same on every machine; only what that font lacks is
//! looked up in the fonts of the system.

use std::sync::{Arc, OnceLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{self, Tree, fontdb::Database};

use super::font;
use crate::Chart;
use crate::palette::Theme;

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// It would have no pixels, or more than 100 million.
    #[error(
        "a picture of {width:.0} x {height:.0} pixels at {scale} times its size cannot be drawn. hint: use a scale between 0.1 and 4, or write SVG"
    )]
    Size {
        /// Of the chart.
        width: f32,
        /// Of the chart.
        height: f32,
        /// Asked for.
        scale: f64,
    },
    /// The SVG was not understood.
    #[error("the SVG of the picture cannot be read: {0}. hint: write SVG instead")]
    Svg(#[from] usvg::Error),
    /// The pixels could not be packed.
    #[error("the picture cannot be packed as PNG: {0}. hint: write SVG instead")]
    Pack(String),
}

/// More take minutes to draw, and gigabytes.
const MOST_PIXELS: f64 = 1e8;

fn embedded() -> Database {
    let mut fonts = Database::new();
    fonts.load_font_data(font::REGULAR.to_vec());
    fonts.load_font_data(font::STRONG.to_vec());
    fonts.set_sans_serif_family("Inter");
    fonts
}

/// Fonts for a text: reading those of the system takes a while, and is done once, and only where they are needed.
fn fonts(text: &str) -> Arc<Database> {
    static EMBEDDED: OnceLock<Arc<Database>> = OnceLock::new();
    static ALL: OnceLock<Arc<Database>> = OnceLock::new();
    if text.chars().all(|character| character.is_ascii() || font::has(character)) {
        return Arc::clone(EMBEDDED.get_or_init(|| Arc::new(embedded())));
    }
    Arc::clone(ALL.get_or_init(|| {
        let mut fonts = embedded();
        fonts.load_system_fonts();
        fonts.set_sans_serif_family("Inter");
        Arc::new(fonts)
    }))
}

/// The chart as a PNG, so many times as large as the SVG: 2 for screens of today.
pub fn png(chart: &Chart, theme: Theme, scale: f64) -> Result<Vec<u8>, PictureError> {
    let svg = super::svg(chart, theme);
    let options = usvg::Options { font_family: "Inter".to_owned(), fontdb: fonts(&svg), ..usvg::Options::default() };
    let tree = Tree::from_str(&svg, &options)?;
    let (width, height) = (tree.size().width(), tree.size().height());
    let refused = || PictureError::Size { width, height, scale };
    let (wide, high) = ((f64::from(width) * scale).ceil(), (f64::from(height) * scale).ceil());
    if !(wide >= 1.0 && high >= 1.0 && wide * high <= MOST_PIXELS) {
        return Err(refused());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and 1e8")]
    let mut pixels = Pixmap::new(wide as u32, high as u32).ok_or_else(refused)?;
    #[expect(clippy::cast_possible_truncation, reason = "a scale of a picture that fits needs no more digits")]
    let scale = scale as f32;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| PictureError::Pack(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Panel};

    fn chart(title: &str) -> Chart {
        Chart {
            id: "empty".into(),
            title: title.into(),
            subtitle: String::new(),
            notes: vec![],
            x: Axis::linear("", ""),
            panels: vec![Panel { y: Axis::linear("", ""), marks: vec![], share: 1.0 }],
        }
    }

    #[test]
    fn pixels_are_as_many_as_asked_for() {
        let one = png(&chart("title"), Theme::Light, 1.0).unwrap();
        let two = png(&chart("title"), Theme::Light, 2.0).unwrap();
        let width = |png: &[u8]| u32::from_be_bytes(png[16..20].try_into().unwrap());
        assert_eq!((width(&one), width(&two)), (800, 1600));
    }

    #[test]
    fn the_title_is_drawn_without_fonts_of_the_system() {
        assert_ne!(png(&chart("one"), Theme::Light, 1.0).unwrap(), png(&chart("two"), Theme::Light, 1.0).unwrap());
        assert!(fonts("plain text, µs").len() == 2);
    }

    #[test]
    fn what_the_font_lacks_is_no_failure() {
        assert!(png(&chart("模型 🚀"), Theme::Dark, 1.0).is_ok());
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        for scale in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e6] {
            let error = png(&chart("title"), Theme::Light, scale).unwrap_err();
            assert!(error.to_string().contains("hint: "), "{error}");
        }
    }
}
