//! Property tests: every file of a run folder is read back as it was written.

mod json_files;
mod tables;

use std::fs;
use std::path::Path;

use ergometer_clients::{FailureKind, Outcome};
use ergometer_units::Seconds;
use proptest::prelude::*;
use serde_json::json;

use self::json_files::{cost_models, load_over_time, summary};
use self::tables::{any_record, channels, exchange, gaps, query, timeline};
use crate::config::Schedule;
use crate::cost_model::CostModels;
use crate::folder::{inside, record_files};
use crate::load_over_time::LoadOverTime;
use crate::record::Record;
use crate::saved::{Attempt, AttemptOutcome, Channel, Query, Run, Telemetry, Texts};
use crate::store::{
    DatasetWriter, MetadataShape, RecordSchema, RequestsWriter, STATE_FILE, State, TelemetryWriter, write_json,
};
use crate::sweep::{Identity, RunFigures};
use crate::{EnergySource, Exchange, Summary, Sweep, testing};

fn float() -> impl Strategy<Value = f64> {
    prop::num::f64::NORMAL | prop::num::f64::ZERO | prop::num::f64::SUBNORMAL
}

fn maybe<T: std::fmt::Debug>(strategy: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop::option::of(strategy)
}

fn failure_kind() -> impl Strategy<Value = FailureKind> {
    let named = prop::sample::select(vec![
        FailureKind::Connect,
        FailureKind::Tls,
        FailureKind::TimeoutConnect,
        FailureKind::Descriptors,
        FailureKind::Ports,
        FailureKind::TimeoutFirstToken,
        FailureKind::TimeoutBetweenTokens,
        FailureKind::TimeoutTotal,
        FailureKind::Disconnected,
        FailureKind::Malformed,
        FailureKind::MidStream,
        FailureKind::Truncated,
        FailureKind::Empty,
        FailureKind::Rejected,
        FailureKind::Conversation,
        FailureKind::TooLarge,
    ]);
    prop_oneof![9 => named, 1 => (400_u16..600).prop_map(FailureKind::HttpStatus)]
}

/// Writes the records of a run, and its summary.
fn write_records(folder: &Path, records: &[Record], source: EnergySource) {
    let mut shape = MetadataShape::default();
    for record in records {
        shape.observe(&record.dataset_metadata);
    }
    let mut writer = DatasetWriter::create(folder, RecordSchema::new("m", &shape)).unwrap();
    for record in records {
        writer.push(record).unwrap();
    }
    writer.finish().unwrap();
    testing::summary(json!({"model": "m", "energy": {source.name(): {}}})).write(folder).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn summary_json(summary in summary()) {
        let folder = tempfile::tempdir().unwrap();
        summary.write(folder.path()).unwrap();
        prop_assert_eq!(Summary::read(folder.path()).unwrap(), summary);
    }

    #[test]
    fn load_json(load in load_over_time()) {
        let folder = tempfile::tempdir().unwrap();
        prop_assert_eq!(LoadOverTime::read(folder.path()).unwrap(), None);
        load.write(folder.path()).unwrap();
        prop_assert_eq!(LoadOverTime::read(folder.path()).unwrap(), Some(load));
    }

    #[test]
    fn cost_model_json(models in cost_models()) {
        let folder = tempfile::tempdir().unwrap();
        models.write(folder.path()).unwrap();
        prop_assert_eq!(CostModels::read(folder.path()).unwrap(), Some(models));
    }

    #[test]
    fn sweep_json(summaries in prop::collection::vec(summary(), 1..4), repeats in 1_u32..3, name in any::<String>()) {
        let config = testing::summary(json!({"profiler_config": {}})).profiler_config.known().unwrap().clone();
        let schedules: Vec<Schedule> =
            (1..=4).map(|concurrency| Schedule::Concurrency { concurrency }).take(summaries.len()).collect();
        let identity = Identity {
            hardware_label: name.clone(),
            model: name.clone(),
            model_facts: ergometer_clients::ModelFacts::default(),
            dataset: name.clone(),
            dataset_fingerprint: name,
        };
        let mut sweep = Sweep::new(config, &schedules, repeats, 1.5, identity).unwrap();
        for (point, summary) in summaries.iter().enumerate() {
            sweep.take((point, 0), summary);
            prop_assert_eq!(sweep.points[point].runs[0].figures.clone().unwrap(), RunFigures::from_summary(summary));
        }
        // The mean of values near the largest float overflows, and JSON has no infinity.
        let is_finite = sweep.points.iter().flat_map(|point| point.figures.values()).all(|figure| {
            figure.mean.is_finite() && figure.std.is_none_or(f64::is_finite)
        });
        prop_assume!(is_finite);
        let folder = tempfile::tempdir().unwrap();
        sweep.write(folder.path()).unwrap();
        prop_assert_eq!(Sweep::read(folder.path()).unwrap(), sweep);
    }

    #[test]
    fn state_json(data_file in any::<String>(), fingerprint in any::<String>()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(STATE_FILE);
        let state = State::new(&data_file, &fingerprint);
        write_json(&path, &state).unwrap();
        prop_assert_eq!(serde_json::from_slice::<State>(&fs::read(&path).unwrap()).unwrap(), state);
        prop_assert_eq!(record_files(folder.path()).ok(), inside(folder.path(), &data_file).map(|file| vec![file]));
    }

    #[test]
    fn requests_parquet(exchanges in prop::collection::vec(exchange(), 0..20)) {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = RequestsWriter::create(folder.path()).unwrap();
        for exchange in &exchanges {
            writer.push(exchange).unwrap();
        }
        writer.finish().unwrap();
        let mut read = Vec::new();
        Attempt::each(folder.path(), |attempt, gaps| read.push((attempt, gaps.to_vec()))).unwrap();
        let mut offsets = Vec::new();
        Attempt::each_with_offsets(folder.path(), |attempt, found| offsets.push((attempt, found.to_vec()))).unwrap();
        let since_sent = |exchange: &Exchange| -> Vec<i64> {
            exchange.transcript.chunks.iter().map(|chunk| (chunk.at - exchange.sent).as_nanos()).collect()
        };
        let expected: Vec<Vec<i64>> = exchanges.iter().map(since_sent).collect();
        prop_assert_eq!(offsets.iter().map(|(_, found)| found.clone()).collect::<Vec<_>>(), expected);
        prop_assert_eq!(read.len(), exchanges.len());
        for ((attempt, found_gaps), exchange) in read.iter().zip(&exchanges) {
            let transcript = &exchange.transcript;
            prop_assert_eq!(found_gaps, &gaps(&transcript.chunks));
            prop_assert_eq!((attempt.request, attempt.index), (exchange.request, exchange.query.index));
            prop_assert_eq!(&attempt.request_id, &transcript.request_id);
            let tokens = transcript.usage.map(|usage| (Some(usage.output), usage.cached)).unwrap_or_default();
            prop_assert_eq!((attempt.output_tokens, attempt.cached_tokens), tokens);
            prop_assert_eq!((attempt.session, attempt.attempt), (exchange.session, u64::from(exchange.attempt)));
            let (outcome, failure) = match &exchange.outcome {
                Outcome::Completed => (AttemptOutcome::Completed, None),
                Outcome::Failed { kind, .. } => (AttemptOutcome::Failed, Some(kind.to_string())),
                Outcome::Cancelled => (AttemptOutcome::Cancelled, None),
                Outcome::Lost => (AttemptOutcome::Lost, None),
            };
            prop_assert_eq!((attempt.outcome, attempt.is_retried), (outcome, exchange.is_retried));
            prop_assert_eq!(&attempt.failure, &failure);
            let connect = transcript.connection_use.and_then(|line| line.connect);
            prop_assert_eq!(attempt.connect_ms, connect.map(Seconds::as_millis));
            prop_assert_eq!(attempt.last_token, transcript.last_token());
            let times = (attempt.scheduled, attempt.sent, attempt.first_token, attempt.end);
            prop_assert_eq!(
                times,
                (Some(exchange.scheduled), Some(exchange.sent), transcript.first_token(), Some(exchange.end))
            );
        }
    }

    #[test]
    fn telemetry_parquet(
        channels in channels(),
        readings in prop::collection::vec((0_usize..6, 0_i64..1 << 40, 0_i64..1 << 20, float()), 0..60),
        session in any::<u32>(),
    ) {
        let written = timeline(&channels, &readings);
        let folder = tempfile::tempdir().unwrap();
        let mut writer = TelemetryWriter::create(folder.path()).unwrap();
        writer.push(session, &written).unwrap();
        writer.finish().unwrap();
        let signals: Vec<String> = channels.iter().map(|channel| channel.signal.to_string()).collect();
        let read = Telemetry::read(folder.path(), &signals.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        let mut expected = Vec::new();
        for (id, channel) in written.channels() {
            let column = written.column(id).readings();
            if column.values.is_empty() {
                continue;
            }
            expected.push(Channel {
                session,
                sensor: String::from("a"),
                device: channel.device.to_string(),
                scope: channel.scope.to_string(),
                signal: channel.signal.to_string(),
                unit: channel.signal.unit().to_owned(),
                provenance: channel.provenance.to_string(),
                at_ns: column.at_ns.to_vec(),
                values: column.values.to_vec(),
            });
        }
        prop_assert_eq!(read.channels, expected);
    }

    #[test]
    fn records(records in prop::collection::vec(any_record(), 1..20), is_modelled in any::<bool>()) {
        let source = if is_modelled { EnergySource::Modelled } else { EnergySource::Measured };
        let folder = tempfile::tempdir().unwrap();
        write_records(folder.path(), &records, source);
        let run = Run::open(folder.path()).unwrap();
        prop_assert_eq!((run.queries.len(), run.energy, run.not_finite), (records.len(), Some(source), 0));
        let all: Vec<usize> = (0..records.len()).collect();
        let texts = Texts::read(&run, &all, 1000).unwrap();
        for ((place, read), record) in run.queries.iter().enumerate().zip(&records) {
            prop_assert_eq!(run.subject(read), &record.subject);
            prop_assert_eq!(&Query { subject: 0, ..read.clone() }, &query(record, source));
            let expected = Texts {
                problem: record.problem.clone(),
                answer: record.answer.clone(),
                response: record.model_answer.clone().unwrap_or_default(),
                cause: record.ergometer.cause.clone().unwrap_or_default(),
            };
            prop_assert_eq!(&texts[&place], &expected);
        }
    }
}
