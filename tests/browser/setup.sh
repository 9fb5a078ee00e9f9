#!/usr/bin/env bash
# Installs what the browser tests need: playwright-core, which drives the browser, from npm into .browser/ at the root of the
# repository; and Chromium, if it is missing, from the system's packages (as root on Debian). Does nothing if both are installed.
set -euo pipefail

version=1.56.1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=$(cd "$here/../.." && pwd)/.browser

for tool in node npm; do
  command -v "$tool" >/dev/null || { echo "setup.sh: needs $tool (Node.js 18 or later)" >&2; exit 2; }
done

if ! command -v chromium >/dev/null; then
  if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    echo "setup.sh: installing chromium" >&2
    apt-get update -qq
    apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core >/dev/null
  else
    echo "setup.sh: needs chromium on the PATH (as root on Debian: apt-get install chromium)" >&2
    exit 2
  fi
fi

mkdir -p "$dir"
if [ "$(cat "$dir/playwright-core" 2>/dev/null)" != "$version" ]; then
  echo "setup.sh: installing playwright-core $version into .browser" >&2
  npm install --prefix "$dir" --no-save --no-package-lock --no-fund --no-audit --silent "playwright-core@$version"
  echo "$version" >"$dir/playwright-core"
fi
