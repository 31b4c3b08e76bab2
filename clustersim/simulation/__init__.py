"""A scenario in, an answer out: build, estimate memory, compile, replay, measure, advise."""
