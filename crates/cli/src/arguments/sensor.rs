//! Parses `--sensor`.
//!
//! Errors do not quote the value, as clap's own parsers do: a command line may contain a password.

use std::ffi::OsStr;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command, Error};
use ergometer_diagnostics::Message;
use ergometer_sensors::external::{Spec, SpecError};

use crate::bridge::diagnosed;
use crate::phrasing::Options;

/// Parses a sensor specification.
#[derive(Debug, Clone, Copy)]
pub(super) struct SensorParser;

/// A parsed sensor specification, and its text, which a run stores.
#[derive(Clone)]
pub(super) struct SensorArgument {
    pub(super) text: String,
    pub(super) spec: Spec,
}

impl TypedValueParser for SensorParser {
    type Value = SensorArgument;

    fn parse_ref(&self, command: &Command, _: Option<&Arg>, value: &OsStr) -> Result<SensorArgument, Error> {
        let text = value.to_str().ok_or_else(|| Error::new(ErrorKind::InvalidUtf8).with_cmd(command))?;
        let refuse = |error: SpecError| {
            let Message { text, hint } = diagnosed!(error);
            let hint = hint.map(|hint| format!("\nhint: {}", hint.phrase(&Options))).unwrap_or_default();
            let message = format!("--sensor: {text}{hint}");
            Error::raw(ErrorKind::ValueValidation, message).with_cmd(command)
        };
        Ok(SensorArgument { text: text.to_owned(), spec: text.parse().map_err(refuse)? })
    }
}
