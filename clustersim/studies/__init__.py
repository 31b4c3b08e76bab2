"""Questions that people ask, one folder each: arguments, answer, text, charts and page."""
