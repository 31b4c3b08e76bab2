"""From a scenario file to a checked scenario of its kind.

    Scenario          a training step, and its whole run with the key `training`
    ServingScenario   a service, which has the key `load`
    Sharing           several jobs on one machine, which has the key `jobs`

    file --names looked up--> tree --settings--> tree --schema--> Loaded --changed--> Loaded

Every value keeps the place that it comes from, so that a message names file, line and key.
"""

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from clustersim.answers import record
from clustersim.catalog.changes import Change, Settings, changes_of, without_numpy
from clustersim.catalog.checking import NONE_KNOWN, checked, unknown_keys
from clustersim.catalog.facts import SourcedValue
from clustersim.catalog.files import shown
from clustersim.catalog.reading import Document, Key, Place
from clustersim.catalog.tree import Tree, bare, dotted
from clustersim.errors import CatalogError, ScenarioError
from clustersim.scenario.origins import INLINE, UNTITLED, Origin, origin_of
from clustersim.scenario.references import REFERENCES, carry_out, may_name_files, resolve
from clustersim.scenario.schema import Scenario

if TYPE_CHECKING:
    from clustersim.importers.launch.draft import LaunchDraft
    from clustersim.scenario.serving import ServingScenario
    from clustersim.scenario.sharing import Sharing
    from clustersim.scenario.traced import Traced

Checked = TypeVar("Checked", Scenario, "ServingScenario", "Sharing", "Traced")

DESCRIPTIVE: Final = frozenset(
    {
        "title",
        "published",
        "assumed",
        "scaling",
        "training",
        "costs",
        "expect",
        "percentiles",
        "fold",
        "exact",
        "fusion_bound",
    }
)
"""Keys of a scenario that do not state what is run."""


@record
class LoadedFile(Generic[Checked]):
    """A scenario of any kind with the places of its values.

    Attributes
    ----------
    scenario : the checked scenario
    tree : the plain values behind it, each with its place
    origin : the file it was read from
    changes : settings on top of that, in order
    unchanged : the scenario without these, where it has been loaded
    """

    scenario: Checked
    tree: Tree
    origin: Origin
    changes: tuple[Change, ...] = ()
    unchanged: "LoadedFile[Checked] | None" = field(default=None, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how another process makes the scenario again."""
        return from_origin, (self.origin, self.changes)

    @property
    def name(self) -> str:
        """Stem of the scenario file, which names the folder of a run."""
        return self.origin.name

    @cached_property
    def departures(self) -> tuple[str, ...]:
        """Changed keys with which this is not the run that its published numbers belong to.

        Their values differ from those of the file; none where nothing is published.
        """
        paths = [change.path for change in self.changes if change.path[0] not in DESCRIPTIVE]
        if not paths or not self.scenario.published:
            return ()
        try:
            before = (self.unchanged or from_origin(self.origin, ())).scenario
        except (ScenarioError, CatalogError):  # a file that is incomplete without the changes
            return tuple(dict.fromkeys(map(dotted, paths)))
        after = self.scenario
        changed = (p for p in paths if plain_value(before, p) != plain_value(after, p))
        return tuple(dict.fromkeys(map(dotted, changed)))

    def place(self, *path: str | int) -> Place:
        """Return the place of the value at `path`."""
        return self.tree.place(path)

    def where(self, *path: str | int) -> str:
        """Return ``file:line: key`` of the value at `path`, with which a message begins."""
        return f"{self.place(*path)}: {dotted(path)}"

    def changed(self, settings: Settings) -> Self:
        """Return the scenario with more changes, checked again.

        Files are read again only where a change names another one, and only the tables with a
        change are checked.

        Parameters
        ----------
        settings : values by dotted key, ``{"plan.zero": 1}``, or texts, ``["plan.zero=1"]``

        Raises
        ------
        ScenarioError, CatalogError
            as `load` does.
        """
        more: tuple[Change, ...] = changes_of(settings)
        changes = (*self.changes, *more)
        states_run = "training" not in self.tree.data  # with the failures of the cluster
        if any(may_name_files(c) or (states_run and c.path[0] == "training") for c in more):
            return self._same_kind(from_origin(self.origin, changes))
        tree = self.tree.branch()
        for change in more:
            carry_out(change, tree)
        touched = {change.path[0] for change in more}
        same = {key: getattr(self.scenario, key) for key in tree.data if key not in touched}
        tables = {key: value for key, value in same.items() if isinstance(value, BaseModel)}
        unchanged = self.unchanged if self.changes else self
        scenario = self._same_kind(_checked(tree, self.origin, changes, tables))
        return replace(scenario, unchanged=unchanged)

    def _same_kind(self, other: "LoadedScenario") -> Self:
        """Return a scenario of the same kind; the keys of other kinds are no changes."""
        if not isinstance(other, type(self)):
            key = next((key for key in ("jobs", "trace") if key in other.tree.data), "load")
            kind = "serving" if "load" in self.tree.data else "training"
            raise ScenarioError(f"{other.where(key)}: cannot be set on a {kind} scenario")
        return other


@record
class Loaded(LoadedFile[Scenario]):
    """A scenario of a training step with the places of its values."""


@record
class LoadedService(LoadedFile["ServingScenario"]):
    """A serving scenario with the places of its values."""


@record
class LoadedSharing(LoadedFile["Sharing"]):
    """A scenario of several jobs on one machine with the places of its values."""

    def part(self, *path: str | int) -> dict[Key, Place]:
        """Return the places of the values of a table in the file, by their keys in it."""
        depth = len(path)
        return {key[depth:]: at for key, at in self.tree.places.items() if key[:depth] == path}


@record
class LoadedTrace(LoadedFile["Traced"]):
    """The scenario of a trace with the places of its values."""


LoadedJob = Loaded | LoadedService
"""A scenario of one job."""

LoadedWork = LoadedJob | LoadedSharing
"""A scenario of one job, or of several on one machine."""

LoadedScenario = LoadedWork | LoadedTrace
"""A scenario of any kind."""


def load(path: str | Path, settings: Settings = ()) -> Loaded:
    """Read the scenario of a training step, as `load_any` does.

    Raises
    ------
    ScenarioError, CatalogError
        also for a scenario of another kind.
    """
    return training_step(load_any(path, settings))


def load_service(path: str | Path, settings: Settings = ()) -> LoadedService:
    """Read a serving scenario, as `load_any` does.

    Raises
    ------
    ScenarioError, CatalogError
        also for a scenario of another kind.
    """
    return service(load_any(path, settings))


def load_sharing(
    scenario: str | Path | Mapping[str, Any], settings: Settings = ()
) -> LoadedSharing:
    """Read the scenario of several jobs on one machine, as `load_any` does, or keys and values.

    Raises
    ------
    ScenarioError, CatalogError
        also for a scenario of another kind.
    """
    if isinstance(scenario, Mapping):
        return shared_machine(_from_mapping(INLINE, scenario, settings))
    return shared_machine(load_any(scenario, settings))


def load_traced(scenario: str | Path | Mapping[str, Any], settings: Settings = ()) -> LoadedTrace:
    """Read the scenario of a trace, as `load_any` does, or keys and values.

    Raises
    ------
    ScenarioError, CatalogError
        also for a scenario of another kind.
    """
    if isinstance(scenario, Mapping):
        return traced(_from_mapping(INLINE, scenario, settings))
    return traced(load_any(scenario, settings))


def one_job(loaded: LoadedScenario) -> LoadedJob:
    """Return the scenario of one job; reject several jobs on one machine, and traces."""
    work = no_trace(loaded)
    if isinstance(work, LoadedSharing):
        raise ScenarioError(
            f"{work.where('jobs')}: several jobs on one machine (simulate them with: clustersim"
            " share)"
        )
    return work


def no_trace(loaded: LoadedScenario) -> LoadedWork:
    """Return the scenario of one job or of several; reject traces."""
    if isinstance(loaded, LoadedTrace):
        raise ScenarioError(
            f"{loaded.where('trace')}: the trace of a job (simulate it with: clustersim run)"
        )
    return loaded


def load_job(path: str | Path, settings: Settings = ()) -> LoadedJob:
    """Read the scenario of one job, as `load_any` does."""
    return one_job(load_any(path, settings))


def load_work(path: str | Path, settings: Settings = ()) -> LoadedWork:
    """Read the scenario of one job or of several on one machine, as `load_any` does."""
    return no_trace(load_any(path, settings))


def training_step(loaded: LoadedScenario) -> Loaded:
    """Return the scenario of a training step; reject other kinds."""
    job = one_job(loaded)
    if isinstance(job, LoadedService):
        raise ScenarioError(
            f"{job.where('load')}: a serving scenario (simulate it with: clustersim serve)"
        )
    return job


def service(loaded: LoadedScenario) -> LoadedService:
    """Return a serving scenario; reject other kinds."""
    job = one_job(loaded)
    if isinstance(job, Loaded):
        raise ScenarioError(
            f"{job.place()}: load: missing (the scenario of a training step; simulate it with:"
            " clustersim run)"
        )
    return job


def shared_machine(loaded: LoadedScenario) -> LoadedSharing:
    """Return a scenario of several jobs on one machine; reject other kinds."""
    if not isinstance(loaded, LoadedSharing):
        verb = "serve" if isinstance(loaded, LoadedService) else "run"
        raise ScenarioError(
            f"{loaded.place()}: jobs: missing (the list of the jobs that share the machine; one"
            f" scenario alone is simulated with: clustersim {verb})"
        )
    return loaded


def traced(loaded: LoadedScenario) -> LoadedTrace:
    """Return the scenario of a trace; reject other kinds."""
    if not isinstance(loaded, LoadedTrace):
        raise ScenarioError(
            f"{loaded.place()}: trace: missing (the trace of a job, such as {{files: FOLDER}};"
            " clustersim import FOLDER writes such a scenario)"
        )
    return loaded


def load_any(path: str | Path, settings: Settings = ()) -> LoadedScenario:
    """Read a scenario file, a launch file, or a shipped scenario by its bare name.

    Parameters
    ----------
    path : of the file; ``-`` for standard input, of a scenario named ``stdin``; or keys and values
        as JSON, of one named ``scenario``
    settings : changes as texts ``dotted.key=value`` (also ``=x2`` and ``=/2``), or values by key

    Raises
    ------
    ScenarioError, CatalogError
        one line for each problem, with file, line and key.
    """
    changes = changes_of(settings)
    return from_origin(origin_of(path, changes), changes)


def load_launch(file: Path, draft: "LaunchDraft", settings: Settings = ()) -> LoadedJob:
    """Return the scenario of an imported launch file, checked; errors name its lines."""
    document = draft.document(shown(file))
    origin = Origin(file.stem, document, file.parent, draft.summary)
    return one_job(from_origin(origin, changes_of(settings)))


def from_mapping(
    name: str, data: Mapping[str, Any], settings: Settings = (), folder: Path | None = None
) -> Loaded:
    """Return the scenario of a training step from plain values, as `load` does from a file.

    Parameters
    ----------
    folder : of files that it names; those that are shipped alone if None
    """
    return training_step(_from_mapping(name, data, settings, folder))


def service_from_mapping(
    name: str, data: Mapping[str, Any], settings: Settings = ()
) -> LoadedService:
    """Return a serving scenario from plain values."""
    return service(_from_mapping(name, data, settings))


def _from_mapping(
    name: str, data: Mapping[str, Any], settings: Settings, folder: Path | None = None
) -> LoadedScenario:
    document = Document(name, {**UNTITLED, **without_numpy(data)}, {(): Place(name)})
    folder = Path() if name == INLINE else folder
    return from_origin(Origin(name, document, folder), changes_of(settings))


def from_origin(origin: Origin, changes: tuple[Change, ...]) -> LoadedScenario:
    """Return the scenario of an origin, as `load_any` does of a file."""
    tree = Tree.of(origin.document).copy()
    try:
        resolve(tree, origin.folder, changes)
    except (ScenarioError, CatalogError) as problem:
        hidden = unknown_keys(_kind_of(tree), tree, {str(path[0]) for path in REFERENCES})
        raise type(problem)("\n".join([*map(str, problem.args), *hidden])) from None
    return _checked(tree, origin, changes)


def _kind_of(tree: Tree) -> "type[Scenario | ServingScenario | Sharing | Traced]":
    """Return the record of a scenario: by its key `load`, `jobs` or `trace`, or else of a step."""
    if "trace" in tree.data:
        from clustersim.scenario import traced

        return traced.Traced
    if "jobs" in tree.data:
        from clustersim.scenario import sharing

        return sharing.Sharing
    if "load" not in tree.data:
        return Scenario
    from clustersim.scenario import serving  # 10 ms that steps need not wait for

    return serving.ServingScenario


_LOADED: Final[Mapping[str, Callable[..., LoadedScenario]]] = {
    "Scenario": Loaded,
    "ServingScenario": LoadedService,
    "Sharing": LoadedSharing,
    "Traced": LoadedTrace,
}
"""What a record of each kind is loaded as."""


def _checked(
    tree: Tree,
    origin: Origin,
    changes: tuple[Change, ...],
    known: Mapping[str, BaseModel] = NONE_KNOWN,
) -> LoadedScenario:
    """Return a tree as a checked scenario; `known` are the records of unchanged keys."""
    kind = _kind_of(tree)
    _check_nodes(tree, origin.document)
    _check_extends(tree)
    own = origin.folder is not None  # measured cases name settings of their own
    scenario: Any = checked(kind, tree, known=known, reasons=own)
    return _LOADED[kind.__name__](scenario, tree, origin, changes)


def plain_value(record: BaseModel, path: Key) -> Any:
    """Return the plain value at a path, or the nearest value around it; none for texts on it."""
    value: Any = record
    for key in path:
        if key in ("title", "note", "sources", "source", "assumed"):
            return None
        inside = value.value if isinstance(value, SourcedValue) else value
        if isinstance(inside, BaseModel):
            name = _names(type(inside)).get(key)
            value = value if name is None else getattr(inside, name)
        else:
            value = inner_values(inside).get(key, value)
    return bare(to_jsonable_python(value, by_alias=True))


def inner_values(value: Any) -> Mapping[str | int, Any]:
    """Return the values of a record, a mapping or a list by key or index; none of others."""
    if isinstance(value, BaseModel):
        return {key: getattr(value, name) for key, name in _names(type(value)).items()}
    if isinstance(value, list | tuple):
        return dict(enumerate(value))
    return value if isinstance(value, dict) else {}


@cache
def _names(record: type[BaseModel]) -> dict[str | int, str]:
    """Return the fields of a kind of records by their keys."""
    return {info.alias or name: name for name, info in record.model_fields.items()}


def _check_nodes(tree: Tree, document: Document) -> None:
    cluster = tree.data.get("cluster")
    if isinstance(cluster, dict) and cluster.get("nodes") is None:
        place = document.places.get(("cluster",), Place(document.file))
        name = f"'{cluster['name']}'" if cluster.get("name") else "the machine"
        raise ScenarioError(
            f"{place}: cluster.nodes: missing (number of nodes of {name} that the job runs on:"
            f" cluster: {{name: {cluster.get('name') or '...'}, nodes: 1}})"
        )


def _check_extends(tree: Tree) -> None:
    """Reject `extends` in a scenario, where it has no effect: only a file extends another."""
    framework, path = tree.data.get("framework"), ("framework", "extends")
    if not isinstance(framework, dict) or framework.get("extends") is None:
        return
    root, place = tree.roots.get(path[:1]), tree.place_of(path)
    if root is None or place is None or place.file != root.file:
        raise ScenarioError(
            f"{place or tree.place(())}: framework.extends: only a framework file extends another"
            " one (name the framework here, and add the keys that differ)"
        )
