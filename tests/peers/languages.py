"""Runs the tables of other libraries' tests for grammars and schemas; the ratchet lists the cases that differ.

    python tests/peers/languages.py                 # differences and agreement, by table
    python tests/peers/languages.py --only lark     # tables whose names contain this
    python tests/peers/languages.py --write         # rewrite the ratchet; reasons of known cases stay

``peer_tables.py`` says where the tables are; their README says how they are made. A case is a grammar or schema with a
text that must (not) match, or one that must (not) compile, or a sequence of tokens with those that each mask must (not)
contain.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import guiderail as gr

sys.path.insert(0, str(Path(__file__).parents[1]))
import peer_tables
from ratchet import Ratchet

RATCHET = Ratchet("peers_ratchet.json")
UNSATISFIABLE = ("unsatisfiable", "unsatisfiable-schema")
TABLES = (
    *(f"llguidance/test_json_{part}" for part in ("arrays", "enum_const", "objects", "primitives")),
    *(f"llguidance/test_json_{part}" for part in ("schema_combinations", "string_format", "x_guidance")),
    "llguidance/test_lark",
    "llguidance/test_ll",
    "llama.cpp/integration-1",
    "llama.cpp/integration-2",
    "xgrammar/recorded",
)


def rows(table: str) -> Iterator[dict[str, Any]]:
    library, _, name = table.partition("/")
    at = peer_tables.folder(library)
    assert at is not None, peer_tables.SKIP
    return peer_tables.rows(at / f"{name}.jsonl.gz")


@dataclass(frozen=True)
class Result:
    """The result of one case: ``verdict`` is "right" or the kind of difference."""

    key: str
    verdict: str
    detail: str = ""


# -- reading ------------------------------------------------------------------------------------------------------
@functools.lru_cache(maxsize=4096)
def _read(kind: str, text: str) -> tuple[gr.Constraint | None, gr.GuiderailError | None]:
    made: dict[str, Callable[[str], gr.Constraint]] = {
        "schema": lambda text: gr.json_schema(json.loads(text)),
        "lark": lambda text: gr.grammar(text, syntax="lark"),
        "gbnf": lambda text: gr.grammar(text, syntax="gbnf"),
        "regex": lambda text: gr.regex(text, dialect="ecma"),
        "in order": lambda text: gr.json_schema(json.loads(text), layout="free", property_order="declared"),
    }
    try:
        constraint = made[kind](text)
        constraint.program()
        return constraint, None
    except gr.GuiderailError as error:
        return None, error


def _with_tokens(key: str, kind: str, text: str, data: bytes, expected: bool) -> Result:
    """The sample represents a token as 0xFF and four bytes of its number."""
    constraint, error = _read(kind, text)
    if constraint is None:
        return Result(key, "refused", "" if error is None else f"{error.code}: {error.message}"[:200])
    program = constraint.program()
    state = program.start
    for part in re.split(rb"(\xff.{4})", data, flags=re.DOTALL):
        if part[:1] == b"\xff":
            token, before = int.from_bytes(part[1:], "big"), state
            state = 0
            for symbol in program.core.first_symbols(before):
                other = not isinstance(symbol, str | int)
                if (token in symbol.tokens) != symbol.but if other else token == symbol:
                    state = program.core.derivative_symbol(before, symbol)
                    break
        else:
            state = program.read(state, part)
    found = program.core.is_nullable(state)
    return Result(key, "right" if found == expected else "false accept" if found else "false reject", repr(data)[:100])


def _matches(key: str, kind: str, text: str, sample: str | bytes, expected: bool) -> Result:
    constraint, error = _read(kind, text)
    if constraint is None:
        assert error is not None
        right = error.code in UNSATISFIABLE and not expected
        return Result(key, "right" if right else "refused", "" if right else f"{error.code}: {error.message}"[:200])
    try:
        found = constraint.matches(sample)
    except gr.GuiderailError as problem:
        return Result(key, "error", f"{problem.code}: {problem.message}"[:200])
    verdict = "right" if found == expected else "false accept" if found else "false reject"
    return Result(key, verdict, str(sample)[:100])


# -- a vocabulary like that of the traces --------------------------------------------------------------------------
_NAMED = {32000: "<|endoftext|>", 32001: "<|assistant|>", 32002: "<|placeholder1|>", 32006: "<|system|>"}
_NAMED |= {32003: "<|placeholder2|>", 32004: "<|placeholder3|>", 32005: "<|placeholder4|>", 32007: "<|end|>"}
_NAMED |= {32008: "<|placeholder5|>", 32009: "<|placeholder6|>", 32010: "<|user|>"}
_KNOWN = {29730: "zott", 5431: "foo", 5432: " calling", 5426: "long", 5427: "asta", 9005: "reh"}
_SIZE = 35_000
EOS = 32000


@functools.cache
def vocabulary() -> gr.Vocabulary:
    """A vocabulary of bytes, the words of the traces, and the tokens that their grammars name by number."""
    words = {word for row in rows("llguidance/test_ll") for part in row.get("output", ()) for _, word in steps(part)}
    words = {word for word in words if not word.startswith(("<|", "<[", "≺", "1↶")) and word}
    tokens: list[bytes] = [bytes([b]) for b in range(256)]
    special: dict[str, int] = {text: number for number, text in _NAMED.items()}
    free = iter(sorted(words - set(_KNOWN.values()) - {t.decode("latin-1") for t in tokens[:128]}))
    for number in range(256, _SIZE):
        if number in _NAMED:
            tokens.append(_NAMED[number].encode())
        elif number in _KNOWN:
            tokens.append(_KNOWN[number].encode())
        elif number < 32000 and not (300 <= number <= 310 or 400 <= number <= 410 or 9000 <= number <= 9010):
            tokens.append(next(free, f"⟦{number}⟧").encode())
        else:
            special[f"<[{number}]>"] = number
            tokens.append(b"")
    return gr.Vocabulary(tokens, special_tokens=special, stop_token_ids=[EOS])


def steps(part: str) -> list[tuple[bool, str]]:
    """Returns the tokens of a part of a trace. ``✖a✖b‧c``: the mask contains neither a nor b, then c is read."""
    return [(not one.startswith("✖"), one.lstrip("✖")) for one in re.findall(r"✖[^‧✖]*|[^‧✖]+", part)]


@functools.cache
def _ids() -> dict[bytes, int]:
    known = vocabulary()
    found: dict[bytes, int] = {}
    for number in range(known.size):
        found.setdefault(known.token_bytes(number), number)
    return found


def _token(word: str) -> list[int]:
    if word == "≺EOS≻":
        return [EOS]
    named = re.fullmatch(r"<\[(\d+)\]>", word)
    if named:
        return [int(named[1])]
    special = vocabulary().special_tokens.get(word)
    if special is not None:
        return [special]
    number = _ids().get(word.encode())
    return [number] if number is not None else list(word.encode())


def _trace(key: str, row: dict[str, Any]) -> Result:
    """Follows a trace; text that a stop takes back is left out."""
    try:
        given: dict[str, gr.Constraint] = {}
        if "schema" in row:
            given["sub"] = gr.json_schema(json.loads(row["schema"]), layout="free")
        if "sub" in row:
            given["sub"] = gr.grammar(row["sub"], syntax="lark")
        guide = gr.compile(gr.grammar(row["lark"], syntax="lark", constraints=given), vocabulary())
    except gr.GuiderailError as error:
        return Result(key, "refused", f"{error.code}: {error.message}"[:200])
    words: list[tuple[bool, str]] = []
    parts = list(row["output"])
    if "prompt" in row and row["prompt"] and parts:
        return Result(key, "right", "begins in the middle of a prompt")
    for part in parts:
        if part.startswith("1↶"):  # the last token is taken back
            words.pop()
            part = part[2:]
        words += steps(part)
    matcher = guide.matcher()
    bitmask = gr.allocate_token_bitmask(1, guide.vocabulary.size)
    read = ""
    for allowed, word in words:
        for token in _token(word):
            matcher.fill_next_token_bitmask(bitmask, 0)
            found = bool(int(np.uint32(bitmask[0, token // 32])) >> (token % 32) & 1)
            if found != allowed:
                return Result(key, "false accept" if found else "false reject", f"{read!r} then {word!r}"[-120:])
            if allowed:
                matcher.accept_token(token)
        read += word if allowed else ""
    if not (matcher.is_accepting() or matcher.is_terminated()):
        return Result(key, "false reject", f"{read!r} may not end"[-120:])
    return Result(key, "right")


# -- the tables -----------------------------------------------------------------------------------------------------
def _llguidance(table: str) -> Iterator[Result]:
    numbers: dict[str, int] = {}
    for row in rows(table):
        numbers[row["test"]] = number = numbers.get(row["test"], -1) + 1
        key, op = f"{row['test']} {number}", row["op"]
        kind, text = ("schema", row["schema"]) if op.startswith("json") else ("lark", row["lark"])
        if op == "trace":
            yield _trace(key, row)
        elif op in ("str", "json"):
            yield _matches(key, kind, text, row["input"] if op == "str" else row["text"], row["accept"])
        else:
            constraint, error = _read(kind, text)
            if constraint is not None and "special token" in row.get("err", ""):
                try:
                    gr.compile(constraint, vocabulary())
                except gr.GuiderailError as problem:
                    constraint, error = None, problem
            wanted = op == "ok"
            verdict = "right" if wanted == (error is None) else "refused" if wanted else "not refused"
            yield Result(key, verdict, row.get("err", "") if error is None else f"{error.code}: {error.message}"[:200])


def _llama_cpp(table: str) -> Iterator[Result]:
    numbers: dict[str, int] = {}
    for row in rows(table):
        name = row["desc"]
        kind = "in order" if row["kind"] == "schema" else "gbnf" if "::=" in row["text"] else "lark"
        numbers[name] = number = numbers.get(name, -1) + 1
        samples = [(text, True) for text in row["pass"]] + [(text, False) for text in row["fail"]]
        for at, (text, expected) in enumerate(samples):
            key, data = f"{name} {number}.{at}", text.encode("latin-1")  # each character is a byte
            yield (_with_tokens if b"\xff" in data else _matches)(key, kind, row["text"], data, expected)


def _xgrammar(table: str) -> Iterator[Result]:
    """Yields whether each grammar compiles, and which texts its matchers accept."""
    specs: dict[int, dict[str, Any]] = {}
    created: dict[int, str | None] = {}
    samples: dict[int, dict[str, bool]] = {}
    for row in rows(table):
        if "spec" in row:
            specs[row["spec"]] = row
            continue
        fresh: dict[Any, tuple[int, str]] = {}
        for call in row["calls"]:
            if call[0] == "create":
                created.setdefault(call[1], call[2])
            elif call[0] == "matcher":
                fresh[call[1]] = (call[2], "")
            elif call[0] == "accept_string" and call[1] in fresh and isinstance(call[2][0], str):
                number, before = fresh.pop(call[1])
                samples.setdefault(number, {})[before + call[2][0]] = bool(call[3])
                if call[3]:
                    fresh[call[1]] = (number, before + call[2][0])
            elif call[0] in ("accept_token", "rollback", "reset") and len(call) > 1:
                fresh.pop(call[1], None)
    for number, spec in specs.items():
        if spec["kind"] not in ("ebnf", "regex", "lark") or number not in created or spec.get("named"):
            continue
        kind = {"ebnf": "gbnf"}.get(spec["kind"], spec["kind"])
        text = spec["pattern"] if kind == "regex" else spec["text"]
        if spec.get("root", "root") != "root":
            continue
        constraint, error = _read(kind, text)
        key = f"{spec['kind']} {number}"
        wanted = created[number] is None
        if wanted != (error is None) or constraint is None:
            right = wanted == (error is None)
            detail = created[number] if error is None else f"{error.code}: {error.message}"
            yield Result(key, "right" if right else "refused" if wanted else "not refused", str(detail)[:200])
            continue
        for at, (sample, expected) in enumerate(samples.get(number, {}).items()):
            program = constraint.program()
            state = program.read(program.start, sample)
            found = program.core.is_live(state)
            verdict = "right" if found == expected else "false accept" if found else "false reject"
            yield Result(f"{key}.{at}", verdict, sample[:100])


def results(table: str) -> Iterator[Result]:
    """Runs a table."""
    library = table.split("/")[0]
    run = {"llguidance": _llguidance, "llama.cpp": _llama_cpp, "xgrammar": _xgrammar}[library]
    yield from run(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only tables whose names contain this")
    parser.add_argument("--show", type=int, default=3, help="cases shown of each kind")
    parser.add_argument("--quiet", action="store_true", help="only the figures")
    parser.add_argument("--write", action="store_true", help="write the ratchet for these tables")
    options = parser.parse_args()
    found: dict[str, list[Result]] = {}
    for table in TABLES:
        if options.only not in table:
            continue
        every = list(results(table))
        found[table] = [one for one in every if one.verdict != "right"]
        equal = len(every) - len(found[table])
        print(f"{table}: {equal} of {len(every)} equal ({100 * equal / max(1, len(every)):.2f} %)")
        known = RATCHET.listed(table)
        groups: dict[str, list[Result]] = {}
        for one in () if options.quiet else found[table]:
            kind = f"{one.verdict}: {one.detail}" if one.verdict == "refused" else one.verdict
            groups.setdefault(f"{kind} [{known.get(one.key, ('', 'NOT LISTED'))[1]}]", []).append(one)
        for kind, some in sorted(groups.items(), key=lambda item: -len(item[1])):
            print(f"  {len(some)} {kind}")
            for one in some[: options.show]:
                print(f"      {one.key}: {one.detail if one.verdict != 'refused' else ''}")
    if options.write:
        RATCHET.write(found)


if __name__ == "__main__":
    sys.exit(main())
