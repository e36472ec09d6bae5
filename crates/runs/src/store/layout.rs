//! The columns of a record, in the order and with the names that tools written for intelligence-per-watt read. Names
//! never change; any value may be null.
//!
//! Groups of metrics are never null, so `row["model_metrics"][model]["power_metrics"]["gpu"]` can be indexed in every
//! row and only its last value may be null. Values that can be missing as a whole (`gpu_info`, `system_info`, `grade`,
//! an energy) are null as a whole.

use arrow_schema::SchemaRef;
use ergometer_telemetry::SystemInfo;
use ergometer_units::Seconds;

use super::MetadataShape;
use super::columns::{Column, Fields};
use crate::EnergySource;
use crate::column_names as names;
use crate::record::{
    ComputeMetrics, Cost, DeviceShare, EnergyMetrics, EnergyValue, ErgometerColumn, GpuColumn, GradeColumn,
    GrossAndNet, HardwareUtilization, LatencyMetrics, MemoryMetrics, ModelMetrics, PhaseMetrics, PowerMetrics,
    QueryEnergy, Record, RequestAttribution, StatColumn, TokenMetrics,
};
use ergometer_clients::{ServerTimes, TokenSource};

/// The schema of one run's records: the model's name is a field name, and the metadata has the keys of the dataset.
pub struct RecordSchema {
    pub(super) root: Column<Record>,
    pub(super) metadata: MetadataShape,
}

impl RecordSchema {
    /// The schema for records of this model with this metadata. The model name may contain any characters, including
    /// slashes and dots.
    ///
    /// ```
    /// use ergometer_runs::store::{MetadataShape, RecordSchema};
    ///
    /// let schema = RecordSchema::new("org/model-1.5", &MetadataShape::default());
    /// assert_eq!(schema.schema().field(0).name(), "problem");
    /// ```
    #[must_use]
    pub fn new(model: &str, metadata: &MetadataShape) -> Self {
        Self { root: record(model, metadata), metadata: metadata.clone() }
    }

    /// The Arrow schema, in the order of the columns.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.root.schema()
    }
}

impl std::fmt::Debug for RecordSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordSchema").field("schema", &self.schema()).finish_non_exhaustive()
    }
}

fn record(model: &str, metadata: &MetadataShape) -> Column<Record> {
    let answers = Fields::<Record>::new().text(model, |record| record.model_answer.as_deref()).column();
    let metrics = Fields::<Record>::new().part(model, |record| Some(&record.model_metrics), metrics()).column();
    Fields::<Record>::new()
        .text(names::PROBLEM, |record| Some(&record.problem))
        .text(names::ANSWER, |record| Some(&record.answer))
        .text(names::SUBJECT, |record| Some(&record.subject))
        .part("dataset_metadata", |record| Some(&record.dataset_metadata), metadata.column())
        .add(names::MODEL_ANSWERS, answers)
        .add(names::MODEL_METRICS, metrics)
        .part(names::ERGOMETER, |record| Some(&record.ergometer), ergometer())
        .column()
}

fn metrics() -> Column<ModelMetrics> {
    Fields::<ModelMetrics>::new()
        .part("compute_metrics", |metrics| Some(&metrics.compute), compute())
        .part(names::ENERGY_METRICS, |metrics| Some(&metrics.energy), energy())
        .part(names::LATENCY_METRICS, |metrics| Some(&metrics.latency), latency())
        .part("memory_metrics", |metrics| Some(&metrics.memory), memory())
        .part(names::POWER_METRICS, |metrics| Some(&metrics.power), power())
        .part(names::TEMPERATURE_METRICS, |metrics| Some(&metrics.temperature), stats())
        .part(names::TOKEN_METRICS, |metrics| Some(&metrics.tokens), tokens())
        .part(names::PHASE_METRICS, |metrics| Some(&metrics.phases), phases())
        .part("hardware_utilization", |metrics| Some(&metrics.utilization), utilization())
        .part(names::COST, |metrics| Some(&metrics.cost), cost())
        .part("gpu_info", |metrics| metrics.gpu_info.as_ref(), gpu_info())
        .part("system_info", |metrics| metrics.system_info.as_ref(), system_info())
        .boolean(names::LM_CORRECTNESS, |metrics| metrics.lm_correctness)
        .text("lm_response", |metrics| metrics.lm_response.as_deref())
        .column()
}

fn compute() -> Column<ComputeMetrics> {
    Fields::<ComputeMetrics>::new()
        .float("flops_per_request", |compute| compute.flops_per_request)
        .float("macs_per_request", |compute| compute.macs_per_request)
        .float("total_flops", |compute| compute.total_flops)
        .float("flops_per_token", |compute| compute.flops_per_token)
        .column()
}

fn energy() -> Column<EnergyMetrics> {
    Fields::<EnergyMetrics>::new()
        .float(names::PER_QUERY_JOULES, |energy| energy.per_query_joules)
        .float("total_joules", |energy| energy.per_query_joules)
        .float("cpu_per_query_joules", |energy| energy.cpu_per_query_joules)
        .float("cpu_total_joules", |energy| energy.cpu_per_query_joules)
        .float("ane_per_query_joules", |energy| energy.ane_per_query_joules)
        .float("ane_total_joules", |energy| energy.ane_per_query_joules)
        .column()
}

fn latency() -> Column<LatencyMetrics> {
    Fields::<LatencyMetrics>::new()
        .float("per_token_ms", |latency| latency.per_token_ms)
        .float("throughput_tokens_per_sec", |latency| latency.throughput_tokens_per_sec)
        .float(names::TIME_TO_FIRST_TOKEN_SECONDS, |latency| latency.time_to_first_token_seconds)
        .float(names::TOTAL_QUERY_SECONDS, |latency| latency.total_query_seconds)
        .column()
}

fn memory() -> Column<MemoryMetrics> {
    Fields::<MemoryMetrics>::new()
        .part("cpu_mb", |memory| Some(&memory.cpu_mb), stats())
        .part("gpu_mb", |memory| Some(&memory.gpu_mb), stats())
        .column()
}

fn power() -> Column<PowerMetrics> {
    Fields::<PowerMetrics>::new()
        .part(names::GPU, |power| Some(&power.gpu), watts())
        .part("cpu", |power| Some(&power.cpu), watts())
        .column()
}

fn watts() -> Column<StatColumn> {
    Fields::new().add(names::PER_QUERY_WATTS, stats()).add("total_watts", stats()).column()
}

fn stats() -> Column<StatColumn> {
    Fields::<StatColumn>::new()
        .float(names::AVG, |stats| stats.map(|stats| stats.avg))
        .float(names::MAX, |stats| stats.map(|stats| stats.max))
        .float(names::MEDIAN, |stats| stats.map(|stats| stats.median))
        .float(names::MIN, |stats| stats.map(|stats| stats.min))
        .column()
}

fn tokens() -> Column<TokenMetrics> {
    Fields::<TokenMetrics>::new()
        .integer(names::INPUT, |tokens| tokens.input)
        .integer(names::OUTPUT, |tokens| tokens.output)
        .integer(names::TOTAL, |tokens| tokens.total)
        .column()
}

fn phases() -> Column<PhaseMetrics> {
    Fields::<PhaseMetrics>::new()
        .float(names::PREFILL_ENERGY_J, |phases| phases.prefill_energy_j)
        .float(names::DECODE_ENERGY_J, |phases| phases.decode_energy_j)
        .float(names::PREFILL_DURATION_MS, |phases| phases.prefill_duration_ms)
        .float(names::DECODE_DURATION_MS, |phases| phases.decode_duration_ms)
        .float("prefill_power_avg_w", |phases| phases.prefill_power_avg_w)
        .float("decode_power_avg_w", |phases| phases.decode_power_avg_w)
        .float("prefill_energy_per_input_token_j", |phases| phases.prefill_energy_per_input_token_j)
        .float("decode_energy_per_output_token_j", |phases| phases.decode_energy_per_output_token_j)
        .column()
}

fn utilization() -> Column<HardwareUtilization> {
    let gpu = Fields::<HardwareUtilization>::new()
        .float("compute_utilization_pct", |gpu| gpu.compute_utilization_pct)
        .float("memory_bandwidth_utilization_pct", |gpu| gpu.memory_bandwidth_utilization_pct)
        .float("tensor_core_utilization_pct", |gpu| gpu.tensor_core_utilization_pct)
        .float("memory_used_gb", |gpu| gpu.memory_used_gb)
        .float("memory_total_gb", |gpu| gpu.memory_total_gb)
        .column();
    let derived = Fields::<HardwareUtilization>::new()
        .float("mfu", |derived| derived.mfu)
        .float("mbu", |derived| derived.mbu)
        .float("arithmetic_intensity", |derived| derived.arithmetic_intensity)
        .column();
    Fields::new().add("gpu", gpu).add("derived", derived).column()
}

fn cost() -> Column<Cost> {
    Fields::<Cost>::new()
        .float("input_cost_usd", |cost| cost.input_cost_usd)
        .float("output_cost_usd", |cost| cost.output_cost_usd)
        .float("tool_cost_usd", |cost| cost.tool_cost_usd)
        .float(names::TOTAL_COST_USD, |cost| cost.total_cost_usd)
        .column()
}

fn gpu_info() -> Column<GpuColumn> {
    Fields::<GpuColumn>::new()
        .text("name", |gpu| Some(&gpu.name))
        .text("vendor", |gpu| Some(&gpu.vendor))
        .integer("device_id", |gpu| Some(gpu.device_id))
        .text("device_type", |gpu| Some(&gpu.device_type))
        .text("backend", |gpu| Some(&gpu.backend))
        .column()
}

fn system_info() -> Column<SystemInfo> {
    Fields::<SystemInfo>::new()
        .text("os_name", |system| system.os_name.as_deref())
        .text("os_version", |system| system.os_version.as_deref())
        .text("kernel_version", |system| system.kernel_version.as_deref())
        .text("host_name", |system| system.host_name.as_deref())
        .integer("cpu_count", |system| system.cpu_count)
        .text("cpu_brand", |system| system.cpu_brand.as_deref())
        .column()
}

fn ergometer() -> Column<ErgometerColumn> {
    Fields::<ErgometerColumn>::new()
        .integer(names::QUERY_INDEX, |column| Some(column.query_index))
        .integer(names::REQUEST, |column| Some(column.request))
        .integer(names::SESSION, |column| Some(column.session))
        .text(names::OUTCOME, |column| Some(column.outcome.name()))
        .printed(names::FAILURE, |column| column.failure)
        .text(names::CAUSE, |column| column.cause.as_deref())
        .integer(names::ATTEMPTS, |column| Some(column.attempts))
        .nanos(names::SCHEDULED_NS, |column| Some(column.scheduled))
        .nanos(names::SENT_NS, |column| Some(column.sent))
        .nanos(names::FIRST_TOKEN_NS, |column| column.first_token)
        .nanos(names::LAST_TOKEN_NS, |column| column.last_token)
        .nanos(names::END_NS, |column| Some(column.end))
        .text("token_source", |column| column.token_source.map(TokenSource::name))
        .integer(names::CACHED_TOKENS, |column| column.cached_tokens)
        .text("finish", |column| column.finish.as_deref())
        .text("reasoning", |column| column.reasoning.as_deref())
        .text("tool_calls", |column| column.tool_calls.as_deref())
        .part("server_times", |column| Some(&column.server_times).filter(|times| !times.is_empty()), server_times())
        .float("processor_seconds", |column| column.processor_seconds)
        .part(names::ENERGY, |column| Some(&column.energy), query_energy())
        .part("grade", |column| column.grade.as_ref(), grade())
        .integer("conversation", |column| column.conversation)
        .integer("turn", |column| column.turn)
        .column()
}

fn server_times() -> Column<ServerTimes> {
    Fields::<ServerTimes>::new()
        .float("load_s", |times| times.load.map(Seconds::get))
        .float("prompt_s", |times| times.prompt.map(Seconds::get))
        .float("output_s", |times| times.output.map(Seconds::get))
        .float("total_s", |times| times.total.map(Seconds::get))
        .column()
}

fn query_energy() -> Column<QueryEnergy> {
    let device = Fields::<DeviceShare>::new()
        .printed("device", |share| Some(share.device))
        .printed("scope", |share| Some(share.scope))
        .part(names::GROSS, |share| Some(&share.energy.gross), energy_value())
        .part(names::NET, |share| share.energy.net.as_ref(), energy_value())
        .column();
    Fields::<QueryEnergy>::new()
        .part(EnergySource::Measured.name(), |energy| energy.measured.as_ref(), gross_and_net())
        .part(EnergySource::Modelled.name(), |energy| energy.modelled.as_ref(), gross_and_net())
        .list("devices", |energy| Some(&energy.devices), device)
        .part(names::ATTRIBUTION, |energy| energy.attribution.as_ref(), attribution())
        .column()
}

fn attribution() -> Column<RequestAttribution> {
    Fields::<RequestAttribution>::new()
        .float(names::SHARE, |found| Some(found.share))
        .float(names::LOW, |found| Some(found.low))
        .float(names::HIGH, |found| Some(found.high))
        .float(names::PREFILL_J, |found| found.prefill_j)
        .float(names::DECODE_J, |found| found.decode_j)
        .float("marginal", |found| found.marginal)
        .float("alone", |found| found.alone)
        .printed("method", |found| Some(found.method))
        .column()
}

fn gross_and_net() -> Column<GrossAndNet> {
    Fields::<GrossAndNet>::new()
        .part(names::GROSS, |energy| Some(&energy.gross), energy_value())
        .part(names::NET, |energy| energy.net.as_ref(), energy_value())
        .column()
}

fn energy_value() -> Column<EnergyValue> {
    Fields::<EnergyValue>::new()
        .float(names::JOULES, |energy| Some(energy.joules))
        .float(names::LOW, |energy| Some(energy.low))
        .float(names::HIGH, |energy| Some(energy.high))
        .printed("method", |energy| Some(energy.method))
        .printed("provenance", |energy| Some(energy.provenance))
        .column()
}

fn grade() -> Column<GradeColumn> {
    Fields::<GradeColumn>::new()
        .text("grader", |grade| Some(&grade.grader))
        .boolean("correct", |grade| grade.correct)
        .text("extracted", |grade| grade.extracted.as_deref())
        .text("reply", |grade| grade.reply.as_deref())
        .column()
}
