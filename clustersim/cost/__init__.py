"""Time of work: kernels on a device, collectives on uncontended links, copies and the host."""
