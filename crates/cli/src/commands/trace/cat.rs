//! `ergo trace cat`: prints all events with all their values as JSON lines, in the order of the files.
//!
//! Several threads format a few thousand events at a time, which are printed in order: memory use does not grow with
//! the trace, and a closed pipe ends the command.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::process::ExitCode;

use ergometer_diagnostics::{flag, hint};
use ergometer_trace::accounting::{DeviceId, Filter};
use ergometer_trace::{Event, EventId, Line, Platform, Trace, UnplacedReason};
use rayon::prelude::*;

use super::json_text::{number, stats, text};
use super::open::{Needs, OpenTrace, open};
use crate::arguments::CatArguments;
use crate::exit::{Exit, Failure};
use crate::screen::Screen;

/// The number of events per task, and of tasks in memory.
const TASK_EVENTS: usize = 2048;
const TASKS: usize = 32;

/// A range of events of a line.
struct Task {
    plane: usize,
    line: usize,
    events: Vec<usize>,
}

pub(super) fn run(arguments: &CatArguments, screen: Screen) -> Result<ExitCode, Failure> {
    let opened = open(&arguments.files, Needs::Times, screen)?;
    let filter = opened.filter(&arguments.filter)?;
    let printed = Cat::new(&opened, &filter, arguments)?.print()?;
    if printed == 0 {
        opened.explain_empty("events", &arguments.filter, screen);
    }
    Ok(Exit::Done.into())
}

struct Cat<'a> {
    trace: &'a Trace,
    filter: &'a Filter,
    top: usize,
    is_lenient: bool,
    /// What the events of a kind share: whether they pass the filter, and parts of their lines.
    is_taken: Vec<bool>,
    names: Vec<Vec<u8>>,
    tails: Vec<Vec<u8>>,
}

impl<'a> Cat<'a> {
    fn new(opened: &'a OpenTrace, filter: &'a Filter, arguments: &CatArguments) -> Result<Self, Failure> {
        let trace = &opened.trace;
        let kinds = trace.kinds();
        let is_taken: Vec<bool> = kinds.iter().map(|kind| filter.takes_kind(trace, kind)).collect();
        let name = |text_of: &str| {
            let mut out = b",\"name\":".to_vec();
            text(&mut out, text_of);
            out
        };
        let names = kinds.iter().map(|kind| name(trace.text(kind.name))).collect();
        let mut tails = vec![Vec::new(); if arguments.metadata { kinds.len() } else { 0 }];
        for line in trace.planes().iter().flat_map(|plane| &plane.lines).filter(|_| arguments.metadata) {
            for event in line.events() {
                let tail = &mut tails[event.kind.index()];
                if tail.is_empty() && is_taken[event.kind.index()] {
                    tail.extend_from_slice(b",\"kind_stats\":");
                    match trace.kind_stats(event.kind) {
                        Ok(found) => stats(tail, &found),
                        Err(damage) => damaged(tail, &damage, arguments.files.lenient)?,
                    }
                }
            }
        }
        let (top, is_lenient) = (arguments.top, arguments.files.lenient);
        Ok(Self { trace, filter, top, is_lenient, is_taken, names, tails })
    }

    /// Prints all events; returns their number.
    fn print(&self) -> Result<usize, Failure> {
        let mut out = io::stdout().lock();
        let mut printed = 0;
        let mut tasks = Vec::new();
        for (plane, found) in self.trace.planes().iter().enumerate() {
            let devices = self.devices(plane);
            if devices.is_empty() {
                continue;
            }
            for (number, line) in found.lines.iter().enumerate() {
                let mut picked = (0..line.len()).filter(|&event| self.takes(&devices, line, event));
                loop {
                    let room = if self.top == 0 { TASK_EVENTS } else { TASK_EVENTS.min(self.top - printed) };
                    let events: Vec<usize> = picked.by_ref().take(room).collect();
                    if events.is_empty() {
                        break;
                    }
                    printed += events.len();
                    tasks.push(Task { plane, line: number, events });
                    if tasks.len() == TASKS {
                        self.write(&mut tasks, &mut out)?;
                    }
                }
            }
        }
        self.write(&mut tasks, &mut out)?;
        out.flush()?;
        Ok(printed)
    }

    /// The devices of a plane that pass the filter; `None` for the whole plane.
    fn devices(&self, plane: usize) -> Vec<Option<i64>> {
        let takes = |ordinal| self.filter.takes_device(self.trace, DeviceId { plane, ordinal });
        if takes(None) {
            return vec![None];
        }
        if self.trace.planes()[plane].platform != Platform::Host {
            return Vec::new();
        }
        let ordinals: BTreeSet<i64> = self.trace.kinds().iter().filter_map(|kind| kind.device_ordinal).collect();
        ordinals.into_iter().map(Some).filter(|&ordinal| takes(ordinal)).collect()
    }

    fn takes(&self, devices: &[Option<i64>], line: &Line, event: usize) -> bool {
        line.event(event).is_some_and(|event| {
            let is_there = devices.contains(&None) || devices.contains(&self.trace.kind(event.kind).device_ordinal);
            is_there && self.is_taken[event.kind.index()] && event.duration >= self.filter.min_duration
        })
    }

    fn write(&self, tasks: &mut Vec<Task>, out: &mut impl io::Write) -> Result<(), Failure> {
        let texts: Vec<Result<Vec<u8>, Failure>> = tasks.par_iter().map(|task| self.task(task)).collect();
        for text in texts {
            out.write_all(&text?)?;
        }
        tasks.clear();
        Ok(())
    }

    fn task(&self, task: &Task) -> Result<Vec<u8>, Failure> {
        let plane = &self.trace.planes()[task.plane];
        let line = &plane.lines[task.line];
        let mut head = b"{\"plane\":".to_vec();
        text(&mut head, self.trace.text(plane.name));
        if let Some(host) = plane.host {
            head.extend_from_slice(b",\"host\":");
            text(&mut head, self.trace.text(host));
        }
        head.extend_from_slice(b",\"line\":");
        text(&mut head, self.trace.text(line.display_name.unwrap_or(line.name)));
        head.extend_from_slice(b",\"line_id\":");
        number(&mut head, line.id);
        let mut out = Vec::with_capacity(task.events.len() * 256);
        for &place in &task.events {
            let Some(event) = line.event(place) else { continue };
            out.extend_from_slice(&head);
            self.event(&mut out, event, line.why_unplaced(place));
            out.extend_from_slice(b",\"stats\":");
            match self.trace.event_stats(EventId { plane: task.plane, line: task.line, event: place }) {
                Ok(found) => stats(&mut out, &found),
                Err(damage) => damaged(&mut out, &damage, self.is_lenient)?,
            }
            if let Some(tail) = self.tails.get(event.kind.index()) {
                out.extend_from_slice(tail);
            }
            out.extend_from_slice(b"}\n");
        }
        Ok(out)
    }

    fn event(&self, out: &mut Vec<u8>, event: Event, why: Option<UnplacedReason>) {
        out.extend_from_slice(&self.names[event.kind.index()]);
        out.extend_from_slice(b",\"start_ps\":");
        match event.start {
            Some(start) => number(out, start.get()),
            None => out.extend_from_slice(b"null"),
        }
        match why {
            Some(UnplacedReason::Aggregated(occurrences)) => {
                out.extend_from_slice(b",\"occurrences\":");
                number(out, occurrences);
            }
            Some(UnplacedReason::OutOfRange) => out.extend_from_slice(b",\"why\":\"out_of_range\""),
            Some(UnplacedReason::Damaged) => out.extend_from_slice(b",\"why\":\"damaged\""),
            None => {}
        }
        out.extend_from_slice(b",\"duration_ps\":");
        number(out, event.duration.get());
    }
}

/// Unreadable stats: an error, or with `--lenient` null and the reason.
fn damaged(out: &mut Vec<u8>, damage: &impl std::fmt::Display, is_lenient: bool) -> Result<(), Failure> {
    if !is_lenient {
        return Err(Failure::failed(format!("the values of an event are damaged: {damage}")).hint(hint!(
            "copy or record the trace again, or pass ",
            flag("lenient"),
            " to skip damaged parts"
        )));
    }
    out.extend_from_slice(b"null,\"damage\":");
    text(out, &damage.to_string());
    Ok(())
}
