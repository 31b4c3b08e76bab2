"""What the page shows of a question: for each view the page of a verb, computed in a worker."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from clustersim.answers import record
from clustersim.catalog.writing import to_yaml
from clustersim.errors import ScenarioError
from clustersim.explore.fields import Kind, fields_of
from clustersim.explore.question import Home, Question, loaded_of
from clustersim.render.page.page import Page, render_sections
from clustersim.render.study_folder import StudyFiles
from clustersim.runs.arguments import settings_of
from clustersim.scenario.load import Loaded, LoadedService
from clustersim.studies.search import SearchAnswer

MOST_DEVICES: Final = 16_384
MOST_BLOCKS: Final = 1_000_000
"""Forwards and backwards of a replica in a step."""

MOST_REQUESTS: Final = 20_000
MOST_USERS: Final = 4_096
SECONDS: Final = 60.0
"""Time after which a search ends with the best so far [s]."""

Report = Callable[[str], None]
"""Shows how far an answer is, in words."""


@record
class Posed:
    """A question with its scenario.

    Attributes
    ----------
    scenario : as `load_any` takes it
    changes : of the scenario
    """

    question: Question
    scenario: str
    changes: tuple[str, ...]
    loaded: Loaded | LoadedService

    @property
    def command(self) -> str:
        """The command of a verb that prints the same."""
        from shlex import join

        verb = {"step": "run", "run": "train", "service": "serve"}[self.question.kind]
        name = self.scenario if self.question.of else "mine.yaml"
        settings = [word for change in self.changes for word in ("--set", change)]
        return join(["clustersim", verb, name, *(settings if self.question.of else ())])


class Answered(NamedTuple):
    """The answer of a view.

    Attributes
    ----------
    page : of the verb
    write : writes its folder, as the verb does
    best : address of the question with the layout that a search found
    """

    page: Page
    write: Callable[[Path], None]
    best: str = ""


def posed(question: Question, home: Home) -> Posed:
    """Return a question with its scenario.

    Raises
    ------
    ScenarioError, CatalogError
        when it is invalid, or larger than this page computes.
    """
    scenario, _ = home.source(question)
    loaded = loaded_of(question, home)
    if problem := too_large(loaded):
        raise ScenarioError(f"{problem} (the command has other limits: clustersim run)")
    return Posed(question, scenario, tuple(map(str, loaded.changes)), loaded)


def too_large(loaded: Loaded | LoadedService) -> str:
    """Return why a scenario is larger than this page computes; empty if it is not."""
    given = loaded.scenario
    if given.cluster.nodes * given.cluster.node.devices > MOST_DEVICES:
        return f"this page computes up to {MOST_DEVICES:,} devices"
    if isinstance(loaded, LoadedService):
        load = loaded.scenario.load
        counts = (load.requests, load.offline, load.batch)
        if max(count or 0 for count in counts) > MOST_REQUESTS:
            return f"this page replays up to {MOST_REQUESTS:,} requests"
        return (
            f"this page replays up to {MOST_USERS:,} users"
            if (load.concurrency or 0) > MOST_USERS
            else ""
        )
    plan, batch = loaded.scenario.plan, loaded.scenario.batch
    microbatches = batch.global_ // max(1, plan.data * batch.micro)
    if 2 * microbatches * plan.pipeline * (plan.chunks or 1) > MOST_BLOCKS:
        return f"this page replays up to {MOST_BLOCKS:,} blocks of a replica in a step"
    return ""


# --- the views ------------------------------------------------------------------------------------


def _answer(given: Posed, report: Report, stopped: Callable[[], bool]) -> Answered:
    """Return the answer of a scenario of any kind."""
    return _BY_KIND[given.question.kind](given)


def _step(given: Posed) -> Answered:
    from clustersim.reports.step.page import page
    from clustersim.simulation.step.simulate import simulate

    loaded = given.loaded
    assert isinstance(loaded, Loaded), "the kind of the question is that of the scenario"
    result = simulate(loaded, advise=True)
    shown = page(result, command=given.command, sources=False)
    return Answered(shown, lambda folder: _written(result.files(given.command), folder))


def _run(given: Posed) -> Answered:
    from clustersim.simulation.training_run.train import train

    assert isinstance(given.loaded, Loaded), "the kind of the question is that of the scenario"
    answer = train(given.loaded)
    return _study(answer.files(given.command))


def _service(given: Posed, loads: tuple[float, ...] = ()) -> Answered:
    from clustersim.simulation.service.serve import serve

    assert isinstance(given.loaded, LoadedService), "the kind of the question is that"
    result = serve(given.loaded, loads=loads)
    return _study(result.files(given.command))


_BY_KIND: Final[Mapping[Kind, Callable[[Posed], Answered]]] = {
    "step": _step,
    "run": _run,
    "service": _service,
}


def _loads(given: Posed, report: Report, stopped: Callable[[], bool]) -> Answered:
    """Return the curve of a service over its load."""
    from clustersim.simulation.service.serve import usual_loads

    assert isinstance(given.loaded, LoadedService), "a view of services"
    return _service(given, usual_loads(given.loaded))


def _layouts(given: Posed, report: Report, stopped: Callable[[], bool]) -> Answered:
    """Return the best layout of a scenario."""
    from clustersim.studies.search import search
    from clustersim.studies.search.loop import Progress, progress_note

    def progress(far: Progress) -> None:
        what = "layouts examined" if far.bounded else "bounds known"
        report(f"{far.examined:,} of {far.ahead:,} {what}{progress_note(far)}")

    layout = ("plan.", "batch.micro", "recompute", "title")
    free, fixed = _space(given.loaded)
    answer = search(
        given.scenario,
        free=free,
        settings=(
            *(each for each in given.changes if not each.startswith(layout)),
            *settings_of(fixed),
        ),
        jobs=1,
        seconds=SECONDS,
        on_progress=progress,
        stopped=stopped,
    )
    command = given.command.replace(given.command.split()[1], "search", 1)
    return _study(answer.files(command))._replace(best=_best(given.question, answer))


def _space(loaded: Loaded | LoadedService) -> tuple[Sequence[str], Mapping[str, Any]]:
    """Return the layouts that `clustersim new` would search: values of keys, and fixed keys."""
    from clustersim.studies.new import Machine, service_draft, step_draft

    given = loaded.scenario
    machine = Machine(given.model.name, given.cluster.name, given.cluster.nodes)
    if isinstance(loaded, LoadedService):
        draft = service_draft(machine)
    else:
        framework = loaded.scenario.framework.name
        draft = step_draft(machine, loaded.scenario.batch.sequence, framework=framework)
    return draft.free, draft.fixed


def _best(question: Question, answer: SearchAnswer) -> str:
    """Return the address of a question with the best layout."""
    if answer.best is None:
        return ""
    fields = {field.key: field for field in fields_of(question.kind)}
    more = []
    for key, value in answer.best.set_.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if key in fields and fields[key].allows(text):
            question = question.having(key, text)
        elif isinstance(value, bool | int) and key != "plan.data":
            more.append(f"{key}={text}")
    return replace(question, more=(*question.more, *more)).address


def _scaling(given: Posed, report: Report, stopped: Callable[[], bool]) -> Answered:
    """Return scaling curves."""
    from clustersim.studies.scale import scale

    answer = scale(
        given.scenario,
        settings=given.changes,
        jobs=1,
        on_progress=lambda count, of: report(f"{count} of {of} points"),
    )
    command = given.command.replace(given.command.split()[1], "scale", 1)
    return _study(answer.files(command))


def _study(files: StudyFiles) -> Answered:
    return Answered(files.page, lambda folder: _written(files, folder))


def _written(files: StudyFiles, folder: Path) -> None:
    files.write(folder, formats=("svg",))


class View(NamedTuple):
    """A tab of the page: its name, the questions that have it, and whether it takes long."""

    name: str
    kinds: tuple[Kind, ...]
    page: Callable[[Posed, Report, Callable[[], bool]], Answered]
    action: str = ""


VIEWS: Final[Mapping[str, View]] = {
    "answer": View("Answer", ("step", "run", "service"), _answer),
    "layouts": View("Best layout", ("step", "run", "service"), _layouts, "Find the best layout"),
    "scaling": View("Scaling", ("step", "service"), _scaling, "Compute the scaling curves"),
    "loads": View("Load curve", ("service",), _loads, "Compute the load curve"),
}
"""The tabs; one with an `action` takes seconds, and is computed when it is requested."""


# --- what a worker returns ------------------------------------------------------------------------


@record
class Shown:
    """An answer as the browser shows it.

    Attributes
    ----------
    title : of the page
    subtitle : below it
    html : its sections
    copies : the question as YAML, command and Python
    best : address of the question with the layout that a search found
    """

    title: str
    subtitle: str
    html: str
    copies: Mapping[str, str]
    best: str = ""


def shown(
    question: Question,
    pinned: Question | None,
    view: str,
    home: Home,
    report: Report,
    stopped: Callable[[], bool],
) -> Shown:
    """Return a view of a question; next to a pinned question, first their difference by cause."""
    given = posed(question, home)
    answered = VIEWS[view].page(given, report, stopped)
    page = answered.page
    if pinned is not None and view == "answer":
        before = _difference(posed(pinned, home), given)
        page = replace(page, sections=(*before, *page.sections))
    html = render_sections(page)
    return Shown(page.title, page.subtitle, html, copies(given), answered.best)


def _difference(before: Posed, after: Posed) -> tuple[Any, ...]:
    """Return the sections of a comparison with the pinned question."""
    from clustersim.studies.compare import compare
    from clustersim.studies.compare.files import page

    answer = compare([_plain(before), _plain(after)], names=("pinned", "now"), jobs=1)
    return tuple(replace(each, id=f"pinned-{each.id}") for each in page(answer).sections)


def _plain(given: Posed) -> dict[str, Any]:
    """Return a scenario with its changes as plain values."""
    from clustersim.studies.search.searching import file_values

    return file_values(given.loaded, {})


def copies(given: Posed) -> dict[str, str]:
    """Return a question as YAML, command and Python."""
    yaml = to_yaml(_plain(given), [f"From the page of `{given.command}`."])
    function = {"step": "simulate", "run": "train", "service": "serve"}[given.question.kind]
    changes = "".join(f"\n        {change!r}," for change in given.changes)
    call = f'clustersim.{function}(\n    "{given.scenario}",\n    [{changes}\n    ],\n)'
    if not given.question.of:
        call = f'clustersim.{function}("mine.yaml")'
    return {"YAML": yaml, "command": given.command, "Python": f"import clustersim\n\n{call}\n"}


def launch_file(question: Question, home: Home) -> str:
    """Return the launch file of a question, for the program that its software is launched as.

    Raises
    ------
    ScenarioError
        in one line, when the software states no launch arguments.
    """
    from clustersim.exporters import export, program_of

    loaded = loaded_of(question, home)
    return export(loaded, program_of(loaded)).text


def zipped(question: Question, view: str, home: Home) -> bytes:
    """Return the folder of a view, as its verb writes it, as a ZIP file."""
    from io import BytesIO
    from zipfile import ZIP_DEFLATED, ZipFile

    answered = VIEWS[view].page(posed(question, home), lambda words: None, lambda: False)
    buffer = BytesIO()
    with TemporaryDirectory() as temporary, ZipFile(buffer, "w", ZIP_DEFLATED) as archive:
        folder = Path(temporary) / "answer"
        answered.write(folder)
        for file in sorted(folder.iterdir()):
            archive.write(file, file.name)
    return buffer.getvalue()
