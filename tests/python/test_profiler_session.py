"""The drop-in profiler with JAX on the CPU."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from ergometer import _native
from ergometer._capture import profile_files, profiler_session
from ergometer.errors import ProfilingError
from ergometer.profiler import Profiler
from subprocess_python import run_python
from recorded_profiles import AUTOTUNE


def named(number: int) -> Any:
    def function(x: jax.Array) -> jax.Array:
        return jnp.sin(x @ x)

    function.__name__ = f"autotune_fn_{number}"
    return jax.jit(function)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The parent of temporary folders, to see whether any are left behind."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_functions_are_timed(folder: Path) -> None:
    small, large = named(3), named(11)
    x, y = jnp.ones((64, 64)), jnp.ones((512, 512))
    small(x), large(y)

    def closure() -> None:
        small(x)
        large(y)

    profiler = Profiler(min_duration_ns=0)
    found = profiler.profile_time_by_function_id(closure, platform="cpu", total_calls_number=5)
    assert sorted(found) == [3, 11]
    assert 0 < found[3][0] < found[11][0]
    assert all(std_s >= 0 for _, std_s in found.values())
    assert list(folder.iterdir()) == []


def test_discarded_results_are_waited_for(tmp_path: Path) -> None:
    function, x = named(2), jnp.ones((600, 600))
    function(x).block_until_ready()
    with profiler_session(tmp_path):
        for _ in range(10):
            function(x)
    [row] = _native.read_trace(profile_files(tmp_path)).functions(device="cpu")
    assert (row["id"], row["n"]) == (2, 10)


def test_a_closure_that_raises_ends_its_session(folder: Path) -> None:
    function, x = named(1), jnp.ones((128, 128))

    class OutOfLuckError(Exception):
        pass

    def closure() -> None:
        function(x)
        raise OutOfLuckError

    for _ in range(2):
        with pytest.raises(OutOfLuckError):
            Profiler().profile_time_by_function_id(closure, "cpu", 3)
    assert list(folder.iterdir()) == []
    found = Profiler(min_duration_ns=0).profile_time_by_function_id(lambda: function(x), "cpu", 3)
    assert list(found) == [1]


def test_another_session_is_active(tmp_path: Path) -> None:
    with jax.profiler.trace(str(tmp_path)):
        with pytest.raises(ProfilingError, match="cannot start the profiler") as raised:
            Profiler().profile_time_by_function_id(lambda: None, "cpu", 1)
        assert raised.value.hint is not None and "stop_trace" in raised.value.hint


def test_no_function_ran_on_the_platform() -> None:
    assert Profiler().profile_time_by_function_id(lambda: None, "cpu", 1) == {}


def test_an_unknown_platform(folder: Path) -> None:
    with pytest.raises(ProfilingError, match="^No planes found for device 'tpu'"):
        Profiler().profile_time_by_function_id(lambda: None, "tpu", 1)
    assert list(folder.iterdir()) == []


def test_no_profile_was_created(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = jax.profiler.stop_trace

    def stop_and_lose() -> None:
        stop()
        for file in folder.glob("**/*.xplane.pb"):
            file.unlink()

    monkeypatch.setattr(jax.profiler, "stop_trace", stop_and_lose)
    with pytest.raises(RuntimeError, match=r"^No profile was created\.$"):
        Profiler().profile_time_by_function_id(lambda: None, "cpu", 1)


@pytest.mark.parametrize("number", [0, -1])
def test_zero_calls_are_an_error(number: int) -> None:
    with pytest.raises(ProfilingError, match="total_calls_number"):
        Profiler().profile_time_by_function_id(lambda: None, "cpu", number)


def test_tensorflow_can_be_required() -> None:
    calls: list[int] = []
    with pytest.raises(ProfilingError, match="^TensorFlow Python profiler hooks are not available$"):
        Profiler(require_tf=True).profile_time_by_function_id(lambda: calls.append(1), "cpu", 1)
    assert calls == []


def test_without_jax() -> None:
    program = """
import sys
sys.modules["jax"] = None
from ergometer.profiler import Profiler
from ergometer.errors import ProfilingError
profile = Profiler.parse_profile_from_bytes(open(sys.argv[1], "rb").read())
assert len(Profiler().get_events_from_plane(profile, 2)) == 50
try:
    Profiler().profile_time_by_function_id(lambda: None, "gpu", 1)
except ProfilingError as error:
    assert "without JAX" in str(error) and error.hint == "pip install jax", error
else:
    raise SystemExit("no error")
assert "numpy" not in sys.modules and "tensorflow" not in sys.modules
"""
    assert run_python(program, AUTOTUNE) == ""


def test_executions_that_are_too_short_warn() -> None:
    """By default events below a microsecond do not count; a function with only such events is missing or too slow."""

    def autotune_fn_4(x: Any) -> Any:
        return x + 1

    function, x = jax.jit(autotune_fn_4), jax.numpy.ones(4)
    function(x).block_until_ready()
    with pytest.warns(UserWarning, match=r"min_duration_ns left out \d+ of 6 executions of function 4"):
        Profiler(min_duration_ns=1e9).profile_time_by_function_id(lambda: function(x), "cpu", 6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert 4 in Profiler(min_duration_ns=0).profile_time_by_function_id(lambda: function(x), "cpu", 6)


def test_a_profile_that_cannot_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a full disk. JAX would consider the session active, and refuse the next one."""

    def full() -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(jax.profiler, "stop_trace", full)
        with pytest.raises(ProfilingError, match="cannot write the profile.*No space left") as raised:
            Profiler().profile_time_by_function_id(lambda: None, "cpu", 1)
    assert raised.value.hint is not None and "TMPDIR" in raised.value.hint
    assert Profiler().profile_time_by_function_id(lambda: None, "cpu", 1) == {}
