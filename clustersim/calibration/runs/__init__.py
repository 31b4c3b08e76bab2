"""Calibration of one accelerator to its measured kernels and training runs."""
