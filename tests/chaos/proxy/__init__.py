"""Drives chaos-proxy."""
