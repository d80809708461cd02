"""Install XLA's GPU compiler into its folder, where it is missing: install_gpu_compiler.py

The wheels (0.3 GB) need no GPU. `plan --gpu NAME --compile`, scripts/compile_for_cards.py and some
tests use them. Gives up at once where the network does not give them.
"""

from __future__ import annotations

import subprocess
import sys

from jaxrl_hw.cli.arguments import OneLineParser
from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware import gpu_compiler


def main() -> int:
    """pip's exit code; 0 where the compiler is there."""
    OneLineParser(description=(__doc__ or "").splitlines()[0]).parse(sys.argv[1:])
    try:
        gpu_compiler.check_installed()
    except UserError:
        hurried = ["--retries", "0", "--timeout", "15", "--quiet", "--disable-pip-version-check"]
        return subprocess.run([*gpu_compiler.install_command(), *hurried], check=False).returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
