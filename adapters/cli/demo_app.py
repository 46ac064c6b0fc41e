"""`clew demo` and the demos beside it."""

from __future__ import annotations

import typer

from .demo import demo
from .demo_approvals import demo_approvals
from .exits import EPILOG

__all__ = ["demo_app"]

demo_app = typer.Typer(
    name="demo",
    epilog=EPILOG,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
    callback=demo,
)

demo_app.command("approvals", epilog=EPILOG)(demo_approvals)
