"""The alternatives beside the service, on one machine. See docs/alternatives.md."""
