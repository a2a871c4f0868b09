"""A whole system that is broken in every way, and what has to hold meanwhile."""
