"""Calibration: the coefficients of one accelerator, fitted to what was measured on it.

    kernels (CSV) --+                                      +--> error before, after, held out
                    +--> log(predicted / measured) --fit---+--> value and error of each coefficient
    runs (cases) ---+      at any coefficients             +--> a catalogue file

What is fitted stands in `coefficients`, how in `fitting`.  A coefficient begins at its value in the
catalogue and leaves it only as far as the data say.
"""
