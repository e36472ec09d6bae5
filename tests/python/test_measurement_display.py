"""How a measurement is printed, with made-up values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ergometer import Measurement
from ergometer._figures import digits, estimate, quantity
from ergometer._shared_meter import Settled


def energy(device: str, joules: float | None, half: float = 0.0, **changes: Any) -> Any:
    fields: dict[str, Any] = {
        "device": device,
        "scope": "device",
        "joules": joules,
        "low": None if joules is None else joules - half,
        "high": None if joules is None else joules + half,
        "method": None if joules is None else "activity_aware",
        "provenance": "measured",
        "summed": True,
        "notes": [],
        "missing": None,
    }
    return SimpleNamespace(**{**fields, **changes})


def measurement(name: str | None, total: Any, *devices: Any) -> Measurement:
    made = Measurement(name)
    made._start_ns, made._end_ns = 1_000_000_000, 2_200_000_000
    made._settled = Settled(total, list(devices))
    return made


MEMORY = energy("gpu:0", 200.0, 30.0, scope="memory", method="power", summed=False)
MODELLED = energy("cpu:0", 18.0, 9.0, scope="package", method="modelled", provenance="modelled", summed=False)


def test_a_line_has_time_energy_power_and_source() -> None:
    shown = measurement("matmul", energy("all", 812.0, 9.2), energy("gpu:0", 812.0, 9.2), MEMORY, MODELLED)
    assert str(shown) == "matmul  1.200 s  812.0 J ± 9.2  676.7 W  gpu:0 measured (activity_aware)"
    assert repr(shown) == f"<Measurement {shown}>"


def test_modelled_energy_is_labelled_once() -> None:
    shown = measurement(None, MODELLED, MODELLED)
    assert str(shown) == "window  1.200 s  18.0 J ± 9.0  15.00 W  cpu:0 modelled"


def test_measured_and_modelled_energy_are_separate() -> None:
    shown = measurement("both", energy("all", 812.0, 9.2), energy("gpu:0", 812.0, 9.2), MEMORY, MODELLED)
    assert shown.provenance == "measured"
    assert list(shown.devices) == ["gpu:0", "gpu:0 memory", "cpu:0"]
    assert [name for name, place in shown.devices.items() if place.summed] == ["gpu:0"]
    assert shown.margin == pytest.approx(9.2)
    assert shown.interval == pytest.approx((802.8, 821.2))


def test_missing_energy_has_a_reason_and_a_hint() -> None:
    nothing = measurement("x", energy("all", None, provenance=None, missing="no sensor measured energy or power"))
    assert (nothing.joules, nothing.watts, nothing.interval, nothing.margin, nothing.provenance) == (None,) * 5
    assert nothing.missing is not None and "`ergo doctor`" in nothing.missing
    assert str(nothing) == f"x  1.200 s  -  {nothing.missing}"


def test_html_escapes_names() -> None:
    shown = measurement("<b>", energy("all", 812.0, 9.2, notes=["a < b"]), energy("gpu:0", 812.0, 9.2), MEMORY)
    html = shown._repr_html_()
    assert "<b>" not in html and "&lt;b&gt;" in html and "a &lt; b" in html
    assert "included in another row" in html


def test_to_dict_has_every_value() -> None:
    import json

    shown = measurement("matmul", energy("all", 812.0, 9.2), energy("gpu:0", 812.0, 9.2), MEMORY)
    values = json.loads(json.dumps(shown.to_dict()))
    assert (values["joules"], values["seconds"], values["depth"]) == (812.0, 1.2, 0)
    assert [place["scope"] for place in values["devices"]] == ["device", "memory"]


def test_the_table_has_a_row_for_each_scope() -> None:
    shown = measurement("matmul", energy("all", 812.0, 9.2), energy("gpu:0", 812.0, 9.2), MEMORY, energy("gpu:1", None))
    assert shown.table["joules"] == [812.0, 200.0, None]
    assert shown.table["summed"] == [True, False, True]


def test_numbers_are_formatted_as_in_the_commands() -> None:
    assert [digits(value) for value in (1234.6, 123.46, 12.346, 1.2346, 0.0, 1e20)] == [
        "1235", "123.5", "12.35", "1.235", "0.000", "1.000e+20",
    ]  # fmt: skip
    assert [quantity(value, "s") for value in (4000.0, 0.9999, 0.99999, 4.151e-3, 0.0)] == [
        "4000 s", "999.9 ms", "1.000 s", "4.151 ms", "0 s",
    ]  # fmt: skip
    assert estimate(0.02, 0.0, 0.07, "J") == "20 mJ (0 to 70)"
    assert estimate(0.0, 0.0, 0.5, "J") == "0 mJ (0 to 500)"
    assert estimate(5.0, 5.0, 5.0, "J") == "5.000 J ± 0.000"
