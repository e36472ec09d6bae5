//! Parses `--sensor` and `--grader`, whose errors have hints.
//!
//! Errors do not quote the value, as clap's own parsers do: a command line may contain a password.

use std::error::Error as _;
use std::ffi::OsStr;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command, Error};
use ergometer_datasets::grade::{Grader, GraderError};
use ergometer_diagnostics::{Diagnostic, Message};
use ergometer_sensors::external::{Spec, SpecError};

use crate::phrasing::Options;

/// Parses a sensor specification.
#[derive(Debug, Clone, Copy)]
pub(super) struct SensorParser;

/// Parses a grader. The error of an invalid pattern shows its cause.
#[derive(Debug, Clone, Copy)]
pub(super) struct GraderParser;

impl TypedValueParser for SensorParser {
    type Value = Spec;

    fn parse_ref(&self, command: &Command, _: Option<&Arg>, value: &OsStr) -> Result<Spec, Error> {
        let parsed = text(command, value)?.parse();
        parsed.map_err(|error: SpecError| refused(command, "--sensor", error.to_message()))
    }
}

impl TypedValueParser for GraderParser {
    type Value = Grader;

    fn parse_ref(&self, command: &Command, _: Option<&Arg>, value: &OsStr) -> Result<Grader, Error> {
        text(command, value)?.parse().map_err(|error: GraderError| {
            let mut message = error.to_message();
            if let Some(cause) = error.source() {
                message.text = format!("{message}: {cause}");
            }
            refused(command, "--grader", message)
        })
    }
}

fn text<'a>(command: &Command, value: &'a OsStr) -> Result<&'a str, Error> {
    value.to_str().ok_or_else(|| Error::new(ErrorKind::InvalidUtf8).with_cmd(command))
}

/// The error of an option with an invalid value.
fn refused(command: &Command, option: &str, Message { text, hint }: Message) -> Error {
    let hint = hint.map(|hint| format!("\nhint: {}", hint.phrase(&Options))).unwrap_or_default();
    Error::raw(ErrorKind::ValueValidation, format!("{option}: {text}{hint}")).with_cmd(command)
}
