//! Why a run has no cost model.

use ergometer_diagnostics::{Diagnostic, Message, command, hint, option};
use ergometer_runs::ReadError;
use ergometer_runs::record::EnergyMethod;
use ergometer_runs::saved::Run;

/// The reason if the file of the model cannot be read.
pub(super) fn unreadable(error: &ReadError) -> Message {
    let message = error.to_message();
    Message { text: format!("no cost model: {}", message.text), ..message }
}

/// The reason, with what to do.
pub(super) fn reason(run: &Run) -> Message {
    let folder = run.folder.display();
    if run.energy.is_none() {
        return Message::new("no cost model: the run has no energy values").with_hint(hint!(
            "see ",
            command("doctor"),
            " for the sensors of this machine"
        ));
    }
    if run.energy_totals().is_none_or(|totals| totals.net_j.is_none()) {
        return Message::new("no cost model: idle power is unknown, so the energy above idle is unknown")
            .with_hint(hint!("measure idle power with ", option("idle").value("5s")));
    }
    let Some(attribution) = &run.summary.attribution else {
        return Message::new("no cost model: the run was finalized by a version of Ergometer without cost models")
            .with_hint(hint!("run ", command(format!("finalize {folder}")), ", if the folder still has journal/"));
    };
    if attribution.methods.contains_key(&EnergyMethod::EqualShare.to_string()) {
        return Message::new(
            "no cost model: the run is too short, or its answers were not streamed or have no token counts",
        )
        .with_hint(hint!(
            "make a longer run with streaming, or fit it together with others: ",
            command("attribute RUN…")
        ));
    }
    Message::new("no cost model: requests did not overlap, or the run is too short")
        .with_hint(hint!("fit it together with runs at higher loads: ", command("attribute RUN…")))
}
