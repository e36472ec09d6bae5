//! Property tests: the events of a session, `run.json` and `after.jsonl` are read back as they were written.

use std::path::PathBuf;

use ergometer_clients::redact::Secrets;
use ergometer_clients::{
    Chunk, ChunkKind, ConnectionUse, Connections, FailureKind, Locality, ModelFacts, Outcome, Protocol, ServerTimes,
    TokenSource, Transcript, Usage,
};
use ergometer_datasets::{Query, Turn};
use ergometer_runs::config::RunConfig;
use ergometer_runs::record::GpuColumn;
use ergometer_runs::{Closing, Exchange, SenderFacts, WakeLag, testing};
use ergometer_telemetry::SystemInfo;
use ergometer_units::{Seconds, Timestamp, Window};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::{
    DatasetFacts, Entry, Grading, IdleKind, JournalFolder, Judgement, Manifest, ReviewEntry, ReviewJournal,
    SessionStart, TokenCount,
};

/// Times of the next centuries, in nanoseconds.
const NANOS: std::ops::Range<i64> = 0..1 << 61;

fn float() -> impl Strategy<Value = f64> {
    prop::num::f64::NORMAL | prop::num::f64::ZERO | prop::num::f64::SUBNORMAL
}

fn maybe<T: std::fmt::Debug>(strategy: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop::option::of(strategy)
}

fn text() -> impl Strategy<Value = String> {
    any::<String>()
}

fn at(nanos: i64) -> Timestamp {
    Timestamp::from_nanos_since_epoch(nanos)
}

fn duration() -> impl Strategy<Value = Seconds> {
    // Seconds are floats: the nanoseconds come back unchanged up to 13 days.
    (0_i64..1 << 50).prop_map(Seconds::from_nanos)
}

fn window() -> impl Strategy<Value = Window> {
    (NANOS, NANOS).prop_map(|(start, length)| Window::new(at(start), at(start + length)).unwrap())
}

fn usage() -> impl Strategy<Value = Usage> {
    let source = prop_oneof![
        Just(TokenSource::Model),
        Just(TokenSource::Usage),
        Just(TokenSource::Native),
        Just(TokenSource::Tokenize),
        Just(TokenSource::Tokenizer),
    ];
    (any::<u64>(), any::<u64>(), maybe(any::<u64>()), source).prop_map(|(input, output, cached, source)| Usage {
        input,
        output,
        cached,
        source,
    })
}

fn query() -> impl Strategy<Value = Query> {
    let turn = (any::<u64>(), any::<u32>(), maybe(float())).prop_map(|(conversation, number, think_s)| Turn {
        conversation,
        number,
        think_s,
    });
    let value = prop_oneof![text().prop_map(Value::from), any::<i64>().prop_map(Value::from), Just(Value::Null)];
    let metadata = prop::collection::vec((text(), value), 0..3).prop_map(Map::from_iter);
    ((any::<u64>(), text(), text(), text()), maybe(any::<u64>()), maybe(float()), maybe(turn), metadata).prop_map(
        |((index, problem, answer, subject), output_tokens, arrival_s, turn, metadata)| Query {
            index,
            problem,
            answer,
            subject,
            output_tokens,
            arrival_s,
            turn,
            metadata,
        },
    )
}

fn protocol() -> impl Strategy<Value = Protocol> {
    prop_oneof![Just(Protocol::Http1), Just(Protocol::Http2)]
}

fn connection_use() -> impl Strategy<Value = ConnectionUse> {
    (protocol(), maybe(duration()), maybe(duration())).prop_map(|(protocol, connect, waited)| ConnectionUse {
        protocol,
        connect,
        waited,
    })
}

/// Chunks after this time: the journal has the time between two, which may be negative after a step of the clock.
fn chunks(sent_ns: i64) -> impl Strategy<Value = Vec<Chunk>> {
    let kind = prop_oneof![
        Just(ChunkKind::Content),
        Just(ChunkKind::Reasoning),
        Just(ChunkKind::ToolCall),
        Just(ChunkKind::Silent),
    ];
    let chunk = (-5_i64..1 << 40, kind, 0_u32..3).prop_map(move |(after_ns, kind, choice)| Chunk {
        at: at(sent_ns + after_ns),
        kind,
        choice,
    });
    prop::collection::vec(chunk, 0..6)
}

fn transcript(sent_ns: i64) -> impl Strategy<Value = Transcript> {
    let times = (maybe(duration()), maybe(duration()), maybe(duration()), maybe(duration()))
        .prop_map(|(load, prompt, output, total)| ServerTimes { load, prompt, output, total });
    let first = (maybe(text()), maybe(connection_use()), maybe(NANOS), any::<bool>());
    let texts = (text(), text(), text(), maybe(text()));
    (first, chunks(sent_ns), texts, (maybe(usage()), maybe(usage())), times, maybe(duration())).prop_map(
        |(first, chunks, texts, (usage, also_counted), server_times, processor_time)| {
            let (request_id, connection_use, first_byte, is_whole) = first;
            let (text, reasoning, tool_calls, finish) = texts;
            Transcript {
                request_id,
                sent: None,
                connection_use,
                ended: None,
                first_byte: first_byte.map(at),
                chunks,
                is_whole,
                text,
                reasoning,
                tool_calls,
                usage,
                also_counted,
                server_times,
                finish,
                processor_time,
            }
        },
    )
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let kind = prop_oneof![
        Just(FailureKind::Connect),
        Just(FailureKind::MidStream),
        Just(FailureKind::Conversation),
        (400_u16..600).prop_map(FailureKind::HttpStatus),
    ];
    prop_oneof![
        Just(Outcome::Completed),
        Just(Outcome::Cancelled),
        Just(Outcome::Lost),
        (kind, text()).prop_map(|(kind, cause)| Outcome::Failed { kind, cause }),
    ]
}

fn exchange() -> impl Strategy<Value = Exchange> {
    let numbers = (any::<u64>(), any::<u32>(), any::<u32>(), any::<bool>());
    (numbers, NANOS, NANOS, 0_i64..1 << 50).prop_flat_map(|(numbers, scheduled, sent, took)| {
        (query(), transcript(sent), outcome()).prop_map(move |(query, transcript, outcome)| {
            let (request, session, attempt, is_retried) = numbers;
            let (scheduled, sent, end) = (at(scheduled), at(sent), at(sent + took));
            Exchange { request, session, attempt, query, scheduled, sent, end, transcript, outcome, is_retried }
        })
    })
}

fn sender_facts() -> impl Strategy<Value = SenderFacts> {
    let lag =
        (any::<u64>(), float(), float(), float()).prop_map(|(count, p50, p99, max)| WakeLag { count, p50, p99, max });
    let connections = (protocol(), any::<[u64; 3]>()).prop_map(|(protocol, [opened, reused, most_open])| Connections {
        protocol,
        opened,
        reused,
        most_open,
    });
    (
        any::<[i64; 2]>(),
        float(),
        any::<u32>(),
        maybe(float()),
        maybe(lag),
        any::<u64>(),
        maybe(any::<u64>()),
        maybe(connections),
    )
        .prop_map(
            |(
                times,
                processor_s,
                cores,
                machine_utilization,
                wake_lag_ms,
                most_in_flight,
                descriptor_limit,
                connections,
            )| {
                let [start_ns, end_ns] = times;
                SenderFacts {
                    start_ns,
                    end_ns,
                    processor_s,
                    cores,
                    machine_utilization,
                    wake_lag_ms,
                    most_in_flight,
                    descriptor_limit,
                    connections,
                }
            },
        )
}

fn entry() -> impl Strategy<Value = Entry> {
    let closing = prop_oneof![
        Just(Closing::Finished),
        Just(Closing::Duration),
        Just(Closing::TooManyFailures),
        Just(Closing::Interrupted),
        Just(Closing::Unwritable),
        Just(Closing::Unreadable),
        Just(Closing::Failed),
    ];
    prop_oneof![
        (any::<u32>(), any::<i64>())
            .prop_map(|(session, started_ns)| Entry::Session(SessionStart { session, started_ns })),
        (prop_oneof![Just(IdleKind::Before), Just(IdleKind::After)], window())
            .prop_map(|(kind, window)| Entry::Idle(kind, window)),
        window().prop_map(Entry::Warmup),
        exchange().prop_map(|exchange| Entry::Calibration(Box::new(exchange))),
        (any::<u64>(), any::<u64>(), any::<i64>()).prop_map(|(request, index, sent)| Entry::Sent {
            request,
            index,
            sent: at(sent)
        }),
        exchange().prop_map(|exchange| Entry::Ended(Box::new(exchange))),
        sender_facts().prop_map(|facts| Entry::Sender(Box::new(facts))),
        closing.prop_map(Entry::Closed),
    ]
}

fn review_entry() -> impl Strategy<Value = ReviewEntry> {
    prop_oneof![
        (any::<u64>(), any::<u32>(), usage()).prop_map(|(request, session, usage)| ReviewEntry::Counted(TokenCount {
            request,
            session,
            usage
        })),
        (any::<u64>(), any::<u32>(), text(), maybe(any::<bool>()), text()).prop_map(
            |(request, session, judge, correct, reply)| {
                ReviewEntry::Judged(Judgement { request, session, judge, correct, reply })
            }
        ),
    ]
}

/// The entry of the same kind and request in a review journal.
fn entry_in(journal: &ReviewJournal, entry: &ReviewEntry) -> Option<ReviewEntry> {
    let exchange = |request, session| Exchange { session, ..crate::testing::exchange(request, 0) };
    match *entry {
        ReviewEntry::Counted(TokenCount { request, session, .. }) => {
            let usage = journal.usage(&exchange(request, session))?;
            Some(ReviewEntry::Counted(TokenCount { request, session, usage }))
        }
        ReviewEntry::Judged(Judgement { request, session, .. }) => {
            let mut file = journal.open().unwrap();
            journal.judgement(&exchange(request, session), &mut file).unwrap().map(ReviewEntry::Judged)
        }
    }
}

fn config() -> impl Strategy<Value = RunConfig> {
    let numbers = (0_u32..100, 0.0..1e6_f64, maybe(any::<u64>()), maybe(0.0..1e6_f64), maybe(any::<u64>()));
    (numbers, 0.0..1e3_f64, maybe(text()), maybe("[a-z/]{1,20}"), any::<u64>()).prop_map(
        |((warmup, idle_s, max_queries, duration_s, max_failures), ramp_s, name, tokenizer, seed)| RunConfig {
            warmup,
            idle_s,
            max_queries,
            duration_s,
            max_failures,
            ramp_s,
            name,
            tokenizer: tokenizer.map(PathBuf::from),
            ..testing::config(json!({"request": {"seed": seed}}))
        },
    )
}

fn manifest() -> impl Strategy<Value = Manifest> {
    let dataset = (text(), text(), maybe(any::<u64>()), text())
        .prop_map(|(id, name, size, fingerprint)| DatasetFacts { id, name, size, fingerprint, columns: None });
    let model = (maybe(any::<u64>()), maybe(text())).prop_map(|(parameters, fingerprint)| ModelFacts {
        parameters,
        fingerprint,
        ..ModelFacts::default()
    });
    let place = prop_oneof![
        Just(Locality::ThisProcess),
        Just(Locality::ThisMachine),
        text().prop_map(|host| Locality::Elsewhere { host }),
    ];
    let system = (maybe(text()), maybe(any::<u32>())).prop_map(|(host_name, cpu_count)| SystemInfo {
        host_name,
        cpu_count,
        ..SystemInfo::default()
    });
    let gpu =
        (text(), text(), any::<u64>(), text(), text()).prop_map(|(name, vendor, device_id, device_type, backend)| {
            GpuColumn { name, vendor, device_id, device_type, backend }
        });
    let graders = prop::sample::select(vec!["none", "exact", "choice", "numeric", "numeric:1%", r"regex:(\w+)$"]);
    let grader = prop_oneof![
        graders.prop_map(|grader| Grading::Grader(grader.parse().unwrap())),
        text().prop_map(Grading::Judge),
    ];
    let texts = (text(), grader, maybe(text()), text());
    (config(), any::<i64>(), texts, dataset, model, place, system, prop::collection::vec(gpu, 0..3)).prop_map(
        |(
            config,
            created_ns,
            (ergometer, grader, tokenizer, hardware_label),
            dataset,
            model,
            place,
            system_info,
            gpus,
        )| {
            Manifest {
                format_version: Manifest::VERSION,
                ergometer,
                created_ns,
                config_hash: Manifest::hash_of(&config).unwrap(),
                config,
                dataset,
                grader,
                tokenizer,
                model,
                place,
                hardware_label,
                system_info,
                gpus,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn events(entry in entry()) {
        let line = entry.to_line();
        prop_assert_eq!(line.iter().position(|&byte| byte == b'\n'), Some(line.len() - 1));
        prop_assert_eq!(Entry::from_line(&line).unwrap(), entry);
    }

    #[test]
    fn after_jsonl(entry in review_entry()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("after.jsonl");
        let mut writer = ReviewJournal::read(&path).unwrap().writer(Secrets::default());
        writer.write(&entry).unwrap();
        writer.finish().unwrap();
        let read = ReviewJournal::read(&path).unwrap();
        prop_assert_eq!((entry_in(&read, &entry), read.damaged_lines), (Some(entry), 0));
    }

    #[test]
    fn run_json(manifest in manifest()) {
        let folder = tempfile::tempdir().unwrap();
        let journal = JournalFolder::of_run(folder.path());
        journal.create(&manifest).unwrap();
        prop_assert_eq!(journal.manifest().unwrap(), manifest);
    }
}
