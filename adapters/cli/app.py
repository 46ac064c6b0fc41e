"""The command itself: which subcommands there are, and what happens around each of them."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, NoReturn

import typer

from .approvals import approvals, approve, reject
from .demo_app import demo_app
from .exits import EPILOG, ExitCode, drop_unread, fail
from .history import export_history, take_history
from .journal_app import journal_app
from .log import log
from .render import one_line
from .replay import replay
from .run import run
from .show import show
from .threads import threads
from .usage import usage
from .verify import verify

__all__ = ["app", "main"]

app = typer.Typer(
    name="clew",
    help="Durable agents: run them, look into their journal, replay it.",
    epilog=EPILOG,
    add_completion=False,
    rich_markup_mode=None,  # plain help: it reads the same in a terminal, in a pipe and in a log
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.callback(invoke_without_command=True)
def clew(
    context: typer.Context,
    *,
    show_version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """Durable agents: run them, look into their journal, replay it."""
    if show_version:
        sys.stdout.write(f"clew {_version()}\n")
        raise typer.Exit
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")
        raise typer.Exit(ExitCode.USAGE)


for _name, _command in {
    "run": run,
    "approvals": approvals,
    "approve": approve,
    "reject": reject,
    "threads": threads,
    "usage": usage,
    "show": show,
    "log": log,
    "replay": replay,
    "export": export_history,
    "import": take_history,
    "verify": verify,
}.items():
    app.command(_name, epilog=EPILOG)(_command)

app.add_typer(demo_app)
app.add_typer(journal_app)


def main() -> NoReturn:
    """Run the command line in `sys.argv` and exit with its code."""
    _set_up_output()
    try:
        code: object = app(prog_name="clew", standalone_mode=False)
        # Here a failure can still be told; at the end of the process it would be noise.
        sys.stdout.flush()
    except SystemExit as ended:
        # So typer ends what writes into a pipe that nobody reads any more.
        code = fail(ended.__context__) if isinstance(ended.__context__, BrokenPipeError) else ended.code
    except Exception as error:  # noqa: BLE001  (this is where errors become one line and a code)
        code = fail(error)
    drop_unread()
    sys.exit(code if isinstance(code, int) else ExitCode.OK)


def _version() -> str:
    try:
        return version("clew")
    except PackageNotFoundError:
        return "(not installed)"


def _set_up_output() -> None:
    """Let text that a terminal cannot show, log records and warnings through, each on one line of its own."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine())
    handler.setLevel(logging.WARNING)
    logging.getLogger().addHandler(handler)
    warnings.showwarning = _show_warning
    # Set by whoever wants it: in the middle of our lines it would only be in the way.
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")


class _OneLine(logging.Formatter):
    """A log record on one line; the traceback is for `CLEW_DEBUG=1`."""

    def format(self, record: logging.LogRecord) -> str:
        line = one_line(f"clew: {record.levelname.lower()}: {record.getMessage()}")
        if os.environ.get("CLEW_DEBUG") and record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    sys.stderr.write(f"clew: warning: {one_line(str(message))}\n")
