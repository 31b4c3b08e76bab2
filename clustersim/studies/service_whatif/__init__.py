"""What if, of a service: its changes, ranked by a measure."""

from clustersim.studies.service_whatif.answer import ServiceWhatIf, whatif_service

__all__ = ["ServiceWhatIf", "whatif_service"]
