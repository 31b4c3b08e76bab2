"""Finds and reads YAML files into typed, sourced records; no physics."""
