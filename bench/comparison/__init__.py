"""The comparison: every measure beside its floor, in one run. See docs/measures.md."""
