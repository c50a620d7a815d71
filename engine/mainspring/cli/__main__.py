"""`python -m mainspring.cli`, as the console script."""

from __future__ import annotations

from mainspring.cli import main

if __name__ == "__main__":
    main(prog_name="mainspring")
