"""The images of README and guides, each made by a command of the document that shows it.

.venv/bin/python docs/make_images.py             make all again, two minutes
.venv/bin/python docs/make_images.py frontier    those whose name begins so
"""

import sys
import tempfile
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Thread
from typing import Any

from PIL import Image
from typer.testing import CliRunner

from clustersim.cli import app

FOLDER = Path(__file__).parent / "images"

LAYOUTS_22B = (
    "sweep korthikanti-22b-seqsel --set batch.global=32 --over batch.micro=1:16"
    " --over recompute=none,selective,full"
)
LAYOUTS_175B = (
    "sweep korthikanti-175b-seqsel --set cluster.nodes=64 --set batch.global=1536"
    " --set plan.schedule=1f1b --set plan.chunks=1 --set title=175B#parameters#on#512#A100"
    " --over plan.tensor=1:8 --over plan.pipeline=1:16 --over plan.data=fill"
    " --over batch.micro=1:4 --over recompute=none,selective,full"
    " --over plan.sequence_parallel=false,true"
)
ALL_REDUCE = "collective --cluster dgx-h100 --devices 64 --op all-reduce --bytes 32KiB:16GiB"

IMAGES = {
    "frontier-1t-strong-loss": ("scale frontier-1t", "strong-loss.png"),
    "frontier-1t-timeline": ("run frontier-1t", "timeline.png"),
    "frontier-node": ("show frontier", "node.png"),
    "gpt-175b-pareto": (LAYOUTS_175B, "pareto.png"),
    "gpt-175b-sweep": (LAYOUTS_175B, "sweep.png"),
    "h100-all-reduce": (ALL_REDUCE, "collective.png"),
    "korthikanti-22b-sweep": (LAYOUTS_22B, "sweep.png"),
    "schedule-zb-h1": ("show zb-h1 --stages 4 --microbatches 8", "schedule.png"),
    "schedules": ("show 1f1b interleaved-1f1b zb-h1 dualpipe", "schedules.png"),
    "size-h100": ("size --cluster dgx-h100 --nodes 64 --days 30", "loss.png"),
    "superpod-h100-fabric": ("show superpod-h100", "fabric.png"),
}
"""The command of each image, a ``#`` for a space in a word, and the file that it writes."""

SCREENS = {
    "explore-wide": ("kind=step&plan.tensor=4", 1400, 900, "light"),
    "explore-dark": ("kind=service&view=answer", 390, 844, "dark"),
}
"""The question of each image of the page to explore in, the size of the screen and its colours."""


def save(image: Path, place: Path) -> None:
    """Save an image with at most 128 colours, a fraction of its size."""
    pixels = Image.open(image).convert("RGB")
    pixels.quantize(128, Image.Quantize.MAXCOVERAGE).save(place, optimize=True)


def make(names: list[str]) -> None:
    """Run each command once and copy its images."""
    commands = dict.fromkeys(IMAGES[name][0] for name in names)
    for command in commands:
        with tempfile.TemporaryDirectory() as folder:
            words = [word.replace("#", " ") for word in command.split()]
            place = Path(folder) / "out"
            options = ["--figures", "png", "--out", str(place)]
            CliRunner().invoke(app, [*words, *options], catch_exceptions=False)
            for name in names:
                if IMAGES[name][0] == command:
                    save(place / IMAGES[name][1], FOLDER / f"{name}.png")


def photograph(names: list[str]) -> None:
    """Open the page to explore in with each question, and save what a browser shows."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from werkzeug.serving import make_server

    from browsers import ANSWERED, DRAWN, screen, started, wait
    from clustersim.explore import Site
    from clustersim.explore.pool import Pool
    from clustersim.explore.question import Home

    pool = Pool(1)
    server = make_server("127.0.0.1", 0, Site(Home(), pool).application(), threaded=True)
    Thread(target=server.serve_forever).start()
    for browser in started():
        for name in names:
            question, width, height, colours = SCREENS[name]
            with (
                screen(browser, width, height, dark=colours == "dark"),
                NamedTemporaryFile() as file,
            ):
                browser.get(f"http://127.0.0.1:{server.port}/?{question}")
                wait(browser, ANSWERED)
                wait(browser, DRAWN)
                file.write(browser.get_screenshot_as_png())
                save(Path(file.name), FOLDER / f"{name}.png")
    server.shutdown()
    pool.close()


def chosen(images: dict[str, Any]) -> list[str]:
    """Return the names that begin as a word of the command line, all without words."""
    return [name for name in images if name.startswith(tuple(sys.argv[1:]) or ("",))]


if __name__ == "__main__":
    make(chosen(IMAGES))
    if chosen(SCREENS):
        photograph(chosen(SCREENS))
