//! The energy balance: requests + idle + unattributed = total energy of the devices, measured or modelled.

use ergometer_charts::{Cell, Table};
use ergometer_diagnostics::Message;
use ergometer_units::format;
use serde_json::{Value, json};

use super::super::cell::quantity_cell;
use super::super::entries;
use ergometer_runs::saved::Run;
use ergometer_runs::summary::BalanceSummary;

/// The energy balance of a run.
pub(super) struct Balance {
    meter: f64,
    /// Label, name in JSON, and joules.
    parts: [(&'static str, &'static str, f64); 3],
    /// Joules of requests that are in no record, and joules of retried attempts.
    of_which: [(&'static str, &'static str, f64); 2],
}

pub(super) fn balance(run: &Run, warnings: &mut Vec<Message>) -> Option<Balance> {
    let balance = run.energy_totals()?.balance;
    // Summaries of earlier versions have no balance.
    if balance == BalanceSummary::default() {
        return None;
    }
    let found = Balance {
        meter: balance.meter_j,
        parts: [
            ("requests", "requests_j", balance.requests_j),
            ("no request in flight", "idle_j", balance.idle_j),
            ("unattributed", "unattributed_j", balance.unattributed_j),
        ],
        of_which: [
            ("of which requests without a record", "unrecorded_j", balance.unrecorded_j),
            ("of which attempts that were retried", "retried_j", balance.retried_j),
        ],
    };
    let sum: f64 = found.parts.iter().map(|part| part.2).sum();
    if (sum - found.meter).abs() > 1e-6 * found.meter.abs() {
        warnings.push(Message::new(format!(
            "the energy balance does not add up: the parts sum to {sum} J, the total is {} J",
            found.meter
        )));
    }
    Some(found)
}

impl Balance {
    fn share(&self, joules: f64) -> Option<f64> {
        (self.meter > 0.0).then(|| joules / self.meter)
    }

    pub(super) fn json(&self) -> Value {
        let mut found = entries::map(json!({"meter_j": self.meter}));
        for (_, name, joules) in self.parts.iter().chain(&self.of_which) {
            found.insert((*name).to_owned(), entries::number(Some(*joules)));
            let share = self.share(*joules).map(|share| share * 100.0);
            found.insert(name.replace("_j", "_pct"), entries::number(share));
        }
        Value::Object(found)
    }

    pub(super) fn table(&self) -> Table {
        let columns = [("part", "part"), ("energy", "energy_j"), ("share of total", "share")];
        let mut table = Table::new("energy_balance", "Energy balance of the run", &columns);
        let row = |head: &str, joules: f64| {
            vec![Cell::text(head), quantity_cell(Some(joules), "J"), Cell::number(self.share(joules), format::percent)]
        };
        let [requests, others @ ..] = &self.parts;
        // The parts of the requests follow their row.
        let of_which = self.of_which.iter().filter(|part| part.2 > 0.0);
        let parts = std::iter::once(requests).chain(of_which).chain(others);
        table.rows = parts.map(|(head, _, joules)| row(head, *joules)).collect();
        table.rows.push(row("total", self.meter));
        table.notes.push(String::from(
            "requests + no request in flight + unattributed = total; idle power during requests is part of \
             requests; unattributed: used while a sensor gave no readings",
        ));
        table
    }
}
