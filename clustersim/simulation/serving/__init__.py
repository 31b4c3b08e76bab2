"""A serving scenario in, a result out: requests, replicas, what happened to them, what it means."""
