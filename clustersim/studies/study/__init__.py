"""Studies that a store keeps."""
