//! One value of a row, as it stands in JSON, in CSV and in a table. Data is exact: picoseconds are whole wherever they are.

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
    /// A time in picoseconds that may lie between two.
    Between(f64),
    /// How many.
    Count(u64),
    /// A number that counts nothing.
    Number(i64),
    /// The number of a compilation.
    Program(ProgramId),
    /// A part of a whole, from 0 to 1.
    Share(f64),
    /// Of repeated times; boxed, as it is large and rare.
    Spread(Box<Spread>),
    /// There is none.
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

    /// Total, busy, the shortest, median, p90 and the longest, as every row of events ends.
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

    /// As people read it.
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

    /// As spreadsheets read it: nothing where there is none.
    pub(super) fn field(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Time(time) => Cow::Owned(time.get().to_string()),
            // A float prints whole numbers without a point.
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

/// A number without a point where it is whole.
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
