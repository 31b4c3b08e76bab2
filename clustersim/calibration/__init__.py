"""Calibration: the coefficients of one accelerator, fitted to measurements on it.

    kernels (CSV) --+                                      +--> error before, after, held out
                    +--> log(predicted / measured) --fit---+--> value and error of each coefficient
    runs (cases) ---+      at any coefficients             +--> a catalogue file

`coefficients` lists the coefficients, `fitting` defines the fit.  A coefficient starts at its value
in the catalogue and changes only as far as the data determine it.
"""
