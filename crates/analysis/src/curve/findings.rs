//! Formats a load curve as JSON and as a table.

use ergometer_charts::{Cell, Table};
use ergometer_units::format::{digits, percent};
use serde_json::{Map, Value, json};

use super::{
    Curve, CurvePoint, DECODE_JOULES_PER_OUTPUT_TOKEN, E2E_P50, GOODPUT, JOULES_PER_INPUT_TOKEN, JOULES_PER_TOKEN,
    OUTPUT_TOKENS_PER_SECOND, REQUESTS_PER_SECOND, TTFT_P50,
};
use crate::analyses::Findings;
use ergometer_runs::metrics::Metric;
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
        let labelled = |metric: &Metric| (metric.label, metric.key);
        let mut columns = vec![
            (self.axis.as_str(), "load"),
            (OUTPUT_TOKENS_PER_SECOND.unit.name(), OUTPUT_TOKENS_PER_SECOND.key),
            labelled(E2E_P50),
            labelled(TTFT_P50),
            labelled(JOULES_PER_TOKEN),
        ];
        let has_phases = self.points.iter().any(|point| point.prefill_joules_per_token.is_some());
        if has_phases {
            columns.extend([JOULES_PER_INPUT_TOKEN, DECODE_JOULES_PER_OUTPUT_TOKEN].map(labelled));
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
                figure_cell(E2E_P50, point.e2e_p50_ms),
                figure_cell(TTFT_P50, point.ttft_p50_ms),
                figure_cell(JOULES_PER_TOKEN, point.joules_per_token),
            ];
            if has_phases {
                row.push(figure_cell(JOULES_PER_INPUT_TOKEN, point.prefill_joules_per_token));
                row.push(figure_cell(DECODE_JOULES_PER_OUTPUT_TOKEN, point.decode_joules_per_token));
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

/// A value in the unit of the key of its metric, shown in the unit of the metric.
fn figure_cell(metric: &Metric, estimate: Option<Estimate>) -> Cell {
    cell(estimate, |value| metric.unit.format(metric.in_unit(value)))
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
    let mut fields = Map::new();
    fields.insert(String::from("load"), json!(point.load));
    for (metric, estimate) in [
        (OUTPUT_TOKENS_PER_SECOND, point.tokens_per_second),
        (REQUESTS_PER_SECOND, point.requests_per_second),
        (E2E_P50, point.e2e_p50_ms),
        (TTFT_P50, point.ttft_p50_ms),
        (JOULES_PER_TOKEN, point.joules_per_token),
        (JOULES_PER_INPUT_TOKEN, point.prefill_joules_per_token),
        (DECODE_JOULES_PER_OUTPUT_TOKEN, point.decode_joules_per_token),
        (GOODPUT, point.goodput),
    ] {
        fields.insert(metric.key.to_owned(), json!(figure(estimate)));
    }
    fields.insert(String::from("good_share"), json!(point.good_share));
    fields.insert(String::from("power"), json!(point.power));
    fields.insert(String::from("is_whole"), json!(point.is_whole));
    fields.insert(String::from("is_client_limited"), json!(point.is_client_limited));
    Value::Object(fields)
}
