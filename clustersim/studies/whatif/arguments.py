"""Variants of a what-if: the base, the base with each change, and with all changes at once."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from clustersim.catalog.changes import Settings
from clustersim.errors import CatalogError, ScenarioError
from clustersim.runs.arguments import check, settings_in, settings_of
from clustersim.runs.variants import Variant, in_a_line

Change = tuple[str, ...]
"""Settings that belong together."""


@dataclass(frozen=True)
class WhatIfVariants:
    """The runs of a what-if.

    Attributes
    ----------
    variants : one for each change
    together : all changes that can be combined
    joined : positions of the changes that are in `together`
    apart : the reason why there is no `together` of two or more changes
    """

    base: Variant
    changes: tuple[Change, ...]
    variants: tuple[Variant, ...]
    together: Variant | None
    joined: tuple[int, ...]
    apart: str | None

    @property
    def all(self) -> list[Variant]:
        """All runs: the base, each change, and all changes together."""
        last = [] if self.together is None else [self.together]
        return [self.base, *self.variants, *last]


def change_groups(scenario: str, settings: Settings, groups: Sequence[Settings]) -> list[Change]:
    """Return changes: each setting is one, and so is each group of settings.

    Raises
    ------
    ScenarioError
        when there is none, or a group is empty.
    """
    changes: list[Change] = [(setting,) for setting in settings_of(settings)]
    for group in groups:
        if isinstance(group, str):
            changes.append(settings_in(group, f"--change '{group}'"))
        else:
            changes.append(settings_of(group))
    if not changes:
        raise ScenarioError(
            f"{scenario}: no change is given (--set cluster.nic.bandwidth=x2; several values that"
            " belong together: --change 'plan.pipeline=4 plan.data=16')"
        )
    return changes


def variants_of(base: Variant, changes: Sequence[Change]) -> WhatIfVariants:
    """Return the runs for some changes of a scenario.

    Raises
    ------
    ScenarioError, CatalogError
        when the base or a setting is invalid; an invalid layout is part of the answer.
    """
    check(base.load_any())
    variants = tuple(_changed(base, change) for change in changes)
    valid = tuple(place for place, variant in enumerate(variants) if variant.problem is None)
    if len(changes) < 2:
        return WhatIfVariants(base, tuple(changes), variants, None, (), None)
    together, joined, apart = _together(base, changes, valid)
    return WhatIfVariants(base, tuple(changes), variants, together, joined, apart)


def _changed(base: Variant, change: Change) -> Variant:
    """Return the base with a change, with the reason if its layout is invalid."""
    changed = replace(base, settings=(*base.settings, *change), point={"change": " ".join(change)})
    loaded = changed.load_any()  # an invalid setting is an error here
    try:
        check(loaded)
    except (ScenarioError, CatalogError) as problem:
        return replace(changed, problem=in_a_line(problem))
    return changed


def _together(
    base: Variant, changes: Sequence[Change], valid: tuple[int, ...]
) -> tuple[Variant | None, tuple[int, ...], str | None]:
    """Return all changes as one, or else those that are valid alone; or the reason for neither."""
    reason = ""
    for joined in dict.fromkeys([tuple(range(len(changes))), valid]):
        settings = [*chain.from_iterable(changes[place] for place in joined)]
        repeated = _repeated(settings)
        if repeated is not None:
            return None, (), f"{repeated} is changed twice"
        if len(joined) < 2:
            return None, (), reason or "fewer than two changes are valid"
        try:
            changed = _changed(base, tuple(settings))
        except (ScenarioError, CatalogError) as problem:
            reason = in_a_line(problem)
            continue
        if changed.problem is None:
            return changed, joined, None
        reason = changed.problem
    return None, (), reason


def _repeated(settings: Sequence[str]) -> str | None:
    """Return a path that two settings change."""
    counts = Counter(setting.partition("=")[0] for setting in settings)
    return next((path for path, count in counts.items() if count > 1), None)
