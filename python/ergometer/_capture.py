"""One session of JAX's profiler, from its start to its file. It is stopped whatever happens inside."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from ergometer._device_sync import wait_for_devices
from ergometer.errors import ProfilingError


def require_jax() -> ModuleType:
    """JAX, which is imported only when somebody profiles with it.

    Raises:
        ProfilingError: It is not installed, or does not start.
    """
    try:
        import jax
        import jax.profiler
    except ImportError as cause:
        raise ProfilingError(f"cannot profile without JAX: {cause}. hint: pip install jax") from cause
    return jax


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Holds Ctrl-C back until the end of the block, so that what must be done as a whole is."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Only the main thread gets it.
        return
    before = signal.getsignal(signal.SIGINT)
    if not callable(before):
        yield
        return
    held: list[tuple[int, FrameType | None]] = []

    def hold(number: int, frame: FrameType | None) -> None:
        held.append((number, frame))

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if held:
            before(*held[0])


@contextlib.contextmanager
def profiler_session(folder: Path, waits: bool = True) -> Iterator[None]:
    """Profiles what runs inside the block and writes it below the folder.

    What was started inside and came to its end is waited for: a device works on after the call that asked it to.

    Args:
        folder: Where the profile goes, as `jax.profiler` lays it out.
        waits: Whether to wait for the devices at the end. The computation that does so is in the profile.

    Raises:
        ProfilingError: JAX is missing, a session is active already, or the profile cannot be written.
    """
    jax = require_jax()
    jax.local_devices()  # Devices are started here, and what waits for them is compiled, outside of the session.
    wait_for_devices()
    started = False
    try:
        with interrupts_held():
            _start(jax, folder)
            started = True
        yield
        if waits:
            wait_for_devices()
    finally:
        if started:
            with interrupts_held():
                _stop(jax, folder)


def _start(jax: ModuleType, folder: Path) -> None:
    options: dict[str, Any] = {}
    if hasattr(jax.profiler, "ProfileOptions"):
        # Every call of a Python function would be an event, and each costs the host time between two launches.
        options["profiler_options"] = jax.profiler.ProfileOptions()
        options["profiler_options"].python_tracer_level = 0
    try:
        jax.profiler.start_trace(str(folder), **options)
    except RuntimeError as cause:
        hint = "one session can be active at a time: end the other with jax.profiler.stop_trace()"
        raise ProfilingError(f"cannot start the profiler: {cause} hint: {hint}") from cause


def _stop(jax: ModuleType, folder: Path) -> None:
    try:
        jax.profiler.stop_trace()
    except Exception as cause:
        # JAX takes a session whose file cannot be written for one that goes on, and refuses all that come later.
        state = getattr(sys.modules.get("jax._src.profiler"), "_profile_state", None)
        if state is not None and hasattr(state, "reset"):
            state.reset()
        lines = str(cause).splitlines() or [type(cause).__name__]
        hint = "is there room on its disk? TMPDIR names another place"
        raise ProfilingError(f"cannot write the profile to {folder}: {lines[0]}. hint: {hint}") from cause


def profile_files(folder: Path) -> list[Path]:
    """The files of the latest session below the folder, one for each host.

    Raises:
        RuntimeError: There is none.
    """
    files = sorted(folder.glob("**/*.xplane.pb"), key=lambda file: (file.stat().st_mtime, file))
    if not files:
        raise RuntimeError("No profile was created.")
    return [file for file in files if file.parent == files[-1].parent]
