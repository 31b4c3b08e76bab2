"""Data that move around compute: shards, offloaded states, stage transfers."""
