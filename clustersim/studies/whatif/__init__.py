"""Changes of one scenario, ranked by what each saves."""
