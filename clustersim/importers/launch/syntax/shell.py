"""Shell and Slurm scripts as commands of words: literal variables are expanded, no part is run.

What only running the script would show (`$(...)`, arguments of the script, variables of the
environment, values under a condition) stays in its word, with the reason; it is an error only where
an option with a meaning needs it.
"""

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from clustersim.importers.source import Source
from clustersim.records import dataclass

MOST_LINES: Final = 20_000
"""Lines of a script, at most."""

MOST_WORDS: Final = 100_000
"""Words of all commands with their variables expanded, at most."""

MOST_LETTERS: Final = 200_000
"""Letters of an expanded word, at most."""

MOST_NESTED: Final = 8
"""Levels of scripts in words (`bash -c`), of defaults and of brackets."""


@dataclass(frozen=True)
class Word:
    """An expanded word of a command.

    Attributes
    ----------
    text : the word without its quotes
    line : where it is written
    unknown : why its value is not in the script; empty if it is
    """

    text: str
    line: int
    unknown: str = ""


Command = tuple[Word, ...]

_END: Final = "\n"
_ASSIGNED: Final = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_BRACED: Final = re.compile(r"([A-Za-z_]\w*)(\[[@*]\])?(?:(:?[-=])(.*))?\Z", re.DOTALL)
_OPENS: Final = frozenset({"if", "for", "while", "until", "case", "select"})
_CLOSES: Final = frozenset({"fi", "done", "esac"})
_PREFIXES: Final = frozenset({"then", "else", "elif", "do", "{", "}", "!", "time", "exec", "nohup"})
_DECLARES: Final = frozenset({"export", "declare", "readonly", "local", "typeset", "env"})
_SILENT: Final = frozenset({"echo", "printf", "cat", "[", "[[", "test", "mkdir", "cd", "source"})
_SHELLS: Final = frozenset({"sh", "bash", "zsh"})


def read_commands(source: Source) -> list[Command]:
    """Return the commands of a script in order, each as its words.

    Raises
    ------
    CatalogError
        with the line, when a quote or bracket is not closed, or the script is too long.
    """
    return _read(source).commands


def read_variables(source: Source) -> Mapping[str, Sequence[Word]]:
    """Return the variables of a script after its last line; errors as in `read_commands`."""
    return _read(source).variables


def _read(source: Source) -> "_Script":
    if source.text.count("\n") > MOST_LINES:
        raise source.wrong(None, f"has more than {MOST_LINES:,} lines, too many for a launch file")
    script = _Script(source, _batch_variables(source))
    script.run(source.text, 1, 0)
    return script


def batch_options(source: Source) -> list[Word]:
    """Return the words of the lines ``#SBATCH`` of a Slurm file."""
    words = []
    for number, line in source.lines:
        if line.startswith("#SBATCH"):
            plain = line.removeprefix("#SBATCH").partition(" #")[0]
            words += [Word(word.strip("\"'"), number) for word in plain.split()]
    return words


_OF_SLURM: Final[Mapping[str, tuple[str, ...]]] = {
    "nodes": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
    "N": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
    "gpus-per-node": ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"),
    "ntasks-per-node": ("SLURM_NTASKS_PER_NODE",),
}
"""Variables that Slurm sets from options of the batch file."""


def _batch_variables(source: Source) -> dict[str, list[Word]]:
    variables = {}
    words = batch_options(source)
    for word, after in zip(words, [*words[1:], Word("", 0)], strict=False):
        name, _, value = word.text.lstrip("-").partition("=")
        for variable in _OF_SLURM.get(name, ()):
            variables[variable] = [Word((value or after.text).rpartition(":")[2], word.line)]
    return variables


@dataclass
class _Script:
    """The state of reading a script: variables and commands."""

    source: Source
    variables: dict[str, list[Word]]
    commands: list[Command] = field(default_factory=list)
    words: int = 0

    def run(self, text: str, line: int, level: int) -> None:
        """Read a text: assignments are carried out, commands are collected."""
        if level > MOST_NESTED:
            raise self.source.wrong(line, f"scripts in words, more than {MOST_NESTED} levels deep")
        depth = 0
        statement: list[_Raw] = []
        for raw in _Lexer(self.source, text, line).tokens():
            if raw.text != _END or raw.array is not None:
                statement.append(raw)
                continue
            depth += self._statement(statement, depth, level)
            statement = []
        self._statement(statement, depth, level)

    def _statement(self, raws: list["_Raw"], depth: int, level: int) -> int:
        """Carry out a statement; return the change of depth in conditions and loops."""
        change = 0
        while raws and raws[0].array is None:
            word = raws[0].text
            if word in _OPENS:
                change += 1
            elif word in _CLOSES:
                change -= 1
            elif word not in _PREFIXES:
                break
            raws = raws[1:]
            if change > 0 and word in ("for", "case", "select"):
                if word == "for" and raws:
                    name, why = raws[0].text, "is the variable of a loop"
                    self.variables[name] = [Word(f"${name}", raws[0].line, f"${name} {why}")]
                return change
        conditional = depth + change > 0
        while raws and (given := _ASSIGNED.match(raws[0].text)):
            self._assign(given, raws[0], conditional)
            raws = raws[1:]
        if raws and raws[0].text in _DECLARES:
            for raw in raws[1:]:
                if given := _ASSIGNED.match(raw.text):
                    self._assign(given, raw, conditional)
            if raws[0].text != "env":
                return change
        if raws:
            self._command(raws, level)
        return change

    def _assign(self, given: re.Match[str], raw: "_Raw", conditional: bool) -> None:
        name, more, value = given.groups()
        if raw.array is not None:
            new = [word for item in raw.array for word in self._expand(item)]
        else:
            expanded = self._expand(_Raw(value, raw.line), split=False)
            new = expanded or [Word("", raw.line)]
        old = self.variables.get(name)
        if more and old is not None:
            array = raw.array is not None
            new = [*old, *new] if array else [_joined([*old, *new], "")]
        elif conditional and old is not None and _texts(old) != _texts(new):
            why = f"{name} depends on a condition (line {raw.line})"
            new = [Word(f"${name}", raw.line, why)]
        self.variables[name] = new

    def _command(self, raws: Sequence["_Raw"], level: int) -> None:
        words = [word for raw in raws for word in self._expand(raw)]
        if not words or words[0].text in _SILENT:
            return
        inner = _inner_script(words)
        if inner is not None:
            self.run(inner.text, inner.line, level + 1)
        else:
            self.commands.append(tuple(words))

    def _expand(self, raw: "_Raw", *, split: bool = True) -> list[Word]:
        """Return the words of a raw word, with its variables expanded."""
        if raw.array is not None:
            return [word for item in raw.array for word in self._expand(item)]
        words = _fields(_Expansion(self.source, self.variables, raw.line).parts(raw.text), raw.line)
        self.words += len(words)
        if self.words > MOST_WORDS or sum(len(word.text) for word in words) > MOST_LETTERS:
            raise self.source.wrong(
                raw.line,
                f"expands to more than {MOST_WORDS:,} words or {MOST_LETTERS:,} letters",
            )
        return words if split or len(words) < 2 else [_joined(words, " ")]


def _inner_script(words: Sequence[Word]) -> Word | None:
    """Return the script that a command runs from a word: of `bash -c`, of `eval`."""
    if words[0].text == "eval":
        return _joined(words[1:], " ")
    for shell, option, script in zip(words, words[1:], words[2:], strict=False):
        if shell.text.rpartition("/")[2] in _SHELLS and re.fullmatch(r"-\w*c", option.text):
            return script
    return None


def _texts(words: Sequence[Word]) -> list[str]:
    return [word.text for word in words]


def _joined(words: Sequence[Word], between: str) -> Word:
    unknown = next((word.unknown for word in words if word.unknown), "")
    return Word(between.join(_texts(words)), words[0].line if words else 0, unknown)


# --- words as they are written -------------------------------------------------------------------


@dataclass(frozen=True)
class _Raw:
    """A word with its quotes, or an assigned array of such words."""

    text: str
    line: int
    array: tuple["_Raw", ...] | None = None


class _Lexer:
    """Splits a script into raw words; an end of a command is the word `_END`."""

    def __init__(self, source: Source, text: str, line: int) -> None:
        self.source, self.text, self.line = source, text, line
        self.at = 0

    def tokens(self) -> Iterator[_Raw]:
        text = self.text
        heredocs: list[str] = []
        while self.at < len(text):
            letter = text[self.at]
            if letter == "\n":
                yield _Raw(_END, self.line)
                self.at, self.line = self.at + 1, self.line + 1
                while heredocs:
                    self._skip_document(heredocs.pop(0))
            elif letter in " \t\r" or text.startswith("\\\n", self.at):
                self._skip_blank()
            elif letter == "#":
                self._skip_comment()
            elif letter in ";&|()":
                yield _Raw(_END, self.line)
                self.at += 1
            elif redirected := _REDIRECTED.match(text, self.at):
                self.at = redirected.end()
                if redirected[1] == "<<":
                    heredocs.append(redirected[2].strip("'\""))
            else:
                yield self._word()

    def _skip_blank(self) -> None:
        if self.text[self.at] == "\\":
            self.at, self.line = self.at + 2, self.line + 1
        else:
            self.at += 1

    def _skip_comment(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _skip_document(self, mark: str) -> None:
        while self.at < len(self.text):
            end = self.text.find("\n", self.at)
            end = len(self.text) if end < 0 else end
            line = self.text[self.at : end]
            self.at, self.line = end + 1, self.line + 1
            if line.strip() == mark:
                return

    def _word(self) -> _Raw:
        """Return the word here; quotes and brackets hold blanks and separators."""
        start, line, text = self.at, self.line, self.text
        while self.at < len(text) and text[self.at] not in " \t\r\n;&|<>)":
            letter = text[self.at]
            if letter == "(":
                given = _ASSIGNED.fullmatch(text[start : self.at])
                if given is None or given[3]:
                    break
                return _Raw(text[start : self.at], line, self._array(line))
            self.at = closing(self.source, text, self.at, self.line)
        word = text[start : self.at]
        self.line += word.count("\n")
        return _Raw(re.sub(r"\\\n", "", word), line)

    def _array(self, line: int) -> tuple[_Raw, ...]:
        self.at += 1
        items: list[_Raw] = []
        while self.at < len(self.text):
            letter = self.text[self.at]
            if letter == ")":
                self.at += 1
                return tuple(items)
            if letter == "\n":
                self.at, self.line = self.at + 1, self.line + 1
            elif letter in " \t\r" or self.text.startswith("\\\n", self.at):
                self._skip_blank()
            elif letter == "#":
                self._skip_comment()
            elif letter in ";&|<>(":
                raise self.source.wrong(self.line, f"'{letter}' in a list of words (quote it)")
            else:
                items.append(self._word())
        raise self.source.wrong(line, "'(' is not closed: the file is truncated")


_REDIRECTED: Final = re.compile(r"[0-9]*(<<<|<<|&>>|&>|>>|>&|<&|>|<)-?[ \t]*([^\s;&|()]*)")


def closing(source: Source, text: str, at: int, line: int) -> int:
    """Return the index after the letter at an index, or after what it opens.

    Raises
    ------
    CatalogError
        when a quote or a bracket is not closed.
    """
    letter = text[at]
    if letter == "\\":
        return min(at + 2, len(text))
    if letter == "'":
        end = text.find("'", at + 1)
    elif letter in '"`':
        end = _end_of(text, at + 1, letter)
    elif letter == "$" and text[at + 1 : at + 2] in ("(", "{"):
        closer = ")" if text[at + 1] == "(" else "}"
        end = _end_of(text, at + 2, closer)
    else:
        return at + 1
    if end < 0:
        raise source.wrong(line, f"{letter} is not closed: the file is truncated")
    return end + 1


def _end_of(text: str, at: int, closer: str) -> int:
    """Return the index of a closing letter, outside of what is opened before; -1 without one."""
    nested = [closer]
    while at < len(text):
        letter = text[at]
        if letter == nested[-1]:
            nested.pop()
            if not nested:
                return at
        elif letter == "\\":
            at += 1
        elif letter == "'" and nested[-1] != '"':
            at = text.find("'", at + 1)
            if at < 0:
                return -1
        elif letter == '"' or (letter == "`" and nested[-1] != "`"):
            nested.append(letter)
        elif letter in "({" and text[at - 1] in "$(" and nested[-1] not in "'`":
            nested.append(")" if letter == "(" else "}")
        at += 1
    return -1


# --- expansion of variables ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """A piece of a word; blanks of a bare one separate words, an array `apart` is one word each."""

    text: str
    bare: bool = False
    unknown: str = ""
    apart: bool = False


class _Expansion:
    """The expansion of a raw word."""

    def __init__(
        self, source: Source, variables: Mapping[str, list[Word]], line: int, level: int = 0
    ) -> None:
        self.source, self.variables, self.line, self.level = source, variables, line, level

    def parts(self, text: str, *, quoted: bool = False) -> Iterator[_Part]:
        """Return the pieces of a text, which stands within double quotes or not."""
        at = 0
        while at < len(text):
            end = closing(self.source, text, at, self.line) if text[at] != "\\" else at + 2
            piece = text[at:end]
            if piece[0] == "'" and not quoted:
                yield _Part(piece[1:-1])
            elif piece[0] == "'":
                end = at + 1
                yield _Part("'")
            elif piece[0] == '"' and not quoted:
                yield _Part("")
                yield from self.parts(piece[1:-1], quoted=True)
            elif piece[0] == "\\":
                yield _Part(piece[1:] if not quoted or piece[1:] in '"\\$`' else piece)
            elif piece[0] == "`":
                yield _Part(piece, unknown=f"{shortened(piece)} would have to be run")
            elif piece[0] == "$":
                expanded, end = self._dollar(text, at, end, quoted)
                yield from expanded
            else:
                yield _Part(piece)
            at = end

    def _dollar(self, text: str, at: int, end: int, quoted: bool) -> tuple[list[_Part], int]:
        """Return the pieces of what a dollar sign begins, and the index after it."""
        piece = text[at:end]
        if piece.startswith("$((") and piece.endswith("))"):
            return [self._sum(piece)], end
        if piece.startswith("$("):
            return [_Part(piece, unknown=f"{shortened(piece)} would have to be run")], end
        if piece.startswith("${"):
            return self._braced(piece, quoted), end
        name = _NAME.match(text, at + 1)
        if name is not None:
            return self._variable(name[0], quoted, f"${name[0]}"), name.end()
        if text[at + 1 : at + 2] and text[at + 1] in "0123456789@*#?$!-":
            shown = text[at : at + 2]
            return [_Part(shown, unknown=f"{shown} is an argument of the script")], at + 2
        return [_Part("$")], at + 1

    def _braced(self, piece: str, quoted: bool) -> list[_Part]:
        given = _BRACED.match(piece[2:-1])
        if given is None:
            return [_Part(piece, unknown=f"{shortened(piece)} would have to be run")]
        name, index, _, otherwise = given.groups()
        if name not in self.variables and otherwise is not None and self.level < MOST_NESTED:
            inner = _Expansion(self.source, self.variables, self.line, self.level + 1)
            return [
                _Part(part.text, not quoted, part.unknown)
                for part in inner.parts(otherwise, quoted=quoted)
            ]
        return self._variable(name, quoted, piece, apart=index == "[@]")

    def _variable(self, name: str, quoted: bool, shown: str, apart: bool = False) -> list[_Part]:
        words = self.variables.get(name)
        if words is None:
            return [_Part(shown, unknown=f"{shown} is not set in the file")]
        if apart and quoted:
            return [_Part(word.text, False, word.unknown, apart=True) for word in words]
        whole = _joined(words, " ")
        return [_Part(whole.text, not quoted, whole.unknown)]

    def _sum(self, piece: str) -> _Part:
        """Return the value of ``$((...))``, of whole numbers only."""
        inner = piece[3:-2]
        terms = _NAME.sub(lambda name: self._term(name[0]), inner.replace("$", ""))
        terms = re.sub(r"[{}]", " ", terms)
        try:
            value = whole_number(terms)
        except ValueError:
            return _Part(piece, unknown=f"{shortened(piece)} would have to be run")
        return _Part(str(value))

    def _term(self, name: str) -> str:
        words = self.variables.get(name, [])
        text = words[0].text if len(words) == 1 and not words[0].unknown else "?"
        return f"({text})"


_OPERATIONS: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


_SUM: Final = re.compile(r"[0-9\s()+*/%-]*")
"""Letters of a sum; others would be names, or numbers that Python warns about."""


def whole_number(text: str) -> int:
    """Return the value of a sum of whole numbers, ``8 * 4``; ValueError for any other text.

    >>> whole_number("(8 * 4) / 2")
    16
    """
    if len(text) > 500 or not _SUM.fullmatch(text):
        raise ValueError("is no sum of whole numbers")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ZeroDivisionError, RecursionError, MemoryError):
        raise ValueError("is no sum of whole numbers") from None


def _value(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < 1 << 62:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        value = _OPERATIONS[type(node.op)](_value(node.left), _value(node.right))
        if abs(value) < 1 << 62:
            return value
    raise ValueError("is no sum of whole numbers")


def _fields(parts: Iterator[_Part], line: int) -> list[Word]:
    """Join pieces to words: blanks of bare pieces and items of an array separate them."""
    words: list[Word] = []
    text, unknown, begun, before = "", "", False, False
    for part in parts:
        pieces = re.split(r"\s+", part.text) if part.bare else [part.text]
        for index, piece in enumerate(pieces):
            if begun and (index or (part.apart and before)):
                words.append(Word(text, line, unknown))
                text, unknown, begun = "", "", False
            if piece or not part.bare:
                text, begun = text + piece, True
                unknown = unknown or (part.unknown if not part.bare or len(pieces) == 1 else "")
        before = part.apart
        if part.bare and part.unknown and len(pieces) > 1:
            unknown = unknown or part.unknown
            words = [Word(w.text, w.line, w.unknown or _own(w.text)) for w in words]
            unknown = _own(text)
    return [*words, Word(text, line, unknown)] if begun else words


def _own(text: str) -> str:
    """Return why a word that was split from a longer value is unknown, if it is."""
    found = re.search(r"\$\(.*|`.*|\$\{?[\w@*#]+\}?", text)
    return f"{shortened(found[0])} is not known from the file" if found else ""


def shortened(text: str) -> str:
    """Return a piece of a file in one line of at most 40 characters."""
    one = " ".join(text.split())
    return one if len(one) <= 40 else f"{one[:37]}..."
