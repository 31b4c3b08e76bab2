"""A first scenario: the best layout of a model on a machine, as a file that explains it."""

from clustersim.studies.new.answer import NewScenario, new_scenario
from clustersim.studies.new.draft import Machine, service_draft, step_draft, with_settings

__all__ = ["Machine", "NewScenario", "new_scenario", "service_draft", "step_draft", "with_settings"]
