"""Questions about runs, one folder each: arguments, answer, text, charts and page."""
