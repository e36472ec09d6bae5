"""Kills `ergo profile` at every system call that changes the run folder, and at random moments; then resumes it.

ERGOMETER_CHAOS_KILLS sets the number of kills. ERGOMETER_CHAOS_SEED sets the random choices, and `random` makes new ones.
"""

import os
import random
import time
from collections import Counter
from dataclasses import dataclass, replace

import pytest
from processes import Injection, Moment, kills, sites
from run_folder import read_json
from scripted_server import Answers
from together import run_together
from trial import SweepTrial, Trial

LEAST_KILLS = 200
KILLS = int(os.environ.get("ERGOMETER_CHAOS_KILLS", LEAST_KILLS))

STAGES = ("before run.json", "while running", "while finishing", "after")


@dataclass
class Example:
    """A kind of run, and what one that is not disturbed does."""

    name: str
    run: object = None
    seconds: float = 0.0
    calls: tuple = ()


def old_run(examples, name):
    """The run that a run of this kind has to replace."""
    return examples["sweep" if "sweep" in name else "plain"].run if "replaced" in name else None


def new_trial(tools, folder, name, chance, old_run=None):
    """A trial of a kind of run, with random sizes."""
    sizes = {"queries": chance.randrange(12, 25), "concurrency": chance.choice([1, 2, 4, 8])}
    pause_s = chance.choice([0.0005, 0.001, 0.004])
    match name:
        case "plain":
            return Trial(tools, folder, answers=Answers(pause_s=pause_s), **sizes)
        case "turns":
            return Trial(tools, folder, turns=3, answers=Answers(pause_s=pause_s), **sizes)
        case "reviewed":
            return Trial(tools, folder, has_judge=True, answers=Answers(pause_s=pause_s, has_usage=False), **sizes)
        case "retried":
            arguments = ["--retries", 4, "--retry-backoff", "2ms"]
            answers = Answers(pause_s=pause_s, fails_every=5)
            return Trial(tools, folder, arguments=arguments, answers=answers, **sizes)
        case "sweep":
            return SweepTrial(tools, folder, queries=12, answers=Answers(pause_s=pause_s))
        case "replaced run":
            trial = Trial(tools, folder, answers=Answers(pause_s=pause_s), **sizes)
        case "replaced sweep":
            trial = SweepTrial(tools, folder, queries=12, answers=Answers(pause_s=pause_s))
        case _:
            raise ValueError(name)
    trial.replace_copy_of(old_run)
    return trial


NAMES = ("plain", "turns", "reviewed", "retried", "sweep", "replaced run", "replaced sweep")


@pytest.fixture(scope="module")
def examples(tools, seed, tmp_path_factory):
    """One undisturbed run of each kind, with its system calls."""
    folder, found = tmp_path_factory.mktemp("examples"), {}
    for name in NAMES:
        trial = new_trial(tools, folder / name, name, random.Random(f"{seed}/{name}"), old_run(found, name))
        start = time.monotonic()
        ended = trial.attempt(Injection("files"))
        assert ended.code == 0, ended
        found[name] = Example(name, trial.run, time.monotonic() - start, tuple(ended.calls))
        trial.check_files()
    return found


def systematic_kills(examples, chance):
    """Kills at every call of a plain run, and at the calls that only other kinds have."""
    plain = kills(sites(examples["plain"].calls))
    chosen = [("plain", kill) for kill in plain]
    for name in NAMES[2:]:
        known = {(kill.calls, kill.part) for kill in plain}
        others = [kill for kill in kills(sites(examples[name].calls)) if (kill.calls, kill.part) not in known]
        chosen += [(name, kill) for kill in chance.sample(others, min(len(others), 20))]
    chance.shuffle(chosen)
    return chosen


def random_kill(example, chance):
    """A kill at a random moment or call, as arguments of `Trial.attempt`."""
    match chance.randrange(4):
        case 0:
            return {"kill": Moment(seconds=chance.uniform(0, 1.05 * example.seconds))}
        case 1:
            return {"kill": Moment(seconds=chance.uniform(0, 0.005), requests=chance.randrange(1, 14))}
        case 2:
            # The end of the run takes less time than the rest, but writes most of the files.
            return {"kill": Moment(seconds=chance.uniform(0.75, 1.0) * example.seconds)}
    site = chance.choice(kills(sites(example.calls)))
    return {"injection": replace(site, action=chance.choice([site.action, "kill_after"]))}


def one_trial(tools, folder, examples, chance, first):
    """Kills a run, perhaps several times, and completes it. Returns the stages of the kills, and if it has energy."""
    name, kill = first or (chance.choice(NAMES), None)
    example = examples[name]
    trial = new_trial(tools, folder, name, chance, old_run(examples, name))
    plans = [{"injection": kill} if kill else random_kill(example, chance)]
    while len(plans) < 4 and chance.random() < 0.5:
        plans.append(random_kill(example, chance))
    try:
        for plan in plans:
            ended = trial.attempt(**plan)
            assert ended.is_killed or ended.code == 0, ended
            if "sweep" not in name and trial.is_started() and chance.random() < 0.15:
                trial.finalize()
        trial.complete()
        if "sweep" not in name and chance.random() < 0.25:
            trial.finalize()
        has_energy = all(read_json(part / "summary.json")["energy"]["measured"] for part in trial.parts())
    except Exception as error:
        steps = "; then ".join(str(step) for plan in plans for step in plan.values())
        raise AssertionError(f"a run of the kind `{name}` in {folder}: {steps}\n{error!r}\n{error}") from error
    trial.close()
    return trial.stages, has_energy


def test_a_killed_run_is_completed_by_a_resumption(tools, seed, examples, tmp_path, capsys):
    chance = random.Random(seed)
    systematic = systematic_kills(examples, chance)
    with capsys.disabled():
        print(f"\nERGOMETER_CHAOS_SEED={seed}: {KILLS} kills, first at {len(systematic)} system calls")
    start, stages, number, with_energy = time.monotonic(), Counter(), 0, 0

    def next_trial():
        nonlocal number
        if stages.total() >= KILLS or number >= 10 * KILLS:
            return None
        # Every fourth kill is at a random moment, until there are only random ones.
        first = systematic.pop() if systematic and number % 4 else None
        folder, choices = tmp_path / str(number), random.Random(f"{seed}/{number}")
        number += 1
        return lambda: one_trial(tools, folder, examples, choices, first)

    def take(result):
        nonlocal with_energy
        stages.update(result[0])
        with_energy += result[1]

    failures = run_together(next_trial, take)
    with capsys.disabled():
        counts = ", ".join(f"{stages[stage]} {stage}" for stage in STAGES)
        print(f"{stages.total()} kills of {number} runs in {time.monotonic() - start:.0f} s: {counts}")
        print(f"{with_energy} of {number} runs have an energy balance")
    assert with_energy > number / 4 or failures, "hardly any run has an energy balance"
    assert not failures, "\n\n".join(failures)
    assert set(stages) <= set(STAGES)
    assert stages.total() >= KILLS, "too many processes ended before they were killed"
    assert KILLS < LEAST_KILLS or all(stages[stage] for stage in STAGES), "every stage has a kill"
