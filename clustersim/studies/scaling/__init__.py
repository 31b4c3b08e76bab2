"""Scaling curves: efficiency over numbers of devices, and what is lost to what."""
