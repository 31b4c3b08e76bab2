"""What work takes: kernels on a device, collectives alone on their links."""
