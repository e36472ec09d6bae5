"""The code in the guide runs, from its top to its end, and says what the guide says it does."""

from __future__ import annotations

import doctest
import json

import pytest
from conftest import REPOSITORY

GUIDES = ["docs/python.md", "README.md"]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def python_only(text):
    """The text with everything blank but its blocks of Python, each line where it was."""
    lines, is_python = [], False
    for line in text.splitlines():
        if line.startswith("```"):
            is_python = line == "```python"
            lines.append("")
        else:
            lines.append(line if is_python else "")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", GUIDES)
def test_the_code_of_a_guide_runs(name, monkeypatch, tmp_path):
    """Its paths are those of a clone."""
    for folder in ("fixtures", "docs"):
        (tmp_path / folder).symlink_to(REPOSITORY / folder)
    monkeypatch.chdir(tmp_path)
    text = python_only((REPOSITORY / name).read_text())
    examples = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    assert len(examples.examples) >= 4, "there is nothing to run"
    told = []
    result = doctest.DocTestRunner(optionflags=FLAGS).run(examples, out=told.append)
    assert result.failed == 0, "".join(told)


def test_every_block_of_python_is_written_as_it_is_typed():
    """What has no `>>>` would not be run."""
    for name in GUIDES:
        inside = []
        for line in (REPOSITORY / name).read_text().splitlines():
            if line.startswith("```"):
                if inside and inside[0] == "```python":
                    assert inside[1].startswith(">>> "), f"{name}: {inside[1]}"
                inside = [] if inside else [line]
            elif inside:
                inside.append(line)


def test_the_notebook_is_clean():
    """What it prints belongs to the machine it ran on."""
    notebooks = list((REPOSITORY / "docs" / "notebooks").glob("*.ipynb"))
    assert notebooks
    for path in notebooks:
        cells = json.loads(path.read_text())["cells"]
        assert len(cells) > 4
        for cell in cells:
            if cell["cell_type"] == "code":
                assert (cell["outputs"], cell["execution_count"]) == ([], None), path.name
