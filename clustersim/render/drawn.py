"""The figures of an answer as methods that draw them: ``answer.plot.pareto(backend="plotly")``."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from clustersim.errors import ScenarioError
from clustersim.records import dataclass
from clustersim.render.charts.picture import Drawn, Stacked, stacked
from clustersim.suggestions import nearest


@dataclass(frozen=True, repr=False)
class Charts:
    """The figures of an answer.

    Each is a method that returns a figure, of matplotlib or with ``backend="plotly"`` of Plotly;
    ``dir`` lists them.
    """

    _figures: Mapping[str, Drawn]

    def __repr__(self) -> str:
        return f"<charts: {', '.join(self) or 'none'}>"

    def __dir__(self) -> list[str]:
        return [*self]

    def __iter__(self) -> Iterator[str]:
        return (stem.replace("-", "_") for stem in self._figures)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return the function that draws a figure.

        Raises
        ------
        AttributeError
            when the answer has no such figure, in one line with those that it has.
        """
        named = dict(zip(self, self._figures.values(), strict=True))
        if name not in named:
            hint = nearest(name, named) or f" (it has {', '.join(named) or 'none'})"
            raise AttributeError(f"this answer has no chart '{name}'{hint}")
        return partial(_drawn, named[name])


def _drawn(pictures: Drawn, *, backend: str = "matplotlib") -> Any:
    """Return a figure of matplotlib or of Plotly, which a notebook shows.

    Parameters
    ----------
    backend : ``"matplotlib"`` or ``"plotly"``

    Raises
    ------
    ScenarioError
        when there is no such library.
    """
    if backend not in _BACKENDS:
        raise ScenarioError(f"backend: '{backend}': unknown (allowed: {', '.join(_BACKENDS)})")
    return _BACKENDS[backend](stacked(pictures))


def _of_matplotlib(pictures: Stacked) -> Any:
    from clustersim.render.matplotlib import shown_figure

    return shown_figure(pictures)


def _of_plotly(pictures: Stacked) -> Any:
    from clustersim.render.plotly.figure import shown_figure

    return shown_figure(pictures)


_BACKENDS: Final = {"matplotlib": _of_matplotlib, "plotly": _of_plotly}
