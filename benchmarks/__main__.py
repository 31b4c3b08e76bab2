"""`python -m benchmarks`: measure, print the tables, and write them as JSON and Markdown."""

import argparse
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.parts import PARTS
from benchmarks.simulators import SIMULATORS, against
from benchmarks.table import Table
from benchmarks.timing import CommandError

HEAD = """\
# Performance

This page is written by `make bench`; do not edit it.
Times are the shortest of several repetitions.
A limit is what a measurement may take at most on two cores.
"""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"{', '.join(PARTS)}; all without any")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the tables as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write them as a page")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="repetitions [3]")
    parser.add_argument(
        "--against",
        nargs=2,
        metavar=("NAME", "PATH"),
        help=f"time another simulator in a checkout: {', '.join(SIMULATORS)}",
    )
    given = parser.parse_args()
    for part in given.parts:
        if part not in PARTS:
            parser.error(f"unknown part '{part}' (known: {', '.join(PARTS)})")
    if given.against and given.against[0] not in SIMULATORS:
        parser.error(f"--against {given.against[0]}: unknown (known: {', '.join(SIMULATORS)})")
    if given.repeats < 1:
        parser.error(f"--repeats {given.repeats}: must be at least 1")
    return given


def machine() -> dict[str, Any]:
    """Return what the numbers depend on: processor, cores, Python and packages."""
    from importlib.metadata import version

    return {
        "processor": _processor(),
        "cores": os.cpu_count() or 1,
        "python": platform.python_version(),
        **{package: version(package) for package in ("clustersim", "numpy", "pydantic", "simpy")},
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line]
    return names[0] if names else platform.machine()


def measure(given: argparse.Namespace) -> list[Table]:
    """Measure what was requested, and print each table when it is complete."""
    tables: list[Table] = []
    with tempfile.TemporaryDirectory() as folder:
        parts = given.parts or ([] if given.against else PARTS)
        for part in parts:
            for table in PARTS[part](given.repeats, folder):
                print(f"{table.to_markdown()}\n", flush=True)
                tables.append(table)
    if given.against:
        name, path = given.against
        tables.append(against(name, Path(path), given.repeats))
        print(tables[-1].to_markdown())
    return tables


def main() -> None:
    """Measure, print and write; a command that cannot be measured is one line, exit code 2."""
    given = _arguments()
    try:
        tables = measure(given)
    except CommandError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    where = machine()
    if given.json:
        answer = {"machine": where, "tables": [table.to_json() for table in tables]}
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
    if given.markdown:
        about = ", ".join(f"{key} {value}" for key, value in where.items())
        pages = [f"{HEAD}\nMeasured with {about}.", *(table.to_markdown() for table in tables)]
        given.markdown.write_text("\n\n".join(pages) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
