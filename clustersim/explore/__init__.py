"""The page to explore in: a question in a form, and the pages of the verbs as its answers.

address --question--> scenario and changes --a worker--> page of a verb --sections--> the browser
"""

from clustersim.explore.server import Site, serve_site

__all__ = ["Site", "serve_site"]
