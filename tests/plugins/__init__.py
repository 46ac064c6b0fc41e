"""Plugins of our own test run."""
