"""`clew journal`: the commands that look after a journal as a whole."""

from __future__ import annotations

import sys

import typer

from .archive import archive
from .backup import backup, restore
from .compact import compact
from .exits import EPILOG, ExitCode
from .history import export_journal, import_journal
from .migrate import migrate
from .repair import repair
from .stats import stats
from .torture import torture
from .verify import verify_journal

__all__ = ["journal_app"]

journal_app = typer.Typer(
    name="journal",
    help="Look after a journal: its size, its soundness, copies of it.",
    epilog=EPILOG,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@journal_app.callback(invoke_without_command=True)
def journal(context: typer.Context) -> None:
    """Look after a journal: its size, its soundness, copies of it."""
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")
        raise typer.Exit(ExitCode.USAGE)


for _name, _command in {
    "stats": stats,
    "verify": verify_journal,
    "compact": compact,
    "backup": backup,
    "restore": restore,
    "repair": repair,
    "migrate": migrate,
    "export": export_journal,
    "import": import_journal,
    "archive": archive,
    "torture": torture,
}.items():
    journal_app.command(_name, epilog=EPILOG)(_command)
