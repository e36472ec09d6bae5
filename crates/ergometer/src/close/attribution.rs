//! Attributes the net energy of a session to its requests, by a cost model where requests ran together.
//!
//! Equal shares (see [`Sharing`]) conserve energy. The net energy of all requests that shared the server is pooled and
//! divided again by the cost model, so it stays conserved. A request that was alone keeps the energy of its window, unless
//! others followed so closely that the sensor blurs them: then the cost model divides measured energy better, because it
//! averages over all requests. Without a cost model, the interval of such a window includes what its edges leave open.

use ergometer_attribution::{
    CLEARLY_BETTER, Calibration, EngineLog, Observations, PrefillTime, RequestShare, RequestWork, Steps, Stretches,
    divide, equal_share_range, fit, observe,
};
use ergometer_runs::cost_model::{Coefficients, CostModel, CostModels, Evidence, Term, joules};
use ergometer_runs::record::EnergyMethod;
use ergometer_runs::summary::ShareDoubt;
use ergometer_statistics::NonNegative;
use ergometer_telemetry::Provenance;
use ergometer_units::{Seconds, Window};

use super::doubts::Doubts;
use super::edges::shifted_ranges;
use super::session::{LoadedSession, MeteredSession};
use crate::attribution::MeteredScope;

/// Stretches of time are at least this long: the smear of a power sensor is small against it.
const SHORTEST: Seconds = Seconds::new(0.2);

/// And at least this many updates of the sensor.
const UPDATES: f64 = 4.0;

/// A session has at most about this many stretches: in a longer one, they are longer.
const MOST_STRETCHES: f64 = 20_000.0;

/// Tokens arrive up to this long after the device worked for them; the lag that fits best is used. The clocks of the
/// sensor and of the client may differ by a few milliseconds, so it may be negative.
const LAGS_MS: std::ops::RangeInclusive<i32> = -4..=20;
const LAG_STEP: usize = 2;

/// The lag of a calibration that later runs use again.
const USUAL_LAG: Seconds = Seconds::new(0.004);

/// A request with this much time before and after it is measured by itself, without a cost model.
const ISOLATED: Seconds = Seconds::new(0.1);

/// Doubts about a device with less than this share of the energy matter little.
const MAIN: f64 = 0.2;

/// What a session shows of the costs of the server.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// The steps of its requests, if anything shows them.
    pub(super) steps: Option<Steps>,
    /// The observations for each timing and metered scope: of the requests, and of the calibration.
    observations: Vec<Vec<Vec<Observations>>>,
    stretches: Vec<Stretches>,
    /// What calibration requests showed, which is part of the observations.
    pub(super) calibration: Option<Calibration>,
}

impl Observed {
    /// Observes a session. An engine log that does not fit is an error; its text is the second value.
    pub(super) fn new(session: &MeteredSession, log: Option<&EngineLog>) -> (Self, Option<String>) {
        let streams = &session.loaded.streams;
        let mut problem = None;
        let from_log = log.filter(|_| session.has_net()).and_then(|log| match Steps::from_log(log, streams) {
            Ok(steps) => Some(steps),
            Err(error) => {
                problem = Some(error.to_string());
                None
            }
        });
        let steps = from_log.or_else(|| Steps::from_arrivals(streams)).or_else(|| Steps::from_tokens(streams));
        (Self::with_steps(session, steps), problem)
    }

    /// Observes a session by its token counts. For a session whose steps are known, but show too little: requests that start
    /// and end together have few steps in which tokens arrive.
    pub(super) fn by_tokens(session: &MeteredSession) -> Self {
        Self::with_steps(session, Steps::from_tokens(&session.loaded.streams))
    }

    fn with_steps(session: &MeteredSession, steps: Option<Steps>) -> Self {
        if !session.has_net() {
            return Self::default();
        }
        let loaded = session.loaded;
        let calibration = Steps::from_arrivals(&loaded.calibration);
        let shortest = shortest(loaded, session);
        let scopes: Vec<MeteredScope> = session.sharing.scopes().collect();
        let stretches = PrefillTime::ALL.map(|prefill| -> Vec<Stretches> {
            steps.iter().chain(&calibration).map(|steps| Stretches::new(steps, shortest, prefill)).collect()
        });
        let at_timing = |Timing { prefill, lag }: Timing| {
            let mut observations = vec![Vec::new(); scopes.len()];
            for stretches in &stretches[prefill as usize] {
                let found = observe(&session.meter, &scopes, &session.idle, stretches, lag);
                observations.iter_mut().zip(found).for_each(|(all, one)| all.push(one));
            }
            observations
        };
        let observations: Vec<Vec<Vec<Observations>>> = Timing::all().map(at_timing).collect();
        let [stretches, _] = stretches;
        let calibration = calibration.and_then(|_| {
            let usual = Timing::all().position(|timing| timing.lag >= USUAL_LAG).unwrap_or(0);
            let observed = observations[usual].iter().filter_map(|all| all.last());
            Calibration::new(&loaded.calibration, scopes.into_iter().zip(observed))
        });
        Self { steps, observations, stretches, calibration }
    }

    /// Adds the calibration of an earlier run.
    pub(super) fn reuse(&mut self, calibration: Calibration, session: &MeteredSession) {
        for observations in &mut self.observations {
            for (scope, all) in session.sharing.scopes().zip(observations) {
                all.extend(calibration.observations(scope));
            }
        }
        self.stretches.push(Stretches::without_times(calibration.work()));
        self.calibration = Some(calibration);
    }

    fn evidence(&self) -> Option<Evidence> {
        self.steps.as_ref().map(Steps::evidence)
    }
}

/// When the device worked for what the client saw. The timing that fits best is used.
#[derive(Debug, Clone, Copy)]
struct Timing {
    prefill: PrefillTime,
    /// How long before its tokens arrived.
    lag: Seconds,
}

impl Timing {
    fn all() -> impl Iterator<Item = Self> {
        let lags = || LAGS_MS.step_by(LAG_STEP).map(|ms| Seconds::new(f64::from(ms) / 1e3));
        PrefillTime::ALL.into_iter().flat_map(move |prefill| lags().map(move |lag| Self { prefill, lag }))
    }
}

/// The length of stretches: a few updates of the slowest measured device.
fn shortest(loaded: &LoadedSession, session: &MeteredSession) -> Seconds {
    let mut shortest = SHORTEST.max(Seconds::new(session.seconds() / MOST_STRETCHES));
    for scope in session.sharing.scopes().filter(|scope| scope.summed) {
        let channels = loaded.timeline.channels().map(|(_, channel)| channel);
        let channels = channels.filter(|channel| (channel.device, channel.scope) == (scope.device, scope.scope));
        let periods = channels.filter(|channel| channel.provenance != Provenance::Gauge);
        let fastest = periods.filter_map(|channel| channel.update_period).reduce(Seconds::min);
        if let Some(fastest) = fastest {
            shortest = shortest.max(Seconds::new(UPDATES * fastest.get()));
        }
    }
    shortest
}

/// Fits the cost models to all sessions together. `None` if no device has enough observations.
pub(super) fn fit_models<'a>(
    sessions: impl Iterator<Item = (&'a MeteredSession<'a>, &'a Observed)> + Clone,
) -> Option<CostModels> {
    let evidence = sessions.clone().filter_map(|(_, observed)| observed.evidence()).max()?;
    let load_range = Stretches::load_range(sessions.clone().flat_map(|(_, observed)| &observed.stretches));
    let mut scopes: Vec<MeteredScope> = Vec::new();
    for scope in sessions.clone().flat_map(|(session, _)| session.sharing.scopes()) {
        if !scopes.iter().any(|known| (known.device, known.scope) == (scope.device, scope.scope)) {
            scopes.push(scope);
        }
    }
    let observed = |scope: MeteredScope, timing: usize| {
        let mut all: Vec<&Observations> = Vec::new();
        for (session, observed) in sessions.clone() {
            let mut known = session.sharing.scopes();
            let place = known.position(|known| (known.device, known.scope) == (scope.device, scope.scope));
            // A session without idle power has no observations.
            let scopes = observed.observations.get(timing);
            all.extend(scopes.zip(place).and_then(|(scopes, place)| scopes.get(place)).into_iter().flatten());
        }
        all
    };
    // The device that used the most energy shows the lag best.
    let used = |scope: MeteredScope| -> f64 {
        observed(scope, 0).iter().flat_map(|series| series.observations()).map(|(_, joules)| joules).sum()
    };
    let order = |one: &MeteredScope, other: &MeteredScope| {
        one.summed.cmp(&other.summed).then(used(*one).total_cmp(&used(*other)))
    };
    let main = scopes.iter().copied().max_by(order)?;
    let unexplained = |(place, timing)| Some((1.0 - NonNegative::explained(observed(main, place))?, place, timing));
    let fits = Timing::all().enumerate().filter_map(unexplained);
    let better = |best: (f64, usize, Timing), next: (f64, usize, Timing)| {
        let limit = if next.2.prefill == best.2.prefill { best.0 } else { CLEARLY_BETTER * best.0 };
        if next.0 < limit { next } else { best }
    };
    let (_, place, timing) = fits.reduce(better)?;
    let models = scopes.into_iter().filter_map(|scope| fit(scope, &observed(scope, place), evidence, load_range));
    let models: Vec<_> = models.collect();
    let calibrations = sessions.filter_map(|(_, observed)| observed.calibration.as_ref());
    let calibration_s = calibrations.map(|calibration| calibration.seconds).fold(0.0, |sum, seconds| sum + seconds);
    let lag_ms = timing.lag.get() * 1e3;
    (!models.is_empty()).then_some(CostModels { evidence, runs: Vec::new(), calibration_s, lag_ms, models })
}

/// The net energy of a request of one device and scope.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attributed {
    /// Its part of the energy at idle power, in joules.
    pub(super) idle: f64,
    /// Its net energy.
    pub(super) net: RequestShare,
    pub(super) method: EnergyMethod,
}

/// The attributed energy of each request that shared the server, by metered scope.
#[derive(Debug, Default)]
pub(super) struct SessionAttribution {
    scopes: Vec<ScopeAttribution>,
}

#[derive(Debug, Default)]
struct ScopeAttribution {
    requests: Vec<Option<Attributed>>,
    /// The range of the net energy of requests that ran in a row, if nothing shows better when the device worked for them.
    edges: Vec<Option<(f64, f64)>>,
    /// The net energy for other clients of the server.
    others: f64,
    /// The net energy of the requests, if it is part of the sum over measured devices.
    summed: f64,
    doubts: Vec<ShareDoubt>,
}

impl SessionAttribution {
    pub(super) fn new(session: &MeteredSession, observed: &Observed, models: Option<&CostModels>) -> Self {
        let doubts = Doubts::new(session, observed.steps.as_ref());
        let scopes = session.sharing.scopes().enumerate();
        Self { scopes: scopes.map(|place| attribute(session, observed, (models, &doubts), place)).collect() }
    }

    /// The energy of a request; `None` if it was alone, or if its net energy is unknown.
    pub(super) fn get(&self, scope: usize, request: usize) -> Option<Attributed> {
        *self.scopes.get(scope)?.requests.get(request)?
    }

    /// The range of the net energy of the window of a request that has no attribution, if others ran just before or after
    /// it.
    pub(super) fn edge_range(&self, scope: usize, request: usize) -> Option<(f64, f64)> {
        *self.scopes.get(scope)?.edges.get(request)?
    }

    /// The net energy of a metered scope for other clients of the server, which only an engine log shows.
    pub(super) fn others(&self, scope: usize) -> f64 {
        self.scopes.get(scope).map_or(0.0, |scope| scope.others)
    }

    /// Why the intervals of shares were widened, on the devices that used most of the energy.
    pub(super) fn doubts(&self) -> impl Iterator<Item = &ShareDoubt> {
        let whole: f64 = self.scopes.iter().map(|scope| scope.summed).sum();
        let main = self.scopes.iter().filter(move |scope| scope.summed > MAIN * whole);
        main.flat_map(|scope| &scope.doubts)
    }
}

/// The costs by which the energy of a metered scope is divided: of the scope itself, or of the device that the server uses
/// most if the scope has none. A device that is idle has no fit, but its little energy belongs to the requests as well.
fn costs<'a>(models: &'a CostModels, scope: MeteredScope, works: &[RequestWork]) -> Option<(&'a CostModel, bool)> {
    if let Some(own) = models.find(scope.device, scope.scope) {
        return Some((own, true));
    }
    let cost =
        |model: &&CostModel| -> f64 { works.iter().map(|work| joules(&work.work, &model.shares.least_squares)).sum() };
    let summed = models.models.iter().filter(|model| model.summed && scope.summed);
    summed.max_by(|one, other| cost(one).total_cmp(&cost(other))).map(|model| (model, false))
}

fn attribute(
    session: &MeteredSession,
    observed: &Observed,
    (models, doubts): (Option<&CostModels>, &Doubts),
    (place, scope): (usize, MeteredScope),
) -> ScopeAttribution {
    let requests = &session.loaded.events.requests;
    let works = observed.steps.as_ref().map_or(&[][..], Steps::requests);
    let model = models.and_then(|models| Some((models, costs(models, scope, works)?)));
    let evidence = observed.steps.as_ref().map(Steps::evidence);
    let isolated = isolated(session);
    let edges = if model.is_some() && evidence.is_some_and(|evidence| evidence < Evidence::Tokens) {
        vec![None; requests.len()]
    } else {
        edge_ranges(session, (place, scope), &isolated)
    };
    // The equal share of each request that is not measured by itself: idle energy, net energy, and the share of its time
    // with readings.
    let equal: Vec<Option<EqualShare>> = requests
        .iter()
        .zip(isolated)
        .map(|(located, is_isolated)| {
            let window = Window::between(located.sent, located.end);
            let shared = session.sharing.seconds(window.start(), window.end());
            let share = session.sharing.share(place, window.start(), window.end());
            let is_alone = (window.length() - shared).abs() <= Seconds::new(1e-9);
            let is_blurred = !is_isolated && scope.summed && model.is_some() && evidence.is_some();
            let joules = share.joules.filter(|_| (!is_alone || is_blurred) && !share.is_in_gap())?;
            let (power, _) = session.idle[place].at(middle(window))?;
            let idle = (power * share.covered).get();
            let covered = if shared > Seconds::ZERO { (share.covered / shared).clamp(0.0, 1.0) } else { 1.0 };
            Some(EqualShare { idle, net: joules.get() - idle, covered, is_alone })
        })
        .collect();
    let pool: f64 = equal.iter().flatten().map(|equal| equal.net).sum();
    let range = || equal_shares(session, place, &equal, &edges);
    let divided = model.zip(observed.steps.as_ref()).and_then(|((models, (model, is_own)), steps)| {
        if is_own && pool <= 0.0 {
            return None;
        }
        let evidence = steps.evidence().max(models.evidence);
        // The meter has no energy for work in a gap of its readings.
        let works: Vec<RequestWork> = steps
            .requests()
            .iter()
            .zip(&equal)
            .map(|(work, equal)| equal.map_or_else(RequestWork::default, |equal| work.scaled(equal.covered)))
            .collect();
        let others = steps.others();
        let mut shares = divide(pool, margin(session, place), (&works, &others), &model.shares)?;
        let whole: f64 = shares.iter().map(|share| share.share).sum();
        let doubts = doubts.of_fit(is_own.then_some(&model.shares), evidence);
        if evidence == Evidence::Tokens || !doubts.reasons.is_empty() {
            // The costs may not be those of the server, so other divisions are possible as well.
            for (share, other) in shares.iter_mut().zip(range()) {
                (share.low, share.high) = (share.low.min(other.low), share.high.max(other.high));
                share.low -= (1.0 - doubts.ours) * share.low.max(0.0);
            }
        }
        widen_unseen(&mut shares, session, (&works, &equal), &model.shares);
        let others = if others == RequestWork::default() { 0.0 } else { pool - whole };
        Some((shares, EnergyMethod::CostModel(evidence), others, doubts.reasons))
    });
    let (shares, method, others, doubts) =
        divided.unwrap_or_else(|| (range(), EnergyMethod::EqualShare, 0.0, Vec::new()));
    let attributed =
        equal.into_iter().zip(shares).map(|(equal, net)| Some(Attributed { idle: equal?.idle, net, method }));
    let summed = if scope.summed { pool } else { 0.0 };
    ScopeAttribution { requests: attributed.collect(), edges, others, summed, doubts }
}

/// The equal share of a request.
#[derive(Debug, Clone, Copy)]
struct EqualShare {
    idle: f64,
    net: f64,
    /// The part of its time that has readings.
    covered: f64,
    /// Whether no other request was in flight.
    is_alone: bool,
}

/// A request that failed before its first token may have cost nothing, or its whole prompt: the client cannot see it.
fn widen_unseen(
    shares: &mut [RequestShare],
    session: &MeteredSession,
    (works, equal): (&[RequestWork], &[Option<EqualShare>]),
    costs: &Coefficients,
) {
    let most = |term| {
        let cost = costs.term(term);
        cost.high.unwrap_or(cost.value)
    };
    let (prompt, token) = (most(Term::Prompt), most(Term::PromptToken));
    for (place, share) in shares.iter_mut().enumerate() {
        let stream = &session.loaded.streams[place];
        if equal[place].is_none() || works[place] != RequestWork::default() || stream.end <= stream.sent {
            continue;
        }
        let cost = stream.prompt_tokens.map(|tokens| prompt + tokens * token);
        share.high = share.high.max(cost.or(equal[place].map(|equal| equal.net)).unwrap_or(0.0));
    }
}

/// Whether each request has time before and after it in which no other was in flight.
fn isolated(session: &MeteredSession) -> Vec<bool> {
    let requests = &session.loaded.events.requests;
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|&place| requests[place].sent);
    let mut isolated = vec![true; requests.len()];
    let mut last: Option<(ergometer_units::Timestamp, usize)> = None;
    for place in order {
        if let Some((end, before)) = last
            && requests[place].sent - end < ISOLATED
        {
            (isolated[before], isolated[place]) = (false, false);
        }
        if last.is_none_or(|(end, _)| requests[place].end > end) {
            last = Some((requests[place].end, place));
        }
    }
    isolated
}

/// The range of the net energy of each request that was alone, but not for long before or after it.
fn edge_ranges(
    session: &MeteredSession,
    (place, scope): (usize, MeteredScope),
    isolated: &[bool],
) -> Vec<Option<(f64, f64)>> {
    let requests = &session.loaded.events.requests;
    let mut ranges = vec![None; requests.len()];
    // In this process, the times are those of the work itself, and what is modelled has no edges.
    if session.is_in_process || scope.provenance == Provenance::Modelled {
        return ranges;
    }
    let (mut places, mut windows) = (Vec::new(), Vec::new());
    for (request, (located, is_isolated)) in requests.iter().zip(isolated).enumerate() {
        let window = Window::between(located.sent, located.end);
        let shared = session.sharing.seconds(window.start(), window.end());
        if !is_isolated && (window.length() - shared).abs() <= Seconds::new(1e-9) {
            places.push(request);
            windows.push(window);
        }
    }
    let found = shifted_ranges(&session.meter, (scope, &session.idle[place]), &windows);
    places.into_iter().zip(found).for_each(|(request, range)| ranges[request] = range);
    ranges
}

/// Equal shares, with the range of other splits. Requests that are not divided have none. One that was alone has the range of
/// its window.
fn equal_shares(
    session: &MeteredSession,
    place: usize,
    equal: &[Option<EqualShare>],
    edges: &[Option<(f64, f64)>],
) -> Vec<RequestShare> {
    let nets: Vec<Option<f64>> =
        equal.iter().map(|equal| equal.filter(|equal| !equal.is_alone).map(|equal| equal.net)).collect();
    let scope = session.sharing.scopes().nth(place);
    let alone = |request: usize| {
        let located = &session.loaded.events.requests[request];
        let window = Window::between(located.sent, located.end);
        let devices = session.meter.energy(window).devices;
        let found = devices
            .into_iter()
            .find(|energy| scope.is_some_and(|scope| (energy.device, energy.scope) == (scope.device, scope.scope)));
        let joules = found.and_then(|found| found.estimate.ok()).map_or(0.0, |estimate| estimate.joules.get());
        let idle = session.idle[place].at(middle(window)).map_or(0.0, |(power, _)| (power * window.length()).get());
        joules - idle
    };
    let margin = margin(session, place);
    let ranges = equal_share_range(&session.loaded.streams, &nets, &alone);
    let shares = equal.iter().zip(ranges).zip(edges).map(|((equal, range), edges)| {
        let share = equal.map_or(0.0, |equal| equal.net);
        let (low, high) = match equal {
            Some(equal) if equal.is_alone => {
                edges.map_or((share, share), |(low, high)| (low.min(share), high.max(share)))
            }
            _ => range,
        };
        RequestShare {
            share,
            low: share - (share - low).hypot(margin * share),
            high: share + (high - share).hypot(margin * share),
            ..RequestShare::default()
        }
    });
    shares.collect()
}

/// The relative error of the net energy of the session, from the meter and from idle power.
fn margin(session: &MeteredSession, place: usize) -> f64 {
    let Some(gross) = session.gross(place) else { return 0.0 };
    let half = gross.interval().map_or(0.0, |interval| interval.width() / 2.0);
    let Some((power, doubt)) = session.idle[place].at(session.middle()) else { return 0.0 };
    let net = gross.value - power.get() * session.seconds();
    if net == 0.0 { 1.0 } else { half.hypot(doubt.get() * session.seconds()) / net.abs() }
}

fn middle(window: Window) -> ergometer_units::Timestamp {
    window.start() + Seconds::new(window.length().get() / 2.0)
}
