//! How well the cost model fits, by device, and what it was fitted to.

use ergometer_charts::{Cell, Table};
use ergometer_runs::cost_model::{CostModel, CostModels};
use ergometer_units::format::{digits, quantity, thousands};
use serde_json::{Map, Value, json};

use super::super::{cell, entries};
use super::{COSTS, evidence_words};

/// The models of all devices, counted or not.
pub(super) fn json(models: &CostModels) -> Value {
    let device = |model: &CostModel| {
        let costs: Map<String, Value> = COSTS
            .iter()
            .map(|unit| (unit.name.to_owned(), entries::estimate(Some(unit.joules(&model.shares)))))
            .collect();
        json!({
            "device": model.device.to_string(),
            "scope": model.scope.to_string(),
            "counted": is_counted(models, model),
            "costs": costs,
            "r2": entries::number(model.shares.r2),
            "r2_out_of_sample": entries::number(model.shares.r2_out_of_sample),
            "observations": model.shares.observations,
        })
    };
    models.models.iter().map(device).collect()
}

fn is_counted(models: &CostModels, model: &CostModel) -> bool {
    models.counted().into_iter().any(|counted| std::ptr::eq(counted, model))
}

pub(super) fn table(models: &CostModels) -> Table {
    let mut table = Table::new("cost_model_fit", "Fit of the cost model", &[("figure", "figure"), ("value", "value")]);
    let mut row = |figure: String, value: Cell| table.rows.push(vec![Cell::text(figure), value]);
    let counted = models.counted();
    for model in &counted {
        let of_device = if counted.len() > 1 { format!(", {} {}", model.device, model.scope) } else { String::new() };
        let fit = &model.shares;
        row(format!("R² (variance explained){of_device}"), Cell::number(fit.r2, share));
        row(format!("R² out of sample{of_device}"), Cell::number(fit.r2_out_of_sample, share));
        row(format!("observations{of_device}"), Cell::number(Some(fit.observations as f64), thousands));
    }
    row(String::from("server steps from"), Cell::text(evidence_words(models.evidence)));
    row(String::from("runs fitted together"), cell::count_cell(models.runs.len().max(1) as u64));
    row(String::from("calibration"), Cell::number(Some(models.calibration_s), |seconds| quantity(seconds, "s")));
    if let Some(model) = counted.first() {
        row(String::from("load range"), Cell::number(Some(model.shares.load_range), digits));
    }
    table.notes.push(String::from(
        "R² out of sample: cross-validation; each part of the run is predicted from the other parts.",
    ));
    table.notes.push(String::from(
        "Load range: the 90th percentile of sequences per step divided by the 10th. Near 1, the fixed cost of a step and \
         the cost per sequence cannot be separated.",
    ));
    if !models.runs.is_empty() {
        let runs: Vec<String> = models.runs.iter().map(|run| cell::outside(run)).collect();
        table.notes.push(format!("Runs: {}", runs.join(", ")));
    }
    table
}

fn share(value: f64) -> String {
    format!("{value:.3}")
}
