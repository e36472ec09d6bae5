//! Formats the first rows of a table for a terminal and for a notebook.

use std::fmt::Write as _;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Maximum number of rows shown.
pub(super) const MAX_ROWS: usize = 10;

/// Maximum number of characters shown of a value.
const MAX_CHARACTERS: usize = 40;

/// Maximum width of a row in a terminal; columns that do not fit are listed by name.
const MAX_WIDTH: usize = 120;

/// Maximum number of columns listed by name.
const MAX_NAMES: usize = 20;

/// `12 rows, 3 columns` and the first rows, aligned.
pub(super) fn text(names: &[String], rows: &Bound<'_, PyList>, count: usize) -> PyResult<String> {
    let rows = cells(names, rows)?;
    let widths: Vec<usize> = names
        .iter()
        .enumerate()
        .map(|(index, name)| {
            rows.iter().map(|row| row[index].chars().count()).chain([name.chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let mut width = 0;
    let fit = widths.iter().take_while(|column| (width, width += *column + 2).0 + *column <= MAX_WIDTH).count().max(1);
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
        let (named, more) = hidden.split_at(hidden.len().min(MAX_NAMES));
        let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        let _ = write!(text, "\nand the columns {}{more}", named.join(", "));
    }
    Ok(text)
}

/// `12 rows, 3 columns` and the first rows, as an HTML table.
pub(super) fn html(names: &[String], rows: &Bound<'_, PyList>, count: usize) -> PyResult<String> {
    let row = |tag: &str, cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect();
        format!("<tr>{}</tr>", cells.concat())
    };
    let body: String = cells(names, rows)?.iter().map(|cells| row("td", cells)).collect();
    Ok(format!("<p>{}</p><table><thead>{}</thead><tbody>{body}</tbody></table>", title(names, count), row("th", names)))
}

fn title(names: &[String], count: usize) -> String {
    let more = if count > MAX_ROWS { format!(", the first {MAX_ROWS}") } else { String::new() };
    let plural = |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    format!("{}, {}{more}", plural(count, "row"), plural(names.len(), "column"))
}

fn cells(names: &[String], rows: &Bound<'_, PyList>) -> PyResult<Vec<Vec<String>>> {
    let cell = |value: Bound<'_, PyAny>| -> PyResult<String> {
        if value.is_none() {
            return Ok(String::from("-"));
        }
        let text = value.str()?.to_string_lossy().replace(['\n', '\r', '\t'], " ");
        if text.chars().count() <= MAX_CHARACTERS {
            return Ok(text);
        }
        Ok(text.chars().take(MAX_CHARACTERS - 1).chain(['…']).collect())
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
