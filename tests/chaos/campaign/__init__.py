"""A whole system under every kind of fault, and the promises that must hold meanwhile."""
