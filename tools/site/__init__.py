"""The site of the documentation: what `mkdocs build` adds to the pages in `docs/`."""
