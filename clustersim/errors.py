"""What can go wrong, named so that a caller can catch exactly that.

    ClustersimError
    +-- CatalogError      (ValueError)  a catalogue file, or a name that is in none
    +-- ScenarioError     (ValueError)  a scenario, a case file, or an option on the command line
    |   +-- PlanError     (ValueError)  a layout that cannot run: it does not divide, or is too big
    +-- ProgramError                    a program that no machine could run: drawn, with the culprit
    +-- SimulationError                 a replay that broke one of its own laws

The first three are the user's to mend and end a command with exit code 2; the others are failures
and end it with 1.  Every message is one line: where, what, what now.
"""


class ClustersimError(Exception):
    """The root: everything that clustersim raises on purpose."""


class CatalogError(ClustersimError, ValueError):
    """A catalogue file that does not say what it must, or a name that no file carries."""


class ScenarioError(ClustersimError, ValueError):
    """An input file or option that cannot be used as it stands."""


class PlanError(ScenarioError):
    """A layout that does not fit the model, the batch or the machine."""


class ProgramError(ClustersimError):
    """A program that would not run to its end on any machine."""


class SimulationError(ClustersimError):
    """A replay whose result contradicts a law that it must keep."""
