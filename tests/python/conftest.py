"""Shared by the tests of the package: recorded inputs, and the `ergo` of the package.

The tests import the installed package, as a user does.
"""

from __future__ import annotations

import importlib.metadata
import lzma
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import ergometer

# Without this JAX searches for accelerators and logs warnings. Tests must not use a network.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")

# A background job of a shell ignores SIGINT, and Python then raises no KeyboardInterrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

REPOSITORY = Path(__file__).resolve().parents[2]
TRACES = REPOSITORY / "fixtures" / "xplane"
RUNS = REPOSITORY / "fixtures" / "runs"

# Uncompressed traces, small enough to read event by event with JAX.
PLAIN_TRACES = sorted(TRACES.glob("*.xplane.pb"))
SAVED_RUNS = sorted(folder for folder in RUNS.iterdir() if (folder / "summary.json").is_file())
SWEEP = RUNS / "h200_sweep"


def ergo(*arguments, **options):
    """Runs the package's `ergo` in a separate process and returns the completed process."""
    options = {"capture_output": True, "text": True, "timeout": 120, "cwd": REPOSITORY, **options}
    return subprocess.run([sys.executable, "-m", "ergometer", *map(str, arguments)], **options)


@pytest.fixture(scope="session")
def console_script():
    """The path of the `ergo` script that pip installed."""
    try:
        importlib.metadata.distribution("ergometer")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package is not installed, so there is no console script")
    return Path(sysconfig.get_path("scripts")) / "ergo"


@pytest.fixture(scope="session")
def autotune_trace():
    """A trace of four autotuned functions on an H200, five executions each."""
    return TRACES / "gpu_autotune.xplane.pb"


@pytest.fixture(scope="session")
def autotune(autotune_trace):
    """The trace `autotune_trace`, read."""
    return ergometer.read_trace(autotune_trace)


@pytest.fixture(scope="session", params=PLAIN_TRACES, ids=lambda path: path.name.removesuffix(".xplane.pb"))
def trace_path(request):
    """Each uncompressed trace."""
    return request.param


@pytest.fixture(scope="session")
def trace(trace_path):
    """The trace at `trace_path`, read."""
    return ergometer.read_trace(trace_path)


@pytest.fixture(scope="session")
def matrix():
    """A matrix with 512 rows and columns."""
    import jax

    return jax.random.normal(jax.random.key(0), (512, 512))


@pytest.fixture(scope="session")
def long_trace(tmp_path_factory):
    """A trace of 120 MB: reading it takes long enough for other threads to run meanwhile."""
    folder = tmp_path_factory.mktemp("traces")
    short = folder / "short.xplane.pb"
    with lzma.open(TRACES / "gpu_train_200.xplane.pb.xz") as packed, short.open("wb") as plain:
        shutil.copyfileobj(packed, plain)
    path = folder / "long.xplane.pb"
    # A file with repeated planes is a merge of sessions, so concatenated copies are a valid trace.
    with path.open("wb") as file:
        for _ in range(10):
            file.write(short.read_bytes())
    return path
