"""What the tests of the package share: recorded inputs, and the `ergo` that comes with the package.

They import what is installed in their environment, as a user does: no path is bent.
"""

from __future__ import annotations

import importlib.metadata
import lzma
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import ergometer

# JAX looks for accelerators otherwise, and says so; nothing here may reach for a network.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")

REPOSITORY = Path(__file__).resolve().parents[2]
TRACES = REPOSITORY / "fixtures" / "xplane"
RUNS = REPOSITORY / "fixtures" / "runs"

# Those that are not packed: small enough for JAX's own reader to go through event by event.
PLAIN_TRACES = sorted(TRACES.glob("*.xplane.pb"))
SAVED_RUNS = sorted(folder for folder in RUNS.iterdir() if (folder / "summary.json").is_file())
SWEEP = RUNS / "h200_sweep"


def ergo(*arguments, **options):
    """Runs the package's command in a process of its own and returns what became of it."""
    options = {"capture_output": True, "text": True, "timeout": 120, "cwd": REPOSITORY, **options}
    return subprocess.run([sys.executable, "-m", "ergometer", *map(str, arguments)], **options)


@pytest.fixture(scope="session")
def console_script():
    """The `ergo` that pip put beside this Python."""
    try:
        importlib.metadata.distribution("ergometer")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package is imported from its sources: only one that is installed has a console script")
    return Path(sysconfig.get_path("scripts")) / "ergo"


@pytest.fixture(scope="session")
def autotune_trace():
    """Four variants of a function on an H200, five runs each."""
    return TRACES / "gpu_autotune.xplane.pb"


@pytest.fixture(scope="session")
def autotune(autotune_trace):
    """The same, read."""
    return ergometer.read_trace(autotune_trace)


@pytest.fixture(scope="session", params=PLAIN_TRACES, ids=lambda path: path.name.removesuffix(".xplane.pb"))
def trace_path(request):
    """Each of the traces that are not packed."""
    return request.param


@pytest.fixture(scope="session")
def trace(trace_path):
    """The same, read."""
    return ergometer.read_trace(trace_path)


@pytest.fixture(scope="session")
def matrix():
    """Something to multiply: of 512 rows and columns."""
    import jax

    return jax.random.normal(jax.random.key(0), (512, 512))


@pytest.fixture(scope="session")
def long_trace(tmp_path_factory):
    """A trace of 120 MB on disk: reading it takes long enough for other things to happen meanwhile."""
    folder = tmp_path_factory.mktemp("traces")
    short = folder / "short.xplane.pb"
    with lzma.open(TRACES / "gpu_train_200.xplane.pb.xz") as packed, short.open("wb") as plain:
        shutil.copyfileobj(packed, plain)
    path = folder / "long.xplane.pb"
    # A file whose planes come again is a merge of sessions, so copies behind one another are a valid trace.
    with path.open("wb") as file:
        for _ in range(10):
            file.write(short.read_bytes())
    return path
