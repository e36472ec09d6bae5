//! One value of a row, formatted for JSON, CSV and tables. Picoseconds are exact integers in JSON and CSV.

use std::borrow::Cow;

use ergometer_trace::ProgramId;
use ergometer_trace::accounting::Account;
use ergometer_units::Picos;
use serde::{Serialize, Serializer};

use super::spread::Spread;
use crate::figures::{percent, thousands, time_ps};
use crate::screen::visible;

/// One value of a row.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell<'a> {
    /// A name.
    Text(Cow<'a, str>),
    /// A time.
    Time(Picos),
    /// A time in fractional picoseconds.
    Between(f64),
    /// A count.
    Count(u64),
    /// A number that is not a count.
    Number(i64),
    /// The program id of a compilation.
    Program(ProgramId),
    /// A share from 0 to 1.
    Share(f64),
    /// The distribution of repeated times; boxed, as it is large and rare.
    Spread(Box<Spread>),
    /// No value.
    Absent,
}

impl<'a> Cell<'a> {
    pub(super) fn text(text: Option<&'a str>) -> Self {
        text.map_or(Self::Absent, |text| Self::Text(Cow::Borrowed(text)))
    }

    pub(super) fn owned(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }

    pub(super) fn program(program: Option<ProgramId>) -> Self {
        program.map_or(Self::Absent, Self::Program)
    }

    pub(super) fn spread(spread: Option<Spread>) -> Self {
        spread.map_or(Self::Absent, |spread| Self::Spread(Box::new(spread)))
    }

    /// Total, busy, min, median, p90 and max: the last cells of every row of events.
    pub(super) fn times(account: &Account) -> [Self; 6] {
        let Account { total, busy, min, median_ps, p90_ps, max, .. } = *account;
        [
            Self::Time(total),
            Self::Time(busy),
            Self::Time(min),
            Self::Between(median_ps),
            Self::Between(p90_ps),
            Self::Time(max),
        ]
    }

    pub(super) fn share(share: Option<f64>) -> Self {
        share.map_or(Self::Absent, Self::Share)
    }

    pub(super) fn count(count: Option<u64>) -> Self {
        count.map_or(Self::Absent, Self::Count)
    }

    pub(super) fn number(number: Option<i64>) -> Self {
        number.map_or(Self::Absent, Self::Number)
    }

    /// Formats the value for a table.
    pub(super) fn shown(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => visible(text),
            Self::Time(time) => Cow::Owned(time_ps(time.get() as f64)),
            Self::Between(picos) => Cow::Owned(time_ps(*picos)),
            Self::Count(count) => Cow::Owned(thousands(*count as f64)),
            Self::Number(number) => Cow::Owned(number.to_string()),
            Self::Program(program) => Cow::Owned(program.to_string()),
            Self::Share(share) => Cow::Owned(percent(*share)),
            Self::Spread(spread) => Cow::Owned(spread.shown()),
            Self::Absent => Cow::Borrowed("-"),
        }
    }

    /// Formats the value for CSV; empty for no value.
    pub(super) fn field(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Time(time) => Cow::Owned(time.get().to_string()),
            // Rust prints integral floats without a point.
            Self::Between(number) | Self::Share(number) => Cow::Owned(number.to_string()),
            Self::Count(count) => Cow::Owned(count.to_string()),
            Self::Number(number) => Cow::Owned(number.to_string()),
            Self::Program(program) => Cow::Owned(program.to_string()),
            Self::Spread(_) | Self::Absent => Cow::Borrowed(""),
        }
    }
}

impl Serialize for Cell<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Time(time) => serializer.serialize_i64(time.get()),
            Self::Between(picos) => whole(picos, serializer),
            Self::Count(count) => serializer.serialize_u64(*count),
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::Program(program) => program.serialize(serializer),
            Self::Share(share) => serializer.serialize_f64(*share),
            Self::Spread(spread) => spread.serialize(serializer),
            Self::Absent => serializer.serialize_none(),
        }
    }
}

/// Serializes an integral number without a decimal point.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
pub(super) fn whole<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if number.fract() == 0.0 && number.abs() < 9e15 {
        #[expect(clippy::cast_possible_truncation, reason = "whole and far below 2^63")]
        return serializer.serialize_i64(*number as i64);
    }
    serializer.serialize_f64(*number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_exact_and_tables_are_short() {
        let json = |cell: &Cell| serde_json::to_string(cell).unwrap();
        let time = Cell::Time(Picos::new(1_490_000_001));
        assert_eq!(
            (json(&time), time.field(), time.shown()),
            ("1490000001".into(), "1490000001".into(), "1.490 ms".into())
        );
        let (half, full) = (Cell::Between(1500.5), Cell::Between(1500.0));
        assert_eq!((json(&half), json(&full), full.field()), ("1500.5".into(), "1500".into(), "1500".into()));
        let absent = Cell::Absent;
        assert_eq!((json(&absent), absent.field(), absent.shown()), ("null".into(), "".into(), "-".into()));
    }
}
