"""Decides from the log of a chaos run whether every promise was kept."""
