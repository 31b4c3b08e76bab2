"""InfraGraph: devices as graphs of components, and instances of them that links join.

`schema` has the file, `graph` its vertices and edges, `node` the inside of a host, `network` the
cables between hosts and switches.
"""

from clustersim.importers.machines.infragraph.network import read

__all__ = ["read"]
