//! Follows a CSV file that a meter appends to and reads the value of each new row.
//!
//! Rows that were in the file before do not count, except the last one if its time is at most ten seconds old: it is
//! the value at the start of the measurement. A row without a time gets the time of the read that found it. Of several
//! such rows in one read, power is their mean and energy is the last one. Rows without a value and rows whose time goes
//! backwards are skipped and reported once.

use std::path::Path;

use ergometer_statistics::mean;
use ergometer_telemetry::{Clock, EventKind};
use ergometer_units::{Seconds, Timestamp};

use super::layout::{ColumnOptions, Layout};
use super::meter::{LEAST_SILENCE, Moment, Source, SourceError, Update, Value};
use super::output::excerpt;
use super::tail::{Change, Tail};
use super::unit::Quantity;
use super::with_hint;

/// A larger difference means that the meter's clock is wrong or in another time zone (30 or 60 minutes apart).
const MAX_CLOCK_DIFFERENCE: Seconds = Seconds::new(60.0);

/// A CSV file as the source of a meter.
pub(super) struct Csv {
    tail: Tail,
    options: ColumnOptions,
    layout: Columns,
    /// The last row that was written before the start.
    first_row: Option<(Timestamp, f64)>,
    /// When the last read began.
    read_at: Option<Timestamp>,
    /// The time of the last value.
    last: Option<Timestamp>,
    skipped: SkippedRows,
}

/// The columns of the current file.
#[derive(Debug, PartialEq)]
enum Columns {
    Known(Layout),
    /// The first line of a new file has not been written yet.
    Pending,
    /// No column has the value: the rows of this file are ignored.
    Unusable,
}

/// The number of rows without a reading, by cause.
#[derive(Debug, Default)]
struct SkippedRows {
    malformed: u64,
    backward: u64,
    clock_differs: u64,
}

/// An opened file with its columns.
pub(super) struct OpenedCsv {
    pub(super) source: Csv,
    pub(super) layout: Layout,
    /// The value of the last row, if the file has rows.
    pub(super) amount: Option<f64>,
}

impl Csv {
    pub(super) fn open(path: &Path, mut options: ColumnOptions) -> Result<OpenedCsv, SourceError> {
        let failed = |cause: std::io::Error| SourceError::failed(format!("cannot read {}: {cause}", path.display()));
        let mut tail = Tail::open(path).map_err(failed)?;
        let first = tail.first_line().map_err(failed)?.ok_or_else(|| {
            let why = format!("{} is empty", path.display());
            SourceError::failed(with_hint(why, "start the program that writes the file first"))
        })?;
        let layout = Layout::from_first_line(&String::from_utf8_lossy(&first), &options)
            .map_err(|message| SourceError::Failed(message.at(path.display())))?;
        options.quantity = Some(layout.unit.quantity);
        let last = tail.skip_to_end().map_err(failed)?.filter(|line| !layout.has_header || *line != first);
        let row = last.map(|line| {
            let line = String::from_utf8_lossy(&line);
            let place = format!("the last row of {}", path.display());
            layout.row(&line).map_err(|message| SourceError::Failed(message.at(place)))
        });
        let row = row.transpose()?;
        let source = Self {
            tail,
            options,
            layout: Columns::Known(layout.clone()),
            first_row: row.and_then(|(time, amount)| Some((time?, amount))),
            read_at: None,
            last: None,
            skipped: SkippedRows::default(),
        };
        Ok(OpenedCsv { source, layout, amount: row.map(|(_, amount)| amount) })
    }

    fn note_change(&mut self, change: Change, update: &mut Update) {
        let what = match change {
            Change::None => return,
            Change::Truncated => "became shorter",
            Change::Replaced => "was replaced",
        };
        self.layout = Columns::Pending;
        let message = format!("the file {what} and is read from its start; rows written in between may be missing");
        update.notices.push((EventKind::SamplesLost, message.into()));
    }

    /// Reads the appended rows. Values without a time are added to `untimed`.
    fn read_rows(&mut self, clock: &Clock, untimed: &mut Vec<f64>, update: &mut Update) -> Result<(), SourceError> {
        let mut lines = Vec::new();
        self.tail.lines(&mut lines).map_err(|cause| SourceError::failed(format!("cannot read the file: {cause}")))?;
        for _ in 0..self.tail.take_too_long() {
            self.skip_malformed("a line is longer than 64 KiB", update);
        }
        for line in lines {
            let line = String::from_utf8_lossy(&line);
            if line.trim().is_empty() {
                continue;
            }
            if self.layout == Columns::Pending {
                let layout = Layout::from_first_line(&line, &self.options);
                let is_header = layout.as_ref().is_ok_and(|layout| layout.has_header);
                let (columns, error) = match layout {
                    Ok(layout) => (Columns::Known(layout), None),
                    Err(why) => (Columns::Unusable, Some(why.at("the first line of the new file"))),
                };
                self.layout = columns;
                if let Some(why) = error {
                    return Err(SourceError::failed(why));
                }
                if is_header {
                    continue;
                }
            }
            let Columns::Known(layout) = &self.layout else { continue };
            if line.starts_with('#') {
                continue;
            }
            match layout.row(&line) {
                Ok((None, amount)) => untimed.push(amount),
                Ok((Some(time), amount)) => self.push_timed(clock, (time, amount), update),
                Err(why) => self.skip_malformed(&format!("{why} in {}", excerpt(&line)), update),
            }
        }
        Ok(())
    }

    fn push_timed(&mut self, clock: &Clock, (time, amount): (Timestamp, f64), update: &mut Update) {
        let at = clock.from_wall(time);
        let ahead = at - clock.now();
        if ahead.abs() > MAX_CLOCK_DIFFERENCE {
            self.skipped.clock_differs += 1;
            if self.skipped.clock_differs == 1 {
                let side = if ahead > Seconds::ZERO { "ahead of" } else { "behind" };
                let text = format!("the time of a row is {:.0} s {side} this machine's clock", ahead.abs().get());
                let hint = "times without an offset are read as UTC: write the offset (+01:00), correct the meter's clock, or use time=none";
                let message = with_hint(text, hint);
                update.notices.push((EventKind::ReadFailed, message));
            }
        }
        // A row in the future would extend the timeline beyond now.
        if ahead > MAX_CLOCK_DIFFERENCE {
            return;
        }
        if self.last.is_some_and(|last| at <= last) {
            self.skipped.backward += 1;
            if self.skipped.backward == 1 {
                let message = "the time of a row is not after the time of the previous row; such rows are skipped";
                update.notices.push((EventKind::ReadFailed, message.into()));
            }
            return;
        }
        self.last = Some(at);
        update.values.push(Value { after: at, at, amount });
    }

    fn skip_malformed(&mut self, why: &str, update: &mut Update) {
        self.skipped.malformed += 1;
        if self.skipped.malformed == 1 {
            let message = format!("a row has no reading: {why}; such rows are skipped");
            update.notices.push((EventKind::ReadFailed, message.into()));
        }
    }

    fn report_skipped(&self, update: &mut Update) {
        let SkippedRows { malformed, backward, .. } = self.skipped;
        if malformed + backward > 1 {
            let message =
                format!("skipped {malformed} rows without a reading and {backward} rows out of order in total");
            update.notices.push((EventKind::ReadFailed, message.into()));
        }
    }
}

impl Source for Csv {
    fn read(&mut self, moment: Moment, clock: &Clock, update: &mut Update) -> Result<(), SourceError> {
        let now = clock.now();
        let since = self.read_at.replace(now).unwrap_or(now);
        if let Some((time, amount)) = self.first_row.take()
            && (Seconds::ZERO..=LEAST_SILENCE).contains(&(now - clock.from_wall(time)))
        {
            self.push_timed(clock, (time, amount), update);
        }
        let failed = |cause: std::io::Error| SourceError::failed(format!("cannot read the file: {cause}"));
        let mut untimed = Vec::new();
        let change = self.tail.follow().map_err(failed)?;
        self.note_change(change, update);
        self.read_rows(clock, &mut untimed, update)?;
        // A replaced file is read to its end before the new one is opened.
        let change = self.tail.follow().map_err(failed)?;
        if change != Change::None {
            self.note_change(change, update);
            self.read_rows(clock, &mut untimed, update)?;
        }
        let amount = match self.options.quantity {
            Some(Quantity::Energy) => untimed.last().copied(),
            _ => mean(untimed.iter().copied()),
        };
        if let Some(amount) = amount {
            update.values.push(Value { after: since, at: clock.now(), amount });
        }
        if moment == Moment::Last {
            self.report_skipped(update);
        }
        Ok(())
    }
}
