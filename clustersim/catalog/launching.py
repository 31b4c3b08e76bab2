"""Launch arguments: the options of a program that state the keys of a scenario.

A framework file has those of training programs, an engine file that of its server.
"""

from typing import Final, Literal, get_args

from clustersim.catalog.facts import Strict

Program = Literal[
    "megatron",
    "megatron-bridge",
    "torchtitan",
    "deepspeed",
    "accelerate",
    "vllm",
    "sglang",
    "trtllm",
]

PROGRAMS: Final[tuple[str, ...]] = get_args(Program)
"""Programs that ``search --as`` and ``export --as`` select."""

Form = Literal["script", "command", "toml", "yaml", "json"]

Texts = dict[str, str | dict[str, str]]


class LaunchArguments(Strict):
    """How a program is launched: its arguments for the keys of a scenario.

    `form` is the syntax of its launch file: a shell script that starts `command` on each device,
    the `command` of a server, or a file of settings; `exports` are variables that the program needs
    in its environment.  `arguments` are texts of the keys of a
    layout, with the value for ``{value}``, or tables of texts by value, in which ``other`` is for
    all other values.  `job` are those of keys that a layout does not change: the model, the
    sequence.  `facts` are the facts of this file that an argument controls, with its texts by
    value; the text of a default is empty.  `only` are the values of other keys with which a key or
    a fact has an effect, and `needs` those without which the program rejects its argument.
    `derived` are keys that follow from others, `inexpressible` those that have no argument, and
    `elsewhere` those that other files state, each with the reason.  `fixed` are arguments that the
    program needs and a scenario does not have: random data, some steps.  `config` are settings of a
    JSON file that a script writes before it starts the program.
    """

    source: str
    form: Form
    command: str | None = None
    exports: dict[str, str] | None = None
    arguments: Texts
    job: Texts | None = None
    facts: Texts | None = None
    only: dict[str, dict[str, str]] | None = None
    needs: dict[str, dict[str, list[str]]] | None = None
    derived: dict[str, str] | None = None
    inexpressible: dict[str, str] | None = None
    elsewhere: dict[str, str] | None = None
    fixed: str | None = None
    config: str | None = None
