//! `calibration.json`: what the calibration requests of a run showed, for that run and for later ones.

use std::path::Path;

use ergometer_runs::cost_model::{TERMS, Work};
use ergometer_runs::store::{StoreError, write_json};
use ergometer_runs::{ReadError, regular_file};
use ergometer_telemetry::{DeviceId, Scope};
use serde::{Deserialize, Serialize};

use crate::{MeteredScope, Observations, Stream};

/// What calibration requests showed of the costs of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The folder name of the run that sent the requests; absent if it is the run itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// When the first request was sent, in nanoseconds since the epoch.
    pub measured_ns: i64,
    /// How long requests were sent, in seconds.
    pub seconds: f64,
    /// The observations of each device and scope.
    scopes: Vec<CalibratedScope>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct CalibratedScope {
    device: DeviceId,
    scope: Scope,
    /// The work in a stretch of time, and its joules above idle.
    observations: Vec<(Work, f64)>,
}

impl Calibration {
    /// The calibration of these requests. `None` if there is no observation.
    pub fn new<'a>(
        streams: &[Stream],
        observed: impl IntoIterator<Item = (MeteredScope, &'a Observations)>,
    ) -> Option<Self> {
        let start = streams.iter().map(|stream| stream.sent).min()?;
        let end = streams.iter().map(|stream| stream.end).max()?;
        let scopes = observed.into_iter().map(|(MeteredScope { device, scope, .. }, observations)| {
            let rows = observations.observations();
            let observations = rows.filter_map(|(work, joules)| Some((Work::try_from(work).ok()?, joules))).collect();
            CalibratedScope { device, scope, observations }
        });
        let scopes: Vec<_> = scopes.filter(|scope| !scope.observations.is_empty()).collect();
        let (measured_ns, seconds) = (start.nanos_since_epoch(), (end - start).get());
        (!scopes.is_empty()).then_some(Self { run: None, measured_ns, seconds, scopes })
    }

    /// The observations of a device and scope, in order of time.
    #[must_use]
    pub fn observations(&self, scope: MeteredScope) -> Option<Observations> {
        let found = self.scopes.iter().find(|found| (found.device, found.scope) == (scope.device, scope.scope))?;
        let mut series = Observations::new(TERMS);
        found.observations.iter().for_each(|(work, joules)| series.push(work, *joules));
        Some(series)
    }

    /// The work in each stretch of time.
    pub fn work(&self) -> impl Iterator<Item = Work> {
        self.scopes
            .iter()
            .max_by_key(|scope| scope.observations.len())
            .into_iter()
            .flat_map(|scope| scope.observations.iter().map(|(work, _)| *work))
    }

    /// Reads a file; `None` if it does not exist.
    pub fn read(path: &Path) -> Result<Option<Self>, ReadError> {
        match regular_file::read(path) {
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(ReadError::damaged(path)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ReadError::io("read", path)(error)),
        }
    }

    /// Writes a file, atomically.
    pub fn write(&self, path: &Path) -> Result<(), StoreError> {
        write_json(path, self)
    }
}

#[cfg(test)]
mod tests {
    use ergometer_telemetry::Provenance;
    use ergometer_units::Timestamp;
    use proptest::prelude::*;

    use super::*;

    fn float() -> impl Strategy<Value = f64> {
        prop::num::f64::NORMAL | prop::num::f64::ZERO | prop::num::f64::SUBNORMAL
    }

    fn calibration() -> impl Strategy<Value = Calibration> {
        let observations = prop::collection::vec((prop::array::uniform6(float()), float()), 0..5);
        let scope = (0_u32..9, prop_oneof![Just(Scope::Device), Just(Scope::Package)], observations);
        let scope = scope.prop_map(|(index, scope, observations)| CalibratedScope {
            device: DeviceId::gpu(index),
            scope,
            observations,
        });
        (prop::option::of(any::<String>()), any::<i64>(), float(), prop::collection::vec(scope, 0..3))
            .prop_map(|(run, measured_ns, seconds, scopes)| Calibration { run, measured_ns, seconds, scopes })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

        #[test]
        fn calibration_json(calibration in calibration()) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("calibration.json");
            calibration.write(&path).unwrap();
            prop_assert_eq!(Calibration::read(&path).unwrap(), Some(calibration));
        }
    }

    #[test]
    fn a_calibration_is_read_back_from_its_file() {
        let at = |seconds: i64| Timestamp::from_nanos_since_epoch(seconds * 1_000_000_000);
        let stream = |sent, end| Stream {
            id: None,
            sent: at(sent),
            end: at(end),
            prompt_tokens: None,
            cached_tokens: 0.0,
            output_tokens: None,
            arrivals: Vec::new(),
        };
        let scope = |index| MeteredScope {
            device: DeviceId::gpu(index),
            scope: Scope::Device,
            provenance: Provenance::Counter,
            summed: true,
        };
        let streams = [stream(5, 7), stream(4, 6)];
        let mut observed = Observations::new(TERMS);
        assert_eq!(Calibration::new(&streams, [(scope(0), &observed)]), None);
        observed.push(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0.5);
        let calibration = Calibration::new(&streams, [(scope(0), &observed)]).unwrap();
        assert_eq!((calibration.measured_ns, calibration.seconds), (4_000_000_000, 3.0));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calibration.json");
        assert_eq!(Calibration::read(&path).unwrap(), None);
        calibration.write(&path).unwrap();
        assert_eq!(Calibration::read(&path).unwrap(), Some(calibration.clone()));
        assert_eq!(calibration.observations(scope(0)), Some(observed));
        assert_eq!((calibration.observations(scope(1)), calibration.work().count()), (None, 1));
        std::fs::write(&path, "{}").unwrap();
        assert!(Calibration::read(&path).is_err());
    }
}
