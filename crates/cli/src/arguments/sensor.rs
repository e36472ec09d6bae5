//! `--sensor`: what was written goes in, and it comes out with the sensor it means.
//!
//! What is wrong is told without what was written. Clap's own parsers quote the whole value, and a command line may hold
//! a password.

use std::ffi::OsStr;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command, Error};
use ergometer_diagnostics::Message;
use ergometer_sensors::external::{Spec, SpecError};

use crate::bridge::diagnosed;
use crate::phrasing::Options;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(super) struct SensorParser;

/// A sensor, and the text it was read from: a run stores what was asked for.
#[derive(Clone)]
pub(super) struct Written {
    pub(super) text: String,
    pub(super) spec: Spec,
}

impl TypedValueParser for SensorParser {
    type Value = Written;

    fn parse_ref(&self, command: &Command, _: Option<&Arg>, value: &OsStr) -> Result<Written, Error> {
        let text = value.to_str().ok_or_else(|| Error::new(ErrorKind::InvalidUtf8).with_cmd(command))?;
        let refuse = |error: SpecError| {
            let Message { text, hint } = diagnosed!(error);
            let hint = hint.map(|hint| format!("\nhint: {}", hint.phrase(&Options))).unwrap_or_default();
            let message = format!("--sensor: {text}{hint}");
            Error::raw(ErrorKind::ValueValidation, message).with_cmd(command)
        };
        Ok(Written { text: text.to_owned(), spec: text.parse().map_err(refuse)? })
    }
}
