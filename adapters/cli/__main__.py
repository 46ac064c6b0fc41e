"""`python -m clew.adapters.cli` is the `clew` command."""

from .app import main

main()
