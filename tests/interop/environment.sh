#!/usr/bin/env bash
# environment.sh NAME PYTHON PACKAGE...
#
# Makes an environment of this interpreter with these packages from PyPI, .interop/NAME-venv, unless it is there, and prints its path.
# One with other packages, of another interpreter or in a repository that was moved is made again. uv installs, if it can be had: it
# takes a third of pip's time, and keeps one copy of what several environments have. Needs python3 with venv.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
name=$1 python=$2
shift 2
venv=$top/.interop/$name-venv
made="$venv $("$python" --version) $*"
mkdir -p "$top/.interop"
# Two at a time would install over each other.
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
