//! Draws histories as dots and blocks, and shares as bars. Nothing is drawn outside the area.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::history::History;

/// The dots of a braille cell from the bottom up, for the left and the right column.
const DOTS: [[u32; 4]; 2] = [[0x40, 0x04, 0x02, 0x01], [0x80, 0x20, 0x10, 0x08]];

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// An area graph from zero to `top`: each cell has two columns of four dots.
pub(super) fn area_graph(buffer: &mut Buffer, area: Rect, history: &History, top: f64, style: Style) {
    let columns = history.narrowed(usize::from(area.width) * 2);
    let rows = usize::from(area.height);
    for (x, pair) in (area.x..area.right()).zip(columns.chunks(2)) {
        for row in 0..rows {
            let mut sign = 0x2800;
            for (dots, value) in DOTS.iter().zip(pair) {
                let Some(value) = value else { continue };
                // A value of zero has a dot, unlike a gap.
                let filled = dot_count(*value / top, rows * 4).max(1);
                let below = (rows - 1 - row) * 4;
                sign += dots.iter().take(filled.saturating_sub(below)).sum::<u32>();
            }
            if let (Some(sign), Some(cell)) = (char::from_u32(sign), buffer.cell_mut((x, area.y + to_u16(row)))) {
                cell.set_char(if sign == '\u{2800}' { ' ' } else { sign }).set_style(style);
            }
        }
    }
}

/// A graph of one line, with one block per cell.
pub(super) fn line_graph(buffer: &mut Buffer, area: Rect, history: &History, top: f64, style: Style) {
    for (x, value) in (area.x..area.right()).zip(history.narrowed(usize::from(area.width))) {
        let Some(value) = value else { continue };
        let block = BLOCKS[dot_count(value / top, 8).clamp(1, 8) - 1];
        if let Some(cell) = buffer.cell_mut((x, area.y)) {
            cell.set_char(block).set_style(style);
        }
    }
}

/// A bar for a share from 0 to 1, to an eighth of a cell.
pub(super) fn bar(share: f64, width: usize) -> String {
    const PARTS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = dot_count(share, width * 8);
    let mut text = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        text.push(PARTS[eighths % 8]);
    }
    let drawn = text.chars().count();
    text.push_str(&"░".repeat(width - drawn));
    text
}

/// Rounds up to a number that is easy to read on a scale.
pub(super) fn round_up(value: f64) -> f64 {
    if !(value.is_finite() && value > 0.0) {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0];
    steps.into_iter().map(|step| step * power).find(|&step| step >= value * 0.999_999).unwrap_or(value)
}

fn dot_count(share: f64, most: usize) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to the height of a screen")]
    let dots = (share.clamp(0.0, 1.0) * most as f64).round() as usize;
    dots.min(most)
}

fn to_u16(row: usize) -> u16 {
    u16::try_from(row).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_the_same_width_at_every_share() {
        for share in [-1.0, 0.0, 0.01, 0.5, 0.999, 1.0, 7.0, f64::NAN] {
            assert_eq!(bar(share, 6).chars().count(), 6, "{share}");
        }
        assert_eq!([bar(0.0, 4), bar(0.5, 4), bar(0.53, 4), bar(1.0, 4)], ["░░░░", "██░░", "██▏░", "████"]);
    }

    #[test]
    fn scales_are_rounded_up() {
        let found = [0.0, 0.37, 1.0, 96.0, 652.0, 700.0, 701.0, f64::NAN].map(round_up);
        assert_eq!(found.map(|top| top.to_string()), ["1", "0.4", "1", "100", "700", "700", "800", "1"]);
    }

    #[test]
    fn zero_is_drawn_and_a_gap_is_not() {
        let area = Rect::new(0, 0, 3, 2);
        let mut buffer = Buffer::empty(area);
        let cells = vec![Some(0.0), Some(4.0), Some(8.0), Some(8.0), None, None];
        area_graph(&mut buffer, area, &History { cells, peak: None }, 8.0, Style::new());
        assert_eq!(buffer, Buffer::with_lines([" ⣿ ", "⣸⣿ "]));
    }
}
