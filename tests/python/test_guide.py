"""Runs the code of the guide from top to bottom, and compares its output."""

from __future__ import annotations

import doctest
import json

import pytest
from conftest import REPOSITORY

GUIDES = ["docs/python.md", "README.md"]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def python_only(text):
    """The text with everything except Python blocks replaced by empty lines, so that line numbers stay."""
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
    """Paths in the guide are relative to a clone."""
    for folder in ("fixtures", "docs"):
        (tmp_path / folder).symlink_to(REPOSITORY / folder)
    monkeypatch.chdir(tmp_path)
    text = python_only((REPOSITORY / name).read_text())
    examples = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    assert len(examples.examples) >= 4, "the guide has no examples"
    output = []
    result = doctest.DocTestRunner(optionflags=FLAGS).run(examples, out=output.append)
    assert result.failed == 0, "".join(output)


def test_every_python_block_has_prompts():
    """A block without `>>>` would not run."""
    for name in GUIDES:
        inside = []
        for line in (REPOSITORY / name).read_text().splitlines():
            if line.startswith("```"):
                if inside and inside[0] == "```python":
                    assert inside[1].startswith(">>> "), f"{name}: {inside[1]}"
                inside = [] if inside else [line]
            elif inside:
                inside.append(line)


def test_notebooks_have_no_output():
    """Output depends on the machine, so it is not committed."""
    notebooks = list((REPOSITORY / "docs" / "notebooks").glob("*.ipynb"))
    assert notebooks
    for path in notebooks:
        cells = json.loads(path.read_text())["cells"]
        assert len(cells) > 4
        for cell in cells:
            if cell["cell_type"] == "code":
                assert (cell["outputs"], cell["execution_count"]) == ([], None), path.name
