"""The state of an installation in lines."""

from clustersim.reports.doctor.answer import Diagnosis, Finding


def lines(diagnosis: Diagnosis) -> list[str]:
    """Return a line for each check: its status, its name, what was found; then what to do."""
    width = max(len(finding.name) for finding in diagnosis.checks)
    return [line for finding in diagnosis.checks for line in _lines(finding, width)]


def _lines(finding: Finding, width: int) -> list[str]:
    first = f"{finding.status:<7}  {finding.name:<{width}}  {finding.found}"
    return [first] if finding.advice is None else [first, f"{'':{width + 11}}-> {finding.advice}"]
