//! Finds the steps of a server in an engine log and in arrival times. The bytes up to the first zero byte are the arrivals
//! of up to eight streams, those after it are the log.
//!
//! Nothing panics, all work is finite and not negative, and no work is lost: what the requests and other clients are
//! charged with is what the steps contain.

#![no_main]

use ergometer_attribution::{Arrival, EngineLog, PrefillTime, Steps, Stream, Stretches};
use ergometer_units::{Seconds, Timestamp};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let end = data.iter().position(|&byte| byte == 0).unwrap_or(data.len());
    let (arrivals, log) = (&data[..end], data.get(end + 1..).unwrap_or_default());
    let streams = streams(arrivals);
    if let Some(steps) = Steps::from_arrivals(&streams) {
        check(&steps);
    }
    if let Some(steps) = Steps::from_tokens(&streams) {
        check(&steps);
    }
    let Ok(read) = EngineLog::read(log) else { return };
    assert!(!read.is_empty());
    if let Ok(steps) = Steps::from_log(&read, &streams) {
        check(&steps);
    }
    let everything = (Timestamp::from_nanos_since_epoch(i64::MIN / 2), Timestamp::from_nanos_since_epoch(i64::MAX / 2));
    if let Ok(excerpt) = EngineLog::excerpt(log, everything.0, everything.1) {
        assert!(EngineLog::read(&excerpt[..]).is_ok_and(|excerpt| excerpt.len() <= read.len()));
    }
});

/// Streams `a` to `h`: each byte is a token of the stream in its low bits, some milliseconds after the one before.
fn streams(arrivals: &[u8]) -> Vec<Stream> {
    let at = |ms: i64| Timestamp::from_nanos_since_epoch(ms * 1_000_000);
    let mut now = 0;
    let mut streams: Vec<Stream> = (b'a'..=b'h')
        .map(|id| Stream {
            id: Some(char::from(id).to_string()),
            sent: at(0),
            end: at(0),
            prompt_tokens: Some(f64::from(id - b'a') * 64.0),
            cached_tokens: 0.0,
            output_tokens: None,
            arrivals: Vec::new(),
        })
        .collect();
    for byte in arrivals {
        now += i64::from(byte >> 4);
        let stream = &mut streams[usize::from(byte & 7)];
        stream.end = at(now);
        // Some streams get several tokens per event, some have two choices.
        let tokens = if byte & 8 == 0 { 1.0 } else { 3.0 };
        stream.output_tokens = Some(stream.output_tokens.unwrap_or(0.0) + tokens);
        stream.arrivals.push(Arrival { at: at(now), choice: u32::from(byte & 7 == 7 && now % 2 == 0) });
    }
    streams
}

fn check(steps: &Steps) {
    let requests = steps.requests().iter().chain([&steps.others()]).copied().collect::<Vec<_>>();
    let numbers =
        requests.iter().flat_map(|request| request.work.into_iter().chain([request.steps, request.steps_alone]));
    assert!(numbers.into_iter().all(|amount| amount.is_finite() && amount >= 0.0));
    // Padding, the last term, is in no share.
    for term in 0..5 {
        let charged: f64 = requests.iter().map(|request| request.work[term]).sum();
        let whole: f64 = steps.steps().iter().map(|step| step.work[term]).sum();
        assert!((charged - whole).abs() <= 1e-6 * (1.0 + whole), "term {term}: {charged} of {whole}");
    }
    assert!(steps.steps().is_sorted_by_key(|step| step.end));
    let span = steps.steps().iter().map(|step| step.end).max().zip(steps.steps().iter().map(|step| step.end).min());
    // A log of years has millions of windows.
    if span.is_some_and(|(last, first)| (last - first).get() < 1e5) {
        for prefill in PrefillTime::ALL {
            let _ = Stretches::new(steps, Seconds::new(0.2), prefill);
        }
    }
}
