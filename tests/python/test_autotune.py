"""`autotune` with JAX on the CPU: arguments and results."""

from __future__ import annotations

import functools
import re
import statistics
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow
import pytest

from ergometer._autotune import Tuning, autotune
from ergometer._autotune.variants import name_variants
from ergometer.errors import ProfilingError
from tuning_variants import product

SIZES = (64, 128, 256, 512)


@pytest.fixture(scope="module")
def four(matrix: jax.Array) -> tuple[dict[str, Any], Tuning]:
    variants = {f"product_{size}": product(size) for size in reversed(SIZES)}
    return variants, autotune(variants, matrix, energy=False)


def test_the_rows_of_four_variants(four: tuple[dict[str, Any], Tuning]) -> None:
    variants, tuning = four
    assert tuning.best is variants[tuning.best_name]
    # Other processes use the machine, too: only very different times have a reliable order.
    names = [row.name for row in tuning.rows]
    assert names.index("product_64") < names.index("product_512")
    medians = [row.median_s for row in tuning.rows]
    assert tuning.best_name == names[0] and medians == sorted(medians)
    assert {row.name: row.id for row in tuning.rows} == {name: number for number, name in enumerate(variants)}
    assert tuning.is_clear == all(row.verdict == "slower" for row in tuning.rows[1:])
    assert tuning.rows[0].verdict == "fastest" and tuning.rows[0].ratio == 1.0
    assert (tuning.timer, tuning.platform) == ("device", "cpu")
    for row in tuning.rows:
        assert row.timer == "device" and row.error is None and row.n >= 8
        assert row.low_s is not None and row.median_s is not None and row.high_s is not None
        assert 0 < row.low_s <= row.median_s <= row.high_s
        assert row.energy_missing == "not requested"
    for row in tuning.rows[1:]:
        assert row.ratio is not None and row.ratio_low is not None and row.ratio_high is not None
        assert row.ratio_low <= row.ratio <= row.ratio_high


def test_times_match_the_trace(four: tuple[dict[str, Any], Tuning]) -> None:
    _, tuning = four
    assert tuning.trace is not None
    executions = tuning.trace.executions(device="cpu").to_pylist()
    for row in tuning.rows:
        busy_s = [one["busy_ps"] / 1e12 for one in executions if one["module"] == f"jit_autotune_fn_{row.id}"]
        assert row.n == len(busy_s)
        assert row.median_s == pytest.approx(statistics.median(busy_s), rel=1e-9)
        assert row.mean_s == pytest.approx(statistics.fmean(busy_s), rel=1e-9)


def test_a_tuning_has_a_table_and_a_text(four: tuple[dict[str, Any], Tuning]) -> None:
    _, tuning = four
    table = pyarrow.table(tuning.table)
    assert table["name"].to_pylist() == [row.name for row in tuning.rows]
    assert table["median_s"].to_pylist() == [row.median_s for row in tuning.rows]
    lines = str(tuning).splitlines()
    assert re.match(r"  variant +calls +median +ratio +verdict$", lines[0])
    assert re.match(rf"  {tuning.best_name} +\d+ +[\d.]+ [µmn]s  .* ×1 +fastest$", lines[1])
    assert f"  device times on cpu; {tuning.stopped}; intervals at 95 %" in lines
    assert "product_64" in tuning._repr_html_() and "<table>" in tuning._repr_html_()
    assert repr(tuning).startswith(f"<Tuning of 4 variants: best {tuning.best_name}, ")


def test_a_variant_that_fails_has_a_row(matrix: jax.Array) -> None:
    def wrong(x: jax.Array) -> jax.Array:
        return x @ x[:3]

    tuning = autotune({"wrong": wrong, "right": product(64)}, matrix, calls=4, energy=False)
    assert tuning.best_name == "right"
    assert tuning.is_clear
    right, failed = tuning.rows
    assert (failed.name, failed.id, failed.n, failed.verdict) == ("wrong", 0, 0, "failed")
    assert failed.error is not None and failed.error.startswith("TypeError: dot_general")
    assert failed.median_s is None and failed.ratio is None
    assert right.n == 4
    assert f"  wrong failed: {failed.error}" in str(tuning).splitlines()


def test_a_variant_that_fails_during_rounds_has_a_row() -> None:
    calls = iter(range(100))

    def wears_out() -> None:
        if next(calls) == 5:
            raise OSError("worn out")

    tuning = autotune({"wears_out": wears_out, "lasts": lambda: None}, timer="wall", calls=10, energy=False)
    assert [(row.name, row.n, row.error) for row in tuning.rows] == [
        ("lasts", 10, None),
        ("wears_out", 0, "OSError: worn out"),
    ]


def test_all_variants_fail(matrix: jax.Array) -> None:
    def wrong(x: jax.Array) -> jax.Array:
        raise ValueError("no luck")

    with pytest.raises(ProfilingError, match="^all variants failed: wrong: ValueError: no luck$"):
        autotune([wrong], matrix)
    with pytest.raises(ProfilingError, match="^all variants failed"):
        autotune([wrong], matrix, timer="wall")


def test_two_calls_are_too_few_samples(matrix: jax.Array) -> None:
    tuning = autotune({"a": product(64), "b": product(512)}, matrix, calls=2, energy=False)
    assert (tuning.rows[1].verdict, tuning.is_clear) == ("too_few_samples", False)


def test_static_arguments_stay_static(matrix: jax.Array) -> None:
    @functools.partial(jax.jit, static_argnames=("size", "kind"))
    def static(x: jax.Array, size: int, *, kind: str) -> jax.Array:
        assert kind == "corner" and isinstance(size, int)
        return x[:size, :size] @ x[:size, :size]

    def traced(x: jax.Array, size: int, *, kind: str) -> jax.Array:
        assert isinstance(x, jax.core.Tracer)
        return x + size

    kwargs = {"kind": "corner"}
    tuning = autotune([static, traced], np.asarray(matrix), 32, kwargs=kwargs, calls=3, energy=False)
    assert {row.name: row.error for row in tuning.rows} == {"static": None, "traced": None}


def test_pytrees_are_arguments(matrix: jax.Array) -> None:
    def layer(parameters: dict[str, Any], x: jax.Array) -> dict[str, jax.Array]:
        assert parameters["nothing"] is None
        return {"y": jnp.tanh(x @ parameters["weights"] + parameters["bias"])}

    parameters = {"weights": matrix, "bias": np.ones(512, np.float32), "nothing": None}
    assert autotune([layer], parameters, matrix, calls=3, energy=False).rows[0].n == 3


def test_names_of_variants() -> None:
    def names(*functions: Callable[..., Any]) -> list[str]:
        return [variant.name for variant in name_variants(functions)]

    def twin_1() -> None: ...

    def twin() -> None: ...

    assert names(twin, twin_1, twin) == ["twin_2", "twin_1", "twin_3"]
    assert names(functools.partial(twin), max) == ["twin", "max"]

    class Scaled:
        def __call__(self) -> None: ...

    assert names(Scaled()) == ["Scaled"]
    with pytest.raises(ValueError, match="no variants"):
        autotune({})
    with pytest.raises(TypeError, match="variant 'a' is not callable"):
        autotune({"a": 1})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="name of a variant must be a string"):
        autotune({1: max})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "option",
    [{"calls": 0}, {"min_calls": 0}, {"warmup": -1}, {"level": 1.0}, {"timer": "sundial"}, {"energy_seconds": 0}],
)
def test_arguments_out_of_range(option: dict[str, Any]) -> None:
    called: list[int] = []
    with pytest.raises(ValueError, match=next(iter(option))):
        autotune([lambda: called.append(1)], **{"timer": "wall", **option})
    assert called == []
