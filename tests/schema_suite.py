"""The official JSON-Schema-Test-Suite as constraints, and the ratchet of the cases that are not right.

    python tests/schema_suite.py                 # wrong cases, by draft
    python tests/schema_suite.py --write         # rewrite the ratchet; reasons of known cases stay

A case is a schema with instances. Each instance, as ``json.dumps`` writes it, is read byte by byte; it counts as
accepted if every byte is in its mask and the text may end there. The verdict on an instance that is not right:

- ``refused``: ``json_schema`` or ``compile`` rejects the schema (counts for all its instances);
- ``unsatisfiable``: it is rejected because no text can match; right if every instance is invalid;
- ``error``: reading the instance raised an error; never permitted;
- ``false reject``: a valid instance is not accepted;
- ``false accept``: an invalid one is; never permitted outside ``optional/``.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import guiderail as gr
from ratchet import Ratchet

DATA = Path(__file__).parent / "data"
RATCHET = Ratchet("schema_suite_ratchet.json")
DIALECTS = {
    "draft2020-12": "2020-12",
    "draft2019-09": "2019-09",
    "draft7": "draft-07",
    "draft6": "draft-06",
    "draft4": "draft-04",
}
DRAFTS = tuple(DIALECTS)


@dataclass(frozen=True)
class Result:
    """The result of one instance, or (``test`` is None) of a schema that was rejected."""

    file: str
    case: str
    test: str | None
    verdict: str  # "right" or one of those above
    instances: int = 1
    detail: str = ""

    @property
    def key(self) -> str:
        return " | ".join(part for part in (self.file, self.case, self.test) if part is not None)


@functools.cache
def suite(draft: str) -> dict[str, Any]:
    with gzip.open(DATA / "json_schema_suite" / f"{draft}.json.gz", "rt", encoding="utf-8") as packed:
        content: dict[str, Any] = json.load(packed)
    return content


@functools.cache
def registry(draft: str) -> Any:
    """Returns the suite's remote documents, each in its own dialect or else in this one."""
    import referencing
    import referencing.jsonschema

    known = referencing.jsonschema
    own = {
        "draft2020-12": known.DRAFT202012,
        "draft2019-09": known.DRAFT201909,
        "draft7": known.DRAFT7,
        "draft6": known.DRAFT6,
        "draft4": known.DRAFT4,
    }[draft]
    resources = []
    for uri, document in suite(draft)["remotes"].items():
        later = draft == "draft4" and not {"$id", "$defs"}.isdisjoint(document)  # not a document of draft 4
        default = known.DRAFT202012 if later else own
        specification = known.specification_with(document.get("$schema", ""), default=default)
        resources.append((uri, specification.create_resource(document)))
    return referencing.Registry().with_resources(resources)


@functools.cache
def vocabulary() -> gr.Vocabulary:
    """A vocabulary of all bytes and a stop token."""
    tokens = [*(bytes([b]) for b in range(256)), b"<eos>"]
    return gr.Vocabulary(tokens, special_tokens={"<eos>": 256}, stop_token_ids=[256])


def accepts(guide: gr.Guide, text: bytes) -> bool:
    """Returns whether the guide accepts the text; compares each answer of ``accept_token`` with the mask before it."""
    matcher = guide.matcher()
    bitmask = gr.allocate_token_bitmask(1, guide.vocabulary.size)
    for byte in text:
        matcher.fill_next_token_bitmask(bitmask, 0)
        allowed = bool(int(bitmask[0, byte // 32]) >> (byte % 32) & 1)
        took = matcher.accept_token(byte)
        assert took == allowed, f"the mask says {allowed}, accept_token {took} for byte {byte} of {text!r}"
        if not took:
            return False
    matcher.fill_next_token_bitmask(bitmask, 0)
    stop = guide.vocabulary.stop_token_ids[0]
    accepting = matcher.is_accepting()
    assert accepting == bool(int(bitmask[0, stop // 32]) >> (stop % 32) & 1)
    assert np.any(bitmask), "a live state has an empty mask"
    return accepting


def results(draft: str, file: str, **options: Any) -> Iterator[Result]:
    """Runs a file of the suite."""
    for case in suite(draft)["files"][file]:
        name, tests = case["description"], case["tests"]
        schema = case["schema"]
        told = isinstance(schema, dict) and "$schema" in schema
        dialect = None if told else DIALECTS[draft]
        try:
            constraint = gr.json_schema(schema, dialect=dialect, registry=registry(draft), **options)
            guide = gr.compile(constraint, vocabulary(), cache=False)
        except gr.GuiderailError as error:
            if error.code in ("unsatisfiable", "unsatisfiable-schema"):
                for test in tests:
                    verdict = "unsatisfiable" if test["valid"] else "right"
                    yield Result(file, name, test["description"], verdict, detail=error.code)
            else:
                yield Result(file, name, None, "refused", len(tests), f"{error.code}: {error.message}")
            continue
        for test in tests:
            text = json.dumps(test["data"], ensure_ascii=False).encode(errors="surrogatepass")
            detail = text.decode(errors="replace")[:100]
            try:
                accepted = accepts(guide, text)
                verdict = "right" if accepted == test["valid"] else "false accept" if accepted else "false reject"
            except gr.GuiderailError as error:
                verdict, detail = "error", f"{error.code}: {detail}"
            yield Result(file, name, test["description"], verdict, detail=detail)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drafts", default=",".join(DRAFTS))
    parser.add_argument("--file", default="", help="only files whose name contains this")
    parser.add_argument("--write", action="store_true", help="write the ratchet (all drafts, all files)")
    options = parser.parse_args()
    found: dict[str, list[Result]] = {}
    for draft in options.drafts.split(","):
        every = [r for file in suite(draft)["files"] if options.file in file for r in results(draft, file)]
        found[draft] = [r for r in every if r.verdict != "right"]
        for part, inside in (("required", False), ("optional", True)):
            some = [r for r in every if r.file.startswith("optional/") == inside]
            total = sum(r.instances for r in some)
            counts: dict[str, int] = {}
            for r in some:
                counts[r.verdict] = counts.get(r.verdict, 0) + r.instances
            right = counts.get("right", 0)
            print(f"{draft} {part}: {right} of {total} right ({100 * right / max(1, total):.2f} %); {counts}")
        known = RATCHET.listed(draft)
        for r in found[draft]:
            mark = known.get(r.key, ("", "NOT LISTED"))[1]
            print(f"  {r.verdict}: {r.key}: {r.detail}   [{mark}]")
    if options.write:
        RATCHET.write(found)


if __name__ == "__main__":
    sys.exit(main())
