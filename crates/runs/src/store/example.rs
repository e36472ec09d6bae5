//! Records and metadata for the tests of this module.

use ergometer_telemetry::{DeviceId, Provenance, Scope, Stats};
use ergometer_units::{Seconds, Timestamp};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::cost_model::Evidence;
use crate::record::{
    DeviceShare, EnergyMethod, EnergyValue, ErgometerColumn, GpuColumn, GrossAndNet, ModelMetrics, QueryEnergy,
    QueryOutcome, Record, RequestAttribution,
};
use ergometer_clients::{FailureKind, ServerTimes};

/// A record with values in most of its groups.
pub(crate) fn record(query_index: u64) -> Record {
    let stats = Stats { avg: 310.0, max: 400.0, median: 300.0, min: 90.0, count: 9, covered: Seconds::new(0.1) };
    let gross = EnergyValue {
        joules: 12.5,
        low: 12.0,
        high: 13.0,
        method: EnergyMethod::EqualShare,
        provenance: Provenance::Counter,
    };
    let energy = GrossAndNet { gross, net: None };
    let mut record = bare_record(query_index);
    record.dataset_metadata = json!({ "level": query_index % 3 }).as_object().cloned().unwrap_or_default();
    record.model_answer = Some("4 — четыре".to_owned());
    record.model_metrics.energy.per_query_joules = Some(12.5);
    record.model_metrics.power.gpu = Some(stats);
    record.model_metrics.tokens.output = Some(34);
    record.ergometer.cached_tokens = Some(query_index % 5);
    record.model_metrics.gpu_info = Some(GpuColumn {
        name: "NVIDIA H200".to_owned(),
        vendor: "NVIDIA".to_owned(),
        device_id: u64::MAX,
        device_type: "gpu".to_owned(),
        backend: "nvml".to_owned(),
    });
    record.ergometer.energy = QueryEnergy {
        measured: Some(energy),
        modelled: None,
        devices: vec![DeviceShare { device: DeviceId::gpu(0), scope: Scope::Device, energy }],
        attribution: Some(RequestAttribution {
            share: 8.0,
            low: 7.5,
            high: 8.25 + query_index as f64,
            prefill_j: Some(3.0),
            decode_j: Some(5.0),
            marginal: None,
            alone: Some(20.0),
            method: EnergyMethod::CostModel(Evidence::Arrivals),
        }),
    };
    record
}

/// A record of a failed request, without any optional value.
pub(crate) fn bare_record(query_index: u64) -> Record {
    let sent = Timestamp::from_nanos_since_epoch(1_794_730_772_000_000_001);
    Record {
        problem: "What is 2 + 2?".to_owned(),
        answer: "4".to_owned(),
        subject: String::new(),
        dataset_metadata: Map::new(),
        model_answer: None,
        model_metrics: ModelMetrics::default(),
        ergometer: ErgometerColumn {
            query_index,
            request: query_index,
            session: 0,
            outcome: QueryOutcome::Failed,
            failure: Some(FailureKind::TimeoutTotal),
            cause: None,
            attempts: 1,
            scheduled: sent,
            sent,
            first_token: None,
            last_token: None,
            end: sent + Seconds::new(1.0),
            token_source: None,
            cached_tokens: None,
            finish: None,
            reasoning: None,
            tool_calls: None,
            server_times: ServerTimes::default(),
            processor_seconds: None,
            energy: QueryEnergy::default(),
            grade: None,
            conversation: None,
            turn: None,
        },
    }
}

/// Any JSON value, up to three levels deep.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}
