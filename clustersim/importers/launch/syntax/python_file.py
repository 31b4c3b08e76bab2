"""Python files with recipes: what their calls and assignments state; parsed, never run.

cfg = recipe(nodes=2 * 2)           recipe "cfg" of recipe
cfg.model.layers = LAYERS   ---->   nodes         4
cfg.model.dtype = choose()          model.layers  LAYERS, which is not set in the file
                                    model.dtype   choose, which would have to be run

Literals, sums of whole numbers, variables, keyword arguments, attributes, and functions and data
classes of the file are followed.  Of values under a condition none is chosen, as in a script.
"""

import ast
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from clustersim.catalog.reading import Place
from clustersim.importers.launch.options import Option
from clustersim.importers.launch.syntax.python_values import (
    MOST_LEVELS,
    Made,
    Plain,
    Value,
    needs_a_call,
    options_within,
    parts_of,
)
from clustersim.importers.launch.syntax.shell import shortened, whole_number
from clustersim.importers.source import Source
from clustersim.records import dataclass

MOST_LETTERS: Final = 400_000
"""Limit of the length of a file [characters]."""

MOST_VALUES: Final = 50_000
"""Limit of expressions: a function is followed each time that it is called."""

_WRAPPERS: Final = ("Config", "Partial", "partial")
"""Calls of a function or class with keyword arguments, in which it is the first argument."""


@dataclass(frozen=True)
class Recipe:
    """What a function of a file returns, or a variable that is not a part of another one.

    Attributes
    ----------
    name : of the function or the variable
    target : the function or class that makes it, as it is called; an imported one by its own name
    place : where
    options : its fields, flat, with dotted names
    called : whether other code of the file calls the function
    module : that the target is imported from; empty if none is named
    """

    name: str
    target: str
    place: Place
    options: tuple[Option, ...]
    called: bool = False
    module: str = ""


def read_recipes(source: Source) -> list[Recipe]:
    """Return the recipes of a Python file, in its order.

    Raises
    ------
    CatalogError
        when it is not Python, too long, or nested too deeply.
    """
    reader = _Reader(source, _parsed(source))
    reader.read()
    inner = parts_of([made for _, made in reader.found])
    recipes = {}
    for name, made in reversed(reader.found):
        if id(made) not in inner:
            options, place = options_within(source, made), Place(source.file, made.line)
            module, target = reader.origins.get(made.target, ("", made.target))
            called = name in reader.called
            recipes[id(made)] = Recipe(name, target, place, options, called, module)
    return sorted(recipes.values(), key=lambda recipe: recipe.place.line or 0)


def _parsed(source: Source) -> ast.Module:
    if len(source.text) > MOST_LETTERS:
        raise source.wrong(
            None, f"has more than {MOST_LETTERS:,} characters, too many for a recipe"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source.text)
    except SyntaxError as problem:
        raise source.wrong(problem.lineno, f"is not Python ({problem.msg})") from None
    except (RecursionError, MemoryError):
        raise source.wrong(None, "is not Python (nested too deeply)") from None
    except ValueError as problem:
        raise source.wrong(None, f"is not Python ({problem})") from None


class _Reader:
    """Follows the statements of a file, and then its functions, as if each were called."""

    def __init__(self, source: Source, tree: ast.Module) -> None:
        self.source, self.tree = source, tree
        self.lines = re.split(r"\r\n?|\n", source.text)
        self.functions = {
            node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)
        }
        self.classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        self.imported = {
            (alias.asname or alias.name).partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        self.origins = {
            alias.asname or alias.name: (node.module or "", alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        self.variables: dict[str, Value] = {}
        self.called: set[str] = set()
        self.found: list[tuple[str, Made]] = []
        self.values = 0

    def read(self) -> None:
        module = _Scope(self, {}, 0)
        self.variables = module.variables
        module.run(self.tree.body)
        module.close()
        within = {}
        for name, node in self.functions.items():
            before = len(self.found)
            value = _Scope(self, self.variables, 0).call(node, {})
            returned = [(name, value)] if isinstance(value, Made) else []
            within[name] = (returned, self.found[before:])
            del self.found[before:]
        for name, (returned, held) in within.items():
            self.found += returned if name in self.called else [*returned, *held]

    def text(self, node: ast.expr) -> str:
        """Return an expression as it is written, in short."""
        line = self.lines[min(node.lineno, len(self.lines)) - 1].encode()
        end = node.end_col_offset if node.end_lineno == node.lineno else None
        text = " ".join(line[node.col_offset : end].decode("utf-8", "replace").split())
        return text if end is not None and len(text) <= 40 else f"{text[:37]}..."

    def limit(self, node: ast.stmt | ast.expr, level: int) -> None:
        self.values += 1
        if level > MOST_LEVELS:
            raise self.source.wrong(node.lineno, f"nested more than {MOST_LEVELS} levels deep")
        if self.values > MOST_VALUES:
            raise self.source.wrong(node.lineno, f"makes more than {MOST_VALUES:,} values")


class _Scope:
    """The variables of a function, or of the file, after the statements that were read."""

    def __init__(self, reader: _Reader, outer: Mapping[str, Value], level: int) -> None:
        self.reader, self.outer, self.level = reader, outer, level
        self.variables: dict[str, Value] = {}
        self.returned: Value | None = None
        self.condition = 0

    # --- functions and classes of the file --------------------------------------------------------

    def call(self, node: ast.FunctionDef, given: Mapping[str, Value]) -> Value:
        """Return what a function returns for its arguments, by name or position."""
        for index, (argument, usual) in enumerate(_arguments(node.args)):
            name = argument.arg
            value = given.get(name, given.get(str(index)))
            if value is None and usual is not None:
                value = self.value(usual)
            why = f"{shortened(name)} is an argument of {shortened(node.name)}()"
            self.variables[name] = value or Plain((name,), argument.lineno, why)
        self.run(node.body)
        self.close(self.returned)
        return self.returned or Plain((None,), node.lineno)

    def close(self, returned: Value | None = None) -> None:
        """Keep what the variables hold."""
        made = [(key, v) for key, v in self.variables.items() if isinstance(v, Made)]
        self.reader.found += [item for item in made if item[1] is not returned]

    def _instance(self, node: ast.ClassDef) -> Made:
        """Return an instance of a data class of the file, with its usual values."""
        self.reader.limit(node, self.level)
        inner = _Scope(self.reader, self.outer, self.level + 1)
        made = Made(node.name, node.lineno)
        for base in node.bases:
            name = _dotted(base)
            known = self.reader.classes.get(name)
            part = inner._instance(known) if known is not None else Made(name, base.lineno)
            made.target, made.fields = part.target or node.name, {**made.fields, **part.fields}
        inner.run([part for part in node.body if isinstance(part, ast.Assign | ast.AnnAssign)])
        made.fields |= inner.variables
        return made

    # --- statements -------------------------------------------------------------------------------

    def run(self, statements: Sequence[ast.stmt]) -> None:
        """Read statements in order."""
        self.level += 1
        for statement in statements:
            self.reader.limit(statement, self.level)
            follow = _STATEMENTS.get(type(statement))
            if follow is not None:
                follow(self, statement)
        self.level -= 1

    def _assign(self, node: Any) -> None:
        """Assign to the first target, and to each other one what the one before has."""
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if node.value is None:
            return
        for target, value in zip(targets, [node.value, *targets], strict=False):
            for one, part in _pairs(target, value):
                self._set(one, self._assigned(one, part))

    def _assigned(self, target: ast.expr, node: ast.expr | None) -> Value:
        """Return an assigned value; what a call of other code takes and returns is still it."""
        if node is None:
            return self._unknown(target)
        held = self.variables.get(target.id) if isinstance(target, ast.Name) else None
        if isinstance(node, ast.Call) and isinstance(held, Made):
            name = _dotted(node.func)
            known = name in self.reader.functions
            if not known and any(self.value(argument) is held for argument in node.args):
                held.taken_by.append((name, node.lineno))
                return held
        return self.value(node)

    def _augment(self, node: ast.AugAssign) -> None:
        sum_ = ast.copy_location(ast.BinOp(node.target, node.op, node.value), node)
        self._set(node.target, self.value(sum_))

    def _set(self, target: ast.expr, value: Value) -> None:
        """Assign a value to a variable or an attribute; one under a condition may not hold."""
        path = list(_path(target))
        if not path:
            return
        *owners, name = path
        fields = self.variables
        for owner in owners:
            made = fields.get(owner, self.outer.get(owner) if fields is self.variables else None)
            if not isinstance(made, Made):
                made = fields[owner] = Made("", target.lineno)
            made.settle()
            fields = made.fields
        old = fields.get(name)
        if self.condition and (owners or old is not None) and old != value:
            text = ".".join(path)
            why = f"{shortened(text)} depends on a condition (line {self.condition})"
            value = Plain((text,), target.lineno, why)
        fields[name] = value

    def _expression(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Call):
            return
        call = node.value
        name = _dotted(call.func)
        if name in self.reader.functions:
            self.value(call)
            return
        owner = self.value(call.func.value) if isinstance(call.func, ast.Attribute) else None
        if isinstance(owner, Made) and name.endswith(".append") and len(call.args) == 1:
            owner.settle()
            owner.fields[str(len(owner.fields))] = self.value(call.args[0])
            return
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        for value in [owner, *map(self.value, arguments)]:
            if isinstance(value, Made) and value.home is None:
                value.taken_by.append((name, call.lineno))

    def _return(self, node: ast.Return) -> None:
        value = Plain((None,), node.lineno) if node.value is None else self.value(node.value)
        if self.returned is not None and self.returned != value:
            why = f"what is returned depends on a condition (line {node.lineno})"
            value = Plain(("return",), node.lineno, why)
        self.returned = value

    def _if(self, node: Any) -> None:
        """Read all branches; none is chosen, except that of the file as a program."""
        main = isinstance(node, ast.If) and "__name__" in self.reader.text(node.test)
        before = self.condition
        self.condition = before or (0 if main else node.lineno)
        self.run(node.body)
        self.run(node.orelse)
        self.condition = before

    def _block(self, node: Any) -> None:
        self.run(node.body)

    # --- expressions ------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        """Return the value of an expression, as far as it is known from the file."""
        self.level += 1
        self.reader.limit(node, self.level)
        follow = _EXPRESSIONS.get(type(node), _Scope._unknown)
        value = follow(self, node)
        self.level -= 1
        return value

    def _unknown(self, node: ast.expr, why: str = "would have to be run") -> Plain:
        text = self.reader.text(node)
        return Plain((text,), node.lineno, f"{text} {why}")

    def _constant(self, node: ast.Constant) -> Value:
        return Plain((node.value,), node.lineno)

    def _negative(self, node: ast.UnaryOp) -> Value:
        value = self.value(node.operand)
        if isinstance(value, Plain) and not value.unknown and isinstance(node.op, ast.USub):
            number = value.values[0] if value.values else None
            if isinstance(number, int | float):
                return Plain((-number,), node.lineno)
        return value if isinstance(value, Plain) and value.unknown else self._unknown(node)

    def _sum(self, node: ast.BinOp) -> Value:
        """Return a sum or a product of whole numbers."""
        terms = []
        for part in (self.value(node.left), self.value(node.right)):
            if isinstance(part, Plain) and part.unknown:
                return part
            terms.append(str(part.values[0]) if isinstance(part, Plain) and part.values else "?")
        try:
            sign = _SIGNS.get(type(node.op), "?")
            return Plain((whole_number(f"({terms[0]}){sign}({terms[1]})"),), node.lineno)
        except ValueError:
            return self._unknown(node)

    def _name(self, node: ast.Name) -> Value:
        name = node.id
        value = self.variables.get(name, self.outer.get(name))
        if value is not None:
            return value
        if name in self.reader.functions or name in self.reader.classes:
            return Plain((name,), node.lineno)
        return self._unknown(node, "is not set in the file")

    def _attribute(self, node: Any) -> Value:
        """Return an attribute that was assigned, or a name in an imported module."""
        path = list(_path(node))
        if not path:
            return self._unknown(node)
        value = self.variables.get(path[0], self.outer.get(path[0]))
        if value is None:
            text = ".".join(path)
            known = path[0] in self.reader.imported
            return (
                Plain((text,), node.lineno)
                if known
                else self._unknown(node, "is not set in the file")
            )
        for name in path[1:]:
            if isinstance(value, Plain):
                return value if value.unknown else self._unknown(node)
            home = (value, name)
            value = value.fields.get(name) or Made(self.reader.text(node), node.lineno, home=home)
        return value

    def _list(self, node: Any) -> Value:
        """Return literals as one value, other items by their position."""
        items = [self.value(item) for item in node.elts]
        plain = [item for item in items if isinstance(item, Plain) and len(item.values) == 1]
        if len(plain) == len(items) and items:
            unknown = next((item.unknown for item in plain if item.unknown), "")
            return Plain(tuple(item.values[0] for item in plain), node.lineno, unknown)
        return Made("", node.lineno, {str(index): item for index, item in enumerate(items)})

    def _table(self, node: ast.Dict) -> Value:
        made = Made("", node.lineno)
        for key, value in zip(node.keys, node.values, strict=True):
            self._field(made, str(key.value) if isinstance(key, ast.Constant) else None, value)
        return made

    def _field(self, made: Made, key: str | None, node: ast.expr) -> None:
        """Set a field; without a key, those of a table that is unpacked."""
        value = self.value(node)
        if key is not None:
            made.fields[key] = value
        elif isinstance(value, Made) and not value.target:
            made.fields |= value.fields
        else:
            known = isinstance(value, Plain) and value.unknown
            made.fields["**"] = value if known else self._unknown(node)

    def _called(self, node: ast.Call) -> Value:
        """Return what a call makes: of a function of the file what it returns."""
        name, arguments = _dotted(node.func) or self.reader.text(node.func), node.args
        if name.rpartition(".")[2] in _WRAPPERS and arguments and (inner := _dotted(arguments[0])):
            name, arguments = inner, arguments[1:]
        function = self.reader.functions.get(_dotted(node.func))
        known = self.reader.classes.get(name)
        made = self._instance(known) if known else Made("" if name == "dict" else name, node.lineno)
        made.line = node.lineno
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
            self._chained(made, node.func, node.func.value)
        for index, argument in enumerate(arguments):
            self._field(made, str(index), argument)
        for keyword in node.keywords:
            self._field(made, keyword.arg, keyword.value)
        if function is None:
            return made
        self.reader.called.add(function.name)
        return _Scope(self.reader, self.reader.variables, self.level).call(function, made.fields)

    def _chained(self, made: Made, method: ast.Attribute, call: ast.Call) -> None:
        """State a method of what a call makes: ``a("b").c()`` has the arguments of both."""
        owner = self.value(call)
        if isinstance(owner, Made):
            made.target = f"{owner.target}.{method.attr}"
            made.fields |= owner.fields


def _arguments(given: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """Return the arguments of a function, each with its default."""
    positional = [*given.posonlyargs, *given.args]
    required = [None] * (len(positional) - len(given.defaults))
    yield from zip(positional, [*required, *given.defaults], strict=True)
    yield from zip(given.kwonlyargs, given.kw_defaults, strict=True)


def _path(node: ast.expr) -> Iterator[str]:
    """Return the parts of ``a.b[0].c``; none for any other expression."""
    parts: list[str] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            parts.append(str(node.slice.value))
        else:
            return iter(())
        node = node.value
    return reversed([*parts, node.id])


def _dotted(node: ast.expr) -> str:
    return ".".join(_path(node))


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Return each assigned name with its value; None where a call returns several."""
    if not isinstance(target, ast.Tuple | ast.List):
        yield target, value
    elif isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
        yield from zip(target.elts, value.elts, strict=True)
    else:
        yield from ((one, None) for one in target.elts)


_SIGNS: Final[Mapping[type[ast.operator], str]] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%"
}  # fmt: skip

_STATEMENTS: Final[Mapping[type[ast.stmt], Callable[[_Scope, Any], None]]] = {
    ast.Assign: _Scope._assign,
    ast.AnnAssign: _Scope._assign,
    ast.AugAssign: _Scope._augment,
    ast.Expr: _Scope._expression,
    ast.Return: _Scope._return,
    **dict.fromkeys((ast.If, ast.For, ast.While), _Scope._if),
    **dict.fromkeys((ast.With, ast.Try), _Scope._block),
}
"""How statements are followed; functions are when they are called, others have no effect."""

_EXPRESSIONS: Final[Mapping[type[ast.expr], Callable[[_Scope, Any], Value]]] = {
    ast.Constant: _Scope._constant,
    ast.UnaryOp: _Scope._negative,
    ast.BinOp: _Scope._sum,
    ast.Name: _Scope._name,
    ast.Attribute: _Scope._attribute,
    ast.Subscript: _Scope._attribute,
    **dict.fromkeys((ast.List, ast.Tuple, ast.Set), _Scope._list),
    ast.Dict: _Scope._table,
    ast.Call: _Scope._called,
}
"""How expressions are followed; the value of any other one is not known."""


def target_of(option: Option) -> str:
    """Return the function or class of what a call makes, without its module, or a plain word.

    Raises
    ------
    ScenarioError
        when the value is not known from the file.
    """
    made = str(option.values[0]) if option.values else ""
    text = made if option.unknown == needs_a_call(made) else option.word()
    return text.rpartition(".")[2]
