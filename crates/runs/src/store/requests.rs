//! Writes `requests.parquet`: one row for each request, with all its times.
//!
//! Rows keep the order in which they are pushed. The arrival of a chunk is stored as an offset from `sent_ns`, so the
//! lists compress to a few bytes per chunk and `sent_ns` plus an offset is the exact time.

use std::path::{Path, PathBuf};

use ergometer_units::{Seconds, Timestamp};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

use super::StoreError;
use super::columns::{Column, Fields};
use super::partial::PartialFile;
use crate::Exchange;
use crate::column_names as names;
use crate::record::RequestAttribution;
use crate::saved::AttemptOutcome;
use ergometer_clients::{ChunkKind, ConnectionUse, FailureKind, Outcome, Protocol, ServerTimes, TokenSource, Usage};
use ergometer_datasets::Turn;

/// The file's name in the run's folder.
pub const REQUESTS_FILE: &str = "requests.parquet";

/// The most rows in a batch.
const BATCH_ROWS: usize = 1000;
/// The most bytes of chunks and texts in a batch.
const BATCH_BYTES: usize = 8 << 20;
/// The most encoded bytes of a row group, which are buffered until the group is complete.
const ROW_GROUP_BYTES: usize = 4 << 20;

/// Writes the requests of a run into its folder.
///
/// ```
/// use ergometer_runs::store::RequestsWriter;
///
/// let folder = tempfile::tempdir()?;
/// let writer = RequestsWriter::create(folder.path())?;
/// // writer.push(&exchange)? for each
/// assert_eq!(writer.finish()?, 0);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct RequestsWriter {
    path: PathBuf,
    root: Column<Row>,
    parquet: ArrowWriter<PartialFile>,
    waiting: Vec<Row>,
    waiting_bytes: usize,
    rows: u64,
}

/// The stored part of an exchange; the texts are in the records.
struct Row {
    request: u64,
    request_id: Option<String>,
    session: u32,
    attempt: u32,
    query_index: u64,
    scheduled: Timestamp,
    sent: Timestamp,
    first_byte: Option<Timestamp>,
    first_token: Option<Timestamp>,
    last_token: Option<Timestamp>,
    end: Timestamp,
    chunk_offsets_ns: Vec<i64>,
    /// `None` without reasoning, so that most models need no list of `false`.
    chunk_is_reasoning: Option<Vec<bool>>,
    /// `None` with one choice.
    chunk_choices: Option<Vec<u32>>,
    first_output: Option<Timestamp>,
    usage: Option<Usage>,
    finish: Option<String>,
    processor_ns: Option<i64>,
    server_times: ServerTimes,
    outcome: AttemptOutcome,
    failure: Option<FailureKind>,
    is_retried: bool,
    cause: Option<String>,
    line: Option<ConnectionUse>,
    turn: Option<Turn>,
    attribution: Option<RequestAttribution>,
}

fn columns() -> Column<Row> {
    Fields::<Row>::new()
        .integer(names::REQUEST, |row| Some(row.request))
        .integer(names::SESSION, |row| Some(row.session))
        .integer(names::ATTEMPT, |row| Some(row.attempt))
        .integer(names::QUERY_INDEX, |row| Some(row.query_index))
        .nanos(names::SCHEDULED_NS, |row| Some(row.scheduled))
        .nanos(names::SENT_NS, |row| Some(row.sent))
        .nanos("first_byte_ns", |row| row.first_byte)
        .nanos(names::FIRST_TOKEN_NS, |row| row.first_token)
        .nanos("first_output_ns", |row| row.first_output)
        .nanos(names::LAST_TOKEN_NS, |row| row.last_token)
        .nanos(names::END_NS, |row| Some(row.end))
        .list(names::CHUNK_OFFSETS_NS, |row| Some(&row.chunk_offsets_ns), Column::integer(|offset: &i64| Some(*offset)))
        .list("chunk_is_reasoning", |row| row.chunk_is_reasoning.as_deref(), Column::boolean(|is: &bool| Some(*is)))
        .list(names::CHUNK_CHOICES, |row| row.chunk_choices.as_deref(), Column::integer(|choice: &u32| Some(*choice)))
        .integer("input_tokens", |row| row.usage.map(|usage| usage.input))
        .integer(names::OUTPUT_TOKENS, |row| row.usage.map(|usage| usage.output))
        .integer(names::CACHED_TOKENS, |row| row.usage.and_then(|usage| usage.cached))
        .text("token_source", |row| row.usage.map(|usage| TokenSource::name(usage.source)))
        .text("finish", |row| row.finish.as_deref())
        .integer("processor_ns", |row| row.processor_ns)
        .integer("server_load_ns", |row| row.server_times.load.map(Seconds::as_nanos))
        .integer("server_prompt_ns", |row| row.server_times.prompt.map(Seconds::as_nanos))
        .integer("server_output_ns", |row| row.server_times.output.map(Seconds::as_nanos))
        .integer("server_total_ns", |row| row.server_times.total.map(Seconds::as_nanos))
        .text(names::OUTCOME, |row| Some(row.outcome.name()))
        .printed(names::FAILURE, |row| row.failure)
        .boolean(names::IS_RETRIED, |row| Some(row.is_retried))
        .text(names::CAUSE, |row| row.cause.as_deref())
        .text("protocol", |row| row.line.map(|line| Protocol::name(line.protocol)))
        .float(names::CONNECT_MS, |row| row.line.and_then(|line| line.connect).map(Seconds::as_millis))
        .float("waited_ms", |row| row.line.and_then(|line| line.waited).map(Seconds::as_millis))
        .integer("conversation", |row| row.turn.map(|turn| turn.conversation))
        .integer("turn", |row| row.turn.map(|turn| turn.number))
        .text(names::REQUEST_ID, |row| row.request_id.as_deref())
        .float(names::SHARE, |row| row.attribution.map(|found| found.share))
        .float(names::LOW, |row| row.attribution.map(|found| found.low))
        .float(names::HIGH, |row| row.attribution.map(|found| found.high))
        .float(names::PREFILL_J, |row| row.attribution.and_then(|found| found.prefill_j))
        .float(names::DECODE_J, |row| row.attribution.and_then(|found| found.decode_j))
        .float("marginal", |row| row.attribution.and_then(|found| found.marginal))
        .float("alone", |row| row.attribution.and_then(|found| found.alone))
        .printed("method", |row| row.attribution.map(|found| found.method))
        .column()
}

impl From<&Exchange> for Row {
    fn from(exchange: &Exchange) -> Self {
        let Exchange { request, session, attempt, query, scheduled, sent, end, transcript, outcome, is_retried } =
            exchange;
        let offset_ns = |at: Timestamp| at.nanos_since_epoch().saturating_sub(sent.nanos_since_epoch());
        let is_reasoning = |kind| kind == ChunkKind::Reasoning;
        let reasons = transcript.chunks.iter().any(|chunk| is_reasoning(chunk.kind));
        let has_choices = transcript.chunks.iter().any(|chunk| chunk.choice != 0);
        let (failure, cause) = match outcome {
            Outcome::Failed { kind, cause } => (Some(*kind), Some(cause.clone())),
            Outcome::Completed | Outcome::Cancelled | Outcome::Lost => (None, None),
        };
        Self {
            request: *request,
            request_id: transcript.request_id.clone(),
            session: *session,
            attempt: *attempt,
            query_index: query.index,
            scheduled: *scheduled,
            sent: *sent,
            first_byte: transcript.first_byte,
            first_token: transcript.first_token(),
            last_token: transcript.last_token(),
            end: *end,
            chunk_offsets_ns: transcript.chunks.iter().map(|chunk| offset_ns(chunk.at)).collect(),
            chunk_is_reasoning: reasons
                .then(|| transcript.chunks.iter().map(|chunk| is_reasoning(chunk.kind)).collect()),
            chunk_choices: has_choices.then(|| transcript.chunks.iter().map(|chunk| chunk.choice).collect()),
            first_output: transcript.first_output(),
            usage: transcript.usage,
            finish: transcript.finish.clone(),
            processor_ns: transcript.processor_time.map(Seconds::as_nanos),
            server_times: transcript.server_times,
            outcome: outcome.into(),
            failure,
            is_retried: *is_retried,
            cause,
            line: transcript.connection_use,
            turn: query.turn,
            attribution: None,
        }
    }
}

impl Row {
    fn bytes(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let texts = [&self.request_id, &self.finish, &self.cause].map(length).iter().sum::<usize>();
        size_of::<Self>() + 16 * self.chunk_offsets_ns.len() + texts
    }
}

impl RequestsWriter {
    /// Starts the file. An existing file stays until [`finish`](Self::finish).
    pub fn create(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join(REQUESTS_FILE);
        let root = columns();
        let file = PartialFile::create(&path)?;
        let parquet =
            ArrowWriter::try_new(file, root.schema(), Some(properties())).map_err(StoreError::parquet(&path))?;
        Ok(Self { path, root, parquet, waiting: Vec::new(), waiting_bytes: 0, rows: 0 })
    }

    /// Adds a request.
    pub fn push(&mut self, exchange: &Exchange) -> Result<(), StoreError> {
        self.push_attributed(exchange, None)
    }

    /// Adds a request with its energy.
    pub fn push_attributed(
        &mut self,
        exchange: &Exchange,
        attribution: Option<RequestAttribution>,
    ) -> Result<(), StoreError> {
        let row = Row { attribution, ..Row::from(exchange) };
        let bytes = row.bytes();
        if i32::try_from(bytes).is_err() {
            return Err(StoreError::TooLong {
                path: self.path.clone(),
                row: format!("request {}", row.request),
                bytes,
            });
        }
        if self.waiting_bytes + bytes > BATCH_BYTES {
            self.write_batch()?;
        }
        self.waiting.push(row);
        self.waiting_bytes += bytes;
        if self.waiting.len() == BATCH_ROWS {
            self.write_batch()?;
        }
        Ok(())
    }

    /// Finishes the file and renames it. Returns the number of requests.
    pub fn finish(mut self) -> Result<u64, StoreError> {
        self.write_batch()?;
        self.parquet.into_inner().map_err(StoreError::parquet(&self.path))?.commit()?;
        Ok(self.rows)
    }

    fn write_batch(&mut self) -> Result<(), StoreError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let batch = self.root.batch(&self.waiting);
        self.parquet.write(&batch).map_err(StoreError::parquet(&self.path))?;
        self.rows += self.waiting.len() as u64;
        self.waiting.clear();
        self.waiting_bytes = 0;
        Ok(())
    }
}

impl std::fmt::Debug for RequestsWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestsWriter").field("path", &self.path).field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// Offsets increase steadily, so delta encoding packs them well; a dictionary would hold almost every value once.
fn properties() -> WriterProperties {
    let offsets = ColumnPath::from(vec![names::CHUNK_OFFSETS_NS.to_owned(), "list".to_owned(), "item".to_owned()]);
    WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
        .set_column_dictionary_enabled(offsets.clone(), false)
        .set_column_encoding(offsets, Encoding::DELTA_BINARY_PACKED)
        .build()
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, Int64Type};
    use arrow_array::{Array, RecordBatch};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;
    use ergometer_clients::Transcript;
    use ergometer_datasets::Query;

    fn exchange(request: u64) -> Exchange {
        let time = |offset_ns: i64| Timestamp::from_nanos_since_epoch(1_794_730_772_000_000_001 + offset_ns);
        let request_id = Some(format!("ergometer-18e8a-{request}"));
        let mut transcript = Transcript { request_id, ..Transcript::default() };
        transcript.push(time(30_000_000), ChunkKind::Reasoning, "hm");
        transcript.push(time(40_000_007), ChunkKind::Content, "4");
        transcript.usage = Some(Usage { input: 12, output: 2, cached: Some(8), source: TokenSource::Model });
        let [connect, waited] = [1.5, 0.25].map(|length| Some(Seconds::from_millis(length)));
        transcript.connection_use = Some(ConnectionUse { protocol: Protocol::Http2, connect, waited });
        let turn = Some(Turn { conversation: 4, number: 2, think_s: None });
        Exchange {
            request,
            session: 1,
            attempt: 2,
            query: Query { index: request % 7, turn, ..Query::default() },
            scheduled: time(-5),
            sent: time(0),
            end: time(41_000_000),
            transcript,
            outcome: Outcome::Completed,
            is_retried: false,
        }
    }

    fn write_and_read(exchanges: impl IntoIterator<Item = Exchange>) -> (u64, Vec<RecordBatch>) {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = RequestsWriter::create(folder.path()).unwrap();
        exchanges.into_iter().for_each(|exchange| writer.push(&exchange).unwrap());
        let rows = writer.finish().unwrap();
        let file = File::open(folder.path().join(REQUESTS_FILE)).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
        (rows, reader.map(Result::unwrap).collect())
    }

    #[test]
    fn an_exchange_is_read_back_with_all_its_times() {
        let failed = Exchange {
            query: Query::default(),
            transcript: Transcript::default(),
            outcome: Outcome::Failed { kind: FailureKind::TimeoutTotal, cause: "no answer in 60 s".to_owned() },
            ..exchange(1)
        };
        let (rows, batches) = write_and_read([exchange(0), failed]);
        let batch = &batches[0];
        assert_eq!((rows, batch.num_rows()), (2, 2));
        let integers = |name: &str| batch[name].as_primitive::<Int64Type>().iter().collect::<Vec<_>>();
        assert_eq!(integers("sent_ns")[0], Some(1_794_730_772_000_000_001));
        assert_eq!(integers("first_token_ns"), [Some(1_794_730_772_030_000_001), None]);
        assert_eq!(integers("output_tokens"), [Some(2), None]);
        assert_eq!(integers("cached_tokens"), [Some(8), None]);
        let offsets = batch["chunk_offsets_ns"].as_list::<i32>();
        assert_eq!(offsets.value(0).as_primitive::<Int64Type>().values()[..], [30_000_000, 40_000_007]);
        assert_eq!((offsets.is_null(1), offsets.value_length(1)), (false, 0));
        let reasoning = batch["chunk_is_reasoning"].as_list::<i32>();
        assert_eq!(reasoning.value(0).as_boolean().iter().flatten().collect::<Vec<_>>(), [true, false]);
        assert!(reasoning.is_null(1));
        let texts = |name: &str| batch[name].as_string::<i32>().iter().collect::<Vec<_>>();
        assert_eq!(texts("failure"), [None, Some("timeout_total")]);
        assert_eq!(texts("cause"), [None, Some("no answer in 60 s")]);
        assert_eq!(texts("token_source"), [Some("model"), None]);
        assert_eq!(texts("request_id"), [Some("ergometer-18e8a-0"), None]);
        assert_eq!(texts("protocol"), [Some("http/2"), None]);
        let floats = |name: &str| batch[name].as_primitive::<Float64Type>().iter().collect::<Vec<_>>();
        assert_eq!((floats("connect_ms"), floats("waited_ms")), (vec![Some(1.5), None], vec![Some(0.25), None]));
        assert_eq!((integers("conversation"), integers("turn")), (vec![Some(4), None], vec![Some(2), None]));
    }

    #[test]
    fn empty_and_large_files_are_written() {
        let (rows, batches) = write_and_read([]);
        assert_eq!((rows, batches.len()), (0, 0));
        let (rows, batches) = write_and_read((0..2500).map(exchange));
        let requests = batches.iter().flat_map(|batch| batch["request"].as_primitive::<Int64Type>().values().to_vec());
        assert!(rows == 2500 && requests.eq(0..2500));
    }
}
