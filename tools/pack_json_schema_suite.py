"""Packs drafts of the official JSON-Schema-Test-Suite into tests/data, one compressed file per draft.

    python tools/pack_json_schema_suite.py CHECKOUT draft2020-12 draft7

CHECKOUT is a checkout of the suite (https://github.com/json-schema-org/JSON-Schema-Test-Suite); the source
distribution of the package jsonschema contains one in its folder ``json``. A pack is gzipped JSON:
``{"files": {"anyOf": [case, …], "optional/format/date": …}, "remotes": {URI: document}}``.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "tests" / "data" / "json_schema_suite"
HOST = "http://localhost:1234/"  # the suite's address for its remote documents
DRAFTS = ("draft4", "draft6", "draft7", "draft2019-09", "draft2020-12")


def documents(folder: Path) -> dict[str, Any]:
    """Reads every JSON file under a folder; its key is its path without the suffix."""
    return {
        path.relative_to(folder).with_suffix("").as_posix(): json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.json"))
    }


def pack(checkout: Path, draft: str) -> bytes:
    tests = next((p for p in (checkout / "tests" / draft, checkout / draft) if p.is_dir()), None)
    if tests is None:
        raise SystemExit(f"{checkout} has no folder tests/{draft}")
    remotes = {
        f"{HOST}{name}.json": document
        for name, document in documents(checkout / "remotes").items()
        if not name.startswith(("draft-next/", "v1/"))
    }
    content = {"files": documents(tests), "remotes": remotes}
    return gzip.compress(json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode(), 9, mtime=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("drafts", nargs="+", choices=DRAFTS)
    options = parser.parse_args()
    DATA.mkdir(parents=True, exist_ok=True)
    for draft in options.drafts:
        data = pack(options.checkout, draft)
        (DATA / f"{draft}.json.gz").write_bytes(data)
        print(f"{draft}: {len(data):,} bytes")
    (DATA / "LICENSE").write_bytes((options.checkout / "LICENSE").read_bytes())


if __name__ == "__main__":
    main()
