//! Sorts, cuts and prints rows. JSON and CSV have all columns; a table has those that fit the terminal.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, BufWriter, Write as _};

use ergometer_trace::accounting::{DeviceId, Execution, Gap, Module, Row, Scope, Step};
use serde::{Serialize, Serializer};

use super::cell::Cell;
use crate::arguments::{Format, OrderArguments, SortKey};
use crate::csv;
use crate::exit::Failure;
use crate::figures::{fitted, thousands};
use crate::screen::{Align, Screen, Table, Tone, print, visible};

/// The default number of rows in a table.
const TABLE_ROWS: usize = 20;
/// Names are cut to this width before columns are dropped.
const SHORT_NAME: usize = 28;

/// One column of a listing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    /// Its name in JSON and CSV; empty if it is in tables only.
    key: &'static str,
    /// Its heading; empty if it is not in tables.
    head: &'static str,
    data: Data,
    kind: Kind,
    /// The order in which columns are dropped from a table that is too wide, the highest first; 0 is never dropped.
    rank: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Data {
    Everywhere,
    Json,
    Csv,
    Nowhere,
}

/// The kind of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Figure,
    /// Text that may be cut.
    Name,
    /// Text that may be cut; a value that all rows share is printed above the table instead.
    Shared,
    /// Text that is only printed if rows differ in it.
    Distinct,
}

impl Column {
    /// A figure.
    pub(super) const fn figure(key: &'static str, head: &'static str) -> Self {
        Self { key, head, data: Data::Everywhere, kind: Kind::Figure, rank: 0 }
    }

    /// A name, cut in the middle if there is no room.
    pub(super) const fn name(key: &'static str, head: &'static str) -> Self {
        Self { kind: Kind::Name, ..Self::figure(key, head) }
    }

    /// A name that is printed above the table if all rows share it.
    pub(super) const fn shared(key: &'static str, head: &'static str) -> Self {
        Self { kind: Kind::Shared, ..Self::figure(key, head) }
    }

    /// Text that is only printed if rows differ in it.
    pub(super) const fn distinct(key: &'static str, head: &'static str) -> Self {
        Self { kind: Kind::Distinct, ..Self::figure(key, head) }
    }

    /// A column that is not in tables.
    pub(super) const fn data(key: &'static str) -> Self {
        Self::figure(key, "")
    }

    pub(super) const fn only_json(self) -> Self {
        Self { data: Data::Json, ..self }
    }

    pub(super) const fn only_csv(self) -> Self {
        Self { data: Data::Csv, ..self }
    }

    pub(super) const fn only_table(self) -> Self {
        Self { data: Data::Nowhere, ..self }
    }

    /// Drops the column from a table that is too wide before columns of a lower rank.
    pub(super) const fn rank(self, rank: u8) -> Self {
        Self { rank, ..self }
    }

    fn is_text(self) -> bool {
        self.kind != Kind::Figure
    }
}

/// Rows to print. The cells of a row are built when it is printed, one per column.
pub(super) struct Listing<'a, R, F: Fn(&R) -> Vec<Cell<'a>>> {
    pub(super) columns: &'a [Column],
    pub(super) rows: Vec<R>,
    /// The number of rows that were cut.
    pub(super) more: usize,
    pub(super) cells: F,
    /// Notes below the table.
    pub(super) notes: Vec<String>,
}

/// Sorts rows and cuts those of each device; returns the number of rows cut. `compare` sorts in descending order. A
/// table groups rows by device.
pub(super) fn arrange<R: OfDevice, K: SortKey>(
    rows: &mut Vec<R>,
    order: &OrderArguments<K>,
    format: Format,
    compare: impl Fn(K, &R, &R) -> Ordering,
) -> usize {
    match order.sort {
        Some(key) if order.reverse => rows.sort_by(|left, right| compare(key, right, left)),
        Some(key) => rows.sort_by(|left, right| compare(key, left, right)),
        None if order.reverse => rows.reverse(),
        None => {}
    }
    if format == Format::Table {
        rows.sort_by_key(OfDevice::device);
    }
    cut(rows, order.top.unwrap_or(if format == Format::Table { TABLE_ROWS } else { 0 }))
}

/// Keeps the first rows of each device, or all if `top` is 0; returns the number of rows cut.
pub(super) fn cut<R: OfDevice>(rows: &mut Vec<R>, top: usize) -> usize {
    let before = rows.len();
    let mut seen: HashMap<Option<DeviceId>, usize> = HashMap::new();
    rows.retain(|row| {
        let seen = seen.entry(row.device()).or_default();
        *seen += 1;
        top == 0 || *seen <= top
    });
    before - rows.len()
}

/// A row that may belong to a device.
pub(super) trait OfDevice {
    /// The device; `None` if rows do not belong to devices.
    fn device(&self) -> Option<DeviceId>;
}

macro_rules! of_device {
    ($($row:ty),*) => {
        $(impl OfDevice for $row {
            fn device(&self) -> Option<DeviceId> {
                Some(self.device)
            }
        })*
    };
}

of_device!(Row, Module, Execution, Step, Gap, Scope);

impl<R: OfDevice> OfDevice for &R {
    fn device(&self) -> Option<DeviceId> {
        (*self).device()
    }
}

/// The width of a line: of the terminal, or from `COLUMNS`; `None` without a limit.
pub(super) fn width() -> Option<usize> {
    Screen::width().or_else(|| std::env::var("COLUMNS").ok()?.parse().ok().filter(|&columns| columns > 0))
}

impl<'a, R, F: Fn(&R) -> Vec<Cell<'a>>> Listing<'a, R, F> {
    pub(super) fn print(&self, format: Format, screen: Screen) -> Result<(), Failure> {
        match format {
            Format::Json => print_json(self)?,
            Format::Csv => self.print_csv()?,
            Format::Table => print(&self.table(screen, width()))?,
        }
        Ok(())
    }

    fn print_csv(&self) -> io::Result<()> {
        let mut out = BufWriter::new(io::stdout().lock());
        let is_field = |column: &Column| matches!(column.data, Data::Everywhere | Data::Csv);
        out.write_all(
            csv::line(self.columns.iter().filter(|column| is_field(column)).map(|column| column.key)).as_bytes(),
        )?;
        for row in &self.rows {
            let cells = (self.cells)(row);
            let fields = self.columns.iter().zip(&cells).filter(|(column, _)| is_field(column));
            out.write_all(csv::line(fields.map(|(_, cell)| cell.field())).as_bytes())?;
        }
        out.flush()
    }

    pub(super) fn table(&self, screen: Screen, limit: Option<usize>) -> String {
        if self.rows.is_empty() {
            return notes(&self.notes, screen);
        }
        let rows: Vec<Vec<Cell>> = self.rows.iter().map(&self.cells).collect();
        let mut headline: Vec<String> = Vec::new();
        let mut shown: Vec<usize> = Vec::new();
        for (number, column) in self.columns.iter().enumerate().filter(|(_, column)| !column.head.is_empty()) {
            let first = &rows[0][number];
            let is_same = rows.iter().all(|row| row[number] == *first);
            let is_folded = match column.kind {
                Kind::Shared | Kind::Distinct => is_same,
                Kind::Figure | Kind::Name => is_same && *first == Cell::Absent,
            };
            if !is_folded {
                shown.push(number);
            } else if column.kind == Kind::Shared && *first != Cell::Absent {
                headline.push(first.shown().into_owned());
            }
        }
        let texts: Vec<Vec<String>> =
            rows.iter().map(|row| shown.iter().map(|&column| row[column].shown().into_owned()).collect()).collect();
        let mut layout = Layout::new(shown.iter().map(|&column| self.columns[column]).collect(), &texts);
        if let Some(limit) = limit {
            layout.fit(limit);
        }
        let mut text = String::new();
        if !headline.is_empty() {
            let _ = writeln!(text, "  {}", screen.paint(Tone::Faint, &headline.join("  ")));
        }
        text.push_str(&layout.render(&texts, screen));
        if self.more > 0 {
            let more = format!("… and {} more: --top 0 prints all", thousands(self.more as f64));
            let _ = writeln!(text, "  {}", screen.paint(Tone::Faint, &more));
        }
        text + &notes(&self.notes, screen)
    }
}

/// Formats notes below a table, wrapped at the width of the terminal.
pub(super) fn notes(notes: &[String], screen: Screen) -> String {
    let room = width().map_or(usize::MAX, |width| width.saturating_sub(NOTE.len()).max(20));
    let mut text = String::new();
    for note in notes {
        let mut used = 0;
        let _ = write!(text, "  {}  ", screen.paint(Tone::Strong, "note"));
        for word in visible(note).split(' ') {
            let length = word.chars().count();
            if used > 0 && used + 1 + length > room {
                let _ = write!(text, "\n{NOTE}{word}");
                used = length;
            } else {
                let _ = write!(text, "{}{word}", if used == 0 { "" } else { " " });
                used += length + usize::from(used > 0);
            }
        }
        text.push('\n');
    }
    text
}

/// The indentation of a wrapped note.
const NOTE: &str = "        ";

/// The columns of a table and their widths.
struct Layout {
    columns: Vec<Column>,
    widths: Vec<usize>,
    /// The index of each column in a row.
    places: Vec<usize>,
}

impl Layout {
    fn new(columns: Vec<Column>, texts: &[Vec<String>]) -> Self {
        let width = |place: usize| {
            let cells = texts.iter().map(|row| row[place].chars().count());
            cells.chain([columns[place].head.chars().count()]).max().unwrap_or(0)
        };
        let widths = (0..columns.len()).map(width).collect();
        Self { places: (0..columns.len()).collect(), widths, columns }
    }

    /// Cuts names to the usual width, then drops columns, then cuts names to the remaining width.
    fn fit(&mut self, limit: usize) {
        loop {
            let shortest =
                |(column, &width): (&Column, &usize)| if column.is_text() { width.min(SHORT_NAME) } else { width };
            let needed: usize = self.columns.iter().zip(&self.widths).map(shortest).sum();
            let last = (0..self.columns.len()).max_by_key(|&place| self.columns[place].rank);
            match last.filter(|&place| self.columns[place].rank > 0) {
                Some(last) if needed + 2 * self.columns.len() > limit => {
                    self.columns.remove(last);
                    self.widths.remove(last);
                    self.places.remove(last);
                }
                _ => break,
            }
        }
        let figures: usize =
            self.columns.iter().zip(&self.widths).filter(|(column, _)| !column.is_text()).map(|(_, width)| width).sum();
        let mut left = limit.saturating_sub(figures + 2 * self.columns.len());
        // The shortest names get their full width; the others share the rest.
        let mut texts: Vec<usize> = (0..self.columns.len()).filter(|&place| self.columns[place].is_text()).collect();
        texts.sort_by_key(|&place| self.widths[place]);
        for (number, &place) in texts.iter().enumerate() {
            self.widths[place] = self.widths[place].min((left / (texts.len() - number)).max(8));
            left = left.saturating_sub(self.widths[place]);
        }
    }

    fn render(&self, texts: &[Vec<String>], screen: Screen) -> String {
        let align = |column: &Column| if column.is_text() { Align::Left } else { Align::Right };
        let mut table = Table::new(self.columns.iter().map(align).collect::<Vec<_>>());
        table.row(self.columns.iter().map(|column| (Tone::Faint, column.head.to_owned())).collect());
        for row in texts {
            let cells = self.places.iter().zip(&self.widths).enumerate().map(|(number, (&place, &width))| {
                let tone = if number == 0 { Tone::Strong } else { Tone::Plain };
                (tone, fitted(&row[place], width).into_owned())
            });
            table.row(cells.collect());
        }
        table.render(screen)
    }
}

/// Prints one JSON value.
pub(super) fn print_json(value: &impl Serialize) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    serde_json::to_writer_pretty(&mut out, value)?;
    out.write_all(b"\n")?;
    out.flush()
}

impl<'a, R, F: Fn(&R) -> Vec<Cell<'a>>> Serialize for Listing<'a, R, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.rows.iter().map(|row| JsonRow { columns: self.columns, cells: (self.cells)(row) }))
    }
}

struct JsonRow<'a> {
    columns: &'a [Column],
    cells: Vec<Cell<'a>>,
}

impl Serialize for JsonRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_value = |column: &Column| matches!(column.data, Data::Everywhere | Data::Json);
        let values = self.columns.iter().zip(&self.cells).filter(|(column, _)| is_value(column));
        serializer.collect_map(values.map(|(column, cell)| (column.key, cell)))
    }
}
