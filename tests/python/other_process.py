"""Python in a process of its own, where nothing is imported yet. It has the environment of the tests."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path


def run_python(script: str, *arguments: object) -> str:
    """What the script printed. The test fails where it does, and where it has not ended after two minutes.

    It is a file: children that start anew have to find it.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script.py"
        path.write_text(textwrap.dedent(script))
        command = [sys.executable, str(path), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
