//! Tests with recorded answers of real servers, and with invalid streams.

use std::fmt::Write as _;
use std::path::PathBuf;

use ergometer_clients::{ChunkKind, Dialect, FailureKind, RequestError, TokenSource, Transcript, Usage, replay};
use ergometer_units::Timestamp;
use proptest::prelude::*;

/// A recorded answer: its content type, and its body in the chunks of the transfer encoding.
struct Recorded {
    content_type: String,
    chunks: Vec<Vec<u8>>,
}

impl Recorded {
    fn read(name: &str) -> Self {
        let path =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/streams").join(format!("{name}.http"));
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_ascii_lowercase();
        let field =
            |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned());
        let body = &bytes[end + 4..];
        let chunks = if field("transfer-encoding:").is_some() { dechunked(body) } else { vec![body.to_vec()] };
        Self { content_type: field("content-type:").unwrap(), chunks }
    }

    fn replayed(&self) -> (Transcript, Result<(), RequestError>) {
        replay_pieces(&self.content_type, &self.chunks.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }
}

fn dechunked(mut body: &[u8]) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    while let Some(end) = body.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&body[..end]).unwrap().trim(), 16).unwrap();
        if size == 0 {
            break;
        }
        chunks.push(body[end + 2..end + 2 + size].to_vec());
        body = &body[end + 2 + size + 2..];
    }
    chunks
}

fn replay_pieces(content_type: &str, pieces: &[&[u8]]) -> (Transcript, Result<(), RequestError>) {
    let reads = (1..).map(Timestamp::from_nanos_since_epoch).zip(pieces.iter().copied());
    replay(Dialect::OpenAi(Some(content_type)), reads)
}

/// The parts of a transcript that do not depend on the times of the reads.
fn content(transcript: &Transcript) -> (&str, &str, &str, Option<Usage>, Vec<ChunkKind>, Option<&str>) {
    let kinds = transcript.chunks.iter().map(|chunk| chunk.kind).collect();
    let Transcript { text, reasoning, tool_calls, usage, finish, .. } = transcript;
    (text, reasoning, tool_calls, *usage, kinds, finish.as_deref())
}

#[test]
fn recorded_answers_of_real_servers_are_parsed() {
    let expected = [
        ("llama_cpp/chat_stream", Some("stop")),
        ("llama_cpp/chat_stream_usage", Some("stop")),
        ("llama_cpp/chat_stream_length", Some("length")),
        ("llama_cpp/chat_stream_context_full", Some("length")),
        ("llama_cpp/chat_whole", Some("stop")),
        ("llama_cpp/completion_stream", Some("stop")),
        ("smollm2/chat_stream", None),
        ("smollm2/chat_stream_emoji", None),
        ("smollm2/chat_stream_logprobs", None),
        ("smollm2/chat_stream_ping", None),
        ("smollm2/chat_stream_progress", None),
        ("smollm2/chat_stream_reasoning", None),
        ("smollm2/chat_whole_reasoning", None),
        ("transformers/chat_stream", Some("stop")),
        ("transformers/chat_stream_usage", Some("stop")),
        ("transformers/chat_stream_length", Some("length")),
        ("transformers/chat_whole", Some("stop")),
        ("transformers/completion_stream", Some("stop")),
    ];
    let mut seen = String::new();
    for (name, finish) in expected {
        let recorded = Recorded::read(name);
        let (transcript, result) = recorded.replayed();
        assert_eq!(result, Ok(()), "{name}");
        assert!(!transcript.text.is_empty() || !transcript.reasoning.is_empty(), "{name}");
        if finish.is_some() {
            assert_eq!(transcript.finish.as_deref(), finish, "{name}");
        }
        let usage = transcript.usage.map(|usage| (usage.source, usage.output));
        let Transcript { text, reasoning, chunks, .. } = &transcript;
        let _ = writeln!(seen, "{name}: {text:?} {reasoning:?} {} chunks, {usage:?}", chunks.len());
        // Reads of one byte and one read of all bytes give the same result.
        let whole: Vec<u8> = recorded.chunks.concat();
        let bytes: Vec<&[u8]> = whole.chunks(1).collect();
        let (by_byte, result) = replay_pieces(&recorded.content_type, &bytes);
        assert_eq!((content(&by_byte), result), (content(&transcript), Ok(())), "{name}");
        let (at_once, _) = replay_pieces(&recorded.content_type, &[&whole]);
        assert_eq!(content(&at_once), content(&transcript), "{name}");
    }
    insta::assert_snapshot!(seen);
}

#[test]
fn the_answer_of_a_killed_server_is_truncated() {
    let (transcript, result) = Recorded::read("smollm2/chat_stream_killed").replayed();
    assert_eq!(result.unwrap_err().kind, FailureKind::Truncated);
    assert!(transcript.chunks.len() > 10 && transcript.text.len() > 10, "the content before the end is kept");
}

fn stream(text: &str) -> (Transcript, Result<(), RequestError>) {
    replay_pieces("text/event-stream", &[text.as_bytes()])
}

fn delta(content: &str) -> String {
    format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{content}\"}},\"finish_reason\":null}}]}}\n\n"
    )
}

const STOP: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

#[test]
fn failures_have_their_kind() {
    let kind = |text: &str| stream(text).1.unwrap_err().kind;
    assert_eq!(kind(&delta("4")), FailureKind::Truncated);
    assert_eq!(kind(""), FailureKind::Truncated);
    assert_eq!(kind(DONE), FailureKind::Empty);
    assert_eq!(kind(STOP), FailureKind::Empty);
    assert_eq!(kind(&format!("{}data: {{\"choi\n\n", delta("4"))), FailureKind::Malformed);
    assert_eq!(kind(&format!("{}data: {{\"choi", delta("4"))), FailureKind::Truncated);
    assert_eq!(kind("data: \u{0}\u{1}\n\n"), FailureKind::Malformed);
    let error = "data: {\"error\":{\"message\":\"CUDA out of memory\",\"code\":500}}\n\n";
    let (transcript, result) = stream(&format!("{}{error}{DONE}", delta("4")));
    let failure = result.unwrap_err();
    assert_eq!((failure.kind, failure.cause.as_str()), (FailureKind::MidStream, "CUDA out of memory"));
    assert_eq!(transcript.text, "4");
    assert_eq!(kind("event: error\ndata: overloaded\n\n"), FailureKind::MidStream);
    assert_eq!(kind("data: {\"object\":\"error\",\"message\":\"no\",\"code\":400}\n\n"), FailureKind::MidStream);
    let page = replay_pieces("text/html", &[b"<html>"]).1.unwrap_err();
    assert_eq!(page.kind, FailureKind::Malformed);
    let (_, whole) = replay_pieces("application/json", &[b"{\"error\":\"no\"}"]);
    assert_eq!(whole.unwrap_err().kind, FailureKind::MidStream);
    let (_, cut) = replay_pieces("application/json", &[b"{\"choices\":[{\"mess"]);
    assert_eq!(cut.unwrap_err().kind, FailureKind::Truncated);
}

#[test]
fn unusual_streams_are_read_correctly() {
    // No [DONE]; [DONE] without a finish reason; data after [DONE]; a last line without a line break.
    assert_eq!(stream(&format!("{}{STOP}", delta("4"))).1, Ok(()));
    assert_eq!(stream(&format!("{}{DONE}", delta("4"))).1, Ok(()));
    assert_eq!(stream(&format!("{}{DONE}data: rubbish\n\n", delta("4"))).1, Ok(()));
    assert_eq!(stream(&format!("{}data: [DONE]", delta("4"))).1, Ok(()));
    // Two choices: the first is the answer; chunks of both count.
    let two = "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"b\"}},{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
    let (transcript, _) = stream(&format!("{two}{DONE}"));
    assert_eq!((transcript.text.as_str(), transcript.chunks.len()), ("a", 2));
    let other = "data: {\"choices\":[{\"index\":1,\"delta\":{\"tool_calls\":[{\"function\":{\"name\":\"f\"}}]}}]}\n\n";
    assert_eq!(stream(&format!("{two}{other}{DONE}")).0.tool_calls, "");
    // Content as a list of parts, null content, reasoning under both names, a refusal.
    let parts =
        "data: {\"choices\":[{\"delta\":{\"content\":[{\"type\":\"text\",\"text\":\"x\"},{\"type\":\"image\"}]}}]}\n\n";
    let named =
        "data: {\"choices\":[{\"delta\":{\"content\":null,\"reasoning\":\"r\",\"reasoning_content\":\"r\"}}]}\n\n";
    let refusal = "data: {\"choices\":[{\"delta\":{\"refusal\":\"no\"}}],\"usage\":null}\n\n";
    let (transcript, _) = stream(&format!("{named}{parts}{refusal}{DONE}"));
    assert_eq!((transcript.reasoning.as_str(), transcript.text.as_str()), ("r", "xno"));
    // Tool calls in pieces.
    let call = |name: &str, arguments: &str| {
        let name = if name.is_empty() { String::new() } else { format!("\"name\":\"{name}\",") };
        format!(
            "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":0,\"function\":{{{name}\"arguments\":\"{arguments}\"}}}}]}}}}]}}\n\n"
        )
    };
    let (transcript, result) = stream(&format!("{}{}{}{DONE}", call("f", "{"), call("", "}"), call("g", "{}")));
    assert_eq!((transcript.tool_calls.as_str(), result), ("f{}\ng{}", Ok(())));
    // Of running counts, the last is used. Native counts of the server are kept as second counts.
    let usage = |tokens: u32| {
        format!("data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":7,\"completion_tokens\":{tokens}}}}}\n\n")
    };
    let timings =
        "data: {\"choices\":[],\"timings\":{\"prompt_n\":3,\"cache_n\":4,\"predicted_n\":9,\"prompt_ms\":1.5}}\n\n";
    let (transcript, _) = stream(&format!("{}{}{timings}{}{DONE}", delta("4"), usage(1), usage(2)));
    assert_eq!(transcript.usage, Some(Usage { input: 7, output: 2, cached: Some(4), source: TokenSource::Usage }));
    assert_eq!(
        transcript.also_counted,
        Some(Usage { input: 7, output: 9, cached: Some(4), source: TokenSource::Native })
    );
    // Impossible numbers are ignored.
    let absurd = "data: {\"usage\":{\"prompt_tokens\":18446744073709551615,\"completion_tokens\":2},\"timings\":{\"prompt_n\":1e30,\"cache_n\":1e30,\"predicted_n\":1e30}}\n\n";
    assert_eq!(stream(&format!("{}{absurd}{DONE}", delta("4"))).0.usage, None);
    // Neither a role nor an empty text is a chunk.
    let role = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
    let reads = [(1, role), (2, &delta("4")), (3, STOP)]
        .map(|(at, text)| (Timestamp::from_nanos_since_epoch(at), text.to_owned()));
    let reads = reads.iter().map(|(at, text)| (*at, text.as_bytes()));
    let (transcript, _) = replay(Dialect::OpenAi(Some("text/event-stream")), reads);
    let times = [transcript.first_byte, transcript.first_token(), transcript.last_token()];
    assert_eq!(times, [1, 2, 2].map(|at| Some(Timestamp::from_nanos_since_epoch(at))));
}

#[test]
fn endless_lines_are_rejected() {
    let long = vec![b'a'; 17 << 20];
    let (_, result) = replay_pieces("text/event-stream", &[&long]);
    assert_eq!(result.unwrap_err().kind, FailureKind::Malformed);
    let (_, result) = replay(Dialect::Ollama, [(Timestamp::from_nanos_since_epoch(1), long.as_slice())]);
    assert_eq!(result.unwrap_err().kind, FailureKind::Malformed);
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0_usize..4) {
        let content_type = ["text/event-stream", "application/json", "text/plain", ""][kind];
        let _ = replay_pieces(content_type, &[&bytes]);
        let _ = replay(Dialect::Ollama, [(Timestamp::from_nanos_since_epoch(1), bytes.as_slice())]);
    }

    #[test]
    fn the_result_does_not_depend_on_the_reads(contents in prop::collection::vec("[aé\u{1F600}]{0,3}", 1..6), cuts in prop::collection::vec(0_usize..600, 0..10), crlf: bool) {
        let mut text: String = contents.iter().map(|content| delta(content)).collect::<String>() + STOP + DONE;
        if crlf {
            text = text.replace('\n', "\r\n");
        }
        let bytes = text.as_bytes();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        let (transcript, _) = replay_pieces("text/event-stream", &pieces);
        prop_assert_eq!(transcript.text, contents.concat());
    }
}
