//! Decides whether the client limited the load, from the facts of the sender and the lateness of requests.
//!
//! `docs/run-folder.md` documents the thresholds.

use ergometer_runs::summary::{ClientLimit, ClientSummary};

use ergometer_clients::{Locality, Protocol};
use ergometer_runs::config::RunConfig;
use ergometer_runs::summary::LoadFigures;
use ergometer_runs::{SenderFacts, WakeLag};

/// A smaller lag is not a limit, in milliseconds.
const LEAST_LAG_MS: f64 = 10.0;
/// A lag below this share of the median E2E latency is not a limit.
const LAG_SHARE: f64 = 0.05;
/// A sending rate below this share of the configured rate is too low.
const RATE_SHARE: f64 = 0.95;
/// Processors with a higher utilization are busy.
const BUSY: f64 = 0.9;
/// A task that wakes up later than this sends late, in milliseconds.
const WAKE_LAG_MS: f64 = 5.0;

/// A client that did not run for this long was stalled, in milliseconds. It is compared with the longest lag, because a
/// single stall is too rare to change the p99.
const STALL_MS: f64 = 100.0;

/// On a busy machine, a task that wakes up later than this is delayed by the load, in milliseconds.
const BUSY_WAKE_LAG_MS: f64 = 1.0;

/// The input of the decision.
pub(super) struct Evidence<'a> {
    pub(super) config: &'a RunConfig,
    pub(super) place: &'a Locality,
    /// The facts of the sender of each session.
    pub(super) senders: &'a [&'a SenderFacts],
    /// The figures of the whole run.
    pub(super) figures: &'a LoadFigures,
    pub(super) rate_asked: Option<f64>,
    /// The names of the kinds of failure, including those of retried attempts.
    pub(super) failures: &'a [String],
}

pub(super) fn verdict(evidence: &Evidence) -> ClientSummary {
    let senders = evidence.senders;
    let most_of = |figure: fn(&SenderFacts) -> Option<f64>| {
        senders.iter().filter_map(|facts| figure(facts)).max_by(f64::total_cmp)
    };
    let seconds: f64 = senders.iter().map(|facts| facts.end_ns.saturating_sub(facts.start_ns) as f64 / 1e9).sum();
    let processor_s: f64 = senders.iter().map(|facts| facts.processor_s).sum();
    let wake_lags = senders.iter().filter_map(|facts| facts.wake_lag_ms);
    let longest_lag = wake_lags.clone().map(|lag| lag.max).max_by(f64::total_cmp);
    let in_flight = evidence.figures.in_flight.map_or(0, |in_flight| in_flight.max);
    let mut found = ClientSummary {
        reasons: Vec::new(),
        wake_lag_ms: wake_lags
            .max_by(|one, other| one.p99.total_cmp(&other.p99))
            .map(|lag| WakeLag { max: longest_lag.unwrap_or(lag.max), ..lag }),
        processor_cores: (seconds > 0.0).then(|| processor_s / seconds),
        cores: senders.iter().map(|facts| facts.cores).filter(|&cores| cores > 0).max(),
        machine_utilization: most_of(|facts| facts.machine_utilization),
        descriptor_limit: senders.iter().filter_map(|facts| facts.descriptor_limit).min(),
        most_in_flight: senders.iter().map(|facts| facts.most_in_flight).max().unwrap_or(0).max(in_flight),
    };
    found.reasons = reasons(evidence, &found);
    found
}

fn reasons(evidence: &Evidence, client: &ClientSummary) -> Vec<ClientLimit> {
    let has_failed = |name: &str| evidence.failures.iter().any(|failure| failure == name);
    let is_late = evidence.config.schedule.concurrency().is_none() && is_late(evidence);
    let is_full = evidence.config.max_in_flight.is_some_and(|most| client.most_in_flight >= u64::from(most));
    let network = &evidence.config.client.network;
    let most_open = evidence.senders.iter().filter_map(|facts| facts.connections).map(|found| found.most_open).max();
    let few = network.connections.filter(|_| network.protocol == Protocol::Http1).map(u64::from);
    let wanted = evidence.config.schedule.concurrency().map(u64::from);
    let is_closed = wanted.zip(few).is_some_and(|(wanted, few)| few < wanted);
    let is_crowded = few.zip(most_open).is_some_and(|(few, open)| open >= few);
    let uses = client.processor_cores.zip(client.cores).map(|(used, cores)| used / f64::from(cores));
    let is_above = |share: Option<f64>| share.is_some_and(|share| share > BUSY);
    let is_slow = client.wake_lag_ms.is_some_and(|lag| lag.p99 > BUSY_WAKE_LAG_MS);
    // Other processes may use the machine without delaying the client, and a client that uses its cores may be in time.
    let is_delayed = is_slow && (is_above(uses) || is_above(client.machine_utilization));
    let is_busy = is_above(uses) || is_delayed;
    let is_woken_late = client.wake_lag_ms.is_some_and(|lag| lag.p99 > WAKE_LAG_MS);
    let is_stalled = client.wake_lag_ms.is_some_and(|lag| lag.max > STALL_MS);
    // The embedded model runs in this process and uses its processors.
    let is_apart = *evidence.place != Locality::ThisProcess;
    let limits = [
        (ClientLimit::FileDescriptors, has_failed("descriptors")),
        (ClientLimit::Sockets, has_failed("ports")),
        (ClientLimit::Schedule, is_late),
        (ClientLimit::MaxInFlight, is_late && is_full),
        (ClientLimit::Connections, (is_late || is_closed) && is_crowded),
        (ClientLimit::Stalled, is_apart && is_stalled),
        (ClientLimit::Cpu, is_apart && (is_woken_late || is_delayed || (is_late && is_busy))),
    ];
    limits.into_iter().filter(|(_, is_met)| *is_met).map(|(limit, _)| limit).collect()
}

/// Whether an open loop was behind its schedule. With fewer than 100 requests it uses the p95 instead of the p99.
fn is_late(evidence: &Evidence) -> bool {
    let figures = evidence.figures;
    let median = figures.e2e_ms.map_or(0.0, |e2e| e2e.p50);
    let lag = figures.schedule_lag_ms.map_or(0.0, |lag| lag.p99.unwrap_or(lag.p95));
    let is_slow =
        figures.sent_per_second.zip(evidence.rate_asked).is_some_and(|(sent, asked)| sent < RATE_SHARE * asked);
    lag > LEAST_LAG_MS.max(LAG_SHARE * median) || is_slow
}

#[cfg(test)]
mod tests {
    use super::super::example::{closed_loop, load, open_loop};
    use super::*;
    use ergometer_clients::Connections;
    use ergometer_runs::summary::InFlightSummary;
    use ergometer_statistics::Distribution;

    /// An open loop of 10/s that kept its schedule, with answers of one second.
    struct Case {
        config: RunConfig,
        place: Locality,
        facts: SenderFacts,
        figures: LoadFigures,
        failures: Vec<String>,
    }

    fn case() -> Case {
        let config = open_loop(10.0);
        let mut figures = load(&config, &[]).summarise(&[], &Locality::ThisMachine, None).whole;
        figures.e2e_ms = Distribution::from_values(&[1000.0; 200]);
        figures.schedule_lag_ms = Distribution::from_values(&[1.0; 200]);
        figures.sent_per_second = Some(10.0);
        figures.in_flight = Some(InFlightSummary { mean: 5.0, max: 9 });
        let wake_lag_ms = Some(WakeLag { count: 9, p50: 0.1, p99: 4.9, max: 40.0 });
        let facts = SenderFacts {
            start_ns: 0,
            end_ns: 10_000_000_000,
            processor_s: 10.0,
            cores: 4,
            wake_lag_ms,
            machine_utilization: Some(0.5),
            most_in_flight: 12,
            descriptor_limit: Some(1024),
            ..SenderFacts::default()
        };
        Case { config, place: Locality::ThisMachine, facts, figures, failures: Vec::new() }
    }

    fn judge(change: impl FnOnce(&mut Case)) -> Vec<ClientLimit> {
        let mut case = case();
        change(&mut case);
        found(&case).reasons
    }

    fn found(case: &Case) -> ClientSummary {
        verdict(&Evidence {
            config: &case.config,
            place: &case.place,
            senders: &[&case.facts],
            figures: &case.figures,
            rate_asked: Some(10.0),
            failures: &case.failures,
        })
    }

    #[test]
    fn a_client_that_keeps_its_schedule_is_no_limit() {
        let found = found(&case());
        assert!(found.reasons.is_empty());
        assert_eq!((found.processor_cores, found.cores, found.most_in_flight), (Some(1.0), Some(4), 12));
        assert_eq!(judge(|case| case.facts = SenderFacts::default()), [], "the facts of the sender are unknown");
        let busy = |millis: f64| {
            judge(|case| {
                case.config = closed_loop(4);
                case.facts.machine_utilization = Some(0.95);
                case.facts.wake_lag_ms = Some(WakeLag { p99: millis, ..WakeLag::default() });
            })
        };
        assert_eq!(busy(0.9), [], "busy, but on time");
        assert_eq!(busy(1.1), [ClientLimit::Cpu], "a closed loop has no schedule, but notices chunks late");
        assert_eq!(judge(|case| case.facts.processor_s = 37.0), [ClientLimit::Cpu]);
    }

    #[test]
    fn each_rule_has_its_reason() {
        use ClientLimit::{Cpu, FileDescriptors, MaxInFlight, Schedule, Sockets};
        let lag = |millis: f64| Distribution::from_values(&[millis; 200]);
        assert_eq!(
            judge(|case| case.failures = vec![String::from("descriptors"), String::from("ports")]),
            [FileDescriptors, Sockets]
        );
        assert_eq!(judge(|case| case.failures = vec![String::from("connect")]), []);
        assert_eq!(judge(|case| case.figures.schedule_lag_ms = lag(49.0)), [], "5 % of a second");
        assert_eq!(judge(|case| case.figures.schedule_lag_ms = lag(51.0)), [Schedule]);
        let quick = |case: &mut Case, millis| {
            case.figures.e2e_ms = lag(20.0);
            case.figures.schedule_lag_ms = lag(millis);
        };
        assert_eq!((judge(|case| quick(case, 9.0)), judge(|case| quick(case, 11.0))), (vec![], vec![Schedule]));
        assert_eq!(judge(|case| case.figures.sent_per_second = Some(9.6)), []);
        assert_eq!(judge(|case| case.figures.sent_per_second = Some(9.4)), [Schedule]);
        let late = |case: &mut Case| case.figures.sent_per_second = Some(5.0);
        assert_eq!(
            judge(|case| {
                late(case);
                case.facts.machine_utilization = Some(0.95);
            }),
            [Schedule, Cpu]
        );
        assert_eq!(
            judge(|case| {
                late(case);
                case.facts.processor_s = 37.0;
            }),
            [Schedule, Cpu]
        );
        assert_eq!(
            judge(|case| {
                late(case);
                case.config.max_in_flight = Some(12);
            }),
            [Schedule, MaxInFlight]
        );
        assert_eq!(
            judge(|case| {
                late(case);
                case.config.max_in_flight = Some(13);
            }),
            [Schedule]
        );
        assert_eq!(judge(|case| case.config.max_in_flight = Some(12)), [], "full, but on time");
        assert_eq!(
            judge(|case| {
                late(case);
                case.facts.machine_utilization = Some(0.95);
                case.facts.wake_lag_ms = Some(WakeLag { p99: 0.4, ..WakeLag::default() });
            }),
            [Schedule],
            "other processes used the machine"
        );
        let crowd = |case: &mut Case| {
            case.config.client.network.connections = Some(2);
            case.facts.connections = Some(Connections { most_open: 2, ..Connections::default() });
        };
        assert_eq!(
            judge(|case| {
                late(case);
                crowd(case);
            }),
            [Schedule, ClientLimit::Connections]
        );
        assert_eq!(
            judge(|case| {
                case.config = closed_loop(4);
                crowd(case);
            }),
            [ClientLimit::Connections],
            "four requests share two connections"
        );
        let woken_late = |case: &mut Case| case.facts.wake_lag_ms = Some(WakeLag { p99: 5.1, ..WakeLag::default() });
        assert_eq!(judge(woken_late), [Cpu]);
        let stalled = |case: &mut Case| case.facts.wake_lag_ms = Some(WakeLag { max: 101.0, ..WakeLag::default() });
        assert_eq!(judge(stalled), [ClientLimit::Stalled], "one stall, and otherwise in time");
        assert_eq!(
            judge(|case| {
                woken_late(case);
                case.place = Locality::ThisProcess;
            }),
            [],
            "the embedded model uses the processors"
        );
        assert_eq!(
            judge(|case| {
                late(case);
                case.config = closed_loop(4);
            }),
            [],
            "a closed loop has no configured rate"
        );
    }
}
