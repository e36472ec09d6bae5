//! Parses `--sensor`.
//!
//! Errors do not quote the value, as clap's own parsers do: a command line may contain a password.

use std::ffi::OsStr;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command, Error};
use ergometer_diagnostics::{Diagnostic, Message};
use ergometer_sensors::external::{Spec, SpecError};

use crate::phrasing::Options;

/// Parses a sensor specification.
#[derive(Debug, Clone, Copy)]
pub(super) struct SensorParser;

impl TypedValueParser for SensorParser {
    type Value = Spec;

    fn parse_ref(&self, command: &Command, _: Option<&Arg>, value: &OsStr) -> Result<Spec, Error> {
        let text = value.to_str().ok_or_else(|| Error::new(ErrorKind::InvalidUtf8).with_cmd(command))?;
        let refuse = |error: SpecError| {
            let Message { text, hint } = error.to_message();
            let hint = hint.map(|hint| format!("\nhint: {}", hint.phrase(&Options))).unwrap_or_default();
            let message = format!("--sensor: {text}{hint}");
            Error::raw(ErrorKind::ValueValidation, message).with_cmd(command)
        };
        text.parse().map_err(refuse)
    }
}
