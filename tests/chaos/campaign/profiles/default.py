"""Postgres, and every reservation durable before it is answered."""

from .profile import Profile

PROFILE = Profile()
