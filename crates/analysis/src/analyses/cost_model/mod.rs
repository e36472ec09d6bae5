//! The `cost_model` analysis: the fitted joules per prompt token, prompt, decode step, sequence and token of context, from
//! `cost_model.json`, and the price of request shapes.
//!
//! The costs are those of all counted devices together, in net joules. Their 95 % intervals are the range of the draws.

mod absence;
mod fit;
mod prediction;

use ergometer_charts::{Cell, Table};
use ergometer_diagnostics::{Hint, Message, command, hint};
use ergometer_runs::cost_model::{Coefficients, CostModels, Evidence, Term};
use ergometer_runs::record::EnergyMethod;
use ergometer_runs::saved::Run;
use ergometer_statistics::Estimate;
use ergometer_units::format::quantity;
use serde_json::{Map, Value, json};

use super::cell::estimate_cell;
use super::{Analysis, Findings, Options, entries};
use crate::AnalysisError;

/// A cost may be near zero if the lower end of its interval is below this share of it. Costs are never negative.
const NEAR_ZERO: f64 = 0.1;

/// With a smaller load range, runs at other loads show more. Above it, the fit counts as one over many loads.
const WIDE_LOAD_RANGE: f64 = 8.0;

/// The `cost_model` analysis.
pub(super) struct CostModelAnalysis;

impl Analysis for CostModelAnalysis {
    fn id(&self) -> &'static str {
        "cost_model"
    }

    fn about(&self) -> &'static str {
        "energy of each part of the server's work (net joules per prompt token, prompt, decode step, sequence and context \
         token); predicts the energy of other requests"
    }

    fn run(&self, run: &Run, options: &Options) -> Result<Findings, AnalysisError> {
        let models = match CostModels::read(&run.folder) {
            // Predictions need the model; without them, the other analyses and the report are still possible.
            Err(error) if options.predict.is_empty() => {
                return Ok(Findings { warnings: vec![absence::unreadable(&error)], ..Findings::default() });
            }
            models => models?,
        };
        let total = models.as_ref().and_then(|models| models.total(|model| &model.shares));
        let Some((models, total)) = models.as_ref().zip(total) else {
            let reason = absence::reason(run);
            if !options.predict.is_empty() {
                return Err(AnalysisError::Impossible(reason));
            }
            return Ok(Findings { warnings: vec![reason], ..Findings::default() });
        };
        let costs: Vec<Cost> = COSTS.iter().map(|&unit| Cost { unit, joules: unit.joules(&total) }).collect();
        let mut findings = Findings {
            summary: summary(&costs, models, &total),
            data: data(&costs, models, &total),
            warnings: warnings(&costs, &total),
            tables: vec![cost_table(&costs), fit::table(models)],
            ..Findings::default()
        };
        if !options.predict.is_empty() {
            let predictions = prediction::predict(models, &options.predict);
            findings.data.insert(String::from("predictions"), prediction::json(&predictions));
            findings.tables.push(prediction::table(&predictions));
            findings.warnings.extend(prediction::extrapolation(run, models, &options.predict));
        }
        Ok(findings)
    }
}

/// A term, and the amount of it that a cost is given for.
#[derive(Debug, Clone, Copy)]
struct CostUnit {
    term: Term,
    amount: f64,
    /// The name in files.
    name: &'static str,
    /// The name for people.
    words: &'static str,
}

const COSTS: [CostUnit; 5] = [
    CostUnit { term: Term::PromptToken, amount: 1.0, name: "j_per_prompt_token", words: "prompt token" },
    CostUnit { term: Term::Prompt, amount: 1.0, name: "j_per_prompt", words: "prompt" },
    CostUnit { term: Term::Step, amount: 1.0, name: "j_per_decode_step", words: "decode step" },
    CostUnit { term: Term::Sequence, amount: 1.0, name: "j_per_sequence", words: "sequence in a decode step" },
    CostUnit { term: Term::Context, amount: 1e3, name: "j_per_1000_context_tokens", words: "1,000 tokens of context" },
];

impl CostUnit {
    /// The joules of its amount of the term.
    fn joules(self, coefficients: &Coefficients) -> Estimate {
        coefficients.term(self.term).times(self.amount)
    }
}

/// A fitted cost.
#[derive(Debug, Clone, Copy)]
struct Cost {
    unit: CostUnit,
    joules: Estimate,
}

impl Cost {
    fn may_be_near_zero(&self) -> bool {
        self.joules.low.is_some_and(|low| low <= NEAR_ZERO * self.joules.value)
    }
}

fn words(term: Term) -> &'static str {
    COSTS.iter().find(|unit| unit.term == term).map_or("token of padded context", |unit| unit.words)
}

/// The pairs of shown costs that the data cannot tell apart.
fn inseparable(total: &Coefficients) -> Vec<(Term, Term)> {
    total.inseparable().into_iter().filter(|pair| pair.1 != Term::PaddedContext).collect()
}

fn costs_json(costs: &[Cost]) -> Map<String, Value> {
    costs.iter().map(|cost| (cost.unit.name.to_owned(), entries::estimate(Some(cost.joules)))).collect()
}

fn summary(costs: &[Cost], models: &CostModels, total: &Coefficients) -> Map<String, Value> {
    let mut summary = costs_json(costs);
    summary.insert(String::from("evidence"), json!(models.evidence));
    summary.insert(String::from("r2_out_of_sample"), entries::number(total.r2_out_of_sample));
    summary
}

fn data(costs: &[Cost], models: &CostModels, total: &Coefficients) -> Map<String, Value> {
    let zero: Vec<Term> = costs.iter().filter(|cost| cost.may_be_near_zero()).map(|cost| cost.unit.term).collect();
    entries::map(json!({
        "costs": costs_json(costs),
        "inseparable": inseparable(total),
        "may_be_near_zero": zero,
        "evidence": models.evidence,
        "runs": models.runs,
        "calibration_s": models.calibration_s,
        "load_range": entries::number(Some(total.load_range)),
        "devices": fit::json(models),
    }))
}

/// What the data does not show, with what would show it.
fn warnings(costs: &[Cost], total: &Coefficients) -> Vec<Message> {
    let mut warnings = Vec::new();
    for (one, other) in inseparable(total) {
        let text = format!("the costs per {} and per {} are correlated", words(one), words(other));
        let text = format!("{text}: if one is too high, the other is too low, and their sum is more certain");
        warnings.push(Message::new(text).with_hint(remedy(one, other)));
    }
    let zero: Vec<&str> = costs.iter().filter(|cost| cost.may_be_near_zero()).map(|cost| cost.unit.words).collect();
    if !zero.is_empty() {
        let text = format!(
            "these costs may be close to zero (the lower end of the interval is below 10 % of the value): per {}",
            zero.join(", per ")
        );
        let hint = if total.load_range < WIDE_LOAD_RANGE {
            hint!("fit runs at several loads together with ", command("attribute RUN…"))
        } else {
            hint!("add requests with more varied lengths of prompts and answers")
        };
        warnings.push(Message::new(text).with_hint(hint));
    }
    warnings
}

/// The data that tells two terms apart.
fn remedy(one: Term, other: Term) -> Hint {
    match (one, other) {
        (Term::PromptToken, Term::Prompt) => hint!("add requests with more varied prompt lengths"),
        (Term::Step, Term::Sequence) => {
            hint!("fit runs at several loads together with ", command("attribute RUN…"))
        }
        (Term::Step | Term::Sequence, Term::Context) => {
            hint!("add requests with shorter and with longer contexts")
        }
        _ => hint!("fit runs with different requests and at several loads together with ", command("attribute RUN…")),
    }
}

fn cost_table(costs: &[Cost]) -> Table {
    let columns = [("cost per", "cost"), ("net energy", "joules")];
    let mut table = Table::new("cost_model", "Cost model of the server", &columns);
    for cost in costs {
        let joules = estimate_cell(Some(cost.joules), |joules| quantity(joules, "J"));
        table.rows.push(vec![Cell::text(cost.unit.words), joules]);
    }
    table.notes.push(String::from("Joules above idle power. In parentheses: 95 % intervals."));
    table.notes.push(String::from(
        "A decode step has a fixed cost, a cost for each sequence in it (one output token each), and one for the context \
         that each sequence reads.",
    ));
    table
}

/// The evidence for people.
fn evidence_words(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::StepLog => "engine log",
        Evidence::Arrivals => "token arrival times",
        Evidence::Tokens => "token counts",
    }
}

/// Whether the energy of queries that ran together was computed from fitted costs of tokens.
pub(super) fn is_used(run: &Run) -> bool {
    let methods = run.summary.attribution.iter().flat_map(|found| found.methods.keys());
    let mut methods = methods.map(|method| method.parse::<EnergyMethod>());
    methods.any(|method| matches!(method, Ok(EnergyMethod::CostModel(_))))
}

#[cfg(test)]
mod tests;
