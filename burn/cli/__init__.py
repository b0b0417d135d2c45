"""The commands. Each file is one; `main.py` is `burn`, which has them all as subcommands.

Conventions: results on stdout, progress and errors on stderr; exit status 1 for an error, 2 for wrong usage; every view for
people has a `--json` twin.
"""
