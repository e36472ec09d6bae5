"""What the tests share: run folders, each written once for all of them, and a server."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import gguf_of_demo
import pytest

# Nothing here may reach for a network, and a progress bar is no test's business.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")

REPOSITORY = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))


def built(*parts):
    """A program of this repository, as the Rust tests left it; without them it is built.

    `cargo run` would choose other features than `cargo test --workspace` does, and build most dependencies again.
    """
    program = REPOSITORY.joinpath(TARGET, "debug", *parts)
    if not program.is_file():
        subprocess.run(["cargo", "build", "-q", "--workspace", "--bins", "--examples"], cwd=REPOSITORY, check=True)
    return program


def write_sample(folder, *arguments):
    """Writes a run's files into this folder and says what the example printed."""
    command = [built("examples", "store_sample"), folder, *arguments]
    return subprocess.run(list(map(str, command)), cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """A run folder with twelve records, of which every fourth failed. Not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "profile_H200_sample"
    assert write_sample(folder).startswith("12 records, 12 requests, 2400 readings")
    return folder


@pytest.fixture
def run_folder(written, tmp_path):
    """A copy of that folder: `map` and `filter` leave files beside the data."""
    return Path(shutil.copytree(written, tmp_path / "run"))


def ergo(*arguments):
    """Runs `ergo` from this repository."""
    command = [built("ergo"), *arguments]
    return subprocess.run(list(map(str, command)), cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.fixture(scope="session")
def profiled(tmp_path_factory):
    """The run folder of a real run: the embedded model on 120 of the built-in problems, three at a time."""
    runs = tmp_path_factory.mktemp("profiled")
    ergo("profile", "--quiet", "-n", 120, "-c", 3, "--idle", "500ms", "--output-dir", runs)
    (folder,) = runs.iterdir()
    return folder


@pytest.fixture(scope="session")
def llama_server(tmp_path_factory):
    """The address of a llama.cpp server with the demo model `tiny`, for four requests at a time."""
    gguf = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    gguf_of_demo.convert(REPOSITORY / "assets" / "models" / "tiny", gguf)
    command = [sys.executable, Path(__file__).with_name("llama_server.py"), gguf, "--name", "tiny", "--slots", "4"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        address = server.stdout.readline().strip()
        assert address.startswith("http://"), "the server ended before it listened; it says why above"
        yield address
        # The end of its input is the end of the server.
        server.stdin.close()
        assert server.wait(timeout=30) == 0
