"""One scenario: where the time of a step goes, as text, figures, a page and a trace."""
