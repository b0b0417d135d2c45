"""`python -m burn`: the command `burn`."""

from __future__ import annotations

from burn.cli.entry import burn

if __name__ == "__main__":
    burn()
