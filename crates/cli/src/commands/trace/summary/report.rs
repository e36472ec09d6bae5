//! The summary as JSON with all values, and as CSV with one row per plane and line.

use std::collections::HashSet;

use ergometer_diagnostics::Diagnostic as _;
use ergometer_trace::accounting::{DeviceId, Exposure, LineSummary, Module, PlaneSummary, Row, Span, WorkSummary};
use ergometer_trace::{Line, Plane, Platform, Session, Trace};
use ergometer_units::{Picos, Timestamp};
use serde::{Serialize, Serializer};

use super::super::listing::{Listing, cut};
use super::super::open::{host, plane_name};
use super::super::{modules, rows};
use super::{ROWS, Summary, device_name};
use crate::csv;
use crate::phrasing::Options;

#[derive(Serialize)]
pub(super) struct Report<'a> {
    files: Vec<String>,
    /// The time zero of all starts.
    zero_ns: Option<i64>,
    sessions: Vec<SessionReport<'a>>,
    planes: Vec<PlaneReport<'a>>,
    /// Planes without events, such as metadata and the task environment.
    other_planes: Vec<&'a str>,
    notes: &'a [String],
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct SessionReport<'a> {
    host: Option<&'a str>,
    started_ns: Option<i64>,
    stopped_ns: Option<i64>,
}

#[derive(Serialize)]
struct PlaneReport<'a> {
    name: &'a str,
    host: Option<&'a str>,
    platform: &'static str,
    device: Option<String>,
    events: u64,
    span_ps: Option<i64>,
    busy_ps: i64,
    idle_ps: Option<i64>,
    total_ps: i64,
    self_ps: i64,
    partial_overlaps: u64,
    lines: Vec<LineReport<'a>>,
    /// The work of each device with events.
    work: Vec<WorkReport<'a>>,
}

#[derive(Serialize)]
struct LineReport<'a> {
    name: &'a str,
    id: i64,
    events: u64,
    span_ps: Option<i64>,
    busy_ps: i64,
    total_ps: i64,
    self_ps: i64,
    partial_overlaps: u64,
}

#[derive(Serialize)]
struct WorkReport<'a> {
    device_ordinal: Option<i64>,
    events: u64,
    start_ps: i64,
    span_ps: i64,
    busy_ps: i64,
    idle_ps: i64,
    gaps: u64,
    longest_gap_ps: i64,
    classes: &'a [Exposure],
    modules: Modules<'a>,
    /// The kernels of a GPU, or the ops of another device, with the most self time.
    top: Top<'a>,
}

impl Summary<'_> {
    pub(super) fn as_report(&self) -> Report<'_> {
        let trace = &self.opened.trace;
        let nanos = |time: Option<Timestamp>| time.map(Timestamp::nanos_since_epoch);
        let session = |session: &Session| SessionReport {
            host: session.host.map(|host| trace.text(host)),
            started_ns: nanos(session.started),
            stopped_ns: nanos(session.stopped),
        };
        let shown: HashSet<usize> = self.planes.iter().map(|plane| plane.plane).collect();
        let is_empty = |plane: &Plane| plane.lines.iter().all(Line::is_empty);
        Report {
            files: self.opened.files.iter().map(|file| file.display().to_string()).collect(),
            zero_ns: nanos(trace.zero()),
            sessions: trace.sessions().iter().map(session).collect(),
            planes: self.planes.iter().map(|plane| self.plane_report(plane)).collect(),
            other_planes: trace
                .planes()
                .iter()
                .enumerate()
                .filter(|(number, plane)| !shown.contains(number) && is_empty(plane))
                .map(|(_, plane)| trace.text(plane.name))
                .collect(),
            notes: &self.notes,
            warnings: self.opened.warnings.iter().map(|warning| warning.one_line(&Options)).collect(),
        }
    }

    fn plane_report<'b>(&'b self, plane: &'b PlaneSummary) -> PlaneReport<'b> {
        let trace = &self.opened.trace;
        let span = plane.span.map(Span::length);
        PlaneReport {
            name: plane_name(trace, plane.plane),
            host: host(trace, plane.plane),
            platform: platform(trace.planes()[plane.plane].platform),
            device: device_name(trace, plane.plane),
            events: plane.events,
            span_ps: span.map(Picos::get),
            busy_ps: plane.busy.get(),
            idle_ps: span.map(|span| (span - plane.busy).get()),
            total_ps: plane.total.get(),
            self_ps: plane.self_time.get(),
            partial_overlaps: plane.partial_overlaps,
            lines: plane.lines.iter().map(|line| line_report(trace, line)).collect(),
            work: plane.work.iter().map(|work| self.work_report(work)).collect(),
        }
    }

    fn work_report<'b>(&'b self, work: &'b WorkSummary) -> WorkReport<'b> {
        WorkReport {
            device_ordinal: work.device.ordinal,
            events: work.events,
            start_ps: work.span.start.get(),
            span_ps: work.span.length().get(),
            busy_ps: work.busy.get(),
            idle_ps: work.idle.get(),
            gaps: work.gaps,
            longest_gap_ps: work.longest_gap.get(),
            classes: &work.classes,
            modules: Modules { summary: self, device: work.device },
            top: Top { summary: self, device: work.device },
        }
    }

    /// One row per plane, each followed by one row per line.
    pub(super) fn as_csv(&self) -> String {
        let mut text = csv::line([
            "plane",
            "host",
            "line",
            "line_id",
            "events",
            "span_ps",
            "busy_ps",
            "idle_ps",
            "total_ps",
            "self_ps",
            "partial_overlaps",
        ]);
        let optional = |number: Option<i64>| number.map_or_else(String::new, |number| number.to_string());
        for plane in &self.planes {
            let plane = self.plane_report(plane);
            let (name, host) = (plane.name.to_owned(), plane.host.unwrap_or_default().to_owned());
            let of_plane = [
                name.clone(),
                host.clone(),
                String::new(),
                String::new(),
                plane.events.to_string(),
                optional(plane.span_ps),
                plane.busy_ps.to_string(),
                optional(plane.idle_ps),
                plane.total_ps.to_string(),
                plane.self_ps.to_string(),
                plane.partial_overlaps.to_string(),
            ];
            text.push_str(&csv::line(of_plane));
            for line in &plane.lines {
                text.push_str(&csv::line([
                    name.clone(),
                    host.clone(),
                    line.name.to_owned(),
                    line.id.to_string(),
                    line.events.to_string(),
                    optional(line.span_ps),
                    line.busy_ps.to_string(),
                    optional(line.span_ps.map(|span_ps| span_ps - line.busy_ps)),
                    line.total_ps.to_string(),
                    line.self_ps.to_string(),
                    line.partial_overlaps.to_string(),
                ]));
            }
        }
        text
    }
}

fn line_report<'a>(trace: &'a Trace, line: &LineSummary) -> LineReport<'a> {
    LineReport {
        name: trace.text(line.name),
        id: line.id,
        events: line.events,
        span_ps: line.span.map(|span| span.length().get()),
        busy_ps: line.busy.get(),
        total_ps: line.total.get(),
        self_ps: line.self_time.get(),
        partial_overlaps: line.partial_overlaps,
    }
}

fn platform(platform: Platform) -> &'static str {
    match platform {
        Platform::Gpu => "gpu",
        Platform::Tpu => "tpu",
        Platform::Host => "host",
        Platform::OtherDevice => "device",
        Platform::Other => "other",
    }
}

/// The modules of a device, in the format of `ergo trace modules`.
struct Modules<'a> {
    summary: &'a Summary<'a>,
    device: DeviceId,
}

impl Serialize for Modules<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let trace = &self.summary.opened.trace;
        let modules = self.summary.modules.iter().filter(|module| module.device == self.device);
        let mut rows: Vec<&Module> = modules.collect();
        let more = cut(&mut rows, self.summary.top.unwrap_or(0));
        let cells = |row: &&Module| modules::cells(trace, row, false);
        Listing { columns: &modules::COLUMNS, rows, more, cells, notes: Vec::new() }.serialize(serializer)
    }
}

/// The kernels or ops of a device, in the format of `ergo trace kernels` and `ops`, as many as in a table.
struct Top<'a> {
    summary: &'a Summary<'a>,
    device: DeviceId,
}

impl Serialize for Top<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let trace = &self.summary.opened.trace;
        let mut rows: Vec<&Row> = self.summary.kernels.iter().filter(|row| row.device == self.device).collect();
        let more = cut(&mut rows, self.summary.top.unwrap_or(ROWS));
        let is_gpu = trace.planes()[self.device.plane].platform == Platform::Gpu;
        let columns = rows::columns(if is_gpu { "kernel" } else { "op" });
        let cells = |row: &&Row| rows::cells(trace, row, false);
        Listing { columns: &columns, rows, more, cells, notes: Vec::new() }.serialize(serializer)
    }
}
