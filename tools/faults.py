"""Builds a core whose allocations and limits can be made to fail, and makes them fail.

    python tools/faults.py --seconds 600

See tests/fault_injection.py.
"""

from __future__ import annotations

import subprocess
import sys

from other_core import ROOT, START, build

PLAY = """
sys.path.insert(0, "tests")
import fault_injection
sys.exit(fault_injection.main())
"""


def main() -> int:
    sys.path.insert(0, str(ROOT / "tests"))
    from fault_injection import arguments

    arguments()  # before the build, which takes minutes
    package = build("faults", ["-DGUIDERAIL_FAULTS=ON", "-DCMAKE_CXX_FLAGS=-Wno-error"])
    return subprocess.run([sys.executable, "-c", START + PLAY, str(package), *sys.argv[1:]], cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
