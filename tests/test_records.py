"""Dataclasses that are compiled late are those of the standard library in all that they do."""

import dataclasses
from dataclasses import field

import pytest

from clustersim import records

LIBRARY, OURS = dataclasses.dataclass, records.dataclass


def plain(decorator):
    """Values without and with a default, one of each object, and some that do not compare."""

    @decorator
    class Kind:
        """A record."""

        a: int
        b: float = 1.0
        c: list = field(default_factory=list)
        d: str = field(default="d", compare=False, repr=False)
        e: set = field(default_factory=set, init=False)
        f: int = field(init=False)

        def __post_init__(self):
            self.f = self.a + 1

    return Kind


def frozen(decorator):
    """Values that are set once."""

    @decorator(frozen=True)
    class Kind:
        """A record."""

        a: int
        b: tuple = ()
        c: str = field(default="c", hash=False)

    return Kind


def single(decorator):
    """One value, in a class of its own that extends a record."""

    @decorator(frozen=True)
    class Whole:
        """A record."""

        a: int

    class Kind(Whole):
        """A record with a property."""

    return Kind


def inherited(decorator):
    """Fields of two classes, by name only."""

    @decorator(frozen=True, kw_only=True)
    class Whole:
        """A record."""

        b: int = 2

    @decorator(frozen=True)
    class Kind(Whole):
        """A record with more."""

        a: int

    return Kind


def identified(decorator):
    """Objects that are equal to themselves only."""

    @decorator(frozen=True, eq=False)
    class Kind:
        """A record."""

        a: int

        def __repr__(self):
            return f"<{self.a}>"

    return Kind


def compared(decorator):
    """An equality of its own."""

    @decorator(frozen=True)
    class Kind:
        """A record."""

        a: int

        def __eq__(self, other):
            return self.a % 2 == other.a % 2

    return Kind


def outcome(action):
    """Return what an action returns, or the error that it raises."""
    try:
        return action()
    except (TypeError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"


def outcomes(kind):
    """Return what objects of a class do."""
    one, same, other = kind(a=1), kind(a=1), kind(a=2)
    actions = [
        lambda: repr(one), lambda: vars(one), lambda: (one == one, one == same, one == other),
        lambda: one == 1, lambda: hash(one) == hash(same), lambda: hash(one) == hash(other),
        lambda: kind(1, 2), lambda: kind(), lambda: kind(1, z=2), lambda: kind(1, 2, 3, 4, 5),
        lambda: setattr(one, "a", 3), lambda: setattr(one, "z", 3), lambda: delattr(one, "a"),
        lambda: dataclasses.replace(other, a=5), lambda: dataclasses.asdict(other),
        lambda: kind.__match_args__, lambda: one.c is same.c,
    ]  # fmt: skip
    return [repr(outcome(action)) for action in actions]


@pytest.mark.parametrize("define", [plain, frozen, single, inherited, identified, compared])
def test_a_class_does_what_that_of_the_library_does(define):
    """Objects, comparisons, copies and errors are equal, with the same words."""
    assert outcomes(define(OURS)) == outcomes(define(LIBRARY))


@pytest.mark.parametrize("define", [frozen, single, inherited])
def test_an_object_may_be_made_without_a_call_of_its_class(define):
    """As one that is unpickled where the class has made none: it has all methods."""
    kind, library = define(OURS), define(LIBRARY)
    one = kind.__new__(kind)
    vars(one).update(vars(library(a=1)))

    assert repr(one) == repr(library(a=1))
    assert (one, hash(one)) == (kind(a=1), hash(kind(a=1)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.a = 2
