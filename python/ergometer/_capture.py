"""Runs a session of JAX's profiler and finds its files. The session is always stopped, even after an exception."""

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
    """Imports JAX, which is only needed for profiling.

    Raises:
        ProfilingError: JAX is not installed, or cannot be imported.
    """
    try:
        import jax
        import jax.profiler
    except ImportError as cause:
        raise ProfilingError(f"cannot profile without JAX: {cause}", hint="pip install jax") from cause
    return jax


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Delays Ctrl-C until the end of the block, so that the block is not interrupted halfway."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Only the main thread receives signals.
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
    """Profiles the block and writes the profile below the folder.

    Waits for the devices at the end of the block, because a device works asynchronously.

    Args:
        folder: Where to write the profile, in the layout of `jax.profiler`.
        waits: Whether to wait for the devices at the end. The computation used for waiting is part of the profile.

    Raises:
        ProfilingError: JAX is missing, another session is active, or the profile cannot be written.
    """
    jax = require_jax()
    jax.local_devices()  # Initializes the devices, and compiles the computation used for waiting, before the session.
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
        # Otherwise every call of a Python function is an event, which costs host time between two launches.
        options["profiler_options"] = jax.profiler.ProfileOptions()
        options["profiler_options"].python_tracer_level = 0
    try:
        jax.profiler.start_trace(str(folder), **options)
    except RuntimeError as cause:
        hint = "only one session can be active: end the other one with jax.profiler.stop_trace()"
        raise ProfilingError(f"cannot start the profiler: {str(cause).rstrip('.')}", hint) from cause


def _stop(jax: ModuleType, folder: Path) -> None:
    try:
        jax.profiler.stop_trace()
    except Exception as cause:
        # If the file cannot be written, JAX considers the session active and refuses to start another.
        state = getattr(sys.modules.get("jax._src.profiler"), "_profile_state", None)
        if state is not None and hasattr(state, "reset"):
            state.reset()
        lines = str(cause).splitlines() or [type(cause).__name__]
        hint = "free disk space, or set TMPDIR to another folder"
        raise ProfilingError(f"cannot write the profile to {folder}: {lines[0]}", hint) from cause


def profile_files(folder: Path) -> list[Path]:
    """The files of the latest session below the folder, one for each host.

    Raises:
        RuntimeError: There are no files.
    """
    files = sorted(folder.glob("**/*.xplane.pb"), key=lambda file: (file.stat().st_mtime, file))
    if not files:
        raise RuntimeError("No profile was created.")
    return [file for file in files if file.parent == files[-1].parent]
