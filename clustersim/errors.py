"""Exceptions of clustersim.

    ClustersimError
    +-- CatalogError      (ValueError)  an invalid catalogue file, or an unknown name
    +-- ScenarioError     (ValueError)  an invalid scenario, case file or option
    |   +-- PlanError     (ValueError)  an invalid layout: it does not divide, or is too large
    +-- ProgramError                    a program that cannot complete, drawn with the blocked step
    +-- SimulationError                 a replay that violates a conservation law
    +-- ExecutorError                   a cluster of workers that is lost

The first three are errors in the input and end a command with exit code 2; the others end it with
exit code 1.  Every message is one line: location, problem, remedy.
"""

from clustersim.escaping import escaped


class ClustersimError(Exception):
    """Base class of all exceptions that clustersim raises; a line of the message per problem."""

    def __str__(self) -> str:
        return escaped(super().__str__(), keep="\n")


class CatalogError(ClustersimError, ValueError):
    """An invalid catalogue file, or an unknown name."""


class ScenarioError(ClustersimError, ValueError):
    """An invalid input file or option."""


class PlanError(ScenarioError):
    """A layout that does not fit the model, the batch or the machine."""


class ProgramError(ClustersimError):
    """A program that cannot complete on any machine."""


class SimulationError(ClustersimError):
    """A replay whose result violates a conservation law."""


class ExecutorError(ClustersimError):
    """Workers on other computers that are lost in the middle of a study."""
