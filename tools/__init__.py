"""Tools of the authors: claims of papers, accuracy targets, pages of the repository."""
