#!/bin/sh
# Makes sure of a C compiler, Python with venv and cargo; then fills .venv from requirements.txt.
# usage: scripts/setup.sh VENV
set -eu
venv=$1
python=${PYTHON:-python3}
here=$(dirname "$0")

have_cc() { command -v cc >/dev/null 2>&1; }
have_venv() { "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; }

missing=
have_cc || missing="build-essential"
have_venv || missing="$missing python3 python3-venv"
if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "installing:$missing"
        apt-get update -qq
        # shellcheck disable=SC2086  (a list of packages)
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing
    else
        echo "Heddle's build needs:$missing. Install them, for instance with" >&2
        echo "    sudo apt-get install $missing" >&2
        exit 1
    fi
fi
if ! command -v cargo >/dev/null 2>&1; then
    echo "Heddle's build needs cargo (Rust 1.88 or later). Install it from https://rustup.rs:" >&2
    echo "    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh" >&2
    exit 1
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "the tests' Python packages need Python 3.11 or later; name one: make PYTHON=python3.12" >&2
    exit 1
fi
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/requirements.txt"
