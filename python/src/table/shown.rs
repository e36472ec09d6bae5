//! The first rows of a table, for a terminal and for a notebook.

use std::fmt::Write as _;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// So many rows are shown.
pub(super) const MOST_ROWS: usize = 10;

/// So many characters of a value are shown.
const MOST_CHARACTERS: usize = 40;

/// So many characters of a row are shown in a terminal; columns that do not fit are named.
const MOST_WIDTH: usize = 120;

/// So many columns that do not fit are named.
const MOST_NAMES: usize = 20;

/// `12 rows, 3 columns` and the first rows, aligned.
pub(super) fn text(names: &[String], rows: &Bound<'_, PyList>, count: usize) -> PyResult<String> {
    let rows = cells(names, rows)?;
    let widths: Vec<usize> = names
        .iter()
        .enumerate()
        .map(|(place, name)| {
            rows.iter().map(|row| row[place].chars().count()).chain([name.chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let mut width = 0;
    let fit = widths.iter().take_while(|column| (width, width += *column + 2).0 + *column <= MOST_WIDTH).count().max(1);
    let mut text = title(names, count);
    for row in [names.to_vec()].iter().chain(&rows) {
        text.push('\n');
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths).take(fit) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        text.push_str(line.trim_end());
    }
    let hidden = names.get(fit..).unwrap_or_default();
    if !hidden.is_empty() {
        let (named, more) = hidden.split_at(hidden.len().min(MOST_NAMES));
        let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        let _ = write!(text, "\nand the columns {}{more}", named.join(", "));
    }
    Ok(text)
}

/// The same as a table of HTML.
pub(super) fn html(names: &[String], rows: &Bound<'_, PyList>, count: usize) -> PyResult<String> {
    let row = |tag: &str, cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect();
        format!("<tr>{}</tr>", cells.concat())
    };
    let body: String = cells(names, rows)?.iter().map(|cells| row("td", cells)).collect();
    Ok(format!("<p>{}</p><table><thead>{}</thead><tbody>{body}</tbody></table>", title(names, count), row("th", names)))
}

fn title(names: &[String], count: usize) -> String {
    let more = if count > MOST_ROWS { format!(", the first {MOST_ROWS}") } else { String::new() };
    let plural = |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    format!("{}, {}{more}", plural(count, "row"), plural(names.len(), "column"))
}

fn cells(names: &[String], rows: &Bound<'_, PyList>) -> PyResult<Vec<Vec<String>>> {
    let cell = |value: Bound<'_, PyAny>| -> PyResult<String> {
        if value.is_none() {
            return Ok(String::from("-"));
        }
        let text = value.str()?.to_string_lossy().replace(['\n', '\r', '\t'], " ");
        if text.chars().count() <= MOST_CHARACTERS {
            return Ok(text);
        }
        Ok(text.chars().take(MOST_CHARACTERS - 1).chain(['…']).collect())
    };
    let row = |row: Bound<'_, PyAny>| -> PyResult<Vec<String>> {
        let row = row.cast_into::<PyDict>()?;
        names.iter().map(|name| row.get_item(name)?.map_or_else(|| Ok(String::from("-")), cell)).collect()
    };
    rows.iter().map(row).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
