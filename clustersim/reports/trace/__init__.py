"""Views of a replayed trace: text, tables, figures and a page."""
