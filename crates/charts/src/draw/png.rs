//! Renders a chart as PNG. The font is embedded, so that the picture is the same on every machine; characters that it
//! lacks come from system fonts.

use std::sync::{Arc, OnceLock};

use ergometer_diagnostics::{Diagnostic, Hint, hint, option};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{self, Tree, fontdb::Database};

use super::font;
use crate::Chart;
use crate::palette::Theme;

/// Why a chart could not be rendered as PNG.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// The picture would have no pixels, or more than 100 million.
    #[error("cannot draw {width:.0} x {height:.0} pixels at scale {scale}")]
    Size {
        /// The width of the chart.
        width: f32,
        /// The height of the chart.
        height: f32,
        /// The scale.
        scale: f64,
    },
    /// The SVG could not be parsed.
    #[error("cannot parse the SVG of the chart: {0}")]
    Svg(#[from] usvg::Error),
    /// The pixels could not be encoded.
    #[error("cannot encode the chart as PNG: {0}")]
    Encode(String),
}

impl Diagnostic for PictureError {
    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::Size { .. } => {
                hint!("lower ", option("scale"), ", or use ", option("format").value("svg"))
            }
            Self::Svg(_) | Self::Encode(_) => hint!("use ", option("format").value("svg")),
        })
    }
}

/// The maximum number of pixels. More would take minutes and gigabytes of memory.
const MAX_PIXELS: f64 = 1e8;

fn embedded() -> Database {
    let mut fonts = Database::new();
    fonts.load_font_data(font::REGULAR.to_vec());
    fonts.load_font_data(font::STRONG.to_vec());
    fonts.set_sans_serif_family("Inter");
    fonts
}

/// The fonts for a text. System fonts are loaded once, and only if the text needs them, because that is slow.
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

/// Renders a chart as PNG, `scale` times the size of the SVG. Use 2 for high-resolution screens.
pub fn png(chart: &Chart, theme: Theme, scale: f64) -> Result<Vec<u8>, PictureError> {
    let svg = super::svg(chart, theme);
    let options = usvg::Options { font_family: "Inter".to_owned(), fontdb: fonts(&svg), ..usvg::Options::default() };
    let tree = Tree::from_str(&svg, &options)?;
    let (width, height) = (tree.size().width(), tree.size().height());
    let wrong_size = || PictureError::Size { width, height, scale };
    let (wide, high) = ((f64::from(width) * scale).ceil(), (f64::from(height) * scale).ceil());
    if !(wide >= 1.0 && high >= 1.0 && wide * high <= MAX_PIXELS) {
        return Err(wrong_size());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and 1e8")]
    let mut pixels = Pixmap::new(wide as u32, high as u32).ok_or_else(wrong_size)?;
    #[expect(clippy::cast_possible_truncation, reason = "the scale of a picture needs few digits")]
    let scale = scale as f32;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| PictureError::Encode(error.to_string()))
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
    fn the_scale_multiplies_the_width() {
        let one = png(&chart("title"), Theme::Light, 1.0).unwrap();
        let two = png(&chart("title"), Theme::Light, 2.0).unwrap();
        let width = |png: &[u8]| u32::from_be_bytes(png[16..20].try_into().unwrap());
        assert_eq!((width(&one), width(&two)), (800, 1600));
    }

    #[test]
    fn plain_text_needs_no_system_fonts() {
        assert_ne!(png(&chart("one"), Theme::Light, 1.0).unwrap(), png(&chart("two"), Theme::Light, 1.0).unwrap());
        assert!(fonts("plain text, µs").len() == 2);
    }

    #[test]
    fn characters_that_the_font_lacks_are_no_error() {
        assert!(png(&chart("模型 🚀"), Theme::Dark, 1.0).is_ok());
    }

    #[test]
    fn invalid_sizes_are_errors_with_a_hint() {
        for scale in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e6] {
            let error = png(&chart("title"), Theme::Light, scale).unwrap_err();
            assert!(matches!(error, PictureError::Size { .. }) && error.hint().is_some(), "{error}");
        }
    }
}
