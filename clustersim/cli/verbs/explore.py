"""`clustersim explore`: a local web page with a question and its answer."""

from importlib.util import find_spec
from typing import Annotated, Final

import typer

from clustersim.cli import options
from clustersim.cli.options import option
from clustersim.cli.output import echo
from clustersim.errors import ScenarioError

PORT: Final = 8050
"""Usual port of the page."""

NEEDED: Final = ("flask", "waitress")
"""Libraries of the extra `explore`."""


def explore(
    scenario: Annotated[
        str, typer.Argument(help="Scenario file or shipped name that questions start from.")
    ] = "",
    settings: options.Settings = None,
    port: Annotated[
        int, option("N", f"Port on the loopback address [{PORT}].", min=1, max=65_535)
    ] = PORT,
    jobs: options.Jobs = None,
    hosts: Annotated[
        list[str] | None,
        option("NAME", "Name by which a proxy reaches the page. Repeatable.", "--host-name"),
    ] = None,
) -> None:
    """Explore on a local web page: change a question, see the answer, send the link."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise ScenarioError(
            f"explore: {' and '.join(missing)} not installed (pip install 'clustersim[explore]')"
        )
    from clustersim.explore import Site, serve_site
    from clustersim.explore.pool import Pool
    from clustersim.explore.question import Home
    from clustersim.runs.executors import cores

    home = Home(scenario, tuple(settings or ()))
    home.first()  # an invalid scenario is rejected before the page is served
    echo(f"page      http://127.0.0.1:{port}/ (Ctrl-C ends it)")
    serve_site(Site(home, Pool(jobs or cores()), tuple(hosts or ())), port)
