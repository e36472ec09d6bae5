"""Tuning: with JAX on this machine's processor, and by the clock of the host without it."""

from __future__ import annotations

import functools
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow
import pytest

import ergometer
from ergometer import _native, _shared_meter
from ergometer._autotune import Progress, Tuning, autotune
from ergometer._autotune import rounds
from ergometer._autotune.rounds import Plan
from ergometer._autotune.variants import Prepared, Variant, name_variants
from ergometer._capture import interrupts_held
from ergometer._shared_meter import has_energy
from ergometer.errors import ProfilingError, TraceError

SIZES = (64, 128, 256, 512)


def product(size: int) -> Callable[[jax.Array], jax.Array]:
    def function(x: jax.Array) -> jax.Array:
        corner = x[:size, :size]
        return corner @ corner

    return function


@pytest.fixture(scope="module")
def matrix() -> jax.Array:
    return jax.random.normal(jax.random.key(0), (512, 512))


@pytest.fixture(scope="module")
def four(matrix: jax.Array) -> tuple[dict[str, Any], Tuning]:
    variants = {f"product_{size}": product(size) for size in reversed(SIZES)}
    return variants, autotune(variants, matrix, energy=False)


def is_profiler_free(folder: Path) -> bool:
    """Whether a session can be started; a RuntimeError says no."""
    with jax.profiler.trace(str(folder / "free")):
        pass
    return True


def test_the_smallest_of_four_is_the_best(four: tuple[dict[str, Any], Tuning]) -> None:
    variants, tuning = four
    assert tuning.best_name == "product_64"
    assert tuning.best is variants["product_64"]
    assert [row.name for row in tuning.rows][-1] == "product_512"
    assert {row.name: row.id for row in tuning.rows} == {name: number for number, name in enumerate(variants)}
    assert tuning.is_clear == all(row.verdict == "slower" for row in tuning.rows[1:])
    assert tuning.rows[0].verdict == "fastest" and tuning.rows[0].ratio == 1.0
    assert (tuning.timer, tuning.platform) == ("device", "cpu")
    for row in tuning.rows:
        assert row.timer == "device" and row.error is None and row.n >= 8
        assert row.low_s is not None and row.median_s is not None and row.high_s is not None
        assert 0 < row.low_s <= row.median_s <= row.high_s
        assert row.energy_missing == "not asked for"
    for row in tuning.rows[1:]:
        assert row.ratio is not None and row.ratio_low is not None and row.ratio_high is not None
        assert row.ratio_low <= row.ratio <= row.ratio_high


def test_times_are_those_of_the_trace(four: tuple[dict[str, Any], Tuning]) -> None:
    _, tuning = four
    assert tuning.trace is not None
    executions = tuning.trace.executions(device="cpu").to_pylist()
    for row in tuning.rows:
        busy_s = [one["busy_ps"] / 1e12 for one in executions if one["module"] == f"jit_autotune_fn_{row.id}"]
        assert row.n == len(busy_s)
        assert row.median_s == pytest.approx(statistics.median(busy_s), rel=1e-9)
        assert row.mean_s == pytest.approx(statistics.fmean(busy_s), rel=1e-9)


def test_a_tuning_is_a_table_for_programs_and_people(four: tuple[dict[str, Any], Tuning]) -> None:
    _, tuning = four
    table = pyarrow.table(tuning.table)
    assert table["name"].to_pylist() == [row.name for row in tuning.rows]
    assert table["median_s"].to_pylist() == [row.median_s for row in tuning.rows]
    lines = str(tuning).splitlines()
    assert re.match(r"  variant +calls +median +ratio +verdict$", lines[0])
    assert re.match(r"  product_64 +\d+ +[\d.]+ [µmn]s  .* ×1 +fastest$", lines[1])
    assert f"  device times on cpu; {tuning.stopped}; intervals at 95 %" in lines
    assert "product_64" in tuning._repr_html_() and "<table>" in tuning._repr_html_()
    assert repr(tuning).startswith("<Tuning of 4 variants: best product_64")


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


def test_a_variant_that_fails_later_has_a_row_too() -> None:
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

    with pytest.raises(ProfilingError, match=r"^every variant failed\. wrong: ValueError: no luck$"):
        autotune([wrong], matrix)
    with pytest.raises(ProfilingError, match="^every variant failed"):
        autotune([wrong], matrix, timer="wall")


def test_equal_variants_are_not_clear(matrix: jax.Array) -> None:
    # At this level fifteen calls of one have to be faster than all of the other, all but for a few.
    tuning = autotune([product(256), product(256)], matrix, calls=15, level=0.99999, energy=False)
    assert not tuning.is_clear
    assert tuning.rows[1].verdict == "too_close_to_call"
    assert tuning.stopped == "all 15 calls"
    assert f"not clear: {tuning.rows[1].name} may be as fast" in str(tuning)


def test_few_calls_cannot_tell(matrix: jax.Array) -> None:
    tuning = autotune({"a": product(64), "b": product(512)}, matrix, calls=2, energy=False)
    assert (tuning.rows[1].verdict, tuning.is_clear) == ("too_few_samples", False)


def test_one_alone_runs_all_its_calls(matrix: jax.Array) -> None:
    tuning = autotune([product(64)], matrix, calls=20, energy=False)
    assert (tuning.best_name, tuning.rows[0].n, tuning.stopped) == ("function", 20, "all 20 calls")


def count_to(number: int) -> int:
    return sum(range(number))


FAR_APART = {"short": functools.partial(count_to, 10), "long": functools.partial(count_to, 100_000)}


def test_it_stops_when_it_is_clear() -> None:
    tuning = autotune(FAR_APART, timer="wall", calls=500, energy=False)
    assert tuning.best_name == "short" and tuning.is_clear
    counts = {row.n for row in tuning.rows}
    assert len(counts) == 1 and 8 <= min(counts) < 500
    assert tuning.stopped == f"clear after {min(counts)} calls"


def test_there_are_few_looks() -> None:
    assert Plan(50, 8, 0.95, 0).looks() == [8, 12, 18, 27, 41]
    assert Plan(50, 1, 0.95, 0).looks() == [1, 2, 3, 5, 8, 12, 18, 27, 41]
    assert Plan(8, 8, 0.95, 0).looks() == []
    assert Plan(3, 8, 0.95, 0).looks() == []


def test_equal_variants_come_out_clear_as_seldom_as_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """All looks and the verdict at the end together, that is: of 400 draws of equal variants 5 % are 20."""
    draw = random.Random(3)
    monkeypatch.setattr(rounds, "_seconds_of", lambda one: draw.lognormvariate(0, 0.1))
    plan = Plan(50, 8, 0.95, 0)
    clear, early = 0, 0
    for _ in range(400):
        prepared = [Prepared(Variant(number, name, max), lambda: None) for number, name in enumerate("ab")]
        found = rounds.run_rounds(prepared, plan, lambda progress: None)
        clear += rounds.is_clear(rounds.ranked(found.wall_s, plan))
        early += found.was_clear
    assert 0 < early <= clear <= 20


def test_verdicts_are_at_the_level_that_the_looks_left_and_intervals_at_the_level_itself() -> None:
    plan = Plan(50, 8, 0.95, 0)
    # By a rank test p is 2 %: enough for 0.95, too little for a sixth of that.
    steps = {"a": range(10), "b": (1, 5, 6, 7, 8, 10, 11, 12, 13, 14)}
    seconds = {name: [1.0 + 0.01 * step for step in times] for name, times in steps.items()}
    [_, at_level], [_, found] = _native.rank(seconds, 0.95), rounds.ranked(seconds, plan)
    assert 0.05 / 6 < at_level["corrected_p"] < 0.05
    assert (at_level["verdict"], found["verdict"]) == ("slower", "too_close_to_call")
    assert {**found, "verdict": None} == {**at_level, "verdict": None}


def test_rounds_are_shuffled_by_their_seed() -> None:
    def order(seed: int) -> list[str]:
        called: list[str] = []
        variants = {name: functools.partial(called.append, name) for name in "abcd"}
        autotune(variants, timer="wall", calls=8, min_calls=8, warmup=0, energy=False, seed=seed)
        return called

    first = order(1)
    assert first == order(1) != order(2)
    rounds = [first[start : start + 4] for start in range(0, len(first), 4)]
    assert len(rounds) == 8 and all(sorted(one) == list("abcd") for one in rounds)
    assert len({tuple(one) for one in rounds}) > 1


def test_wall_times_are_labelled() -> None:
    tuning = autotune(FAR_APART, timer="wall", calls=8, energy=False)
    assert (tuning.timer, tuning.trace, tuning.platform) == ("wall", None, None)
    assert {row.timer for row in tuning.rows} == {"wall"}
    assert "wall times, with what the host does for a call" in str(tuning)
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
assert caught[0].filename == "<string>", caught[0].filename
assert "numpy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_importing_loads_no_library() -> None:
    program = """
import sys, ergometer
loaded = {"numpy", "jax", "torch", "pandas", "polars", "pyarrow", "tensorflow"} & set(sys.modules)
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_wall_times_where_the_device_cannot_tell(tmp_path: Path, matrix: jax.Array) -> None:
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
    with pytest.raises(ProfilingError, match="^no plane has tpu in its name\\. The trace has planes .*/host:CPU") as raised:
        autotune(variants, matrix, calls=3, platform="tpu", energy=False)
    assert raised.value.hint is not None and 'timer="wall"' in raised.value.hint and "platform=" in raised.value.hint
    with pytest.warns(UserWarning, match="wall times instead of device times: no plane has tpu in its name"):
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
    assert raised.value.hint is not None and raised.value.hint.startswith('timer="wall"')
    with pytest.warns(UserWarning, match="wall times instead of device times: "):
        tuning = autotune([product(64)], matrix, calls=3, timer="device-or-wall", energy=False)
    assert tuning.timer == "wall"


def test_device_times_where_the_device_can_tell(matrix: jax.Array) -> None:
    tuning = autotune([product(64)], matrix, calls=3, timer="device-or-wall", energy=False)
    assert tuning.timer == "device"


def test_a_variant_that_leaves_no_event(matrix: jax.Array) -> None:
    with pytest.raises(ProfilingError) as raised:
        autotune({"product": product(64), "nothing": lambda x: None}, matrix, calls=3)
    message = str(raised.value)
    assert message.startswith("the trace has no time of nothing on 'cpu'. It has ")
    assert "jit_autotune_fn_0" in message and "/host:CPU" in message
    assert raised.value.hint is not None and 'timer="wall"' in raised.value.hint


def test_arguments_that_are_static_stay_so(matrix: jax.Array) -> None:
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


def test_names() -> None:
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
    with pytest.raises(TypeError, match="variant 'a' cannot be called"):
        autotune({"a": 1})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="name of a variant is a text"):
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


def test_a_trace_can_be_kept(tmp_path: Path, matrix: jax.Array) -> None:
    kept = tmp_path / "new" / "folder"
    for expected in (1, 2):
        tuning = autotune([product(64)], matrix, calls=3, trace_dir=kept, energy=False)
        assert tuning.rows[0].n == 3, expected
    [file, *_] = kept.glob("**/*.xplane.pb")
    assert ergometer.Profiler.find_device_plane_ids(file, "cpu")


def test_nothing_stays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, matrix: jax.Array) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    autotune([product(64)], matrix, calls=3, energy=False)
    assert list(tmp_path.iterdir()) == []


# Progress.


def test_progress_is_told() -> None:
    told: list[Progress] = []
    autotune(FAR_APART, timer="wall", calls=8, energy=False, progress=told.append)
    assert [(one.phase, one.best_name) for one in told[:2]] == [("prepare", "short"), ("prepare", "long")]
    timed = told[2:]
    assert [one.round for one in timed] == list(range(1, 9))
    assert {(one.phase, one.variants, one.rounds, one.best_name) for one in timed} == {("time", 2, 8, "short")}
    line = str(timed[-1])
    assert re.fullmatch(r"autotune  2 variants  round 8 of 8  best short [\d.]+ [nµm]?s \(wall\)", line), line


def test_a_line_is_written_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    autotune(FAR_APART, timer="wall", calls=8, energy=False)
    assert capsys.readouterr() == ("", "")
    autotune(FAR_APART, timer="wall", calls=8, energy=False, progress=True)
    out, error = capsys.readouterr()
    assert out == "" and "\n" not in error
    assert "\rautotune  2 variants  round 8 of 8  best short" in error
    assert error.endswith(" \r")


# Ctrl-C.


def test_an_interrupt_in_a_session_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, matrix: jax.Array) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def interrupt(progress: Progress) -> None:
        if progress.round == 3 and progress.phase == "time":
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        autotune([product(64)], matrix, progress=interrupt)
    assert list(tmp_path.iterdir()) == []
    assert is_profiler_free(tmp_path)


def test_an_interrupt_in_a_variant_is_no_failure_of_it(tmp_path: Path, matrix: jax.Array) -> None:
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


def test_an_interrupt_waits_for_what_must_be_whole() -> None:
    steps = []
    with pytest.raises(KeyboardInterrupt):
        with interrupts_held():
            signal.raise_signal(signal.SIGINT)
            steps.append("whole")
        steps.append("after")
    assert steps == ["whole"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# Energy.


def has_sensor() -> bool:
    return has_energy(None, model=False)


def test_whether_there_is_energy_is_asked_of_the_meter_that_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sensors are looked for once, and a child that is forked meanwhile has no meter that nobody told of it."""
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
    told: list[Progress] = []
    tuning = autotune(FAR_APART, timer="wall", calls=8, energy=True, energy_seconds=0.5, progress=told.append)
    for row in tuning.rows:
        assert row.energy_provenance == ("measured" if has_sensor() else "modelled")
        assert row.joules_per_call is not None and row.joules_low is not None and row.joules_high is not None
        assert row.joules_low <= row.joules_per_call <= row.joules_high
        assert row.energy_devices and row.energy_missing is None
        assert f"energy of {row.energy_devices}, {row.energy_provenance}" in str(tuning)
    assert "energy/call" in str(tuning).splitlines()[0]
    assert [one.best_name for one in told if one.phase == "energy"] == ["short", "long"]


def test_energy_by_itself_is_measured_or_absent_with_a_reason() -> None:
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
