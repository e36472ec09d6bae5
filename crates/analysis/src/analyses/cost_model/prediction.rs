//! The price of request shapes: net joules at a load, from the coefficients for prices.

use ergometer_charts::{Cell, Table};
use ergometer_diagnostics::Message;
use ergometer_runs::Summary;
use ergometer_runs::cost_model::{CostModels, RequestShape, Term};
use ergometer_runs::saved::Run;
use ergometer_statistics::Estimate;
use ergometer_units::format::{quantity, significant, thousands};
use serde_json::{Value, json};

use super::super::cell::estimate_cell;
use super::super::entries;

const JOULES_PER_KWH: f64 = 3.6e6;

/// The price of a request shape.
pub(super) struct Prediction {
    shape: RequestShape,
    /// Net joules of one request.
    request: Estimate,
    prefill: Estimate,
    decode: Estimate,
}

impl Prediction {
    /// Prefill joules per input token.
    fn per_input_token(&self) -> Estimate {
        self.prefill.times(1.0 / self.shape.input)
    }

    /// Decode joules per output token.
    fn per_output_token(&self) -> Estimate {
        self.decode.times(1.0 / self.shape.output)
    }

    fn kwh_per_1000_requests(&self) -> Estimate {
        self.request.times(1e3 / JOULES_PER_KWH)
    }
}

/// Prices each shape, over all counted devices.
pub(super) fn predict(models: &CostModels, shapes: &[RequestShape]) -> Vec<Prediction> {
    let Some(prices) = models.total(|model| &model.prices) else { return Vec::new() };
    let is_prefill = |term| matches!(term, Term::PromptToken | Term::Prompt);
    let price = |&shape: &RequestShape| Prediction {
        shape,
        request: prices.price(shape, |_| true),
        prefill: prices.price(shape, is_prefill),
        decode: prices.price(shape, |term| !is_prefill(term)),
    };
    shapes.iter().map(price).collect()
}

pub(super) fn json(predictions: &[Prediction]) -> Value {
    let one = |found: &Prediction| {
        json!({
            "input_tokens": found.shape.input,
            "output_tokens": found.shape.output,
            "concurrency": found.shape.concurrency,
            "net_j_per_request": entries::estimate(Some(found.request)),
            "prefill_j": entries::estimate(Some(found.prefill)),
            "decode_j": entries::estimate(Some(found.decode)),
            "prefill_j_per_input_token": entries::estimate(Some(found.per_input_token())),
            "decode_j_per_output_token": entries::estimate(Some(found.per_output_token())),
            "net_kwh_per_1000_requests": entries::estimate(Some(found.kwh_per_1000_requests())),
        })
    };
    predictions.iter().map(one).collect()
}

pub(super) fn table(predictions: &[Prediction]) -> Table {
    let columns = [
        ("request", "request"),
        ("net energy", "net_j_per_request"),
        ("prefill", "prefill_j"),
        ("decode", "decode_j"),
        ("prefill/input token", "prefill_j_per_input_token"),
        ("decode/output token", "decode_j_per_output_token"),
        ("kWh per 1,000 requests", "net_kwh_per_1000_requests"),
    ];
    let mut table = Table::new("cost_model_predictions", "Predicted energy of requests", &columns);
    for found in predictions {
        let RequestShape { input, output, concurrency } = found.shape;
        let joules = |estimate: Estimate| estimate_cell(Some(estimate), |joules| quantity(joules, "J"));
        let name = format!("in={input},out={output},concurrency={concurrency}");
        table.rows.push(vec![
            Cell::text(name),
            joules(found.request),
            joules(found.prefill),
            joules(found.decode),
            joules(found.per_input_token()),
            joules(found.per_output_token()),
            estimate_cell(Some(found.kwh_per_1000_requests()), significant),
        ]);
    }
    table.notes.push(String::from(
        "Energy of one request, above idle power, while others of the same size are in flight and all input tokens are \
         computed (none cached). The first output token is part of prefill. In parentheses: 95 % intervals.",
    ));
    table
}

/// Warns about loads above those of the fitted runs.
pub(super) fn extrapolation(run: &Run, models: &CostModels, shapes: &[RequestShape]) -> Option<Message> {
    let highest = highest_load(run, models)?;
    let above = shapes.iter().map(|shape| shape.concurrency).filter(|&load| load > highest).reduce(f64::max)?;
    Some(Message::new(format!(
        "concurrency {} is above the highest load that the model was fitted to ({} in flight): the prediction is an \
         extrapolation",
        thousands(above),
        thousands(highest)
    )))
}

/// The most requests in flight in the fitted runs; `None` if one of them cannot be read.
fn highest_load(run: &Run, models: &CostModels) -> Option<f64> {
    let most = |summary: &Summary| Some(summary.load.as_ref()?.whole.in_flight?.max as f64);
    let others = models.runs.iter().filter(|&name| *name != run.name()).map(|name| {
        let folder = run.folder.canonicalize().ok()?.parent()?.join(name);
        most(&Summary::read(&folder).ok()?)
    });
    std::iter::once(most(&run.summary)).chain(others).try_fold(0.0, |highest: f64, load| Some(highest.max(load?)))
}
