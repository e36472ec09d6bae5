"""Kills and errors in the moments in which one folder takes the place of another."""

import errno

import pytest
from processes import Injection, Process
from trial import SweepTrial, Trial


@pytest.fixture(scope="module")
def old_run(tools, tmp_path_factory):
    """A complete run."""
    trial = Trial(tools, tmp_path_factory.mktemp("old") / "trial")
    trial.complete()
    return trial.run


@pytest.fixture(scope="module")
def old_sweep(tools, tmp_path_factory):
    """A complete sweep."""
    trial = SweepTrial(tools, tmp_path_factory.mktemp("old") / "sweep")
    trial.complete()
    return trial.run


def second_rename(run, **change):
    """A change of the call that gives the new run its name, after the old one was moved aside."""
    return Injection("rename", part=f"/{run.name}", nth=1, **change)


@pytest.mark.parametrize("call", ["open", "rename"])
def test_a_sweep_killed_before_its_first_file_does_not_block_its_name(tools, tmp_path, call):
    trial = SweepTrial(tools, tmp_path / "trial")
    part = {"open": "/.sweep.json.", "rename": "/sweep.json"}[call]
    assert trial.attempt(Injection(call, "kill_before", part, nth=1)).is_killed
    ended = Process(tools, trial.arguments, trial.folder).wait()
    assert ended.code == 0, ended


@pytest.mark.parametrize("command", [["profile", "--resume"], ["finalize"]])
def test_a_run_killed_while_it_replaces_another_can_be_resumed(tools, tmp_path, old_run, command):
    trial = Trial(tools, tmp_path / "trial")
    trial.replace_copy_of(old_run)
    assert trial.attempt(second_rename(old_run, action="kill_before")).is_killed
    ended = Process(tools, [*command, trial.runs / old_run.name], trial.folder).wait()
    assert ended.code == 0, ended


@pytest.mark.parametrize("kind", [Trial, SweepTrial])
def test_a_replacement_killed_between_two_renames_can_be_repeated(tools, tmp_path, kind, old_run, old_sweep):
    trial, old = kind(tools, tmp_path / "trial"), old_sweep if kind is SweepTrial else old_run
    trial.replace_copy_of(old)
    assert trial.attempt(second_rename(old, action="kill_before")).is_killed
    assert trial.run == trial.runs / old.name and not trial.run.exists()
    ended = Process(tools, trial.arguments, trial.folder).wait()
    assert ended.code == 0, ended
    trial.check_files()


@pytest.mark.parametrize("kind", [Trial, SweepTrial])
def test_a_replacement_killed_between_two_renames_is_completed(tools, tmp_path, kind, old_run, old_sweep):
    trial, old = kind(tools, tmp_path / "trial"), old_sweep if kind is SweepTrial else old_run
    trial.replace_copy_of(old)
    assert trial.attempt(second_rename(old, action="kill_before")).is_killed
    trial.complete()


def test_an_old_run_is_kept_if_the_new_one_cannot_take_its_name(tools, tmp_path, old_run):
    trial = Trial(tools, tmp_path / "trial")
    trial.replace_copy_of(old_run)
    ended = trial.attempt(second_rename(old_run, action="error", errno=errno.EIO))
    assert ended.hit and ended.code == 1 and len(ended.error_lines) == 1, ended
    assert trial.is_old(trial.runs / old_run.name)


def test_a_sweep_killed_while_it_removes_another_leaves_no_folder(tools, tmp_path, old_sweep):
    trial = SweepTrial(tools, tmp_path / "trial")
    trial.replace_copy_of(old_sweep)
    assert trial.attempt(Injection("unlink", "kill_before", "/summary.json", nth=1)).is_killed
    trial.complete()


@pytest.mark.parametrize("file", ["state.json", "data-00000-of-00001.arrow", "requests.parquet"])
def test_a_sweep_killed_while_it_writes_files_again_is_completed(tools, tmp_path, old_sweep, file):
    trial = SweepTrial(tools, tmp_path / "trial")
    trial.replace_copy_of(old_sweep)
    # After the sweep has its name, the files of its first run are written again.
    part = f"/{old_sweep.name}/concurrency_1/{file}"
    assert trial.attempt(Injection("rename", "kill_before", part, nth=1)).is_killed
    trial.complete()
