//! The colors and characters of the screen: sixteen colors, which every color terminal has, or none.

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};

/// The colors and characters of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    /// Whether text has color.
    pub colors: Colors,
    /// Which characters are used.
    pub signs: Signs,
}

/// Whether text has color.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colors {
    /// The sixteen colors that every color terminal has.
    Sixteen,
    /// No color.
    Off,
}

/// Which characters the terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signs {
    /// Braille dots, blocks and line drawing.
    Unicode,
    /// ASCII only.
    Ascii,
}

/// The meaning of text, which sets its style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Strong,
    Faint,
    /// Measured power.
    Power,
    /// Modelled power.
    Modelled,
    Busy,
    Memory,
    Warning,
    Bad,
    Selected,
    /// On a colored background.
    Badge,
}

impl Theme {
    pub(super) fn style(self, tone: Tone) -> Style {
        let plain = Style::new();
        let modified = match tone {
            Tone::Strong | Tone::Bad | Tone::Selected => plain.add_modifier(Modifier::BOLD),
            Tone::Faint => plain.add_modifier(Modifier::DIM),
            Tone::Badge => plain.add_modifier(Modifier::REVERSED | Modifier::BOLD),
            _ => plain,
        };
        let color = match tone {
            Tone::Plain | Tone::Strong | Tone::Faint => None,
            Tone::Power | Tone::Selected => Some(Color::Cyan),
            Tone::Modelled => Some(Color::Magenta),
            Tone::Busy => Some(Color::Green),
            Tone::Memory => Some(Color::Blue),
            Tone::Warning | Tone::Badge => Some(Color::Yellow),
            Tone::Bad => Some(Color::Red),
        };
        match (self.colors, color) {
            (Colors::Sixteen, Some(color)) => modified.fg(color),
            _ => modified,
        }
    }

    /// Replaces characters that an ASCII terminal cannot show.
    pub(super) fn finish(self, buffer: &mut Buffer) {
        if self.signs == Signs::Unicode {
            return;
        }
        for cell in &mut buffer.content {
            if let Some(sign) = cell.symbol().chars().next().filter(|sign| !sign.is_ascii()) {
                cell.set_char(ascii(sign));
            }
        }
    }
}

/// The ASCII character that is closest to a sign.
fn ascii(sign: char) -> char {
    match sign {
        '─' | '━' | '–' => '-',
        '│' | '‖' | '▅' | '▆' => '|',
        '╭' | '╮' | '╰' | '╯' => '+',
        '▸' => '>',
        '●' => '*',
        '·' | '░' | '▁' | '▂' => '.',
        '▃' | '▄' => ':',
        '▇' | '█' | '▉' | '▊' | '▋' => '#',
        '▌' | '▍' | '▎' | '▏' => '=',
        '°' => ' ',
        '…' => '~',
        '×' => 'x',
        '\u{2800}'..='\u{28ff}' => {
            let dots = (u32::from(sign) - 0x2800).count_ones();
            [' ', '.', '.', ':', ':', '|', '|', '#', '#'][dots.min(8) as usize]
        }
        _ => '?',
    }
}
