"""Pictures as plain values: what a chart shows, not how it is drawn.

Each kind is a frozen dataclass derived from `Picture`, which has the title, the caption, the
alternative text and the table of the values behind it.  Two back ends draw every kind:

    kind                              charts/    plotly/    matplotlib/
    Bars, Waterfall                   bars.py    bars.py    bars.py
    StackedAreas, StackedBars         bars.py    bars.py    bars.py
    Lines, ScatterWithFront           lines.py   lines.py   lines.py
    HeatMap, ParallelCoordinates      grids.py   grids.py   grids.py
    ShareMap, OwnerMap                grids.py   grids.py   grids.py
    Timeline                          timeline.py in each

    clustersim.render.plotly.page_chart(picture)              a chart of a page
    clustersim.render.matplotlib.write_figure(picture, stem)  a figure as files

A new kind is a dataclass here, a function in each back end, and a line in the `KINDS` of both.
Colours are names of `render.palette`; texts are plain texts, which each back end escapes.
"""
