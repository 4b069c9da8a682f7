#!/bin/sh
# Installs clang-19, with which the tests check emitted C besides gcc. Without root or apt they go on with gcc alone, and say so.
set -eu
command -v clang-19 >/dev/null 2>&1 && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing: clang-19"
    if apt-get update -qq &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends clang-19; then
        exit 0
    fi
fi
echo "note: clang-19 is missing, so emitted C is checked with gcc alone. Install it, for instance with" >&2
echo "    sudo apt-get install clang-19" >&2
