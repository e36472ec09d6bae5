//! A table that a meter writes: rows go in as they are appended, values come out with the time of their row.
//!
//! Only what is written while it is read counts, and the last row before, where its own time is at most ten seconds old:
//! it says what was drawn when the measurement began. A row without a time has that of the look that found it; of several
//! such rows in one look a power is their mean and an energy the last. Rows that are no values, and those whose time goes
//! back, are left out and told once.

use std::path::Path;

use ergometer_units::{Seconds, Timestamp};

use super::complaint::Complaint;
use super::layout::{Layout, Wishes};
use super::meter::{Found, LEAST_SILENCE, Moment, Source, Trouble, Value};
use super::output::start_of;
use super::tail::{Change, Tail};
use super::unit::Quantity;
use ergometer_telemetry::{Clock, EventKind};

/// From here on the clock of a meter is not that of this machine: a time zone is an hour or half of one.
const OFF: Seconds = Seconds::new(60.0);

/// See the module.
pub(super) struct Csv {
    tail: Tail,
    wishes: Wishes,
    layout: Columns,
    /// The last row before the start.
    kept: Option<(Timestamp, f64)>,
    looked: Option<Timestamp>,
    last: Option<Timestamp>,
    refused: Refused,
}

/// What is known of the columns of the present file.
#[derive(Debug, PartialEq)]
enum Columns {
    Known(Layout),
    /// The first line of a new file has not come yet.
    Awaited,
    /// The value is not among them: rows of this file are nothing.
    Unfit,
}

/// Rows that were left out.
#[derive(Debug, Default)]
struct Refused {
    garbage: u64,
    backward: u64,
    off: u64,
}

/// What opening brought.
pub(super) struct Opened {
    pub(super) source: Csv,
    pub(super) layout: Layout,
    /// The last row's value, where there is one.
    pub(super) amount: Option<f64>,
}

impl Csv {
    pub(super) fn open(path: &Path, mut wishes: Wishes) -> Result<Opened, Trouble> {
        let failed = |cause: std::io::Error| Trouble::failed(format!("cannot read {}: {cause}", path.display()));
        let mut tail = Tail::open(path).map_err(failed)?;
        let first = tail.first_line().map_err(failed)?.ok_or_else(|| {
            let why = format!("{} has no line yet", path.display());
            Trouble::failed(Complaint::with_hint(why, "start the meter first"))
        })?;
        let layout = Layout::of(&String::from_utf8_lossy(&first), &wishes)
            .map_err(|complaint| Trouble::Failed(complaint.at(path.display())))?;
        wishes.quantity = Some(layout.unit.quantity);
        let last = tail.skip_to_end().map_err(failed)?.filter(|line| !layout.has_header || *line != first);
        let row = last.map(|line| {
            let line = String::from_utf8_lossy(&line);
            let place = format!("the last row of {} is no value", path.display());
            layout.row(&line).map_err(|complaint| Trouble::Failed(complaint.at(place)))
        });
        let row = row.transpose()?;
        let source = Self {
            tail,
            wishes,
            layout: Columns::Known(layout.clone()),
            kept: row.and_then(|(time, amount)| Some((time?, amount))),
            looked: None,
            last: None,
            refused: Refused::default(),
        };
        Ok(Opened { source, layout, amount: row.map(|(_, amount)| amount) })
    }

    fn changed(&mut self, change: Change, found: &mut Found) {
        let what = match change {
            Change::None => return,
            Change::Truncated => "became shorter",
            Change::Replaced => "was replaced",
        };
        self.layout = Columns::Awaited;
        let message = format!("its file {what} and is read from its start; rows written between may be missing");
        found.notices.push((EventKind::SamplesLost, message));
    }

    /// Reads what was appended. Rows without a time are added to `untimed`.
    fn rows(&mut self, clock: &Clock, untimed: &mut Vec<f64>, found: &mut Found) -> Result<(), Trouble> {
        let mut lines = Vec::new();
        self.tail.lines(&mut lines).map_err(|cause| Trouble::failed(format!("its file cannot be read: {cause}")))?;
        for _ in 0..self.tail.take_too_long() {
            self.refuse_garbage("a line is longer than 64 KiB", found);
        }
        for line in lines {
            let line = String::from_utf8_lossy(&line);
            if line.trim().is_empty() {
                continue;
            }
            if self.layout == Columns::Awaited {
                let layout = Layout::of(&line, &self.wishes);
                let is_header = layout.as_ref().is_ok_and(|layout| layout.has_header);
                let (columns, trouble) = match layout {
                    Ok(layout) => (Columns::Known(layout), None),
                    Err(why) => (Columns::Unfit, Some(why.at("the first line of its new file"))),
                };
                self.layout = columns;
                if let Some(why) = trouble {
                    return Err(Trouble::failed(why));
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
                Ok((Some(time), amount)) => self.timed(clock, (time, amount), found),
                Err(why) => self.refuse_garbage(&format!("{why} in {}", start_of(&line)), found),
            }
        }
        Ok(())
    }

    fn timed(&mut self, clock: &Clock, (time, amount): (Timestamp, f64), found: &mut Found) {
        let at = clock.from_wall(time);
        let ahead = at - clock.now();
        if ahead.abs() > OFF {
            self.refused.off += 1;
            if self.refused.off == 1 {
                let side = if ahead > Seconds::ZERO { "ahead of" } else { "behind" };
                let message = format!(
                    "the time of a row is {:.0} s {side} this machine's. hint: times are taken as UTC; write the offset \
                     (+01:00), set the meter's clock, or give time=none",
                    ahead.abs().get()
                );
                found.notices.push((EventKind::ReadFailed, message));
            }
        }
        // What has not happened yet would make the timeline end in the future.
        if ahead > OFF {
            return;
        }
        if self.last.is_some_and(|last| at <= last) {
            self.refused.backward += 1;
            if self.refused.backward == 1 {
                let message = "the time of a row is not after that of the row before: such rows are left out";
                found.notices.push((EventKind::ReadFailed, message.to_owned()));
            }
            return;
        }
        self.last = Some(at);
        found.values.push(Value { after: at, at, amount });
    }

    fn refuse_garbage(&mut self, why: &str, found: &mut Found) {
        self.refused.garbage += 1;
        if self.refused.garbage == 1 {
            let message = format!("a row is no reading: {why}; such rows are left out");
            found.notices.push((EventKind::ReadFailed, message));
        }
    }

    fn tell_refused(&self, found: &mut Found) {
        let Refused { garbage, backward, .. } = self.refused;
        if garbage + backward > 1 {
            let message = format!("{garbage} rows were no readings and {backward} were out of order, until the end");
            found.notices.push((EventKind::ReadFailed, message));
        }
    }
}

impl Source for Csv {
    fn read(&mut self, moment: Moment, clock: &Clock, found: &mut Found) -> Result<(), Trouble> {
        let now = clock.now();
        let since = self.looked.replace(now).unwrap_or(now);
        if let Some((time, amount)) = self.kept.take()
            && (Seconds::ZERO..=LEAST_SILENCE).contains(&(now - clock.from_wall(time)))
        {
            self.timed(clock, (time, amount), found);
        }
        let failed = |cause: std::io::Error| Trouble::failed(format!("its file cannot be read: {cause}"));
        let mut untimed = Vec::new();
        let change = self.tail.follow().map_err(failed)?;
        self.changed(change, found);
        self.rows(clock, &mut untimed, found)?;
        // What was replaced is left once it is read to its end.
        let change = self.tail.follow().map_err(failed)?;
        if change != Change::None {
            self.changed(change, found);
            self.rows(clock, &mut untimed, found)?;
        }
        let amount = match self.wishes.quantity {
            Some(Quantity::Energy) => untimed.last().copied(),
            _ => (!untimed.is_empty()).then(|| untimed.iter().sum::<f64>() / untimed.len() as f64),
        };
        if let Some(amount) = amount {
            found.values.push(Value { after: since, at: clock.now(), amount });
        }
        if moment == Moment::Last {
            self.tell_refused(found);
        }
        Ok(())
    }
}
