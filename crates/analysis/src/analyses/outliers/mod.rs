//! The `outliers` analysis: queries with unusual latency or energy, with a likely reason.
//!
//! E2E latency is divided by a robust line over output tokens, so that a long answer is not an outlier just for being long.

mod reasons;
mod score;

use ergometer_charts::{Cell, Table};
use ergometer_diagnostics::Message;
use ergometer_statistics::TheilSen;
use ergometer_units::format;
use serde_json::{Value, json};

use super::cell::count_cell;
use super::entries;
use super::{Analysis, Findings, Options};
use crate::AnalysisError;
use ergometer_runs::saved::{Query, Run};
use reasons::{Case, Evidence};
use score::{FEWEST, LIMIT, NoScore, RobustScale};

/// Maximum number of listed outliers.
const LISTED: usize = 50;

/// The `outliers` analysis.
pub(super) struct Outliers;

/// A metric that is checked for outliers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Figure {
    Ttft,
    Tpot,
    E2e,
    JoulesPerToken,
}

impl Figure {
    const ALL: [Self; 4] = [Self::Ttft, Self::Tpot, Self::E2e, Self::JoulesPerToken];

    const fn name(self) -> &'static str {
        match self {
            Self::Ttft => "ttft_s",
            Self::Tpot => "tpot_s",
            Self::E2e => "e2e_s",
            Self::JoulesPerToken => "j_per_output_token",
        }
    }

    const fn head(self) -> &'static str {
        match self {
            Self::Ttft => "TTFT",
            Self::Tpot => "TPOT",
            Self::E2e => "E2E latency relative to answer length",
            Self::JoulesPerToken => "energy per output token",
        }
    }

    const fn unit(self) -> &'static str {
        if matches!(self, Self::JoulesPerToken) { "J" } else { "s" }
    }

    fn value(self, query: &Query) -> Option<f64> {
        match self {
            Self::Ttft => query.ttft(),
            Self::Tpot => query.tpot(),
            Self::E2e => query.e2e(),
            Self::JoulesPerToken => query.joules_per_output_token(),
        }
    }

    /// Whether the metric includes the connect time.
    const fn is_whole_time(self) -> bool {
        matches!(self, Self::Ttft | Self::E2e)
    }

    const fn is_per_token(self) -> bool {
        matches!(self, Self::Tpot | Self::JoulesPerToken)
    }
}

/// An outlier.
#[derive(Debug, Clone, Copy)]
struct Outlier {
    figure: Figure,
    /// The index of the query in the run.
    place: usize,
    value: f64,
    /// The expected value: the median, or the line at its length.
    usual: f64,
    score: f64,
}

/// The outliers of one metric.
struct FigureOutliers {
    figure: Figure,
    values: usize,
    usual: Result<RobustScale, NoScore>,
    /// The line of E2E latency: seconds, and seconds per token.
    line: Option<(f64, f64)>,
    /// Queries without a token count, which cannot be compared with the line.
    uncounted: usize,
    outliers: Vec<Outlier>,
}

fn find_outliers(run: &Run, figure: Figure) -> FigureOutliers {
    let queries = run.queries.iter().enumerate().filter(|(_, query)| query.is_completed());
    let mut found: Vec<(usize, &Query, f64)> =
        queries.filter_map(|(place, query)| Some((place, query, figure.value(query)?))).collect();
    let line = if figure == Figure::E2e { line(&found) } else { None };
    let all = found.len();
    if line.is_some() {
        found.retain(|(_, query, _)| query.output_tokens.is_some());
    }
    // The expected value at the length of the query; 1 without a line.
    let scale = |query: &Query| {
        let (intercept, slope) = line.unwrap_or((1.0, 0.0));
        intercept + slope * query.output_tokens.unwrap_or(0) as f64
    };
    let scaled: Vec<f64> = found.iter().map(|(_, query, value)| value / scale(query)).collect();
    let usual = RobustScale::from_values(&scaled);
    let outliers = usual.map_or_else(
        |_| Vec::new(),
        |usual| {
            let each = found.iter().zip(&scaled).filter_map(|(&(place, query, value), &scaled)| {
                let score = usual.score(scaled).filter(|score| score.abs() > LIMIT)?;
                Some(Outlier { figure, place, value, usual: usual.value() * scale(query), score })
            });
            each.collect()
        },
    );
    FigureOutliers { figure, values: found.len(), usual, line, uncounted: all - found.len(), outliers }
}

/// The Theil-Sen line of E2E latency over output tokens. `None` if all answers have the same length, if the line is not
/// positive at every length, or if too few queries have a token count.
fn line(found: &[(usize, &Query, f64)]) -> Option<(f64, f64)> {
    let pairs = found.iter().filter_map(|(_, query, value)| Some((query.output_tokens? as f64, *value)));
    let pairs: Vec<(f64, f64)> = pairs.collect();
    let line = TheilSen::fit(&pairs).ok().filter(|_| pairs.len() >= FEWEST)?;
    let is_above = |tokens: f64| line.intercept + line.slope * tokens > 0.0;
    pairs.iter().all(|pair| is_above(pair.0)).then_some((line.intercept, line.slope))
}

impl Analysis for Outliers {
    fn id(&self) -> &'static str {
        "outliers"
    }

    fn about(&self) -> &'static str {
        "queries with unusual latency or energy, with a likely reason"
    }

    fn run(&self, run: &Run, _: &Options) -> Result<Findings, AnalysisError> {
        let figures: Vec<FigureOutliers> = Figure::ALL.into_iter().map(|figure| find_outliers(run, figure)).collect();
        let mut findings = Findings::default();
        for one in &figures {
            findings.warnings.extend(one.warning());
            findings.warnings.extend(one.uncounted());
        }
        let mut listed: Vec<Outlier> = figures.iter().flat_map(|one| &one.outliers).copied().collect();
        listed.sort_by(|one, other| other.score.abs().total_cmp(&one.score.abs()).then(one.place.cmp(&other.place)));
        let all = listed.len();
        let mut places: Vec<usize> = listed.iter().map(|outlier| outlier.place).collect();
        places.sort_unstable();
        places.dedup();
        listed.truncate(LISTED);
        let evidence = Evidence::new(run)?;
        let explained: Vec<(Outlier, Vec<String>)> =
            listed.into_iter().map(|outlier| (outlier, reasons_of(run, &evidence, &figures, &outlier))).collect();

        let counts: Value =
            figures.iter().map(|one| (one.figure.name().to_owned(), json!(one.outliers.len()))).collect();
        findings.summary = entries::map(json!({
            "queries": run.queries.len(), "outlying_queries": places.len(), "outliers": all, "by_figure": counts,
        }));
        findings.data = entries::map(json!({
            "rule": "|0.6745 (ln x - median) / MAD| > 3.5",
            "figures": figures.iter().map(FigureOutliers::json).collect::<Vec<_>>(),
            "listed": explained.iter().map(|(outlier, reasons)| outlier.json(run, reasons)).collect::<Vec<_>>(),
            "not_listed": all - explained.len(),
        }));
        findings.tables.push(count_table(&figures));
        if !explained.is_empty() {
            findings.tables.push(list_table(run, &explained, all));
        }
        Ok(findings)
    }
}

fn reasons_of(run: &Run, evidence: &Evidence, figures: &[FigureOutliers], outlier: &Outlier) -> Vec<String> {
    let query = &run.queries[outlier.place];
    let same = figures.iter().find(|one| one.figure == outlier.figure).map_or(&[][..], |one| &one.outliers);
    // Outliers are in the order of the run.
    let is_one = |place: &usize| {
        let found = same.binary_search_by_key(place, |other| other.place);
        found.is_ok_and(|found| (same[found].score > 0.0) == (outlier.score > 0.0))
    };
    let beside: Vec<usize> = evidence.beside(query).collect();
    let others = (beside.iter().filter(|&place| is_one(place)).count(), beside.len());
    evidence.reasons(&Case {
        query,
        figure: outlier.figure,
        value: outlier.value,
        usual: outlier.usual,
        beside: others,
    })
}

impl Outlier {
    /// The value as a multiple of the expected one.
    fn times(&self) -> f64 {
        self.value / self.usual
    }

    fn json(&self, run: &Run, reasons: &[String]) -> Value {
        let query = &run.queries[self.place];
        json!({"figure": self.figure.name(), "request": query.request, "session": query.session, "index": query.index,
            "subject": run.subject(query), "value": self.value, "usual": entries::number(Some(self.usual)),
            "times_usual": entries::number(Some(self.times())), "score": self.score, "reasons": reasons})
    }
}

impl FigureOutliers {
    fn high(&self) -> usize {
        self.outliers.iter().filter(|outlier| outlier.score > 0.0).count()
    }

    fn warning(&self) -> Option<Message> {
        match self.usual {
            Err(NoScore::NoSpread) => Some(Message::new(format!(
                "more than half of the queries have the same {}, so outliers cannot be found (the MAD is zero)",
                self.figure.head()
            ))),
            Err(NoScore::TooFew) if self.values > 0 => Some(Message::new(format!(
                "only {} queries have {}: to find outliers, at least {FEWEST} are needed",
                self.values,
                self.figure.head()
            ))),
            Err(NoScore::TooFew) => Some(Message::new(format!("no query has {}", self.figure.head()))),
            Ok(_) => None,
        }
    }

    fn uncounted(&self) -> Option<Message> {
        let head = self.figure.head();
        match self.uncounted {
            0 => None,
            1 => {
                Some(Message::new(format!("1 query has no output token count: its {head} is not checked for outliers")))
            }
            many => Some(Message::new(format!(
                "{many} queries have no output token count: their {head} is not checked for outliers"
            ))),
        }
    }

    fn json(&self) -> Value {
        let usual = self.usual.ok();
        let fences = usual.map(RobustScale::fences);
        let line = self.line.map(|(intercept, slope)| json!({"intercept_s": intercept, "s_per_output_token": slope}));
        let why = match self.usual {
            Err(NoScore::NoSpread) => Some("mad_is_zero"),
            Err(NoScore::TooFew) => Some("too_few"),
            Ok(_) => None,
        };
        json!({"figure": self.figure.name(), "values": self.values, "outliers": self.outliers.len(), "high": self.high(),
            "low": self.outliers.len() - self.high(), "relative_to_line": line, "without_token_count": self.uncounted,
            "usual": entries::number(usual.map(RobustScale::value)),
            "fence_low": entries::number(fences.map(|fences| fences.0)),
            "fence_high": entries::number(fences.map(|fences| fences.1)), "no_score": why})
    }
}

fn count_table(figures: &[FigureOutliers]) -> Table {
    let columns = [
        ("figure", "figure"),
        ("queries", "values"),
        ("high outliers", "high"),
        ("low outliers", "low"),
        ("median", "usual"),
    ];
    let mut table = Table::new("outlier_counts", "Number of outliers", &columns);
    for one in figures {
        let usual = one.usual.ok().map(RobustScale::value);
        let show = |value: f64| match one.line {
            Some((intercept, slope)) => {
                let (base, token) = (format::quantity(intercept * value, "s"), format::quantity(slope * value, "s"));
                format!("{base} + {token} per token")
            }
            None => format::quantity(value, one.figure.unit()),
        };
        table.rows.push(vec![
            Cell::text(one.figure.head()),
            count_cell(one.values as u64),
            count_cell(one.high() as u64),
            count_cell((one.outliers.len() - one.high()) as u64),
            Cell::number(usual, show),
        ]);
    }
    table.notes.push(String::from(
        "An outlier has a modified z-score of the logarithm beyond ±3.5 (Iglewicz and Hoaglin 1993). E2E latency is \
         compared with a robust regression on output tokens.",
    ));
    table
}

fn list_table(run: &Run, explained: &[(Outlier, Vec<String>)], all: usize) -> Table {
    let columns = [
        ("request", "request"),
        ("figure", "figure"),
        ("value", "value"),
        ("x median", "times_usual"),
        ("score", "score"),
        ("likely reason", "reason"),
    ];
    let mut table = Table::new("outliers", "Most extreme outliers", &columns);
    for (outlier, reasons) in explained {
        let reason = if reasons.is_empty() { Cell::Absent } else { Cell::text(reasons.join("; ")) };
        table.rows.push(vec![
            Cell::Request { request: run.queries[outlier.place].request },
            Cell::text(outlier.figure.head()),
            Cell::number(Some(outlier.value), |value| format::quantity(value, outlier.figure.unit())),
            Cell::number(Some(outlier.times()), |times| format!("{} x", format::significant(times))),
            Cell::number(Some(outlier.score), |score| format!("{score:+.1}")),
            reason,
        ]);
    }
    if all > explained.len() {
        table.notes.push(format!("{} more are not listed.", all - explained.len()));
    }
    table.notes.push(String::from(
        "A likely reason is something unusual about the query or the time it ran, not a proven cause.",
    ));
    table
}

#[cfg(test)]
mod tests;
