"""Logs of other programs: steps of training, results of serving benchmarks and of collectives.

formats      the lines of steps and what they state
steps        log -> steps, each with its number, its line and its values
services     JSON of a benchmark -> measures of a service
nccl_tests   times of collectives by size
"""
