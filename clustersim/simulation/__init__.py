"""A scenario in, a result out: check, build, estimate memory, compile, replay, measure, advise."""
