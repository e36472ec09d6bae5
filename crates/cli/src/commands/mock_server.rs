//! `ergo mock-server`: runs the mock server until Ctrl-C, then prints its totals.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use ergometer_mock_server::{MockServer, RunningServer, ServerError, Totals};
use serde_json::json;

use crate::arguments::{MockServerArguments, ServerFormat};
use crate::exit::{Exit, Failure};
use crate::figures::thousands;
use crate::interrupt::Interrupt;
use crate::screen::{Align, Screen, Table, Tone, print};
use crate::threads::{Workers, start_runtime};

/// How long to wait for Ctrl-C at a time.
const WAIT: Duration = Duration::from_secs(3600);

pub(crate) fn run(arguments: &MockServerArguments, screen: Screen) -> Result<ExitCode, Failure> {
    let key = arguments.key_variable().map(read_key).transpose()?;
    let interrupt = Interrupt::listen()?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let runtime = start_runtime(Workers::Threads(cores))?;
    let server = runtime.block_on(MockServer::start(arguments.script(key))).map_err(|error| match error {
        ServerError::Script(error) => Failure::usage(error),
        error => Failure::failed(error),
    })?;
    announce(&server, arguments.format, screen)?;
    while !interrupt.sleep_until(Instant::now() + WAIT) {}
    let stats = runtime.block_on(server.stop());
    match arguments.format {
        // A message is one line: it escapes line breaks.
        ServerFormat::Text => summary(&stats.totals, screen.plain()).lines().for_each(|line| screen.note(line)),
        ServerFormat::Json => print(&format!("{}\n", json!({"totals": stats.totals})))?,
    }
    Ok(Exit::Done.into())
}

fn read_key(variable: &str) -> Result<String, Failure> {
    std::env::var(variable).ok().filter(|key| !key.is_empty()).ok_or_else(|| {
        Failure::usage(format!("the environment variable {variable} is unset or empty"))
            .hint(format!("set it: {variable}=secret ergo mock-server --api-key {variable}"))
    })
}

/// Prints the address, so that a script can wait for it.
fn announce(server: &RunningServer, format: ServerFormat, screen: Screen) -> Result<(), Failure> {
    match format {
        ServerFormat::Text => screen.note(&format!("listening on {}", server.base_url())),
        ServerFormat::Json => {
            let address = server.address();
            let line = json!({"listening": server.base_url(), "host": address.ip(), "port": address.port()});
            print(&format!("{line}\n"))?;
        }
    }
    Ok(())
}

/// The totals as a table.
fn summary(totals: &Totals, screen: Screen) -> String {
    let in_flight = totals.requests.saturating_sub(totals.answered + totals.broken + totals.client_left);
    let mut table = Table::new([Align::Left, Align::Right, Align::Left]);
    let mut row = |name: &str, value: u64, more: String| {
        table.row(vec![(Tone::Faint, name.to_owned()), (Tone::Strong, thousands(value as f64)), (Tone::Faint, more)]);
    };
    let ends = [
        ("answered", totals.answered),
        ("broken", totals.broken),
        ("canceled by the client", totals.client_left),
        ("in flight", in_flight),
        ("rejected", totals.rejected),
    ];
    let ends =
        ends.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{} {name}", thousands(*count as f64)));
    row("requests", totals.requests, ends.collect::<Vec<_>>().join(", "));
    row("tokens sent", totals.tokens, String::new());
    row("prompt tokens received", totals.prompt_tokens, String::new());
    let faults = totals.faults.iter().map(|(fault, count)| format!("{} × {fault}", thousands(*count as f64)));
    row("faults", totals.faults.values().sum(), faults.collect::<Vec<_>>().join(", "));
    row("connections", totals.connections, String::new());
    table.render(screen)
}

#[cfg(test)]
mod tests {
    use ergometer_mock_server::Fault;

    use super::*;

    #[test]
    fn counts_come_before_their_names() {
        let mut totals = Totals::default();
        (totals.requests, totals.answered, totals.client_left) = (28, 23, 1);
        totals.faults = [(Fault::ServerError, 27)].into();
        let shown = summary(&totals, Screen::PLAIN);
        assert!(shown.contains("28  23 answered, 1 canceled by the client, 4 in flight"), "{shown}");
        assert!(shown.contains("27  27 × 500"), "{shown}");
    }
}
