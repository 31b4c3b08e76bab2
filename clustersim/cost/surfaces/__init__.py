"""Surfaces: the time of a kernel by its shape, with coefficients fitted to measured kernels.

    shape, number format ----+
    peaks, memory, units ----+--> launch + smooth maximum of (work, bytes) --> seconds
    fitted coefficients  ----+

Each module is one kind of kernel, for many shapes at once.  `clustersim calibrate` fits and grades
them; a term that no fit determined has its prior.
"""
