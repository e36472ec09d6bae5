//! Prints for people: messages on stderr, color on terminals, and aligned tables.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};

use ergometer_diagnostics::Diagnostic;
pub(crate) use ergometer_units::text::visible;

use crate::arguments::GlobalArguments;
use crate::phrasing::Options;

/// Where and how to print.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Screen {
    stdout_color: bool,
    stderr_color: bool,
    verbosity: Verbosity,
}

/// How much to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verbosity {
    Quiet,
    Normal,
    Verbose,
}

/// The meaning of a text, which determines its color.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Strong,
    Faint,
    Good,
    Warning,
    Bad,
}

impl Tone {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "1",
            Self::Faint => "2",
            Self::Good => "32",
            Self::Warning => "33",
            Self::Bad => "1;31",
        }
    }
}

impl Screen {
    pub(crate) fn new(arguments: &GlobalArguments) -> Self {
        let wanted = !arguments.no_color && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self {
            stdout_color: wanted && io::stdout().is_terminal(),
            stderr_color: wanted && io::stderr().is_terminal(),
            verbosity: match (arguments.quiet, arguments.verbose) {
                (true, _) => Verbosity::Quiet,
                (false, false) => Verbosity::Normal,
                (false, true) => Verbosity::Verbose,
            },
        }
    }

    /// Without color, for tests.
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self { stdout_color: false, stderr_color: false, verbosity: Verbosity::Normal };

    /// The same without color.
    pub(crate) fn plain(self) -> Self {
        Self { stdout_color: false, stderr_color: false, ..self }
    }

    /// The width of the terminal in characters; `None` without a terminal.
    pub(crate) fn width() -> Option<usize> {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
        (size.ws_col > 0).then_some(usize::from(size.ws_col))
    }

    /// Whether stdout may have color.
    pub(crate) fn has_color(self) -> bool {
        self.stdout_color
    }

    /// Whether progress may be drawn on stderr.
    pub(crate) fn draws(self) -> bool {
        self.verbosity != Verbosity::Quiet && io::stderr().is_terminal()
    }

    /// Whether --verbose is set.
    pub(crate) fn is_verbose(self) -> bool {
        self.verbosity == Verbosity::Verbose
    }

    /// Colors text for stdout.
    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        paint(self.stdout_color, tone, text)
    }

    /// A failure, with its hint on a second line.
    pub(crate) fn error(self, error: &dyn Diagnostic) {
        self.message(Tone::Bad, "error:", &error.to_string());
        if let Some(hint) = error.hint() {
            self.message(Tone::Strong, "hint:", &hint.phrase(&Options));
        }
    }

    /// A problem that does not stop the command, with its hint on the same line.
    pub(crate) fn warning(self, warning: &(impl Diagnostic + ?Sized)) {
        if self.verbosity != Verbosity::Quiet {
            let hint = warning.hint().map(|hint| format!(".  hint: {}", hint.phrase(&Options)));
            self.message(Tone::Warning, "warning:", &format!("{warning}{}", hint.unwrap_or_default()));
        }
    }

    /// A progress message.
    pub(crate) fn note(self, message: &str) {
        if self.verbosity != Verbosity::Quiet {
            self.message(Tone::Faint, "", message);
        }
    }

    /// A message for --verbose.
    pub(crate) fn detail(self, message: &str) {
        if self.verbosity == Verbosity::Verbose {
            self.message(Tone::Faint, "", message);
        }
    }

    fn message(self, tone: Tone, label: &str, message: &str) {
        let message = &*visible(message);
        let line = if label.is_empty() {
            paint(self.stderr_color, tone, message)
        } else {
            format!("{} {message}", paint(self.stderr_color, tone, label))
        };
        // A closed stderr is ignored.
        let _ = writeln!(io::stderr().lock(), "{line}");
    }
}

fn paint(color: bool, tone: Tone, text: &str) -> String {
    if color && tone != Tone::Plain { format!("\x1b[{}m{text}\x1b[0m", tone.code()) } else { text.to_owned() }
}

/// Prints to stdout. A closed pipe (`| head`) is an error that ends the program silently.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// The alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table with aligned columns. Widths count characters, so color whole cells by their tone.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Align>,
    rows: Vec<Vec<(Tone, String)>>,
}

impl Table {
    pub(crate) fn new(columns: impl Into<Vec<Align>>) -> Self {
        Self { columns: columns.into(), rows: Vec::new() }
    }

    /// Adds a row of headings.
    pub(crate) fn head<const N: usize>(&mut self, cells: [&str; N]) {
        self.rows.push(cells.map(|cell| (Tone::Faint, cell.to_owned())).to_vec());
    }

    pub(crate) fn row(&mut self, cells: Vec<(Tone, String)>) {
        self.rows.push(cells);
    }

    pub(crate) fn render(&self, screen: Screen) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|(_, cell)| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::from("  ");
            for (column, (tone, cell)) in row.iter().enumerate() {
                let padding = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
                let painted = screen.paint(*tone, cell);
                let separator = if column == 0 { "" } else { "  " };
                let _ = match self.columns[column] {
                    Align::Left => write!(line, "{separator}{painted}{padding}"),
                    Align::Right => write!(line, "{separator}{padding}{painted}"),
                };
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }
}
