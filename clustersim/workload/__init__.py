"""What is trained: models as kernels with shapes, FLOPs and bytes."""
