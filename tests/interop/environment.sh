#!/usr/bin/env bash
# environment.sh NAME PYTHON PACKAGE...
#
# Creates a virtual environment, .interop/NAME-venv, with this interpreter and these packages from PyPI, unless it exists, and prints its
# path. An environment is created again if its packages or interpreter differ, or if the repository was moved. Packages are installed
# with uv if possible, which takes a third of pip's time and shares packages between environments. Needs python3 with venv.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
name=$1 python=$2
shift 2
venv=$top/.interop/$name-venv
made="$venv $("$python" --version) $*"
mkdir -p "$top/.interop"
# Without the lock, two processes at a time would overwrite each other's files.
exec 9>"$top/.interop/$name.lock"
flock 9
if [ "$(cat "$venv/.made" 2>/dev/null)" != "$made" ]; then
  echo "installing $*" >&2
  rm -rf "$venv"
  "$python" -m venv "$venv"
  uv=$top/.interop/uv
  export UV_CACHE_DIR=$top/.interop/uv-cache SSL_CERT_FILE=${SSL_CERT_FILE:-${PIP_CERT:-}}
  [ -n "$SSL_CERT_FILE" ] || unset SSL_CERT_FILE
  (
    flock 8
    [ -x "$uv/bin/uv" ] || "$venv/bin/pip" install --quiet --disable-pip-version-check --no-compile --target "$uv" 'uv>=0.9,<1'
  ) 8>"$top/.interop/uv.lock" >&2 || true
  index=${PIP_INDEX_URL:-$("$venv/bin/pip" config get global.index-url 2>/dev/null || true)}
  "$uv/bin/uv" pip install --quiet --python "$venv/bin/python" ${index:+--default-index "$index"} "$@" >&2 ||
    "$venv/bin/pip" install --quiet --disable-pip-version-check --retries 5 --no-compile "$@" >&2
  echo "$made" >"$venv/.made"
fi
echo "$venv"
