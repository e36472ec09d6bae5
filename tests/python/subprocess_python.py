"""Runs a Python script in a separate process, with the environment of the tests."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path


def run_python(script: str, *arguments: object) -> str:
    """The output of the script. The test fails if the script fails, or takes longer than two minutes.

    The script is a file, because spawned child processes import it.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script.py"
        path.write_text(textwrap.dedent(script))
        command = [sys.executable, str(path), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
