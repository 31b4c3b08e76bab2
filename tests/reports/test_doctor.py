"""`clustersim doctor`: each check, where all is well and where it is not."""

import json
import os
import webbrowser
from importlib import metadata
from pathlib import Path

import pytest

from clustersim.catalog import finding
from clustersim.catalog.finding import entry_names
from clustersim.errors import CatalogError
from clustersim.reports.doctor import answer, requirements
from clustersim.reports.doctor.answer import CHECKS, LEVELS, _run, _State
from clustersim.reports.doctor.text import lines
from commands import ending, output

STORE = Path("studies.db")


def found(name, state=None):
    """Return the results of one check."""
    return [*_run(name, CHECKS[name], state or _State(STORE))]


def statuses(name):
    return [finding.status for finding in found(name)]


@pytest.fixture
def without(monkeypatch):
    """A function that makes an installed library another version, or none."""
    installed = metadata.version

    def change(library, version):
        def version_of(name):
            if name != library:
                return installed(name)
            if version is None:
                raise metadata.PackageNotFoundError(name)
            return version

        monkeypatch.setattr(requirements, "version", version_of)

    return change


def test_the_computer_of_the_tests_has_no_problem(capsys, here):
    """Each check has a line, and the catalogue's numbers are those of its folders."""
    diagnosis = json.loads(output(capsys, "doctor", "--json"))

    assert [*dict.fromkeys(each["name"] for each in diagnosis["checks"])] == [*CHECKS]
    assert diagnosis["status"] == max(
        (each["status"] for each in diagnosis["checks"]), key=LEVELS.index
    )
    assert diagnosis["catalogue"] == {
        kind: len(entry_names(kind)) for kind in diagnosis["catalogue"]
    }
    assert diagnosis["cores"] == len(os.sched_getaffinity(0))
    assert all(diagnosis["versions"].values())
    assert [*here.iterdir()] == []


def test_a_line_states_what_to_do():
    """The advice is below what was found."""
    checks = (
        answer.Finding("Python", "ok", "3.11.7"),
        answer.Finding("folder", "problem", "/: not writable", "change to another one"),
    )
    text = lines(answer.Diagnosis("problem", checks, {}, 1, None, {}))

    assert text == [
        "ok       Python  3.11.7",
        "problem  folder  /: not writable",
        "                 -> change to another one",
    ]


@pytest.mark.parametrize(
    ("version", "problem"),
    [(None, "numpy is missing"), ("1.26.4", "numpy 1.26.4 is outside of <3,>=2.1")],
)
def test_a_required_library_that_is_missing_or_old_is_a_problem(without, version, problem):
    """Pip is given what the package requires."""
    without("numpy", version)

    first, rest = found("libraries")
    assert (first.status, first.found) == ("problem", problem)
    assert first.advice == "pip install 'numpy<3,>=2.1'"
    assert rest.found == "14 of 15 required ones are installed"


def test_an_extra_that_is_not_installed_is_optional(without):
    """Half an extra is a warning; none of it is not."""
    without("flask", None)

    (_, explore) = found("extras")
    assert (explore.status, explore.found) == ("warning", "explore: flask is missing")
    assert explore.advice == "pip install 'clustersim[explore]'"

    flask = requirements.parsed("flask<4,>=3.1; extra == 'explore'")
    assert answer._extra("explore", "a page", [flask]) == (
        "ok",
        "explore is not installed (a page)",
        "optional: pip install 'clustersim[explore]'",
    )


def test_a_library_that_cannot_be_imported_is_a_line_and_not_the_end(capsys, here, monkeypatch):
    """All other checks are made, and the exit code is 1."""

    def failing(state):
        raise ImportError("No module named 'psutil'")
        yield

    monkeypatch.setitem(answer.CHECKS, "memory", failing)
    monkeypatch.setitem(answer.CHECKS, "catalogue", lambda state: iter(()))

    code, out, error = ending(capsys, "doctor")
    assert (code, error) == (1, "")
    assert "problem  memory      No module named 'psutil'\n" in out
    assert "  folder  " in out


def test_little_memory_limits_the_processes(monkeypatch):
    """As many processes as there is memory for."""
    import psutil

    class Memory:
        available, total = 1_200_000_000, 4_000_000_000

    monkeypatch.setattr(psutil, "virtual_memory", Memory)
    (few,) = found("memory", _State(STORE, cores=4))
    (enough,) = found("memory", _State(STORE, cores=2))

    assert (few.status, few.found) == ("warning", "1.2 GB of 4 GB available")
    assert few.advice == "run studies with --jobs 2, or end other programs"
    assert enough.status == "ok"


def test_a_browser_is_needed_for_pages(monkeypatch):
    """Without one there is a warning, because figures need none."""

    def none():
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(webbrowser, "get", none)
    assert statuses("browser") == ["warning"]

    monkeypatch.setattr(webbrowser, "get", lambda: webbrowser.BackgroundBrowser("firefox"))
    assert [each.found for each in found("browser")] == ["firefox for the pages"]


def test_a_folder_without_write_access_is_a_problem(here, monkeypatch):
    """The message has the reason of the system."""

    def denied(dir):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", denied)

    (folder,) = found("folder")
    assert (folder.status, folder.found) == ("problem", f"{here}: not writable (Permission denied)")


def test_a_full_disk_is_a_warning(here, monkeypatch):
    """Pages and figures need space."""

    class Usage:
        free = 10_000_000

    monkeypatch.setattr("shutil.disk_usage", lambda folder: Usage)

    (folder,) = found("folder")
    assert (folder.status, folder.found) == ("warning", f"{here}: writable, 10 MB free")


def test_a_run_cache_is_opened(capsys, here):
    """One that does not exist is no problem; another file of that name is a warning."""
    assert [each.found for each in found("run cache")] == ["studies.db: none yet"]

    STORE.write_text("not a database, but a long enough text for its header" * 4)
    (cache,) = found("run cache")
    assert cache.status == "warning"
    assert cache.found.startswith("studies.db: ")
    assert cache.advice == "name another one with --store, or move the file"


def test_an_entry_that_does_not_load_is_a_problem(monkeypatch):
    """The message of the file is the line, and the others are counted."""
    find = finding.find

    def broken(kind, name, *rest):
        if name == "dgx-h100" and kind == "cluster":
            raise CatalogError("dgx-h100.yaml:3: size: unknown key")
        return find(kind, name, *rest)

    monkeypatch.setattr(finding, "find", broken)
    monkeypatch.setattr("clustersim.scenario.entries.KINDS", ("cluster",))
    first, rest = found("catalogue")

    assert (first.status, first.found) == ("problem", "dgx-h100.yaml:3: size: unknown key")
    assert first.advice == "pip install --force-reinstall clustersim"
    assert rest.found == f"{len(entry_names('cluster')) - 1} clusters loaded"
