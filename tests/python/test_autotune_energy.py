"""The energy of a call, with the sensors of this machine."""

from __future__ import annotations

from typing import Any

import pytest

from ergometer import _native, _shared_meter
from ergometer._autotune import Progress, autotune
from ergometer._shared_meter import has_energy
from tuning_variants import FAR_APART


def has_sensor() -> bool:
    return has_energy(None, model=False)


def test_energy_uses_the_shared_meter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sensors are probed once, and a child that is forked meanwhile abandons the meter."""
    made: list[bool] = []
    make = _native.Meter

    def count(devices: Any = None, *, model: bool = True) -> Any:
        made.append(model)
        return make(devices, model=model)

    monkeypatch.setattr(_native, "Meter", count)
    own: dict[Any, _shared_meter.SharedMeter] = {}
    monkeypatch.setattr(_shared_meter, "_meters", own)
    autotune(FAR_APART, timer="wall", calls=8, energy_seconds=0.1)
    assert made == [False]
    for meter in list(own.values()):
        meter.stop_at_exit()


def test_energy_is_labelled() -> None:
    reports: list[Progress] = []
    tuning = autotune(FAR_APART, timer="wall", calls=8, energy=True, energy_seconds=0.5, progress=reports.append)
    for row in tuning.rows:
        assert row.energy_provenance == ("measured" if has_sensor() else "modelled")
        assert row.joules_per_call is not None and row.joules_low is not None and row.joules_high is not None
        assert row.joules_low <= row.joules_per_call <= row.joules_high
        assert row.energy_devices and row.energy_missing is None
        assert f"energy of {row.energy_devices}, {row.energy_provenance}" in str(tuning)
    assert "energy/call" in str(tuning).splitlines()[0]
    assert [one.best_name for one in reports if one.phase == "energy"] == ["short", "long"]


def test_energy_is_measured_by_default_or_absent_with_a_reason() -> None:
    tuning = autotune(FAR_APART, timer="wall", calls=8, energy_seconds=0.2)
    for row in tuning.rows:
        if has_sensor():
            assert (row.energy_provenance, row.energy_missing) == ("measured", None)
        else:
            assert (row.joules_per_call, row.energy_provenance) == (None, None)
            assert row.energy_missing is not None and "energy=True" in row.energy_missing
            assert f"no energy: {row.energy_missing}" in str(tuning)


def test_a_variant_that_fails_while_its_energy_is_measured_keeps_its_times() -> None:
    state: list[str] = []

    def worn() -> None:
        if "energy" in state:
            raise OSError("worn out")

    def note(progress: Progress) -> None:
        state.append(progress.phase)

    tuning = autotune([worn], timer="wall", calls=5, energy=True, energy_seconds=0.1, progress=note)
    [row] = tuning.rows
    assert (row.n, row.error, row.joules_per_call) == (5, None, None)
    assert row.energy_missing == "OSError: worn out"
