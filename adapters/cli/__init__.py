"""The `clew` command: run agents, look into a journal, replay it, and see a run killed and carried on."""

from .app import main

__all__ = ["main"]
