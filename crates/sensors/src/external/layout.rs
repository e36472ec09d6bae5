//! Finds the time and value columns of a CSV file by its first line, and parses its rows.

use ergometer_diagnostics::Message;
use ergometer_units::Timestamp;

use super::output::excerpt;
use super::spec::Column;
use super::time;
use super::unit::{Quantity, Unit, is_milli_or_mega};
use super::with_hint;

/// The options of a CSV sensor.
#[derive(Debug, Clone)]
pub(super) struct ColumnOptions {
    pub(super) time: Option<Column>,
    pub(super) value: Option<Column>,
    pub(super) unit: Option<Unit>,
    pub(super) quantity: Option<Quantity>,
}

/// The columns and the separator of a CSV file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layout {
    separator: char,
    time: Option<usize>,
    value: usize,
    pub(super) unit: Unit,
    pub(super) has_header: bool,
}

impl Layout {
    /// Detects the layout from the first line of a file.
    pub(super) fn from_first_line(first: &str, options: &ColumnOptions) -> Result<Self, Message> {
        let first = first.trim_start_matches('\u{feff}');
        let separator = separator(first);
        let cells = cells(first.strip_prefix('#').unwrap_or(first), separator);
        let is_named = |column: &Option<Column>| matches!(column, Some(Column::Named(_)));
        let is_row = |cell: &String| number(cell, separator).is_some() || time::parse(cell).is_some();
        let has_header = match &options.value {
            _ if is_named(&options.time) || is_named(&options.value) => true,
            Some(Column::Number(place)) => cells.get(place - 1).is_none_or(|cell| number(cell, separator).is_none()),
            _ => !cells.iter().all(is_row),
        };
        let value = match &options.value {
            Some(column) => find(column, &cells)?,
            None if cells.len() == 1 && !has_header => 0,
            None => {
                let fits = |cell: &String| match named_unit(cell) {
                    NameUnit::Unit(unit) => options.quantity.is_none_or(|quantity| unit.quantity == quantity),
                    NameUnit::MilliOrMega => true,
                    NameUnit::None => false,
                };
                let places: Vec<usize> = (0..cells.len()).filter(|&place| has_header && fits(&cells[place])).collect();
                let [place] = places[..] else {
                    let count = if places.is_empty() { "no column" } else { "more than one column" };
                    let hint = format!("set value= to one of {}", list(&cells));
                    return Err(with_hint(format!("{count} looks like power or energy"), hint));
                };
                place
            }
        };
        let is_time = |cell: &String| {
            let name = cell.to_lowercase();
            name == "ts" || ["time", "date", "epoch", "unix"].iter().any(|start| name.starts_with(start))
        };
        let time = match &options.time {
            Some(Column::None) => None,
            Some(column) => Some(find(column, &cells)?),
            None => cells.iter().position(is_time).filter(|_| has_header),
        };
        let by_name = match named_unit(&cells[value]) {
            NameUnit::Unit(unit) if has_header => Some(unit),
            NameUnit::MilliOrMega if has_header && options.unit.is_none() => {
                let why = format!("the unit of {} may be milli or mega", excerpt(&cells[value]));
                return Err(with_hint(why, "set the unit, for example unit=mW or unit=MW"));
            }
            _ => None,
        };
        let by_name = by_name.filter(|unit| options.quantity.is_none_or(|quantity| unit.quantity == quantity));
        let base = options.quantity.unwrap_or(Quantity::Power).base();
        Ok(Self { separator, time, value, unit: options.unit.or(by_name).unwrap_or(base), has_header })
    }

    /// Parses the time of a row, if the file has times, and its value in watts or joules.
    pub(super) fn row(&self, line: &str) -> Result<(Option<Timestamp>, f64), Message> {
        let cells = cells(line, self.separator);
        let cell = |place: usize| cells.get(place).map_or("", |cell| cell.as_str());
        let value = number(cell(self.value), self.separator)
            .filter(|value| value.is_finite() && *value >= 0.0)
            .ok_or_else(|| format!("{} is not a power or energy value", excerpt(cell(self.value))))?;
        let time = self.time.map(|place| {
            time::parse(cell(place)).ok_or_else(|| {
                let shown = excerpt(cell(place));
                let why = format!("{shown} is not a time (seconds since 1970 or YYYY-MM-DD HH:MM:SS)");
                with_hint(why, "use time=none to ignore the times")
            })
        });
        Ok((time.transpose()?, value * self.unit.factor))
    }
}

fn find(column: &Column, cells: &[String]) -> Result<usize, Message> {
    let place = match column {
        Column::Number(number) => Some(number - 1).filter(|&place| place < cells.len()),
        Column::Named(name) => cells.iter().position(|cell| cell == name),
        Column::None => None,
    };
    let shown = match column {
        Column::Number(number) => number.to_string(),
        Column::Named(name) => name.clone(),
        Column::None => String::from("none"),
    };
    let missing = || with_hint(format!("there is no column `{shown}`"), format!("choose one of {}", list(cells)));
    place.ok_or_else(missing)
}

fn list(cells: &[String]) -> String {
    let shown: Vec<String> = cells.iter().take(20).map(|cell| excerpt(cell)).collect();
    shown.join(", ")
}

/// The unit in the name of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
enum NameUnit {
    Unit(Unit),
    /// `POWER_MW`: in capitals, M may be milli or mega.
    MilliOrMega,
    None,
}

/// The unit in the name of a column: `power_w`, `Power (kW)`, `watts`, `energy`.
fn named_unit(name: &str) -> NameUnit {
    let words: Vec<&str> = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let plain = || {
        let has = |wanted: &str| words.iter().any(|word| word.eq_ignore_ascii_case(wanted));
        if has("power") { Some(Quantity::Power.base()) } else { has("energy").then(|| Quantity::Energy.base()) }
    };
    let is_capital = !name.contains(char::is_lowercase);
    match words.last() {
        Some(word) if is_milli_or_mega(word) && (is_capital || Unit::from_word(word).is_none()) => {
            NameUnit::MilliOrMega
        }
        last => last.and_then(|word| Unit::from_word(word)).or_else(plain).map_or(NameUnit::None, NameUnit::Unit),
    }
}

fn separator(line: &str) -> char {
    let count = |separator: char| line.matches(separator).count();
    [',', '\t', ';'].into_iter().max_by_key(|&separator| count(separator)).filter(|&one| count(one) > 0).unwrap_or(',')
}

/// The cells of a line, without surrounding spaces and quotes.
fn cells(line: &str, separator: char) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    for character in line.trim_end_matches(['\r', '\n']).chars() {
        match (character, cells.last_mut()) {
            ('"', _) => is_quoted = !is_quoted,
            (one, _) if one == separator && !is_quoted => cells.push(String::new()),
            (one, Some(cell)) => cell.push(one),
            (_, None) => {}
        }
    }
    cells.into_iter().map(|cell| cell.trim().to_owned()).collect()
}

/// Parses a number. If the separator is not a comma, a comma may be the decimal point.
fn number(cell: &str, separator: char) -> Option<f64> {
    let with_point = || (separator != ',').then(|| cell.replacen(',', ".", 1).parse().ok()).flatten();
    cell.parse().ok().or_else(with_point)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(time: Option<Column>, value: Option<Column>) -> ColumnOptions {
        ColumnOptions { time, value, unit: None, quantity: None }
    }

    fn read(header: &str, row: &str) -> (Option<i64>, f64) {
        let (time, value) = Layout::from_first_line(header, &options(None, None)).unwrap().row(row).unwrap();
        (time.map(|time| time.nanos_since_epoch() / 1_000_000_000), value)
    }

    #[test]
    fn columns_and_units_are_found_by_their_names() {
        assert_eq!(read("timestamp,volts,power_w", "1794730772,230,312.5"), (Some(1_794_730_772), 312.5));
        assert_eq!(read("Date Time;Power (kW)", "2026-11-15 08:19:32;0,3125"), (Some(1_794_730_772), 312.5));
        assert_eq!(read("\u{feff}\"ts\"\t\"energy\"", "1794730772\t5"), (Some(1_794_730_772), 5.0));
        assert_eq!(read("total_kwh\r", "2.5\r"), (None, 9e6));
        assert_eq!(read("# time, watts", "1794730772, 312"), (Some(1_794_730_772), 312.0));
        assert_eq!(read("312.5", "313"), (None, 313.0));
        let energy = Layout::from_first_line(
            "time,power_w,energy_mj",
            &ColumnOptions { quantity: Some(Quantity::Energy), ..options(None, None) },
        );
        assert_eq!(energy.unwrap().row("1794730772,300,5000").unwrap().1, 5.0);
    }

    #[test]
    fn mega_in_a_header_is_not_milli() {
        assert_eq!(read("Energy (MWh)", "0.5"), (None, 1.8e9));
        assert_eq!(read("power_MW", "0.0003125"), (None, 312.5));
        assert_eq!(read("power_mw", "312500"), (None, 312.5));
        for header in ["POWER_MW", "Energy MWH", "MJ"] {
            let error = |value| Layout::from_first_line(header, &options(None, value)).unwrap_err();
            assert!(error(None).text.ends_with("may be milli or mega"), "{:?}", error(None));
            assert!(error(None).command_line_hint().is_some_and(|hint| hint.contains("unit=mW")));
            assert!(error(Some(Column::Number(1))).text.contains("milli or mega"));
        }
        let given = ColumnOptions { unit: Unit::from_symbol("mW"), ..options(None, None) };
        assert_eq!(Layout::from_first_line("POWER_MW", &given).unwrap().row("312500").unwrap().1, 312.5);
    }

    #[test]
    fn columns_are_found_by_number_also_without_a_header() {
        let by_number = options(Some(Column::Number(1)), Some(Column::Number(3)));
        let layout = Layout::from_first_line("1794730772,x,312.5", &by_number).unwrap();
        assert!(!layout.has_header);
        assert_eq!(layout.row("1794730772,x,312.5").unwrap().1, 312.5);
        assert!(Layout::from_first_line("a,b,c", &by_number).unwrap().has_header);
    }

    #[test]
    fn the_error_for_a_missing_column_lists_the_columns() {
        let error =
            |header: &str, value: Option<Column>| Layout::from_first_line(header, &options(None, value)).unwrap_err();
        let expected = with_hint("no column looks like power or energy", "set value= to one of `a`, `b`");
        assert_eq!(error("a,b", None), expected);
        assert!(error("power_w,power_kw", None).text.starts_with("more than one column"));
        assert!(error("1,2", None).text.starts_with("no column"));
        let expected = with_hint("there is no column `c`", "choose one of `a`, `b`");
        assert_eq!(error("a,b", Some(Column::Named("c".to_owned()))), expected);
        assert!(error("a,b", Some(Column::Number(3))).text.contains("no column `3`"));
        let layout = Layout::from_first_line("time,power", &options(None, None)).unwrap();
        for row in ["", "1794730772", "1794730772,", "1794730772,x", "1794730772,-1", "1794730772,NaN", "12.5,300"] {
            assert!(layout.row(row).is_err(), "{row}");
        }
    }
}
