//! Any bytes are an answer; the first of them says how it speaks and where the reads end. Nothing may panic, and where the
//! reads end may change nothing that was said.

#![no_main]

use ergometer_clients::{Dialect, Transcript, replay};
use ergometer_units::Timestamp;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [how, step, answer @ ..] = data else { return };
    let dialect = match how % 5 {
        0 => Dialect::OpenAi(Some("text/event-stream")),
        1 => Dialect::OpenAi(Some("application/json")),
        2 => Dialect::OpenAi(Some("text/html; charset=utf-8")),
        3 => Dialect::OpenAi(None),
        _ => Dialect::Ollama,
    };
    let at = Timestamp::from_nanos_since_epoch(1);
    let (whole, one) = replay(dialect, [(at, answer)]);
    // What has no content type is known by its first byte that is not white space, wherever the reads end.
    let (cut, other) = replay(dialect, answer.chunks(usize::from(*step).max(1)).map(|piece| (at, piece)));
    assert_eq!(said(&whole), said(&cut));
    assert_eq!(one.map_err(|error| error.kind), other.map_err(|error| error.kind));
});

fn said(transcript: &Transcript) -> (&str, &str, &str, usize) {
    (&transcript.text, &transcript.reasoning, &transcript.tool_calls, transcript.chunks.len())
}
