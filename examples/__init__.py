"""Example agents that run as they are."""
