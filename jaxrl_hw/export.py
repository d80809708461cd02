"""Write a trained policy as files for other computers: python -m jaxrl_hw.export --run-dir DIR

`--help` lists the files and the flags; the command's body is `cli.export`.
"""

from __future__ import annotations

import sys

from jaxrl_hw.cli.export import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
