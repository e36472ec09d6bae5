//! Formats a load curve as JSON and as a table.

use ergometer_charts::{Cell, Table};
use ergometer_units::format::{digits, percent, quantity};
use serde_json::{Map, Value, json};

use super::{Curve, CurvePoint};
use crate::analyses::Findings;
use ergometer_statistics::Estimate;

impl Curve {
    /// The results for `analysis/curve.json` and reports.
    #[must_use]
    pub fn findings(&self) -> Findings {
        let at = |place: Option<usize>| place.map_or(Value::Null, |place| json!(self.points[place].load));
        let (knee, why) = match &self.knee {
            Ok(place) => (at(Some(*place)), Value::Null),
            Err(why) => (Value::Null, json!(why)),
        };
        let summary = json!({
            "axis": self.axis,
            "knee": knee,
            "no_knee_because": why,
            "least_joules_per_token_at": at(self.least_joules),
            "most_tokens_per_second_at": at(self.most_tokens),
            "most_tokens_per_second_within_limits_at": at(self.most_tokens_within_limits),
        });
        let points: Vec<Value> = self.points.iter().map(as_json).collect();
        Findings {
            summary: object(summary),
            data: object(json!({ "axis": self.axis, "points": points })),
            warnings: self.warnings.clone(),
            tables: vec![self.table()],
            ..Findings::default()
        }
    }

    /// The curve as a table, one row per load.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut columns = vec![
            (self.axis.as_str(), "load"),
            ("tok/s", "output_tokens_per_second"),
            ("E2E p50", "e2e_p50_ms"),
            ("TTFT p50", "ttft_p50_ms"),
            ("J/output token", "gross_j_per_output_token"),
        ];
        let has_phases = self.points.iter().any(|point| point.prefill_joules_per_token.is_some());
        if has_phases {
            columns.push(("net J/input token", "prefill_j_per_input_token"));
            columns.push(("net decode J/output token", "decode_j_per_output_token"));
        }
        if self.has_limits {
            columns.push(("within limits", "good_share"));
        }
        columns.extend([("throughput / latency", "power"), ("", "marks")]);
        let mut table = Table::new("curve", "Throughput, latency and energy by load", &columns);
        for (place, point) in self.points.iter().enumerate() {
            let mut row = vec![
                Cell::Number { value: point.load, shown: point.load.to_string() },
                cell(point.tokens_per_second, digits),
                cell(point.e2e_p50_ms, |value| quantity(value / 1e3, "s")),
                cell(point.ttft_p50_ms, |value| quantity(value / 1e3, "s")),
                cell(point.joules_per_token, |value| quantity(value, "J")),
            ];
            if has_phases {
                let phases = [point.prefill_joules_per_token, point.decode_joules_per_token];
                row.extend(phases.map(|found| cell(found, |value| quantity(value, "J"))));
            }
            if self.has_limits {
                row.push(Cell::number(point.good_share, percent));
            }
            row.push(Cell::number(point.power, digits));
            row.push(Cell::text(self.marks(place).join(", ")));
            table.rows.push(row);
        }
        table.notes.push(match &self.knee {
            Ok(place) => {
                format!("knee at {} {}: the largest ratio of tok/s to E2E latency", self.axis, self.points[*place].load)
            }
            Err(why) => format!("no knee: {why}"),
        });
        table.notes.push(String::from(
            "throughput / latency: tok/s divided by the median E2E latency in seconds; largest at the knee",
        ));
        if self.has_limits && self.most_tokens_within_limits.is_none() {
            table.notes.push(String::from("no load keeps 99 % of requests within the limits"));
        }
        table
    }

    fn marks(&self, place: usize) -> Vec<&'static str> {
        let marks = [
            (self.knee.as_ref().ok().copied(), "knee"),
            (self.most_tokens, "most tok/s"),
            (self.most_tokens_within_limits, "most tok/s with 99 % within limits"),
            (self.least_joules, "lowest J/output token"),
        ];
        marks.into_iter().filter(|(marked, _)| *marked == Some(place)).map(|(_, mark)| mark).collect()
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn cell(estimate: Option<Estimate>, show: impl Fn(f64) -> String) -> Cell {
    match estimate {
        Some(Estimate { value, low: Some(low), high: Some(high) }) => {
            Cell::Estimate { value, low, high, shown: format!("{} ({} to {})", show(value), show(low), show(high)) }
        }
        Some(Estimate { value, .. }) => Cell::number(Some(value), show),
        None => Cell::Absent,
    }
}

fn as_json(point: &CurvePoint) -> Value {
    let figure = |estimate: Option<Estimate>| {
        estimate.map(|estimate| {
            let (low, high) = (estimate.low, estimate.high);
            json!({ "value": estimate.value, "low": low, "high": high })
        })
    };
    json!({
        "load": point.load,
        "output_tokens_per_second": figure(point.tokens_per_second),
        "requests_per_second": figure(point.requests_per_second),
        "e2e_p50_ms": figure(point.e2e_p50_ms),
        "ttft_p50_ms": figure(point.ttft_p50_ms),
        "gross_j_per_output_token": figure(point.joules_per_token),
        "prefill_j_per_input_token": figure(point.prefill_joules_per_token),
        "decode_j_per_output_token": figure(point.decode_joules_per_token),
        "goodput_requests_per_second": figure(point.goodput),
        "good_share": point.good_share,
        "power": point.power,
        "is_whole": point.is_whole,
        "is_client_limited": point.is_client_limited,
    })
}
