"""What all studies of the command line share: their options, and the way to their answer.

@study_options
def compare(scenarios, by, study):       --set --store --jobs --executor --out --figures --json
    study.run("compare", ..., show)      folder checked -> progress -> answer -> files, lines
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final, get_type_hints

import clustersim
from clustersim.cli import options
from clustersim.cli.options import command_line, destination, progress_bar
from clustersim.records import dataclass

if TYPE_CHECKING:
    from clustersim.render.tables import Row

Show = Callable[[Any, "list[Row]"], None]
"""Prints an answer as lines, and the row with the names of its files."""


@dataclass(frozen=True)
class StudyOptions:
    """Options of every study: changes, where runs are computed and kept, and where files go."""

    settings: options.Settings = None
    cluster: options.LaunchCluster = None
    nodes: options.LaunchNodes = None
    model: options.LaunchModel = None
    store: options.StoreFile = options.STORE
    jobs: options.Jobs = None
    executor: options.Executor = None
    out: options.Out = None
    figures: options.Figures = None
    as_json: options.AsJson = False
    force: options.Force = False

    @property
    def machine(self) -> tuple[str, ...]:
        """Changes that name a machine and a model."""
        return options.machine_settings(self.cluster, self.nodes, self.model)

    @property
    def changes(self) -> tuple[str, ...]:
        """All changes: of the machine and the model, then others."""
        return (*self.machine, *(self.settings or ()))

    def without_machine(self) -> "StudyOptions":
        """Return the same without changes of the machine and the model."""
        return replace(self, cluster=None, nodes=None, model=None)

    def destination(self, verb: str, names: Sequence[str]) -> options.Destination:
        """Return where the answer goes, its folder checked before anything is run."""
        from clustersim.scenario.origins import name_of

        name = "-".join(dict.fromkeys(map(name_of, names)))
        return destination(
            f"{name}-{verb}", self.out, self.figures, as_json=self.as_json, force=self.force
        )

    def execution(self) -> dict[str, Any]:
        """Return where runs are computed and kept, and changes, as arguments of a study."""
        return {
            "settings": self.changes,
            "store": self.store,
            "jobs": self.jobs,
            "executor": self.executor,
        }

    def run(
        self,
        verb: str,
        scenarios: str | Sequence[str],
        names: Sequence[str],
        show: Show,
        stated: dict[str, Any],
        **arguments: Any,
    ) -> None:
        """Run a study, write its files and print its answer.

        Parameters
        ----------
        scenarios : first argument of the function `clustersim.VERB`
        names : files or names of the scenarios, which name the output folder
        stated : options of the verb, for the command line that the page states
        arguments : further arguments of the function
        """
        place = self.destination(verb, names)
        texts = [scenarios] if isinstance(scenarios, str) else scenarios
        command = command_line(verb, texts, set=self.changes, **stated)
        with progress_bar(verb, self.store) as on_progress:
            function = getattr(clustersim, verb)
            answer = function(scenarios, on_progress=on_progress, **self.execution(), **arguments)
        place.report(answer, command, show)


def study_options(function: Callable[..., None]) -> Callable[..., None]:
    """Give a verb the options of every study, which it gets as its parameter `study`."""
    own = dict(inspect.signature(function).parameters)
    del own["study"]
    hints = get_type_hints(StudyOptions, include_extras=True)
    shared = {
        field.name: inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=hints[field.name],
        )
        for field in fields(StudyOptions)
    }

    def verb(**values: Any) -> None:
        study = StudyOptions(**{name: values.pop(name) for name in shared})
        function(**values, study=study)

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own.values()]
    signature = inspect.Signature([*parameters, *shared.values()], return_annotation=None)
    verb.__signature__ = signature  # type: ignore[attr-defined]  # what typer reads
    verb.__annotations__ = {name: p.annotation for name, p in signature.parameters.items()}
    verb.__doc__, verb.__name__, verb.__module__ = (
        function.__doc__, function.__name__, function.__module__,
    )  # fmt: skip
    return verb


MEASURE_HELP: Final = (
    "of a step tokens_per_s, mfu, step_time_s, ...; of a run days, goodput, energy, cost; of a"
    " service tokens_per_s_per_device, ttft, tpot, ..."
)
"""Help on measures, in the words of all verbs that take one."""

LIMIT_HELP: Final = (
    "Worst value of a measure that is allowed: mfu=40%, memory<=70GiB, ttft=2s; power_w=1MW is the"
    " mean power of the machine, site_power_w=1MW that with the PUE of costs.site."
)
"""Help on limits, in the words of all verbs that take them."""


def folder_of(scenarios: Sequence[str]) -> list[str]:
    """Return the scenarios of texts such as ``'A plan.zero=1'``, without their changes."""
    from clustersim.runs.arguments import variant_of

    return [variant_of(text).scenario for text in scenarios]
