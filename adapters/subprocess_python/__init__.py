"""A tool that runs Python which a model wrote, in a process with limits. It is no sandbox: see `python_tool`."""

from .tool import Limits, python_tool

__all__ = ["Limits", "python_tool"]
