"""One price for a kernel: the same in training, in an engine and in a benchmark.

shape, number formats    tables of measured kernels (`cost.surfaces`), tiles where none is measured
who issues it            named factors: heat, launch, conversion, library
"""
