"""Serve: how long requests take, how many tokens a service generates, and why."""
