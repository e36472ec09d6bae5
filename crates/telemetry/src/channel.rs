//! Describes a stream of readings: its device, scope, signal and provenance.

use std::fmt;
use std::str::FromStr;

use ergometer_units::{Seconds, Watts};
use serde::{Deserialize, Serialize};

/// The kind of thing a sensor measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// A GPU, by its index in the driver's order.
    Gpu,
    /// A CPU package (socket).
    Cpu,
    /// An accelerator for neural networks beside CPU and GPU, such as Apple's Neural Engine.
    Npu,
    /// A supply rail of a board, by its label. Rails may contain each other, in unknown ways.
    Rail,
    /// The machine as a whole.
    Host,
    /// A meter of the machine's supply: a board controller, a battery, a meter in a laboratory.
    Meter,
    /// A server that answers requests, local or remote. It reports counts and percentages, never energy.
    Server,
}

impl DeviceKind {
    /// The prefix of device names of this kind, such as `gpu`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Cpu => "cpu",
            Self::Npu => "npu",
            Self::Rail => "rail",
            Self::Host => "host",
            Self::Meter => "meter",
            Self::Server => "server",
        }
    }

    /// Parses a prefix written by [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        const ALL: [DeviceKind; 7] = [
            DeviceKind::Gpu,
            DeviceKind::Cpu,
            DeviceKind::Npu,
            DeviceKind::Rail,
            DeviceKind::Host,
            DeviceKind::Meter,
            DeviceKind::Server,
        ];
        ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// One device, written `gpu:0`, `cpu:1`, `host:0` or `meter:0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId {
    /// The kind of device.
    pub kind: DeviceKind,
    /// The index among devices of this kind, from 0.
    pub index: u32,
}

/// The error for an invalid device name. The message omits `server:N`, which users never write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown device `{0}`: devices are written gpu:N, cpu:N, npu:N, rail:N, host:N or meter:N, for example gpu:0")]
pub struct ParseDeviceError(pub String);

impl DeviceId {
    /// The GPU of this index.
    #[must_use]
    pub const fn gpu(index: u32) -> Self {
        Self { kind: DeviceKind::Gpu, index }
    }

    /// The CPU package of this index.
    #[must_use]
    pub const fn cpu(index: u32) -> Self {
        Self { kind: DeviceKind::Cpu, index }
    }

    /// The accelerator for neural networks of this index.
    #[must_use]
    pub const fn npu(index: u32) -> Self {
        Self { kind: DeviceKind::Npu, index }
    }

    /// The supply rail of this index.
    #[must_use]
    pub const fn rail(index: u32) -> Self {
        Self { kind: DeviceKind::Rail, index }
    }

    /// The meter of the machine's supply of this index.
    #[must_use]
    pub const fn meter(index: u32) -> Self {
        Self { kind: DeviceKind::Meter, index }
    }

    /// This machine.
    #[must_use]
    pub const fn host() -> Self {
        Self { kind: DeviceKind::Host, index: 0 }
    }

    /// The server that answers the requests.
    #[must_use]
    pub const fn server() -> Self {
        Self { kind: DeviceKind::Server, index: 0 }
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}:{}", self.kind.name(), self.index))
    }
}

impl FromStr for DeviceId {
    type Err = ParseDeviceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || ParseDeviceError(text.to_owned());
        let (kind, index) = text.split_once(':').ok_or_else(unknown)?;
        let kind = DeviceKind::from_name(kind).ok_or_else(unknown)?;
        Ok(Self { kind, index: index.parse().map_err(|_| unknown())? })
    }
}

impl Serialize for DeviceId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DeviceId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The part of a device that a reading covers. Only disjoint scopes are summed: `Device` contains `Memory`,
/// `Psys` contains everything, `Module` contains `Package`, and `Package` contains `Core` and `Uncore`. The
/// content of a `Rail` is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The whole device: a GPU board, the machine.
    Device,
    /// A GPU's memory.
    Memory,
    /// A CPU package.
    Package,
    /// The cores of a CPU package.
    Core,
    /// A CPU package without its cores.
    Uncore,
    /// The memory attached to a CPU package; not contained in it.
    Dram,
    /// The whole platform, measured at its power supply; contains the packages.
    Psys,
    /// A whole module or socket: a CPU with its memory and voltage regulators, or a GPU with the CPU on the same module
    /// (GH200, MI300A).
    Module,
    /// One supply rail.
    Rail,
}

impl Scope {
    /// Its name in text for people.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Memory => "memory",
            Self::Package => "package",
            Self::Core => "core",
            Self::Uncore => "uncore",
            Self::Dram => "dram",
            Self::Psys => "whole machine",
            Self::Module => "module",
            Self::Rail => "rail",
        }
    }

    /// An upper bound on the power of this scope of one device, with a wide margin. A counter step that implies more
    /// power is invalid. An eight-GPU board is eight devices; a platform may contain all of them.
    #[must_use]
    pub const fn power_bound(self) -> Watts {
        match self {
            Self::Psys => Watts::new(20_000.0),
            Self::Device | Self::Memory | Self::Module | Self::Rail => Watts::new(5000.0),
            Self::Package | Self::Core | Self::Uncore | Self::Dram => Watts::new(2000.0),
        }
    }
}

/// The quantity that a channel measures. Energy is in joules, power in watts, memory in bytes, temperature in degrees
/// Celsius, clocks in megahertz, and utilization, activity and the use of a cache in percent. Requests, tokens and
/// preemptions are counts; throttle reasons are bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// A cumulative energy counter.
    Energy,
    /// Power samples with timestamps from the driver (NVML's power ring).
    PowerRing,
    /// The driver's latest power value.
    PowerInstant,
    /// Power averaged by the sensor over a window.
    PowerAverage,
    /// Power estimated from utilization.
    PowerModelled,
    /// Memory in use.
    MemoryUsed,
    /// Total memory.
    MemoryTotal,
    /// Temperature.
    Temperature,
    /// Temperature of the hottest point (the junction of an AMD GPU).
    TemperatureHotspot,
    /// The clock of the cores (SM clock on a GPU).
    ClockCore,
    /// The clock of the memory.
    ClockMemory,
    /// The reasons for throttled clocks, as the bits of NVML's clocks event reasons. Sensors of other vendors use the
    /// bits with the same meaning.
    ThrottleReasons,
    /// The share of time in which the device was busy.
    Utilization,
    /// The share of time in which memory was read or written.
    MemoryUtilization,
    /// The share of streaming multiprocessors that were busy.
    SmActivity,
    /// The share of tensor-core cycles that were used.
    TensorActivity,
    /// The share of memory bandwidth that was used.
    DramActivity,
    /// Requests that a server is processing.
    RequestsRunning,
    /// Requests in a server's queue.
    RequestsWaiting,
    /// Prompt tokens since the server started. Servers differ in whether they include cached tokens.
    PromptTokens,
    /// Tokens a server has generated since it started.
    GenerationTokens,
    /// The share of a server's KV cache in use.
    KvCacheUse,
    /// Preempted requests since the server started.
    Preemptions,
    /// Prompt tokens found in a server's prefix cache since it started.
    PrefixCacheHits,
    /// Prompt tokens looked up in a server's prefix cache since it started.
    PrefixCacheQueries,
}

impl Signal {
    /// The unit of its values.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Energy => "J",
            Self::PowerRing | Self::PowerInstant | Self::PowerAverage | Self::PowerModelled => "W",
            Self::MemoryUsed | Self::MemoryTotal => "B",
            Self::Temperature | Self::TemperatureHotspot => "degC",
            Self::ClockCore | Self::ClockMemory => "MHz",
            Self::Utilization
            | Self::MemoryUtilization
            | Self::SmActivity
            | Self::TensorActivity
            | Self::DramActivity
            | Self::KvCacheUse => "%",
            Self::RequestsRunning | Self::RequestsWaiting => "requests",
            Self::PromptTokens | Self::GenerationTokens | Self::PrefixCacheHits | Self::PrefixCacheQueries => "tokens",
            Self::Preemptions => "preemptions",
            Self::ThrottleReasons => "bits",
        }
    }
}

/// How a value was obtained: measured, averaged or modelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// A hardware energy counter.
    Counter,
    /// Power samples.
    SampledPower,
    /// Power averaged by the sensor over a window much longer than a query.
    AveragedPower,
    /// Estimated by a model from other values; never added to measured energy.
    Modelled,
    /// A direct reading: memory, temperature, clocks, utilization, server metrics.
    Gauge,
}

/// One stream of readings from one sensor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Channel {
    /// The measured device.
    pub device: DeviceId,
    /// The part of the device.
    pub scope: Scope,
    /// The quantity.
    pub signal: Signal,
    /// How the values are obtained.
    pub provenance: Provenance,
    /// How often the source updates, if known. Sampling faster repeats the same value.
    #[serde(default, with = "optional_seconds")]
    pub update_period: Option<Seconds>,
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.device, name_of(&self.scope), name_of(&self.signal))
    }
}

macro_rules! display_by_name {
    ($($name:ty),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&name_of(self))
            }
        }
    )*};
}
display_by_name!(Scope, Signal, Provenance);

/// The serde name of a unit variant, so that tables and files use the same names.
fn name_of<T: Serialize>(variant: &T) -> String {
    match serde_json::to_value(variant) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::from("?"),
    }
}

mod optional_seconds {
    use ergometer_units::Seconds;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde's `with` passes a reference to the field")]
    pub(super) fn serialize<S: Serializer>(period: &Option<Seconds>, serializer: S) -> Result<S::Ok, S::Error> {
        period.map(Seconds::get).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Seconds>, D::Error> {
        Ok(Option::<f64>::deserialize(deserializer)?.map(Seconds::new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_names_parse_back() {
        for device in [
            DeviceId::gpu(7),
            DeviceId::cpu(0),
            DeviceId::npu(0),
            DeviceId::rail(3),
            DeviceId::host(),
            DeviceId::meter(1),
            DeviceId::server(),
        ] {
            assert_eq!(device.to_string().parse(), Ok(device));
        }
        for wrong in ["", "gpu", "gpu:", "gpu:x", "tpu:0", "gpu:-1", "gpu:0:1"] {
            assert!(wrong.parse::<DeviceId>().is_err(), "{wrong}");
        }
    }

    /// The scope psys is named after a RAPL domain, but also covers meters of a BMC or of the user.
    #[test]
    fn the_label_of_a_scope_is_its_name_except_for_the_whole_machine() {
        assert_eq!((Scope::Psys.label(), Scope::Psys.to_string().as_str()), ("whole machine", "psys"));
        for scope in [Scope::Device, Scope::Memory, Scope::Package, Scope::Core, Scope::Uncore, Scope::Dram] {
            assert_eq!(scope.label(), scope.to_string());
        }
        assert_eq!((Scope::Module.label(), Scope::Rail.label()), ("module", "rail"));
    }

    #[test]
    fn a_channel_round_trips_through_json() {
        let channel = Channel {
            device: DeviceId::gpu(0),
            scope: Scope::Memory,
            signal: Signal::PowerAverage,
            provenance: Provenance::AveragedPower,
            update_period: Some(Seconds::new(0.1)),
        };
        let text = serde_json::to_string(&channel).unwrap();
        assert_eq!(serde_json::from_str::<Channel>(&text).unwrap(), channel);
        assert_eq!(channel.to_string(), "gpu:0 memory power_average");
    }
}
