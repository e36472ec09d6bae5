//! Summarises the metrics that the server reported while requests were sent.
//!
//! Gauges cover the readings between the first and the last request, with equal weights because they are one second
//! apart. Counters are differences from just before the first request of each session to its end. The difference is
//! unknown if the counter decreased, or if a reading on either side is missing.

use ergometer_runs::summary::{GaugeSummary, ServerSummary};
use ergometer_statistics::mean;
use ergometer_telemetry::{Column, DeviceId, Scope, Signal};

use super::Warning;
use super::session::MeteredSession;
use super::tally::Tally;
use ergometer_clients::server_metrics::ID_PREFIX;

/// The figures of all sessions; `None` without readings of a server.
pub(super) fn server(sessions: &[MeteredSession]) -> Option<ServerSummary> {
    let mut sensors = sessions.iter().flat_map(|session| session.loaded.timeline.sensors());
    let (_, info) = sensors.find(|(_, info)| info.device == DeviceId::server())?;
    let columns = |signal| {
        let of_session = move |session: &MeteredSession| -> Vec<f64> { during(session, signal) };
        sessions.iter().flat_map(of_session).collect::<Vec<f64>>()
    };
    let difference = |signal| {
        let with_requests = sessions.iter().filter(|session| session.window.is_some());
        let each: Option<Vec<f64>> = with_requests.map(|session| increase(session, signal)).collect();
        each.filter(|each| !each.is_empty()).map(|each| whole(each.iter().sum()))
    };
    Some(ServerSummary {
        software: info.id.strip_prefix(ID_PREFIX).unwrap_or(&info.id).to_owned(),
        metrics_url: info.name.clone(),
        running: gauge(&columns(Signal::RequestsRunning)),
        waiting: gauge(&columns(Signal::RequestsWaiting)),
        kv_cache_max_pct: gauge(&columns(Signal::KvCacheUse)).map(|gauge| gauge.max),
        prompt_tokens: difference(Signal::PromptTokens),
        generation_tokens: difference(Signal::GenerationTokens),
        preemptions: difference(Signal::Preemptions),
        prefix_cache_query_tokens: difference(Signal::PrefixCacheQueries),
        prefix_cache_hit_tokens: difference(Signal::PrefixCacheHits),
    })
}

fn column<'a>(session: &'a MeteredSession, signal: Signal) -> Option<&'a Column> {
    let timeline = &session.loaded.timeline;
    timeline.find(DeviceId::server(), Scope::Device, signal).map(|id| timeline.column(id))
}

/// The values between the first request of a session and the last.
fn during(session: &MeteredSession, signal: Signal) -> Vec<f64> {
    let (Some(column), Some(window)) = (column(session, signal), session.window) else { return Vec::new() };
    let (start, end) = (window.start().nanos_since_epoch(), window.end().nanos_since_epoch());
    let readings = column.readings();
    let inside = readings.at_ns.iter().zip(readings.values).filter(|&(at, _)| (start..=end).contains(at));
    inside.map(|(_, &value)| value).collect()
}

/// The increase of a counter over a session.
pub(super) fn increase(session: &MeteredSession, signal: Signal) -> Option<f64> {
    let (column, window) = (column(session, signal)?, session.window?);
    let readings = column.readings();
    let (start, end) = (window.start().nanos_since_epoch(), window.end().nanos_since_epoch());
    let first = readings.at_ns.iter().rposition(|&at| at <= start)?;
    let counted = &readings.values[first..];
    let is_framed = readings.at_ns.last().is_some_and(|&at| at >= end);
    let rises = counted.windows(2).all(|pair| pair[0] <= pair[1]);
    let [begin, .., last] = counted else { return None };
    (is_framed && rises).then_some(last - begin)
}

fn gauge(values: &[f64]) -> Option<GaugeSummary> {
    let max = values.iter().copied().reduce(f64::max)?;
    let mean = mean(values.iter().copied())?;
    Some(GaugeSummary { mean, max, readings: values.len() as u64 })
}

/// Warns if the server's count of generated tokens differs from ours by more than 2 % and 10 tokens. Cancelled, lost,
/// failed or uncounted requests explain a higher count of the server.
pub(super) fn disagreement(server: &ServerSummary, tally: &Tally, lost: u64) -> Option<Warning> {
    let (of_server, ours) = (server.generation_tokens?, tally.output_tokens);
    let has_more = of_server > ours;
    let unknown = tally.records().saturating_sub(tally.counted) + tally.failures() + tally.cancelled + lost;
    let is_explained = has_more && unknown + tally.retried.values().sum::<u64>() > 0;
    let apart = of_server.abs_diff(ours);
    let is_far = apart > 10 && apart as f64 > 0.02 * ours as f64;
    (tally.counted > 0 && is_far && !is_explained).then_some(Warning::ServerTokens { server: of_server, ours })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counters are whole numbers; the cast saturates"
)]
fn whole(count: f64) -> u64 {
    count.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(generation_tokens: Option<u64>) -> ServerSummary {
        ServerSummary {
            software: String::from("vllm"),
            metrics_url: String::new(),
            running: None,
            waiting: None,
            kv_cache_max_pct: None,
            prompt_tokens: None,
            generation_tokens,
            preemptions: None,
            prefix_cache_query_tokens: None,
            prefix_cache_hit_tokens: None,
        }
    }

    #[test]
    fn small_or_explained_differences_of_counts_are_no_warning() {
        let counted = Tally { completed: 100, counted: 100, output_tokens: 1000, ..Tally::default() };
        let is_warned = |tokens, tally: &Tally, lost| disagreement(&summary(tokens), tally, lost).is_some();
        for (tokens, expected) in [(1000, false), (1020, false), (980, false), (1021, true), (979, true), (0, true)] {
            assert_eq!(is_warned(Some(tokens), &counted, 0), expected, "{tokens}");
        }
        assert!(!is_warned(None, &counted, 0));
        let short = Tally { completed: 1, counted: 1, output_tokens: 5, ..Tally::default() };
        assert!(!is_warned(Some(15), &short, 0) && is_warned(Some(16), &short, 0));
        let cancelled = Tally { cancelled: 1, ..counted };
        assert!(!is_warned(Some(5000), &cancelled, 0) && is_warned(Some(500), &cancelled, 0));
        assert!(!is_warned(Some(16), &short, 1), "a request was lost");
        assert!(!is_warned(Some(5000), &Tally { completed: 3, ..Tally::default() }, 0), "no tokens are known");
    }

    #[test]
    fn a_gauge_without_readings_has_no_figures() {
        assert_eq!(gauge(&[]), None);
        assert_eq!(gauge(&[1.0, 4.0, 1.0]), Some(GaugeSummary { mean: 2.0, max: 4.0, readings: 3 }));
    }
}
