"""Shared by the interop tests: run folders, written once per session, and a server."""

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import demo_to_gguf
import pytest

# Tests must not use a network, and print no progress bars.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")

REPOSITORY = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))


def built(*parts):
    """The path of a program of this repository; builds it if the Rust tests have not.

    `cargo run` would select other features than `cargo test --workspace`, and build most dependencies again.
    """
    program = REPOSITORY.joinpath(TARGET, "debug", *parts)
    if not program.is_file():
        subprocess.run(["cargo", "build", "-q", "--workspace", "--bins", "--examples"], cwd=REPOSITORY, check=True)
    return program


def write_sample(folder, *arguments):
    """Writes the files of a run into the folder, and returns the output of the example."""
    command = [built("examples", "store_sample"), folder, *arguments]
    return subprocess.run(list(map(str, command)), cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """A run folder with twelve records, of which every fourth failed. Tests must not change it."""
    folder = tmp_path_factory.mktemp("runs") / "profile_H200_sample"
    assert write_sample(folder).startswith("12 records, 12 requests, 2400 readings")
    return folder


@pytest.fixture
def run_folder(written, tmp_path):
    """A copy of that folder, because `map` and `filter` write files into it."""
    return Path(shutil.copytree(written, tmp_path / "run"))


def ergo(*arguments):
    """Runs `ergo` from this repository."""
    command = [built("ergo"), *arguments]
    return subprocess.run(list(map(str, command)), cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.fixture(scope="session")
def profiled(tmp_path_factory):
    """The folder of a real run: the embedded model on 120 built-in problems, with concurrency 3."""
    runs = tmp_path_factory.mktemp("profiled")
    ergo("profile", "--quiet", "-n", 120, "-c", 3, "--idle", "500ms", "--output-dir", runs)
    (folder,) = runs.iterdir()
    return folder


@contextlib.contextmanager
def serve(gguf, *arguments):
    """Runs a llama.cpp server with the model in the file `gguf`, and yields its URL."""
    command = [sys.executable, Path(__file__).with_name("llama_server.py"), gguf, *arguments]
    with subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        address = server.stdout.readline().strip()
        assert address.startswith("http://"), "the server ended before it listened; see its output above"
        yield address
        # The server ends when its standard input is closed.
        server.stdin.close()
        assert server.wait(timeout=30) == 0


@pytest.fixture(scope="session")
def llama_server(tmp_path_factory):
    """The URL of a llama.cpp server with the demo model `tiny`, for four concurrent requests."""
    gguf = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    demo_to_gguf.convert(REPOSITORY / "assets" / "models" / "tiny", gguf)
    with serve(gguf, "--name", "tiny", "--slots", 4) as address:
        yield address
