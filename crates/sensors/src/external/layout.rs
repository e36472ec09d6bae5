//! Which columns of a table hold the time and the value: the first line goes in, and then each row gives its value.

use ergometer_units::Timestamp;

use super::complaint::Complaint;
use super::output::start_of;
use super::spec::Column;
use super::time;
use super::unit::{Quantity, Unit, is_milli_or_mega};

/// What the user said of the columns.
#[derive(Debug, Clone)]
pub(super) struct Wishes {
    pub(super) time: Option<Column>,
    pub(super) value: Option<Column>,
    pub(super) unit: Option<Unit>,
    pub(super) quantity: Option<Quantity>,
}

/// Where things stand in a row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layout {
    separator: char,
    time: Option<usize>,
    value: usize,
    pub(super) unit: Unit,
    pub(super) has_header: bool,
}

impl Layout {
    /// Of the first line of a file, or what is missing there.
    pub(super) fn of(first: &str, wishes: &Wishes) -> Result<Self, Complaint> {
        let first = first.trim_start_matches('\u{feff}');
        let separator = separator(first);
        let cells = cells(first.strip_prefix('#').unwrap_or(first), separator);
        let is_named = |column: &Option<Column>| matches!(column, Some(Column::Named(_)));
        let is_row = |cell: &String| number(cell, separator).is_some() || time::parse(cell).is_some();
        let has_header = match &wishes.value {
            _ if is_named(&wishes.time) || is_named(&wishes.value) => true,
            Some(Column::Number(place)) => cells.get(place - 1).is_none_or(|cell| number(cell, separator).is_none()),
            _ => !cells.iter().all(is_row),
        };
        let value = match &wishes.value {
            Some(column) => find(column, &cells)?,
            None if cells.len() == 1 && !has_header => 0,
            None => {
                let fits = |cell: &String| match named_unit(cell) {
                    Named::Unit(unit) => wishes.quantity.is_none_or(|quantity| unit.quantity == quantity),
                    Named::MilliOrMega => true,
                    Named::Nothing => false,
                };
                let places: Vec<usize> = (0..cells.len()).filter(|&place| has_header && fits(&cells[place])).collect();
                let [place] = places[..] else {
                    let several = if places.is_empty() { "no column" } else { "more than one column" };
                    let hint = format!("give value= one of {}", list(&cells));
                    return Err(Complaint::with_hint(format!("{several} looks like the value"), hint));
                };
                place
            }
        };
        let is_time = |cell: &String| {
            let name = cell.to_lowercase();
            name == "ts" || ["time", "date", "epoch", "unix"].iter().any(|start| name.starts_with(start))
        };
        let time = match &wishes.time {
            Some(Column::None) => None,
            Some(column) => Some(find(column, &cells)?),
            None => cells.iter().position(is_time).filter(|_| has_header),
        };
        let by_name = match named_unit(&cells[value]) {
            Named::Unit(unit) if has_header => Some(unit),
            Named::MilliOrMega if has_header && wishes.unit.is_none() => {
                let why = format!("the unit of {} may be milli or mega", start_of(&cells[value]));
                return Err(Complaint::with_hint(why, "give unit=mW or unit=MW, or the like"));
            }
            _ => None,
        };
        let by_name = by_name.filter(|unit| wishes.quantity.is_none_or(|quantity| unit.quantity == quantity));
        let base = wishes.quantity.unwrap_or(Quantity::Power).base();
        Ok(Self { separator, time, value, unit: wishes.unit.or(by_name).unwrap_or(base), has_header })
    }

    /// The time of a row, where it has one, and its value in watts or joules.
    pub(super) fn row(&self, line: &str) -> Result<(Option<Timestamp>, f64), Complaint> {
        let cells = cells(line, self.separator);
        let cell = |place: usize| cells.get(place).map_or("", |cell| cell.as_str());
        let value = number(cell(self.value), self.separator)
            .filter(|value| value.is_finite() && *value >= 0.0)
            .ok_or_else(|| format!("{} is no value", start_of(cell(self.value))))?;
        let time = self.time.map(|place| {
            time::parse(cell(place)).ok_or_else(|| {
                let shown = start_of(cell(place));
                let why = format!("{shown} is no time: seconds since 1970 or YYYY-MM-DD HH:MM:SS");
                Complaint::with_hint(why, "time=none leaves it out")
            })
        });
        Ok((time.transpose()?, value * self.unit.factor))
    }
}

fn find(column: &Column, cells: &[String]) -> Result<usize, Complaint> {
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
    let missing = || Complaint::with_hint(format!("there is no column `{shown}`"), format!("it has {}", list(cells)));
    place.ok_or_else(missing)
}

fn list(cells: &[String]) -> String {
    let shown: Vec<String> = cells.iter().take(20).map(|cell| start_of(cell)).collect();
    shown.join(", ")
}

/// What a column's name tells of its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Named {
    Unit(Unit),
    /// `POWER_MW`: all of it is in capitals, so that the M says nothing.
    MilliOrMega,
    Nothing,
}

/// The unit that a column's name tells: `power_w`, `Power (kW)`, `watts`, `energy`.
fn named_unit(name: &str) -> Named {
    let words: Vec<&str> = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let plain = || {
        let has = |wanted: &str| words.iter().any(|word| word.eq_ignore_ascii_case(wanted));
        if has("power") { Some(Quantity::Power.base()) } else { has("energy").then(|| Quantity::Energy.base()) }
    };
    let is_capital = !name.contains(char::is_lowercase);
    match words.last() {
        Some(word) if is_milli_or_mega(word) && (is_capital || Unit::of_word(word).is_none()) => Named::MilliOrMega,
        last => last.and_then(|word| Unit::of_word(word)).or_else(plain).map_or(Named::Nothing, Named::Unit),
    }
}

fn separator(line: &str) -> char {
    let count = |separator: char| line.matches(separator).count();
    [',', '\t', ';'].into_iter().max_by_key(|&separator| count(separator)).filter(|&one| count(one) > 0).unwrap_or(',')
}

/// Cells of a line, without the space and the quotes around them.
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

/// Where the comma separates nothing, it may be a decimal's.
fn number(cell: &str, separator: char) -> Option<f64> {
    let with_point = || (separator != ',').then(|| cell.replacen(',', ".", 1).parse().ok()).flatten();
    cell.parse().ok().or_else(with_point)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(time: Option<Column>, value: Option<Column>) -> Wishes {
        Wishes { time, value, unit: None, quantity: None }
    }

    fn read(header: &str, row: &str) -> (Option<i64>, f64) {
        let (time, value) = Layout::of(header, &wishes(None, None)).unwrap().row(row).unwrap();
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
        let energy =
            Layout::of("time,power_w,energy_mj", &Wishes { quantity: Some(Quantity::Energy), ..wishes(None, None) });
        assert_eq!(energy.unwrap().row("1794730772,300,5000").unwrap().1, 5.0);
    }

    #[test]
    fn mega_in_a_header_is_not_milli() {
        assert_eq!(read("Energy (MWh)", "0.5"), (None, 1.8e9));
        assert_eq!(read("power_MW", "0.0003125"), (None, 312.5));
        assert_eq!(read("power_mw", "312500"), (None, 312.5));
        for header in ["POWER_MW", "Energy MWH", "MJ"] {
            let told = |value| Layout::of(header, &wishes(None, value)).unwrap_err().to_string();
            assert!(told(None).contains("may be milli or mega. hint: give unit="), "{}", told(None));
            assert!(told(Some(Column::Number(1))).contains("milli or mega"));
        }
        let given = Wishes { unit: Unit::of("mW"), ..wishes(None, None) };
        assert_eq!(Layout::of("POWER_MW", &given).unwrap().row("312500").unwrap().1, 312.5);
    }

    #[test]
    fn columns_are_found_by_number_also_without_a_header() {
        let by_number = wishes(Some(Column::Number(1)), Some(Column::Number(3)));
        let layout = Layout::of("1794730772,x,312.5", &by_number).unwrap();
        assert!(!layout.has_header);
        assert_eq!(layout.row("1794730772,x,312.5").unwrap().1, 312.5);
        assert!(Layout::of("a,b,c", &by_number).unwrap().has_header);
    }

    #[test]
    fn what_is_not_there_is_told_with_what_is() {
        let told =
            |header: &str, value: Option<Column>| Layout::of(header, &wishes(None, value)).unwrap_err().to_string();
        assert_eq!(told("a,b", None), "no column looks like the value. hint: give value= one of `a`, `b`");
        assert!(told("power_w,power_kw", None).starts_with("more than one column"));
        assert!(told("1,2", None).starts_with("no column"));
        assert!(told("a,b", Some(Column::Named("c".to_owned()))).contains("no column `c`. hint: it has `a`, `b`"));
        assert!(told("a,b", Some(Column::Number(3))).contains("no column `3`"));
        let layout = Layout::of("time,power", &wishes(None, None)).unwrap();
        for row in ["", "1794730772", "1794730772,", "1794730772,x", "1794730772,-1", "1794730772,NaN", "12.5,300"] {
            assert!(layout.row(row).is_err(), "{row}");
        }
    }
}
