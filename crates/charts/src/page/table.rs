//! Writes a table: all rows, each number with its value beside what is shown, so that the script can sort by it.

use std::fmt::Write;

use super::escape;
use super::html::{Writer, class, put, sign};
use crate::{Cell, Column, Table};

/// The table with its heading and notes.
pub(super) fn write(writer: &mut Writer, table: &Table, id: &str) {
    put!(writer, "<div class=\"table\" id=\"{id}\">\n");
    if !table.title.is_empty() {
        put!(writer, "<h3 id=\"{id}-title\">{}</h3>\n", escape::html(&table.title));
    }
    // What is wider than the page scrolls in a box of its own, which a keyboard must reach to scroll it.
    let label = if table.title.is_empty() { &table.id } else { &table.title };
    put!(writer, "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\">\n", escape::html(label));
    writer.out.push_str("<table>\n<thead><tr>");
    let numeric: Vec<bool> = (0..table.columns.len()).map(|column| is_numeric(table, column)).collect();
    for (column, numeric) in table.columns.iter().zip(&numeric) {
        let class = if *numeric { " class=\"number\"" } else { "" };
        put!(writer, "<th scope=\"col\"{class}>{}</th>", escape::html(&column.head));
    }
    writer.out.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        writer.out.push_str("<tr>");
        for ((cell, column), numeric) in row.iter().zip(&table.columns).zip(&numeric) {
            write_cell(writer, cell, column, *numeric);
        }
        writer.out.push_str("</tr>\n");
    }
    writer.out.push_str("</tbody>\n</table>\n</div>\n");
    writer.notes(&table.notes);
    writer.out.push_str("</div>\n");
}

/// Whether a column holds numbers and nothing else, and is aligned as such.
fn is_numeric(table: &Table, column: usize) -> bool {
    let mut known =
        table.rows.iter().filter_map(|row| row.get(column)).filter(|cell| **cell != Cell::Absent).peekable();
    known.peek().is_some()
        && known.all(|cell| matches!(cell, Cell::Number { .. } | Cell::Estimate { .. } | Cell::Request { .. }))
}

fn write_cell(writer: &mut Writer, cell: &Cell, column: &Column, numeric: bool) {
    let align = if numeric { " class=\"number\"" } else { "" };
    match cell {
        Cell::Absent => {
            put!(writer, "<td{align} data-absent>-</td>");
        }
        Cell::Text { text } => {
            put!(writer, "<td>{}</td>", escape::html(text));
        }
        Cell::Number { value, shown } => {
            put!(writer, "<td{align}{}>{}</td>", sort_key(*value), escape::html(shown));
        }
        Cell::Estimate { value, low, high, shown } => {
            let name = escape::html(&column.name);
            let (low, high) = (brief(*low), brief(*high));
            let key = sort_key(*value);
            put!(writer, "<td{align}{key} title=\"{name}: {low} to {high}\">{}</td>", escape::html(shown));
        }
        Cell::Request { request } if writer.leads_to_requests => {
            put!(writer, "<td{align} data-value=\"{request}\">");
            put!(writer, "<a href=\"#request={request}\" data-request=\"{request}\">{request}</a></td>");
        }
        Cell::Request { request } => {
            put!(writer, "<td{align} data-value=\"{request}\">{request}</td>");
        }
        Cell::Verdict { text, tone } => {
            put!(writer, "<td class=\"{}\">{}{}</td>", class(*tone), sign(*tone), escape::html(text));
        }
    }
}

/// The attribute that rows are sorted by; a number that is none sorts as absent.
fn sort_key(value: f64) -> String {
    if value.is_finite() { format!(" data-value=\"{value}\"") } else { String::from(" data-absent") }
}

/// Four digits are enough for the end of an interval.
fn brief(value: f64) -> String {
    let rounded: f64 = format!("{value:.3e}").parse().unwrap_or(value);
    format!("{rounded}")
}
