"""Views of a shared machine: text, tables, figures and a page."""
