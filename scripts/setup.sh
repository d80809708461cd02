#!/usr/bin/env bash
# Make the virtual environment and install the library with its tools: setup.sh PYTHON VENV EXTRAS
set -euo pipefail
python=$1 venv=$2 extras=$3

"$python" - <<'PY' || exit 1
import sys
if sys.version_info < (3, 11):
    sys.exit(f"error: Python 3.11 or newer is needed, got {sys.version.split()[0]}; "
             "name another: make PYTHON=python3.12 ...")
PY
if [ ! -x "$venv/bin/python" ]; then
  echo "making $venv"
  "$python" -m venv "$venv" || {
    echo "error: $python cannot make virtual environments; on Debian and Ubuntu: apt install python3-venv" >&2
    exit 1
  }
fi
echo "installing jaxrl_hw and its tools into $venv (a few minutes, once)"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
  -c constraints.txt -e ".[dev${extras:+,$extras}]"

# Rendering without a screen needs one of two system libraries. Missing they cost only the videos.
if [ "$(uname)" = Linux ] && ! ldconfig -p 2>/dev/null | grep -qE 'libEGL\.so\.1|libOSMesa\.so'; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing libegl1 and libosmesa6 for rendering without a screen"
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends libegl1 libosmesa6; } \
      >/dev/null 2>&1 || echo "note: that failed; videos need: apt install libegl1 libosmesa6"
  else
    echo "note: videos need a system library: sudo apt install libegl1 libosmesa6"
  fi
fi
