"""Importers of machines: catalogue files from descriptions by other programs.

A reader parses one format into what the file states: a `Sketch` of a node or a `Network` between
nodes.  `node_file` and `cluster_file` complete it: missing values are taken from the nearest entry
of the catalogue and marked as assumed.
"""
