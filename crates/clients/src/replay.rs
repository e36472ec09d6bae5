//! Parses a recorded answer as a client would, without a server.

use ergometer_units::Timestamp;

use super::ollama::OllamaReader;
use super::openai::ChatReader;
use super::reading::Reader;
use super::{FailureKind, RequestError, Transcript};

/// The API of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect<'a> {
    /// The OpenAI API, with the content type of the answer.
    OpenAi(Option<&'a str>),
    /// The native API of Ollama.
    Ollama,
}

/// Parses an answer that arrived in these reads into a transcript.
///
/// ```
/// use ergometer_clients::{Dialect, replay};
/// use ergometer_units::Timestamp;
///
/// let at = Timestamp::from_nanos_since_epoch;
/// let reads = [(at(5), &b"data: {\"choices\":[{\"delta\":{\"content\":\"4\"},\"finish_rea"[..]), (at(9), b"son\":\"stop\"}]}\n\n")];
/// let (transcript, result) = replay(Dialect::OpenAi(None), reads);
/// assert_eq!((transcript.text.as_str(), transcript.first_token(), result), ("4", Some(at(9)), Ok(())));
/// ```
pub fn replay<'a>(
    dialect: Dialect<'_>,
    reads: impl IntoIterator<Item = (Timestamp, &'a [u8])>,
) -> (Transcript, Result<(), RequestError>) {
    match dialect {
        Dialect::OpenAi(content_type) => read(ChatReader::new(content_type), reads),
        Dialect::Ollama => read(OllamaReader::new(), reads),
    }
}

fn read<'a>(
    mut reader: impl Reader,
    reads: impl IntoIterator<Item = (Timestamp, &'a [u8])>,
) -> (Transcript, Result<(), RequestError>) {
    let mut transcript = Transcript::default();
    let mut last = Timestamp::from_nanos_since_epoch(0);
    for (at, bytes) in reads {
        last = at;
        transcript.first_byte.get_or_insert(at);
        if let Err(error) = reader.take(bytes, at, &mut transcript) {
            return (transcript, Err(error));
        }
    }
    let mut result = reader.finish(last, &mut transcript);
    if result.is_ok() && transcript.chunks.is_empty() {
        result = Err(RequestError::new(FailureKind::Empty, "the answer is empty"));
    }
    (transcript, result)
}
