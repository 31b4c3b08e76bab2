"""How launch files are written: scripts, Python, YAML, TOML and JSON, each value with its line."""
