//! Attributes the net energy of a session to its requests, by a cost model where requests ran together.
//!
//! Equal shares (see [`Sharing`]) conserve energy. The net energy of all requests that shared the server is pooled and
//! divided again by the cost model, so it stays conserved. A request that was alone keeps the energy of its window, unless
//! others followed so closely that the sensor blurs them: then the cost model divides measured energy better, because it
//! averages over all requests.

use ergometer_attribution::{
    Calibration, EngineLog, Observations, RequestShare, RequestWork, Steps, Stretches, divide, equal_share_range, fit,
    observe,
};
use ergometer_runs::cost_model::{CostModels, Evidence};
use ergometer_runs::record::EnergyMethod;
use ergometer_statistics::NonNegative;
use ergometer_telemetry::Provenance;
use ergometer_units::{Seconds, Window};

use super::session::{LoadedSession, MeteredSession};
use crate::attribution::MeteredScope;

/// Stretches of time are at least this long: the smear of a power sensor is small against it.
const SHORTEST: Seconds = Seconds::new(0.2);

/// And at least this many updates of the sensor.
const UPDATES: f64 = 4.0;

/// Tokens arrive up to this long after the device worked for them; the lag that fits best is used. The clocks of the
/// sensor and of the client may differ by a few milliseconds, so it may be negative.
const LAGS_MS: std::ops::RangeInclusive<i32> = -4..=20;
const LAG_STEP: usize = 2;

/// The lag of a calibration that later runs use again.
const USUAL_LAG_MS: f64 = 4.0;

/// A request with this much time before and after it is measured by itself, without a cost model.
const ISOLATED: Seconds = Seconds::new(0.1);

/// What a session shows of the costs of the server.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// The steps of its requests, if anything shows them.
    pub(super) steps: Option<Steps>,
    /// The observations for each lag and metered scope: of the requests, and of the calibration.
    observations: Vec<Vec<Vec<Observations>>>,
    stretches: Vec<Stretches>,
    /// What calibration requests showed, which is part of the observations.
    pub(super) calibration: Option<Calibration>,
}

impl Observed {
    /// Observes a session. An engine log that does not fit is an error; its text is the second value.
    pub(super) fn new(session: &MeteredSession, log: Option<&EngineLog>) -> (Self, Option<String>) {
        let loaded = session.loaded;
        let mut problem = None;
        let from_log = log.and_then(|log| match Steps::from_log(log, &loaded.streams) {
            Ok(steps) => Some(steps),
            Err(error) => {
                problem = Some(error.to_string());
                None
            }
        });
        let steps =
            from_log.or_else(|| Steps::from_arrivals(&loaded.streams)).or_else(|| Steps::from_tokens(&loaded.streams));
        let calibration = Steps::from_arrivals(&loaded.calibration);
        let shortest = shortest(loaded, session);
        let stretches: Vec<Stretches> =
            steps.iter().chain(&calibration).map(|steps| Stretches::new(steps.steps(), shortest)).collect();
        let scopes: Vec<MeteredScope> = session.sharing.scopes().collect();
        let at_lag = |lag: f64| {
            let mut observations = vec![Vec::new(); scopes.len()];
            for stretches in &stretches {
                let found = observe(&session.meter, &scopes, &session.idle, stretches, Seconds::new(lag / 1e3));
                observations.iter_mut().zip(found).for_each(|(all, one)| all.push(one));
            }
            observations
        };
        let observations: Vec<Vec<Vec<Observations>>> = lags().map(at_lag).collect();
        let calibration = calibration.and_then(|_| {
            let usual = lags().position(|lag| lag >= USUAL_LAG_MS).unwrap_or(0);
            let observed = observations[usual].iter().filter_map(|all| all.last());
            Calibration::new(&loaded.calibration, scopes.into_iter().zip(observed))
        });
        (Self { steps, observations, stretches, calibration }, problem)
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

fn lags() -> impl Iterator<Item = f64> {
    LAGS_MS.step_by(LAG_STEP).map(f64::from)
}

/// The length of stretches: a few updates of the slowest measured device.
fn shortest(loaded: &LoadedSession, session: &MeteredSession) -> Seconds {
    let mut shortest = SHORTEST;
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
    let observed = |scope: MeteredScope, lag: usize| {
        let mut all: Vec<&Observations> = Vec::new();
        for (session, observed) in sessions.clone() {
            let mut known = session.sharing.scopes();
            let place = known.position(|known| (known.device, known.scope) == (scope.device, scope.scope));
            all.extend(place.into_iter().flat_map(|place| &observed.observations[lag][place]));
        }
        all
    };
    let main = scopes.iter().find(|scope| scope.summed).or(scopes.first()).copied()?;
    let fits = (0..lags().count()).filter_map(|lag| Some((NonNegative::explained(observed(main, lag))?, lag)));
    let (_, lag) = fits.max_by(|one, other| one.0.total_cmp(&other.0))?;
    let models = scopes.into_iter().filter_map(|scope| fit(scope, &observed(scope, lag), evidence, load_range));
    let models: Vec<_> = models.collect();
    let calibrations = sessions.filter_map(|(_, observed)| observed.calibration.as_ref());
    let calibration_s = calibrations.map(|calibration| calibration.seconds).fold(0.0, |sum, seconds| sum + seconds);
    let lag_ms = lags().nth(lag).unwrap_or(0.0);
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
    scopes: Vec<Vec<Option<Attributed>>>,
}

impl SessionAttribution {
    pub(super) fn new(session: &MeteredSession, observed: &Observed, models: Option<&CostModels>) -> Self {
        let scopes = session.sharing.scopes().enumerate();
        Self { scopes: scopes.map(|(place, scope)| attribute(session, observed, models, (place, scope))).collect() }
    }

    /// The energy of a request; `None` if it was alone, or if its net energy is unknown.
    pub(super) fn get(&self, scope: usize, request: usize) -> Option<Attributed> {
        *self.scopes.get(scope)?.get(request)?
    }
}

fn attribute(
    session: &MeteredSession,
    observed: &Observed,
    models: Option<&CostModels>,
    (place, scope): (usize, MeteredScope),
) -> Vec<Option<Attributed>> {
    let requests = &session.loaded.events.requests;
    let model = models.and_then(|models| Some((models, models.find(scope.device, scope.scope)?)));
    let shows_steps = observed.steps.as_ref().is_some_and(|steps| steps.evidence() < Evidence::Tokens);
    let isolated = isolated(session);
    // The equal share of each request that is not measured by itself: idle energy and net energy.
    let equal: Vec<Option<(f64, f64)>> = requests
        .iter()
        .zip(isolated)
        .map(|(located, is_isolated)| {
            let window = Window::between(located.sent, located.end);
            let shared = session.sharing.seconds(window.start(), window.end());
            let share = session.sharing.share(place, window.start(), window.end());
            let is_alone = (window.length() - shared).abs() <= Seconds::new(1e-9);
            let is_blurred = !is_isolated && scope.summed && model.is_some() && shows_steps;
            let joules = share.joules.filter(|_| (!is_alone || is_blurred) && !share.is_in_gap())?;
            let (power, _) = session.idle[place].at(middle(window))?;
            let idle = (power * share.covered).get();
            Some((idle, joules.get() - idle))
        })
        .collect();
    let pool: f64 = equal.iter().flatten().map(|(_, net)| net).sum();
    let divided = model.zip(observed.steps.as_ref()).filter(|_| pool > 0.0).and_then(|((models, model), steps)| {
        let evidence = steps.evidence().max(models.evidence);
        let works: Vec<RequestWork> = steps
            .requests()
            .iter()
            .zip(&equal)
            .map(|(work, equal)| if equal.is_some() { *work } else { RequestWork::default() })
            .collect();
        let mut shares = divide(pool, margin(session, place), &works, &model.shares, evidence)?;
        if evidence == Evidence::Tokens {
            // Token counts do not show when the server worked for whom, so other divisions are possible as well.
            for (share, other) in shares.iter_mut().zip(equal_shares(session, place, &equal)) {
                (share.low, share.high) = (share.low.min(other.low), share.high.max(other.high));
            }
        }
        Some((shares, EnergyMethod::CostModel(evidence)))
    });
    let (shares, method) = divided.unwrap_or_else(|| (equal_shares(session, place, &equal), EnergyMethod::EqualShare));
    let attributed = equal.into_iter().zip(shares).map(|(equal, net)| {
        let (idle, _) = equal?;
        Some(Attributed { idle, net, method })
    });
    attributed.collect()
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

/// Equal shares, with the range of other splits.
fn equal_shares(session: &MeteredSession, place: usize, equal: &[Option<(f64, f64)>]) -> Vec<RequestShare> {
    let nets: Vec<f64> = equal.iter().map(|equal| equal.map_or(0.0, |(_, net)| net)).collect();
    let scope = session.sharing.scopes().nth(place);
    let alone = session.loaded.events.requests.iter().map(|located| {
        let window = Window::between(located.sent, located.end);
        let devices = session.meter.energy(window).devices;
        let found = devices
            .into_iter()
            .find(|energy| scope.is_some_and(|scope| (energy.device, energy.scope) == (scope.device, scope.scope)));
        let joules = found.and_then(|found| found.estimate.ok()).map_or(0.0, |estimate| estimate.joules.get());
        let idle = session.idle[place].at(middle(window)).map_or(0.0, |(power, _)| (power * window.length()).get());
        joules - idle
    });
    let alone: Vec<f64> = alone.collect();
    let margin = margin(session, place);
    let ranges = equal_share_range(&session.loaded.streams, &nets, &alone);
    let shares = nets.iter().zip(ranges).map(|(&share, (low, high))| RequestShare {
        share,
        low: share - (share - low).hypot(margin * share),
        high: share + (high - share).hypot(margin * share),
        ..RequestShare::default()
    });
    shares.collect()
}

/// The relative error of the net energy of the session, from the meter and from idle power.
fn margin(session: &MeteredSession, place: usize) -> f64 {
    let Some(gross) = session.gross(place) else { return 0.0 };
    let half = gross.interval().map_or(0.0, |interval| interval.width() / 2.0);
    let Some((power, doubt)) = session.idle[place].at(session.middle()) else { return 0.0 };
    let net = gross.value - power.get() * session.seconds();
    if net > 0.0 { half.hypot(doubt.get() * session.seconds()) / net } else { 1.0 }
}

fn middle(window: Window) -> ergometer_units::Timestamp {
    window.start() + Seconds::new(window.length().get() / 2.0)
}
