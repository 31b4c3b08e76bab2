"""Transfers that share links: rates, conservation, contention."""
