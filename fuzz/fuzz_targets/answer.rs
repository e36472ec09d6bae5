//! Parses arbitrary bytes as the response of a server. The first byte chooses the dialect, the second the size of the
//! reads. Parsing must not panic, and the size of the reads must not change the transcript.

#![no_main]

use ergometer_clients::{Dialect, Transcript, replay};
use ergometer_units::Timestamp;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [choice, step, answer @ ..] = data else { return };
    let dialect = match choice % 5 {
        0 => Dialect::OpenAi(Some("text/event-stream")),
        1 => Dialect::OpenAi(Some("application/json")),
        2 => Dialect::OpenAi(Some("text/html; charset=utf-8")),
        3 => Dialect::OpenAi(None),
        _ => Dialect::Ollama,
    };
    let at = Timestamp::from_nanos_since_epoch(1);
    let (whole, one) = replay(dialect, [(at, answer)]);
    // Without a content type, the first byte that is not white space decides, wherever the reads end.
    let (cut, other) = replay(dialect, answer.chunks(usize::from(*step).max(1)).map(|piece| (at, piece)));
    assert_eq!(content(&whole), content(&cut));
    assert_eq!(one.map_err(|error| error.kind), other.map_err(|error| error.kind));
});

fn content(transcript: &Transcript) -> (&str, &str, &str, usize) {
    (&transcript.text, &transcript.reasoning, &transcript.tool_calls, transcript.chunks.len())
}
