"""Decides with jsonschema which engine is right where guiderail and web-xgrammar judge a text differently.

    python benchmarks/js/judge.py build/js-bench

Run it after ``compare.js``, which records both verdicts on every text. Formats count, because both engines enforce
some.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from jsonschema import validators

import guiderail as gr


def errors_of(schema: Any, value: Any) -> list[Any]:
    kind = validators.validator_for(schema, default=validators.Draft202012Validator)
    return list(kind(schema, format_checker=kind.FORMAT_CHECKER).iter_errors(value))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    described = json.loads((folder / "cases.json").read_text())
    vocabulary = gr.load(folder / described["vocabularies"]["main"]["file"])
    cases = {case["name"]: case for case in described["cases"] if case["schema"] is not None}
    right: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for verdict in json.loads((folder / "verdicts.json").read_text()):
        case = cases[verdict["name"]]
        tokens = case["texts"][verdict["text"]]["tokens"][:-1]  # without the token that ends the text
        found = errors_of(case["schema"], json.loads(b"".join(map(vocabulary.token_bytes, tokens))))
        ours, theirs, valid = verdict["ours"], verdict["theirs"], not found
        right[
            {(True, True): "both", (True, False): "only guiderail", (False, True): "only web-xgrammar"}.get(
                (ours == valid, theirs == valid), "neither"
            )
        ] += 1
        if ours == valid == theirs:
            continue
        reason = "valid" if valid else "invalid: " + ", ".join(sorted({str(error.validator) for error in found}))
        wrong = " and ".join(name for name, given in (("guiderail", ours), ("web-xgrammar", theirs)) if given != valid)
        kinds[f"{reason}; wrong: {wrong}"] += 1
        print(f"{verdict['name']}, text {verdict['text']}: {reason}; wrong: {wrong}")
    print(f"\n{right.total()} texts; right: " + ", ".join(f"{name} {count}" for name, count in right.most_common()))
    for kind, count in kinds.most_common():
        print(f"{count:5d}  {kind}")


if __name__ == "__main__":
    main()
