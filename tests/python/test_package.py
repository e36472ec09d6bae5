"""The installed package: imports, types, documentation."""

from __future__ import annotations

import doctest
import importlib.metadata
import importlib.resources
import inspect
import pickle

import ergometer
import pytest
from conftest import REPOSITORY
from ergometer import _native
from subprocess_python import run_python

HEAVY = ["numpy", "jax", "jaxlib", "torch", "pandas", "polars", "pyarrow", "duckdb", "datasets", "tensorflow"]


def test_heavy_packages_are_not_imported(autotune_trace):
    """Measuring a block, reading a trace and tuning with wall times import none of them either."""
    script = f"""
        import sys
        import ergometer
        with ergometer.measure() as m:
            ergometer.read_trace(sys.argv[1]).ops()
        m.joules
        ergometer.autotune([sum], [1, 2], timer="wall", calls=2, energy=False)
        ergometer.Profiler, ergometer.Monitor, ergometer.load_run
        print([name for name in {HEAVY} if name in sys.modules])
    """
    assert run_python(script, autotune_trace) == "[]\n"


def test_the_package_works_without_optional_packages(autotune_trace):
    """Reading and printing a trace needs none of the optional packages."""
    script = f"""
import sys
for name in {HEAVY}:
    sys.modules[name] = None  # makes importing it an error
import ergometer
table = ergometer.read_trace(sys.argv[1]).functions()
print(table["id"], len(repr(table)) > 100, len(table.to_pylist()))
for method in ("to_pyarrow", "to_pandas", "to_polars"):
    try:
        getattr(table, method)()
    except ImportError as error:
        print(method, "hint: " in str(error))
"""
    output = run_python(script, autotune_trace).splitlines()
    assert output == ["[0, 1, 2, 3] True 4", "to_pyarrow True", "to_pandas True", "to_polars True"]


def test_the_package_is_typed():
    files = importlib.resources.files("ergometer")
    assert files.joinpath("py.typed").is_file()
    assert files.joinpath("_native.pyi").is_file()


def test_the_package_has_no_dependencies():
    try:
        needed = importlib.metadata.requires("ergometer")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package is imported from its sources")
    assert not needed


def test_public_names_can_be_imported():
    wanted = {"Profiler", "ProfilingError", "autotune", "read_trace", "Trace", "Table", "measure", "measured"}
    wanted |= {"Measurement", "Monitor", "load_run", "load_sweep", "Run"}
    assert wanted <= set(ergometer.__all__)
    assert len(ergometer.__all__) == len(set(ergometer.__all__))


def test_names_are_imported_on_first_use():
    """Reading a trace, and the command, do not import the rest."""
    script = """
import sys
import ergometer
print(sorted(name for name in sys.modules if name.startswith("ergometer")))
print(set(ergometer.__all__) <= set(dir(ergometer)))
ergometer.Monitor, ergometer.autotune, ergometer.load_run
print(callable(ergometer.measure), callable(ergometer.autotune))
try:
    ergometer.no_such_name
except AttributeError as error:
    print(error)
"""
    loaded, *output = run_python(script).splitlines()
    assert loaded == "['ergometer', 'ergometer._native']"
    assert output == ["True", "True True", "module 'ergometer' has no attribute 'no_such_name'"]


@pytest.mark.parametrize("name", sorted(ergometer.__all__))
def test_every_public_name_is_documented(name):
    value = getattr(ergometer, name)
    if name == "__version__":
        return
    assert inspect.getdoc(value)
    if inspect.isclass(value):
        for member, attribute in vars(value).items():
            if not member.startswith("_") and (callable(attribute) or isinstance(attribute, property)):
                assert inspect.getdoc(attribute), f"{name}.{member} has no documentation"


def documented(value, name):
    """The object and all its documented members."""
    if getattr(value, "__doc__", None):
        yield name, value.__doc__
    if inspect.isclass(value):
        for member, attribute in vars(value).items():
            if not member.startswith("_") and getattr(attribute, "__doc__", None):
                yield f"{name}.{member}", attribute.__doc__


PUBLIC = [name for name in dir(_native) if not name.startswith("_")]
NATIVE = [pair for name in PUBLIC for pair in documented(getattr(_native, name), name)]


@pytest.mark.parametrize(("name", "text"), NATIVE, ids=[name for name, _ in NATIVE])
def test_examples_of_the_extension_module(name, text, monkeypatch):
    """`--doctest-modules` reads Python sources only, and this module is in Rust."""
    monkeypatch.chdir(REPOSITORY)
    examples = doctest.DocTestParser().get_doctest(text, {"ergometer": ergometer}, name, None, None)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert runner.run(examples).failed == 0


def test_errors_have_a_message_and_a_hint():
    for kind in (ergometer.TraceError, ergometer.RunError, ergometer.MeterError, ergometer.ProfilingError):
        assert issubclass(kind, ergometer.ErgometerError)
        error = kind("it broke", hint="repair it")
        assert (error.message, error.hint, str(error)) == ("it broke", "repair it", "it broke. hint: repair it")
        assert (kind("it broke").hint, str(kind("it broke"))) == (None, "it broke")
        copied = pickle.loads(pickle.dumps(error))
        assert type(copied) is kind and (copied.message, copied.hint) == ("it broke", "repair it")
    missing = ergometer.MissingFileError("no such file", "check the path", "a.pb")
    assert isinstance(missing, FileNotFoundError)
    assert (str(missing), missing.filename) == ("no such file. hint: check the path", "a.pb")
