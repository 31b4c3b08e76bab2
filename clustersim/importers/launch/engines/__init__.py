"""Commands of engines of inference, which launch a service."""
