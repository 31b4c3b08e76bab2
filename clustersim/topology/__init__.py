"""Machines: accelerators, nodes, fabrics, and the routes between devices."""
