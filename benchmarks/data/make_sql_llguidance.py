"""Writes sql_llguidance.lark: the ready-made SQL grammar in the dialect of Lark that llguidance reads.

The dialect has no templates, no ``~n``, no priorities, no look-ahead and no trees; it has ``&`` and ``~`` of terminals.
So templates are written out, and ``& ~`` excludes reserved words from ``NAME``. Rules and tokens are otherwise those of
the library. The condition that keywords and numbers are whole words is left out: it would double llguidance's time for
a mask.

    python benchmarks/data/make_sql_llguidance.py
"""

from __future__ import annotations

import re
from pathlib import Path

from guiderail.frontends.grammar import library

OUT = Path(__file__).with_name("sql_llguidance.lark")
NOTE = """\
// The SQL of guiderail's library (`grammars.sql()`) in llguidance's dialect of Lark's notation, for benchmarks.
// Written by make_sql_llguidance.py: templates are written out, reserved words taken from NAME by `& ~`. It takes every
// statement that the library's grammar takes, and some more: `SELECTa`, `12abc` and keywords as aliases (`SELECT a LIKE`),
// since llguidance tries every lexeme that fits where Lark takes the longest or the keyword.
"""
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"i?|/(?:[^/\\]|\\.)+/[a-z]*|->\s*\w+|~\s*\d+|\w+\{[^{}]*\}|\w+|\s+|.', re.DOTALL)
_RULE = re.compile(r"(?m)^[?!]*(_?[a-z]\w*)(?:\{([\w, ]+)\})?[ ]*:((?:.*\n)(?:[ \t]+.*\n)*)")


def written_out(text: str) -> str:
    """Returns the rules of a grammar, with a rule for each use of a template, and without the notation for trees."""
    rules = {name: (re.findall(r"\w+", given or ""), body) for name, given, body in _RULE.findall(text)}
    done: dict[str, str] = {}
    waiting: list[tuple[str, tuple[str, ...]]] = [("start", ())]
    while waiting:
        name, values = waiting.pop()
        own = "__".join((name, *(value.strip("_") for value in values)))
        if own in done:
            continue
        parameters, body = rules[name]
        bound = dict(zip(parameters, values, strict=True))
        out: list[str] = []
        for piece in _PIECE.findall(body):
            if piece.startswith("->"):
                continue
            if piece.startswith("~"):
                out.append("{" + piece[1:].strip() + "}")
                continue
            called, _, given = piece.partition("{")
            called = bound.get(called, called)
            if called not in rules or piece[0] in '"/':
                out.append(piece)
                continue
            arguments = tuple(bound.get(x, x) for x in re.findall(r"\w+", given))
            waiting.append((called, arguments))
            out.append("__".join((called, *(value.strip("_") for value in arguments))))
        done[own] = "".join(out).strip()
    return "".join(f"{name}: {body}\n" for name, body in done.items())


def terminals(text: str) -> str:
    """Returns the terminals in the dialect, without priorities and look-ahead, and the ignored ones."""
    reserved = re.search(r"(?m)^NAME: /\(\?!\(\?:([^)]*)\)\\b\)", text)
    assert reserved is not None
    text = text.replace(reserved[0], "NAME: /", 1)
    text = re.sub(r"(?m)^(NAME: /.*/i)$", lambda found: f"{found[1]} & ~/(?:{reserved[1]})/i", text)
    text = re.sub(r"(?m)^([A-Z_]+)\.\d+:", r"\1:", text)
    text = re.sub(r"(?m)^//.*\n|^_never:.*\n|^NEVER:.*\n", "", text)
    for byte in sorted(set(re.findall(r"\\U([0-9A-F]{8})", text))):
        text = text.replace(f"\\U{byte}", f"\\x{{{byte.lstrip('0')}}}")
    return re.sub(r"\\u([0-9a-f]{4})", r"\\x{\1}", text)


def main() -> None:
    """Writes the file."""
    rules, words, ends = (
        (Path(library.__file__).parent / "sql.lark").read_text(encoding="utf-8").partition("// -- words")
    )
    rules = re.sub(r"(?m)^//.*\n", "", re.sub(r"\| \w+ _never ", "", rules))
    OUT.write_text(NOTE + written_out(rules) + terminals(words + ends), encoding="utf-8")


if __name__ == "__main__":
    main()
