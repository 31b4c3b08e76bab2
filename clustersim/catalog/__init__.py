"""Finds and reads YAML files into typed, sourced records; knows no physics."""
