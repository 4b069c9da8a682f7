#!/bin/sh
# Makes sure of what the wheel for aarch64 is built and tried with: the Rust target, zig, qemu, a C compiler, and in FOLDER a CPython of this system's for aarch64.
# usage: scripts/setup_aarch64.sh FOLDER
set -eu
folder=$1
python=${PYTHON:-python3}
here=$(dirname "$0")
target=aarch64-unknown-linux-gnu

fail() {
    echo "the wheel for aarch64 is not built and tried here: $1" >&2
    exit 1
}

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]; then
    command -v rustup >/dev/null 2>&1 || fail "Rust has no libraries for $target, and there is no rustup to add them"
    rustup target add "$target"
fi

[ -x "$folder/venv/bin/python" ] || "$python" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/requirements-aarch64.txt"

# The linker and the headers come with the compiler.
missing=
command -v qemu-aarch64-static >/dev/null 2>&1 || command -v qemu-aarch64 >/dev/null 2>&1 || missing=qemu-user-static
command -v aarch64-linux-gnu-gcc >/dev/null 2>&1 || missing="$missing gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
if [ -n "$missing" ]; then
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || fail "missing:$missing. Install them, for instance with: sudo apt-get install $missing"
    echo "installing: $missing"
    apt-get update -qq
    # shellcheck disable=SC2086  (a list of packages)
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
fi

# Packages of this system for the other processor are unpacked, not installed; what apt knows of this machine stays as it is.
if [ ! -x "$folder/root/usr/bin/python3" ]; then
    command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1 || fail "a CPython for aarch64 comes from apt, which is missing"
    mkdir -p "$folder/apt/state/lists/partial" "$folder/apt/cache/archives/partial" "$folder/apt/log"
    : >"$folder/apt/status"
    foreign() {
        apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Install-Recommends=false -o APT::Sandbox::User=root -o Debug::NoLocking=true \
            -o Dir::State="$folder/apt/state" -o Dir::State::status="$folder/apt/status" -o Dir::Cache="$folder/apt/cache" -o Dir::Log="$folder/apt/log" "$@"
    }
    foreign update || fail "the package lists for arm64 can't be had"
    # NumPy needs the second.
    foreign -y --download-only install python3 libstdc++6 || fail "apt has no CPython for arm64"
    rm -rf "$folder/new"
    mkdir "$folder/new"
    for package in "$folder"/apt/cache/archives/*.deb; do
        dpkg-deb -x "$package" "$folder/new"
    done
    rm -rf "$folder/root" "$folder/apt"
    mv "$folder/new" "$folder/root"
fi
