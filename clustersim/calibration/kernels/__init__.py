"""Calibration to tables of measured kernels: surfaces of many accelerators, fits and grades."""
