"""The command ``protosplit``, as ``python -m proto_splitter``."""

from __future__ import annotations

import sys

from . import _core


def main() -> int:
    """Runs ``protosplit`` with the arguments of this process and returns its exit code."""
    try:
        return _core.command(["protosplit", *sys.argv[1:]])
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
