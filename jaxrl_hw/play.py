"""Watch a trained policy: python -m jaxrl_hw.play --run-dir runs/g1-joystick-ppo-0

`--help` lists the flags; the command's body is `cli.play`.
"""

from __future__ import annotations

import sys

from jaxrl_hw.cli.play import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
