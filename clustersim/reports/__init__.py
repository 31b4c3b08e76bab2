"""Views of one answer: text, charts, page and files."""
