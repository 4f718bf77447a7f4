"""Replays the recorded tests of XGrammar and the tables of llguidance's tests through ``guiderail.compat``.

``peer_tables.py`` says where they are. ``tests/data/compat_ratchet.json`` lists each case with a different answer and
its reason: a case may become right, never wrong.

    python tests/compat_peers.py            # how many answers agree, by kind
    python tests/compat_peers.py --write    # writes the list
    python tests/compat_peers.py llguidance # only one library
"""

from __future__ import annotations

import base64
import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peer_tables import folder, rows

HERE = Path(__file__).resolve().parent
RATCHET = HERE / "data" / "compat_ratchet.json"
SPECS = ("schema", "ebnf", "regex", "lark", "stag", "concat", "union", "json")


@dataclass
class Played:
    """The results of a library's tests.

    Attributes:
        asked, alike: calls by kind.
        differing: case → number of calls that differ.
        first: case → the first of these calls.
    """

    asked: Counter[str] = field(default_factory=Counter)
    alike: Counter[str] = field(default_factory=Counter)
    differing: Counter[str] = field(default_factory=Counter)
    first: dict[str, tuple[str, str]] = field(default_factory=dict)

    def note(self, kind: str, case: str, same: bool, what: str, ours: object) -> None:
        self.asked[kind] += 1
        if same:
            self.alike[kind] += 1
            return
        self.differing[case] += 1
        self.first.setdefault(case, (what, str(ours)))

    @property
    def share(self) -> float:
        return sum(self.alike.values()) / max(1, sum(self.asked.values()))


# -- XGrammar --------------------------------------------------------------------------------------------------------
def tokenizer_of(description: dict[str, Any] | None) -> Any:
    import guiderail.compat.xgrammar as xgr

    if not description:
        return xgr.TokenizerInfo([])
    tokens = [base64.b64decode(token["b"]) for token in description["vocab"]]
    return xgr.TokenizerInfo(tokens, vocab_size=description["size"], stop_token_ids=description["stop"])


def grammar_of(spec: dict[str, Any]) -> Any:
    """Makes the grammar of an XGrammar test by the same call."""
    from guiderail.compat.xgrammar import Grammar

    kind = spec["kind"]
    if kind == "schema":
        options = {key: value for key, value in spec["opts"].items() if value is not None}
        style = options.pop("json_format", None)
        if style is not None:  # an internal function of XGrammar; its users write a structural tag
            form = {"type": "json_schema", "json_schema": json.loads(spec["schema"]), "style": style}
            form |= {"any_order": True} if options.get("any_order") else {}
            return Grammar.from_structural_tag({"type": "structural_tag", "format": form})
        if "separators" in options:
            options["separators"] = tuple(options["separators"])
        return Grammar.from_json_schema(spec["schema"], **options)
    if kind == "lark":
        named = {name: one if isinstance(one, str) else grammar_of(one) for name, one in spec["named"].items()}
        info = tokenizer_of(spec["tok"]) if spec["tok"] else None
        return Grammar.from_lark(spec["text"], tokenizer_info=info, named_grammars=named)
    if kind in ("concat", "union"):
        return getattr(Grammar, kind)(*map(grammar_of, spec["parts"]))
    if kind == "json":
        return Grammar.builtin_json_grammar()
    if kind == "ebnf":
        return Grammar.from_ebnf(spec["text"], root_rule_name=spec["root"])
    return Grammar.from_regex(spec["pattern"]) if kind == "regex" else Grammar.from_structural_tag(spec["text"])


def is_known(spec: dict[str, Any]) -> bool:
    """Returns whether the recording contains the source of a grammar."""
    parts = [*spec.get("parts", ()), *(one for one in spec.get("named", {}).values() if isinstance(one, dict))]
    return spec["kind"] in SPECS and all(map(is_known, parts))


class XGrammarTests:
    """Replays the calls in order. Later calls use what earlier ones made, as recorded."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.specs: dict[int, dict[str, Any]] = {}
        self.grammars: dict[int, Any] = {}  # or its error
        self.compiled: dict[int, Any] = {}
        self.matchers: dict[int, tuple[Any, int]] = {}
        self.played = Played()

    def play(self) -> Played:
        for row in rows(self.path):
            if "spec" in row:
                self.specs[row["spec"]] = row
                continue
            for call in row["calls"]:
                self.call(*call)
        return self.played

    def grammar(self, spec: int) -> Any:
        from guiderail.compat.xgrammar import GrammarCompiler

        if spec not in self.grammars:
            try:
                self.grammars[spec] = grammar_of(self.specs[spec])
                info = tokenizer_of(self.specs[spec].get("tok"))
                self.compiled[spec] = GrammarCompiler(info, cache_enabled=False).compile_grammar(self.grammars[spec])
            except Exception as error:  # any error is a different answer
                self.grammars.setdefault(spec, error)
                self.compiled[spec] = error
        return self.grammars[spec]

    def call(self, operation: str, *rest: Any) -> None:
        if operation == "end":
            return
        if operation == "create":
            spec, error = rest
            if is_known(self.specs[spec]):
                made = self.grammar(spec)
                self.note(spec, isinstance(made, Exception) == (error is not None), "create", made)
            return
        if operation == "matcher":
            number, spec, options, _ = rest
            self.matchers[number] = (self.matcher(spec, options), spec)
            return
        number, arguments, answer = rest
        if number not in self.matchers:  # of a fork, which was not recorded
            return
        matcher, spec = self.matchers[number]
        if not is_known(self.specs[spec]):
            return
        if matcher is None:
            self.note(spec, False, operation, "no matcher")
            return
        given = [base64.b64decode(one["b"]) if isinstance(one, dict) else one for one in arguments]
        ours = getattr(matcher, operation)(*given)
        self.note(spec, ours == answer, f"{operation}{tuple(arguments)!r} is {answer!r} there", ours)

    def matcher(self, spec: int, options: dict[str, Any]) -> Any:
        from guiderail.compat.xgrammar import GrammarMatcher

        if not is_known(self.specs[spec]):
            return None
        self.grammar(spec)
        compiled = self.compiled[spec]
        made = None if isinstance(compiled, Exception) else GrammarMatcher(compiled, **options)
        self.note(spec, made is not None, "matcher", compiled)
        return made

    def note(self, spec: int, same: bool, what: str, ours: object) -> None:
        self.played.note(self.specs[spec]["kind"], str(spec), same, what, ours)


# -- llguidance ------------------------------------------------------------------------------------------------------
def whole_grammar(row: dict[str, Any]) -> Any:
    """Returns the grammar of a case, including the one that it refers to as ``@sub``."""
    if "schema" in row and "lark" not in row:
        from guiderail.compat.llguidance import LLMatcher

        return LLMatcher.grammar_from_json_schema(row["schema"])
    if "schema" in row:
        return {"grammars": [{"lark_grammar": row["lark"]}, {"name": "sub", "json_schema": json.loads(row["schema"])}]}
    if "sub" in row:
        return {"grammars": [{"lark_grammar": row["lark"]}, {"name": "sub", "lark_grammar": row["sub"]}]}
    return row["lark"]


class LlguidanceTables:
    """Queries a matcher over bytes; for traces, checks that the text is accepted and forbidden tokens are rejected."""

    def __init__(self, place: Path) -> None:
        from guiderail.compat.llguidance import LLTokenizer

        self.place = place
        self.tokenizer = LLTokenizer("byte")
        self.matchers: dict[str, Any] = {}
        self.played = Played()

    def play(self) -> Played:
        for path in sorted(self.place.glob("*.jsonl.gz")):
            for number, row in enumerate(rows(path)):
                name = path.name.removesuffix(".jsonl.gz")
                same, ours = self.case(row)
                what = f"{row['op']} {row.get('accept', '')} {row.get('test', '')}"
                self.played.note(f"{name} {row['op']}", f"{name}:{number}", same, what, ours)
        return self.played

    def matcher(self, row: dict[str, Any]) -> Any:
        from guiderail.compat.llguidance import LLMatcher

        grammar = whole_grammar(row)
        key = grammar if isinstance(grammar, str) else json.dumps(grammar)
        if key not in self.matchers:
            self.matchers = {key: LLMatcher(self.tokenizer, grammar, log_level=0)}
        return self.matchers[key]

    def case(self, row: dict[str, Any]) -> tuple[bool, str]:
        try:
            matcher = self.matcher(row)
        except Exception as error:  # any error is no answer
            return False, repr(error)
        operation = row["op"]
        if operation in ("err", "json_err"):
            return matcher.is_error(), "it is read"
        if matcher.is_error():
            return operation != "ok" and row.get("accept") is False, matcher.get_error()
        if operation == "ok":
            return True, ""
        if operation == "trace":
            return self.trace(matcher, row["output"])
        return self.fits(matcher, row["text"] if "text" in row else row["input"]) == row["accept"], "otherwise"

    def fits(self, matcher: Any, text: str, whole: bool = True, special: bool = False) -> bool:
        twin, data = matcher.deep_copy(), self.tokenizer.tokenize_str(text, parse_special=special)
        return twin.try_consume_tokens(data) == len(data) and (twin.is_accepting() or not whole)

    def trace(self, matcher: Any, output: list[str]) -> tuple[bool, str]:
        if any("<[" in part for part in output):
            return False, "tokens by number"
        tokens: list[str] = []
        for part in output:
            taken, _, part = part.rpartition("↶") if "↶" in part else ("0", "", part)
            tokens = tokens[: len(tokens) - int(taken)]  # tokens that llguidance takes back
            for token in part.split("‧"):
                token, *refused = token.split("✖")
                tokens += [token] if token and token != "≺EOS≻" else []
                for other in refused:
                    text = "".join(tokens) + other.removesuffix("≺EOS≻")
                    if other and self.fits(matcher, text, other == "≺EOS≻", special=True):
                        return False, f"{other!r} may come after {''.join(tokens)!r}"
        text = "".join(tokens)
        return self.fits(matcher, text, special=True), f"{text!r} does not come out"


PLAYERS: dict[str, Callable[[Path], Played]] = {
    "xgrammar": lambda place: XGrammarTests(place / "recorded.jsonl.gz").play(),
    "llguidance": lambda place: LlguidanceTables(place).play(),
}


# -- the list of differences ----------------------------------------------------------------------------------------
def ratchet() -> dict[str, Any]:
    """Returns the known differences: library → case → number of calls, and one of the ``reasons``."""
    return json.loads(RATCHET.read_text(encoding="utf-8"))


def worse(library: str, played: Played) -> list[str]:
    """Returns the cases that differ more than listed."""
    known = ratchet()[library]
    return [
        f"{case}: {count} calls differ, {known.get(case, [0])[0]} are listed; first {played.first[case]}"
        for case, count in played.differing.items()
        if count > known.get(case, [0])[0]
    ]


def written(found: dict[str, Any]) -> str:
    """Returns the list as JSON, one line per case."""

    def lines(part: dict[str, Any]) -> str:
        return ",\n".join(f"  {json.dumps(key)}: {json.dumps(one, ensure_ascii=False)}" for key, one in part.items())

    return "{\n" + ",\n".join(f' "{name}": {{\n{lines(part)}\n }}' for name, part in found.items()) + "\n}\n"


def main() -> None:
    found = json.loads(RATCHET.read_text(encoding="utf-8")) if RATCHET.exists() else {"reasons": {}}
    for library, play in PLAYERS.items():
        if sys.argv[-1] in PLAYERS and library != sys.argv[-1]:
            continue
        place = folder(library)
        if place is None:
            sys.exit(f"the recorded tests of {library} are not at hand")
        played = play(place)
        print(f"{library}: {sum(played.alike.values())} of {sum(played.asked.values())}, {played.share:.2%}")
        for kind in sorted(played.asked):
            print(f"  {kind:32} {played.alike[kind]:7} of {played.asked[kind]:7}")
        found.setdefault(library, {})
        listed = {}
        for case, count in sorted(played.differing.items(), key=lambda one: (len(one[0]), one[0])):
            what, ours = played.first[case]
            before = found[library].get(case, [0, "new"])
            listed[case] = [count, before[1]]
            if before[1] == "new":
                print(f"  new: {case}: {count} calls; {what}: {ours[:200]}")
        found[library] = listed
    if "--write" in sys.argv:
        RATCHET.write_text(written(found), encoding="utf-8")


if __name__ == "__main__":
    main()
