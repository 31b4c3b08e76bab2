"""Pages of the reference: commands, the sections of a scenario, and the public names of Python."""

import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from typer import Context
from typer.main import get_command

import clustersim
from clustersim.catalog.finding import entry_names, shipped
from clustersim.cli import VERBS, app
from clustersim.cli.examples import EXAMPLES
from tools.page import markdown_table
from tools.site.catalogue import Content, code, plain

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
sys.path.insert(0, str(DOCS))  # its scripts are no package

import make_examples as made  # noqa: E402
import make_reference as reference  # noqa: E402
from schema_keys import Key  # noqa: E402

MOST_EXAMPLES: Final = 8
"""Examples of a page, at most."""


def reference_pages() -> Content:
    """Yield all pages."""
    yield from command_pages()
    yield from section_pages()
    yield from python_pages()


@cache
def _texts() -> dict[str, str]:
    """Return the text of each page in `docs/`, guides first."""
    files = sorted(DOCS.rglob("*.md"), key=lambda file: (file.parent.name != "guides", file))
    return {file.relative_to(DOCS).as_posix(): file.read_text(encoding="utf-8") for file in files}


def _title(page: str) -> str:
    return _texts()[page].partition("\n")[0].removeprefix("# ")


# --- commands -------------------------------------------------------------------------------------


def command_pages() -> Content:
    """Yield a page for each verb, of its help, and of the commands with it that pages show."""
    yield "commands/README.md", "\n".join(_commands())
    verbs: Any = get_command(app)
    root = Context(verbs, info_name="clustersim")
    for verb in VERBS:
        command = verbs.get_command(root, verb)
        context = Context(command, info_name=verb, parent=root)
        yield f"commands/{verb}.md", "\n".join(_command(command, context))


def _commands() -> Iterator[str]:
    yield "# Commands\n"
    yield "The verbs of `clustersim`; `clustersim VERB --help` prints the options of one.\n"
    rows = [(f"[`{verb}`]({verb}.md)", plain(meaning)) for verb, meaning in VERBS.items()]
    yield markdown_table(["verb", "meaning"], rows)


def _command(command: Any, context: Context) -> Iterator[str]:
    verb = str(context.info_name)
    yield f"# clustersim {verb}\n"
    yield f"{plain(command.help or '')}\n"
    usage = " ".join(command.collect_usage_pieces(context))
    usage = re.sub(r"{(.+?)}", lambda name: name[1].upper(), usage)
    yield f"```text\nclustersim {verb} {usage}\n```\n"
    records = [param.get_help_record(context) for param in command.get_params(context)]
    rows = [(code(record[0]), plain(record[1])) for record in records if record]
    yield "## Arguments and options\n"
    yield markdown_table(["argument or option", "meaning"], rows)
    if f"answers/{verb}.md" in _texts():
        yield f"[What it prints and writes](../answers/{verb}.md): keys of `--json`, and files.\n"
    yield from _examples(verb)


def _examples(verb: str) -> Iterator[str]:
    """Yield the examples of the help of a verb, and commands with it that pages show."""
    shown = {
        example.command.text: page
        for page, text in reversed(_texts().items())
        for block in made.blocks(text)
        if block.language == "console"
        for example in made.examples(block)
        if example.command.text.startswith(f"clustersim {verb} ")
    }
    yield "## Examples\n"
    yield "```console\n{}\n```\n".format("\n".join(f"$ {line}" for line in EXAMPLES[verb]))
    for command, page in [*reversed(shown.items())][:MOST_EXAMPLES]:
        yield f"From [{_title(page)}](../{page}):\n\n```console\n$ {command}\n```\n"


# --- sections of a scenario -----------------------------------------------------------------------


def section_pages() -> Content:
    """Yield a page for each section of a scenario: its keys, and examples."""
    steps, services = _by_part(reference.scenario_keys()), _by_part(reference.service_keys())
    parts = sorted({**steps, **services})
    yield "scenario/keys/README.md", "\n".join(_sections(parts, steps, services))
    for part in parts:
        keys = {"a training step or run": steps.get(part, []), "a service": services.get(part, [])}
        yield f"scenario/keys/{part}.md", "\n".join(_section(part, keys))


def _by_part(keys: Iterable[Key]) -> dict[str, list[Key]]:
    parts = dict[str, list[Key]]()
    for key in keys:
        parts.setdefault(re.split(r"[.\[]", key.name)[0], []).append(key)
    return parts


def _sections(parts: list[str], *kinds: dict[str, list[Key]]) -> Iterator[str]:
    yield "# Sections of a scenario\n"
    yield "The keys of the highest level, each with its keys and with examples.\n"
    rows = [
        (f"[`{part}`]({part}.md)", *("yes" if part in kind else "" for kind in kinds))
        for part in parts
    ]
    yield markdown_table(["section", "training step or run", "service"], rows)


def _section(part: str, keys: dict[str, list[Key]]) -> Iterator[str]:
    yield f"# {part}\n"
    kinds = {kind: rows for kind, rows in keys.items() if rows}
    yield f"A section of {' and of '.join(kinds)}: see [Scenarios](../README.md).\n"
    tables = {tuple(rows): kind for kind, rows in kinds.items()}
    for rows, kind in tables.items():
        yield "## Keys\n" if len(tables) == 1 else f"## Keys in {kind}\n"
        deeper = re.compile(r"\]\((?!http)")
        cells = [(code(row.name), *(deeper.sub("](../", cell) for cell in row[1:])) for row in rows]
        yield markdown_table(["key", "holds", "if not given", "meaning"], cells)
    yield "## Examples\n"
    for name, text in _snippets(part):
        yield f"{name}:\n\n```yaml\n{text}\n```\n"


def _snippets(part: str) -> Iterator[tuple[str, str]]:
    """Yield examples of a section until further ones have no other keys, the longest first."""
    seen = set[str]()
    for name, text in sorted(_all_snippets().get(part, []), key=lambda one: -len(one[1])):
        words = {*re.findall(r"[\w.]+(?=:)", text)}
        if words - seen:
            seen |= words
            yield name, text


@cache
def _all_snippets() -> dict[str, list[tuple[str, str]]]:
    """Return the sections of shipped scenarios, and of the files of guides."""
    files = [("For example", text) for text in reference.TEXTS["examples"].values()]
    files += [
        (f"From the shipped scenario `{name}`", (shipped("scenario") / f"{name}.yaml").read_text())
        for name in entry_names("scenario")
    ]
    for page, text in _texts().items():
        blocks = [block for block in made.blocks(text) if block.language == "yaml"]
        files += [
            (f"From [{_title(page)}](../../{page})", "\n".join(line.text for line in block.lines))
            for block in blocks
        ]
    found = dict[str, list[tuple[str, str]]]()
    for name, text in files:
        if not re.search(r"^kind:", text, re.MULTILINE):
            for section in re.findall(r"^[a-z_]+:.*(?:\n[ #].*|\n- .*)*", text, re.MULTILINE):
                found.setdefault(section.partition(":")[0], []).append((name, section.rstrip()))
    return found


# --- Python ---------------------------------------------------------------------------------------


def python_pages() -> Content:
    """Yield a page for each public function and class, and one for the errors."""
    things = {name: getattr(clustersim, name) for name in clustersim.__all__}
    errors = {name: thing for name, thing in things.items() if _is_error(thing)}
    pages = {
        name: thing
        for name, thing in things.items()
        if (callable(thing) or inspect.ismodule(thing)) and name not in errors
    }
    yield "api/README.md", "\n".join(_public(pages))
    yield "api/errors.md", "\n".join(["# Errors\n", *map(_documented, errors.values())])
    for name, thing in pages.items():
        shown = _members(thing) or [thing, *filter(None, [_answer(thing)])]
        heading = f"# clustersim.{name}\n"
        yield f"api/{name}.md", "\n".join([heading, *map(_documented, shown)])


def _members(thing: Any) -> list[Any]:
    """Return the public functions of a module; none of what is no module."""
    return [getattr(thing, name) for name in thing.__all__] if inspect.ismodule(thing) else []


def _is_error(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, Exception)


def _public(pages: dict[str, Any]) -> Iterator[str]:
    yield "# Public names\n"
    yield "The attributes of `clustersim`; [Python API](../api.md) introduces them with examples.\n"
    rows = [
        (f"[`{name}`]({name}.md)", plain(str(inspect.getdoc(thing)).partition("\n")[0]))
        for name, thing in pages.items()
    ]
    yield markdown_table(["name", "meaning"], [*rows, ("[errors](errors.md)", "What is raised.")])


def _documented(thing: Any) -> str:
    return f"::: {thing.__module__}.{thing.__qualname__}\n"


def _answer(thing: Any) -> type | None:
    """Return the class of what a function returns; None where it has a page of its own."""
    name = inspect.get_annotations(thing).get("return") if inspect.isfunction(thing) else None
    module: ModuleType = sys.modules[thing.__module__]
    found = getattr(module, name, None) if isinstance(name, str) else name
    if not isinstance(found, type) or not found.__module__.startswith("clustersim."):
        return None
    return None if found.__name__ in clustersim.__all__ else found
