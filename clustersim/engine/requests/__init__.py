"""Requests in time: engines that batch requests step by step, on one clock."""
