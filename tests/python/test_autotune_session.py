"""Timers of `autotune`, the profiler's session and its files, and Ctrl-C."""

from __future__ import annotations

import math
import signal
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergometer
from ergometer._autotune import Progress, autotune
from ergometer._autotune.agreement import relative_difference
from ergometer._capture import interrupts_held
from ergometer.errors import ProfilingError, TraceError
from subprocess_python import run_python
from tuning_variants import FAR_APART, product


def is_profiler_free(folder: Path) -> bool:
    """Starts and stops a session; raises RuntimeError if another one is active."""
    with jax.profiler.trace(str(folder / "free")):
        pass
    return True


def test_wall_times_are_labelled() -> None:
    tuning = autotune(FAR_APART, timer="wall", calls=8, energy=False)
    assert (tuning.timer, tuning.trace, tuning.platform) == ("wall", None, None)
    assert {row.timer for row in tuning.rows} == {"wall"}
    assert "wall times, including host time" in str(tuning)
    assert "wall times" in tuning._repr_html_() and "wall times" in repr(tuning)


def test_wall_times_need_no_jax() -> None:
    program = """
import sys
sys.modules["jax"] = None
import warnings
from ergometer import autotune
from ergometer.errors import ProfilingError
variants = {"short": lambda n: sum(range(10)), "long": lambda n: sum(range(n))}
tuning = autotune(variants, 100_000, timer="wall", energy=False)
assert tuning.best_name == "short" and tuning.timer == "wall", tuning
try:
    autotune(variants, 100_000)
except ProfilingError as error:
    assert "without JAX" in str(error), error
else:
    raise SystemExit("no error")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    tuning = autotune(variants, 100_000, timer="device-or-wall", energy=False)
assert tuning.timer == "wall"
assert "wall times instead of device times: cannot profile without JAX" in str(caught[0].message), caught
assert caught[0].filename == __file__, caught[0].filename
assert "numpy" not in sys.modules
"""
    assert run_python(program) == ""


def test_wall_times_if_the_profiler_cannot_start(tmp_path: Path, matrix: jax.Array) -> None:
    variants = {"a": product(64), "b": product(512)}
    with jax.profiler.trace(str(tmp_path)):
        with pytest.raises(ProfilingError, match="cannot start the profiler"):
            autotune(variants, matrix, calls=8, energy=False)
        with pytest.warns(UserWarning, match="wall times instead of device times: cannot start the profiler") as warned:
            tuning = autotune(variants, matrix, calls=8, timer="device-or-wall", energy=False)
    assert warned[0].filename == __file__
    assert tuning.timer == "wall" and {row.timer for row in tuning.rows} == {"wall"}


def test_a_platform_that_the_trace_does_not_have(matrix: jax.Array) -> None:
    variants = {"a": product(64), "b": product(512)}
    problem = r"^no plane of the trace has 'tpu' in its name; its planes are .*/host:CPU"
    with pytest.raises(ProfilingError, match=problem) as raised:
        autotune(variants, matrix, calls=3, platform="tpu", energy=False)
    assert raised.value.hint is not None and 'timer="wall"' in raised.value.hint and "platform=" in raised.value.hint
    with pytest.warns(UserWarning, match="wall times instead of device times: no plane of the trace has 'tpu' in its name"):
        tuning = autotune(variants, matrix, calls=3, platform="tpu", timer="device-or-wall", energy=False)
    assert tuning.timer == "wall" and {row.n for row in tuning.rows} == {3}


def test_a_trace_that_cannot_be_read(matrix: jax.Array, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = jax.profiler.stop_trace
    folders: list[str] = []
    start = jax.profiler.start_trace

    def start_here(folder: str, **options: Any) -> None:
        folders.append(folder)
        start(folder, **options)

    def stop_and_cut() -> None:
        stop()
        for file in Path(folders[-1]).glob("**/*.xplane.pb"):
            file.write_bytes(file.read_bytes()[:-100])

    monkeypatch.setattr(jax.profiler, "start_trace", start_here)
    monkeypatch.setattr(jax.profiler, "stop_trace", stop_and_cut)
    with pytest.raises(ProfilingError, match="xplane.pb") as raised:
        autotune([product(64)], matrix, calls=3, energy=False)
    assert isinstance(raised.value.__cause__, TraceError)
    assert raised.value.hint is not None and raised.value.hint.startswith('set timer="wall"')
    with pytest.warns(UserWarning, match="wall times instead of device times: "):
        tuning = autotune([product(64)], matrix, calls=3, timer="device-or-wall", energy=False)
    assert tuning.timer == "wall"


def test_device_or_wall_prefers_device_times(matrix: jax.Array) -> None:
    tuning = autotune([product(64)], matrix, calls=3, timer="device-or-wall", energy=False)
    assert tuning.timer == "device"


def test_a_variant_without_events_has_a_row(matrix: jax.Array) -> None:
    tuning = autotune({"nothing": lambda x: None, "product": product(64)}, matrix, calls=3, energy=False)
    rows = [(row.name, row.n, row.verdict) for row in tuning.rows]
    assert rows == [("product", 3, "fastest"), ("nothing", 0, "failed")]
    error = tuning.rows[1].error
    assert error == "the trace has no times of it on 'cpu': nothing of it ran there"
    assert f"  nothing failed: {error}" in str(tuning).splitlines()


def test_all_variants_without_events(matrix: jax.Array) -> None:
    with pytest.raises(ProfilingError) as raised:
        autotune({"nothing": lambda x: None}, matrix, calls=3)
    message = str(raised.value)
    assert message.startswith("the trace has no times of nothing on 'cpu'; it has ") and "/host:CPU" in message
    assert raised.value.hint is not None and 'timer="wall"' in raised.value.hint


def test_the_trace_has_only_the_variants(matrix: jax.Array) -> None:
    tuning = autotune([product(64)], matrix, calls=3, energy=False)
    assert tuning.trace is not None
    assert {module for module in tuning.trace.modules()["module"] if module} == {"jit_autotune_fn_0"}


def test_a_message_with_the_word_keyboardinterrupt_is_not_an_interrupt(matrix: jax.Array) -> None:
    def raises(x: jax.Array) -> jax.Array:
        raise ValueError("bad KeyboardInterrupt word")

    tuning = autotune({"raises": raises, "product": product(64)}, matrix, calls=3, energy=False)
    assert tuning.rows[-1].error == "ValueError: bad KeyboardInterrupt word"


def test_the_exception_of_a_callback_is_reported(matrix: jax.Array) -> None:
    def called(x: Any) -> Any:
        raise RuntimeError("runtime boom")

    def calls_back(x: jax.Array) -> Any:
        return jax.pure_callback(called, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    tuning = autotune({"calls back": calls_back, "product": product(64)}, matrix, calls=3, energy=False)
    assert tuning.rows[-1].error is not None and tuning.rows[-1].error.endswith("RuntimeError: runtime boom")


def test_outputs_without_jax_arrays_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX visits every leaf of a long list, which takes longer than creating the list."""
    walked: list[object] = []
    monkeypatch.setattr(jax, "block_until_ready", walked.append)
    tuning = autotune({"list": list, "sorted": sorted}, [3, 1, 2], timer="wall", calls=4, energy=False)
    assert tuning.timer == "wall" and walked == []


def test_tables_of_two_tunings_have_the_same_schema(matrix: jax.Array) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    whole = autotune({"one": product(64)}, matrix, calls=3, energy=False).table
    part = autotune({"one": product(64), "fails": lambda x: 1 / 0}, matrix, calls=3, energy=False).table
    assert pyarrow.table(whole).schema == pyarrow.table(part).schema
    assert pyarrow.concat_tables([pyarrow.table(whole), pyarrow.table(part)]).num_rows == 3


@pytest.mark.parametrize(
    "wrong", [{"calls": "3"}, {"calls": 2.5}, {"energy": "yes"}, {"level": 1.5}, {"timer": "sun"}, {"kwargs": [1]}]
)
def test_invalid_arguments(matrix: jax.Array, wrong: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError), match=next(iter(wrong))):
        autotune([product(64)], matrix, **wrong)


def test_a_single_function_is_an_error(matrix: jax.Array) -> None:
    with pytest.raises(TypeError, match="hint: autotune"):
        autotune(product(64), matrix)  # type: ignore[arg-type]


def test_a_trace_can_be_kept(tmp_path: Path, matrix: jax.Array) -> None:
    kept = tmp_path / "new" / "folder"
    for expected in (1, 2):
        tuning = autotune([product(64)], matrix, calls=3, trace_dir=kept, energy=False)
        assert tuning.rows[0].n == 3, expected
    [file, *_] = kept.glob("**/*.xplane.pb")
    assert ergometer.Profiler.find_device_plane_ids(file, "cpu")


def test_no_files_are_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, matrix: jax.Array) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    autotune([product(64)], matrix, calls=3, energy=False)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_ends_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, matrix: jax.Array) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def interrupt(progress: Progress) -> None:
        if progress.round == 3 and progress.phase == "time":
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        autotune([product(64)], matrix, progress=interrupt)
    assert list(tmp_path.iterdir()) == []
    assert is_profiler_free(tmp_path)


def test_an_interrupt_in_a_variant_is_not_its_failure(tmp_path: Path, matrix: jax.Array) -> None:
    is_compiled = []

    def variant(x: jax.Array) -> jax.Array:
        return jax.pure_callback(interrupt_once_compiled, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    def interrupt_once_compiled(x: Any) -> Any:
        if is_compiled:
            signal.raise_signal(signal.SIGINT)
        return np.asarray(x)

    def note(progress: Progress) -> None:
        if progress.phase == "time":
            is_compiled.append(True)

    with pytest.raises(KeyboardInterrupt):
        autotune([variant], matrix[:4, :4], progress=note)
    assert is_profiler_free(tmp_path)

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        autotune([interrupted], timer="wall")


def test_an_interrupt_is_delayed_during_an_atomic_step() -> None:
    steps = []
    with pytest.raises(KeyboardInterrupt):
        with interrupts_held():
            signal.raise_signal(signal.SIGINT)
            steps.append("whole")
        steps.append("after")
    assert steps == ["whole"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_check_fails_variants_with_different_results(matrix: jax.Array) -> None:
    variants = {"product": product(64), "nothing of it": lambda x: x[:64, :64] * 0, "other shape": product(32)}
    tuning = autotune(variants, matrix, check=1e-3, calls=3, energy=False)
    errors = {row.name: row.error for row in tuning.rows}
    assert errors["product"] is None and tuning.best_name == "product"
    assert errors["nothing of it"] == "its results differ from those of product by 1 of the largest value; check=0.001 allows less"
    assert errors["other shape"] is not None and "in shape or type" in errors["other shape"]
    tuning = autotune({"one": product(64), "half": lambda x: half(x)}, matrix, check=0.1, calls=3, energy=False)
    assert [row.error for row in tuning.rows] == [None, None]


def half(x: jax.Array) -> jax.Array:
    return (x[:64, :64].astype(jnp.bfloat16) @ x[:64, :64].astype(jnp.bfloat16)).astype(x.dtype)


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        (np.array([1.0, 4.0]), np.array([1.0, 5.0]), 0.25),
        (np.array([math.nan, 2.0]), np.array([math.nan, 2.0]), 0.0),
        (np.array([math.nan, 2.0]), np.array([1.0, 2.0]), math.inf),
        (np.array([math.inf, 2.0]), np.array([math.inf, 1.0]), 0.5),
        (np.zeros(3), np.zeros(3), 0.0),
        (np.zeros(3), np.ones(3), math.inf),
        (np.ones((2, 3)), np.ones((3, 2)), math.inf),
        ({"a": (1, "x")}, {"a": [1, "x"]}, 0.0),
        ({"a": (1, "x")}, {"a": (1, "y")}, math.inf),
        (None, None, 0.0),
        (np.array([1 + 1j]), np.array([1 + 1j]), 0.0),
        (np.array([], dtype=np.float32), np.array([], dtype=np.float32), 0.0),
        (2, 3, 0.5),
    ],
)
def test_relative_differences(one: Any, other: Any, distance: float) -> None:
    assert relative_difference(one, other) == distance
