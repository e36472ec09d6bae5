//! Finds reasons to doubt the shares of a cost model: what it cannot see would make its intervals too narrow.

use ergometer_attribution::{LEAST_EXPLAINED, Steps, Stream};
use ergometer_runs::cost_model::{Coefficients, Evidence};
use ergometer_runs::summary::ShareDoubt;
use ergometer_telemetry::Signal;

use super::server::increase;
use super::session::MeteredSession;

/// Differences below this share are not noticed.
const LEAST_SHARE: f64 = 0.03;

/// And below this number of tokens.
const LEAST_TOKENS: f64 = 20.0;

/// What the server says about a session that the requests of the client do not show.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    unreported_cache: Option<ShareDoubt>,
    other_clients: Option<ShareDoubt>,
    /// The part of the generated tokens that belongs to this run.
    ours: f64,
}

/// The doubts about one fit.
#[derive(Debug, Default)]
pub(super) struct FitDoubts {
    pub(super) reasons: Vec<ShareDoubt>,
    /// The part of the energy that belongs to this run, at least.
    pub(super) ours: f64,
}

impl Doubts {
    pub(super) fn new(session: &MeteredSession, steps: Option<&Steps>) -> Self {
        let mut doubts = Self { ours: 1.0, ..Self::default() };
        // A log of the engine shows what was computed, and for whom.
        if steps.is_none_or(|steps| steps.evidence() == Evidence::StepLog) {
            return doubts;
        }
        let loaded = session.loaded;
        let prompts: f64 = loaded.streams.iter().filter_map(|stream| stream.prompt_tokens).sum();
        let hits = increase(session, Signal::PrefixCacheHits).filter(|_| !loaded.reports_cached);
        if let Some(hits) = hits.filter(|&hits| hits > LEAST_TOKENS && hits > LEAST_SHARE * prompts) {
            doubts.unreported_cache = Some(ShareDoubt::UnreportedCache { tokens: hits });
        }
        let events = |stream: &Stream| stream.output_tokens.unwrap_or(stream.arrivals.len() as f64);
        let ours: f64 = loaded.streams.iter().map(events).sum();
        let all = increase(session, Signal::GenerationTokens);
        if let Some(all) = all.filter(|&all| all > ours + LEAST_TOKENS && ours < (1.0 - LEAST_SHARE) * all) {
            doubts.other_clients = Some(ShareDoubt::OtherClients { server: all, ours });
            doubts.ours = ours / all;
        }
        doubts
    }

    /// The doubts about a fit; `costs` are absent if they were fitted to another device.
    pub(super) fn of_fit(&self, costs: Option<&Coefficients>, evidence: Evidence) -> FitDoubts {
        let explained = costs.and_then(|costs| costs.r2_out_of_sample.or(costs.r2));
        let poor = explained.filter(|&r2| r2 < LEAST_EXPLAINED && evidence != Evidence::Tokens);
        let poor = poor.map(|r2| ShareDoubt::PoorFit { r2 });
        let known = [self.unreported_cache.clone(), self.other_clients.clone(), poor];
        FitDoubts { reasons: known.into_iter().flatten().collect(), ours: self.ours }
    }
}
