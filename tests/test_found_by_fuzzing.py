"""Faults that fuzzers found. `docs/testing.md` says how to run them."""

from __future__ import annotations

import itertools
import random
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest

import guiderail as gr
from core_support import mask_of, plain
from guiderail import _core

BYTES = plain([*(bytes([b]) for b in range(256)), b'"a', b'"b":', b'",', b"1,"])
OBJECT = {"type": "object", "additionalProperties": {"type": "integer"}}
SET = {"type": "array", "uniqueItems": True, "items": {"type": "string"}}


def walk(constraint: gr.Constraint, text: bytes, vocabulary: gr.Vocabulary = BYTES) -> bool:
    """Reads ``text`` byte by byte, and compares each mask with ``accept_token``; returns whether it is a match."""
    matcher = gr.compile(constraint, vocabulary, cache=False).matcher()
    for byte in text:
        mask = mask_of(matcher)
        for token in range(vocabulary.size):
            assert matcher.fork().accept_token(token) == mask[token], (text, token)
        assert matcher.accept_token(byte)
    return matcher.is_accepting()


@pytest.mark.parametrize(
    ("constraint", "text", "matches"),
    [
        (~gr.json_schema(OBJECT), b'{"ab": 1, "ab": 2}', True),
        (~gr.json_schema(OBJECT), b'{"ab": 1}', False),
        (~gr.json_schema(SET), b'["ab", "ab", "ac"]', True),
        (gr.literal("a") + ~gr.json_schema(SET), b'a["ab", "ac"]', False),
        (gr.python_type(Annotated[str, gr.json_schema(OBJECT)]), rb'"{\"ab\": 1, \"cd\": 22}"', True),
        (gr.python_type(Annotated[str, gr.json_schema(SET)]), rb'"[\"ab\", \"cd\"]"', True),
    ],
)
def test_keys_that_cannot_be_forgotten(constraint: gr.Constraint, text: bytes, matches: bool) -> None:
    """Under a complement and inside a string, the texts of keys and items stay. The search for a form without them
    never ended, and killed the process."""
    assert walk(constraint, text) == matches


def test_a_piece_that_is_not_utf8(tmp_path: Path) -> None:
    """A file that SentencePiece reads, with a broken piece: its own binding raises ``UnicodeDecodeError``."""
    pytest.importorskip("sentencepiece")

    def field(number: int, kind: int, value: bytes) -> bytes:
        return bytes([number << 3 | kind]) + value

    def piece(text: bytes, kind: int) -> bytes:
        inner = field(1, 2, bytes([len(text)]) + text) + field(2, 5, bytes(4)) + field(3, 0, bytes([kind]))
        return field(1, 2, bytes([len(inner)]) + inner)

    pieces = [piece(b"<unk>", 2), piece(b"<s>", 3), piece(b"</s>", 3), piece(b"\xe2", 1)]
    path = tmp_path / "tokenizer.model"
    path.write_bytes(b"".join(pieces) + field(2, 2, bytes([2]) + field(3, 0, bytes([2]))))
    with pytest.raises(gr.VocabularyError) as caught:
        gr.Vocabulary.from_sentencepiece(str(path))
    assert caught.value.code == "bad-tokenizer-file"


@pytest.mark.parametrize("length", [2**31, 2**63 - 1, 2**64 - 1])
@pytest.mark.parametrize("key", [b"tokenizer.ggml.tokens", b"some.other.texts"])
def test_a_length_beyond_the_file(tmp_path: Path, key: bytes, length: int) -> None:
    """Lengths of texts in GGUF were added up before they were checked: ``OverflowError``."""
    text = struct.pack("<Q", length) + b"a"
    pair = struct.pack("<Q", len(key)) + key + struct.pack("<IIQ", 9, 8, 3) + text * 3
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + pair)
    with pytest.raises(gr.VocabularyError) as caught:
        gr.Vocabulary.from_gguf(path)
    assert caught.value.code == "bad-tokenizer-file"


@pytest.mark.parametrize(
    "schema",
    [
        '<xs:schema xmlnshs:x="http://www.w3.org/2001/XMLSchema"><xs:element name="a"/></xs:schema>',
        '<schema xmlns="http://www.w3.org/2001/XMLSchema"><element name="a" q:r="1"/></schema>',
        '<schema xmlns="http://www.w3.org/2001/XMLSchema" xmlns:q=""><element name="a"/></schema>',
    ],
)
def test_a_prefix_that_nothing_binds(schema: str) -> None:
    """Well-formed XML without its namespaces: the reader of prices raised an error of expat."""
    with pytest.raises(gr.GuiderailError) as caught:
        gr.xml_schema(schema).program()
    assert caught.value.code == "xml-syntax"


AMBIGUOUS = {"a": ["a d", "xxy", "b x b"], "b": ["d a xy"], "d": ["xy", "x"]}


def derives(text: str, rules: dict[str, list[str]], start: str) -> bool:
    """Returns whether the rules derive the text: the ends of each rule from each position, to the least fixed point."""
    ends: dict[tuple[str, int], set[int]] = {(rule, i): set() for rule in rules for i in range(len(text) + 1)}
    grew = True
    while grew:
        grew = False
        for rule, i in ends:
            for alternative in rules[rule]:
                here = {i}
                for part in alternative.split():
                    here = {
                        k
                        for j in here
                        for k in (
                            ends[part, j] if part in rules else {j + len(part)} & {text.find(part, j) + len(part)}
                        )
                    }
                grew = grew or not here <= ends[rule, i]
                ends[rule, i] |= here
    return len(text) in ends[start, 0]


@pytest.mark.parametrize("seed", [1, 4, 5])
def test_a_memo_emptied_while_it_is_filled(seed: int) -> None:
    """The union of a list of tails is cached under a number, and numbers restart when the memo is cleared. The memo was
    cleared during such a union, so the old number referred to another list: wrong texts were accepted."""

    def spelled(alternative: str) -> str:
        return " ".join(part if part in AMBIGUOUS else f'"{part}"' for part in alternative.split())

    rules = [f"{name} ::= {' | '.join(map(spelled, some))}" for name, some in AMBIGUOUS.items()]
    constraint = gr.grammar("\n".join([*rules, f"# {seed}"]), "gbnf", start="a")
    core, rng, texts = constraint.program().core, random.Random(seed), []
    for _ in range(30):  # each search for an end makes many lists
        state, read = core.root, b""
        for _ in range(rng.randrange(20)):
            read += bytes([rng.choice(core.first_bytes(state))])
            state = core.derivative(core.root, read)
        end = core.shortest(state, 400)
        assert end is not None
        texts.append((read + end).decode())
    assert [text for text in texts if len(text) <= 40 and not derives(text, AMBIGUOUS, "a")] == []
    for text in sorted({text[:i] for text in texts for i in range(6, 18)}):
        assert constraint.matches(text) == derives(text, AMBIGUOUS, "a"), text


@pytest.mark.parametrize("seed", range(5, 12))
def test_emptiness_asked_before_the_classes_of_bytes_are_known(seed: int) -> None:
    """``is_empty`` cached derivatives by byte classes that later literals divided: texts inside JSON strings were read
    as different ones."""

    def accepted(ask: bool) -> list[str]:
        rng, b = random.Random(seed), _core.Builder(100_000, 10_000)

        def one() -> int:
            return b.char_class(_core.CharSet([(ord(c), ord(c)) for c in sorted(rng.sample("klmnop", 2))]))

        text = b.concat([b.literal(b'"'), b.escaped(b.concat([one(), one(), one()]), 0), b.literal(b'"')])
        other = b.literal(b'"' + bytes(rng.choices(b"klmnop", k=3)) + b'"')
        e = b.intersection([text, b.complement(other)])
        if ask:
            assert not b.is_empty(e)
        program = b.finish(b.union([e, b.choice([b"A", b"C1", b"E2", b"G4", b"l"])]))
        texts = ['"' + "".join(letters) + '"' for letters in itertools.product("klmnop", repeat=3)]
        states = [(text, program.derivative(program.root, text.encode())) for text in texts]
        return [text for text, state in states if state and program.is_nullable(state)]

    assert accepted(True) == accepted(False)


def test_an_escape_that_is_begun_in_a_text_of_rules() -> None:
    """Whether an escape can still become a character was decided by an intersection that contains rules."""
    b = _core.Builder(100_000, 10_000)
    rule = b.rule("r")
    b.define(rule, b.union([b.concat([b.literal(b"c"), rule]), b.literal(b"c")]))
    value = b.concat([b.repeat(b.char_class(_core.CharSet([(0, 0x10FFFF)])), 1, 7), rule])
    program = b.finish(b.concat([b.literal(b'"'), b.escaped(value, 1), b.literal(b'"')]))
    for text, matches in ((rb'"\u0061\u0063"', True), (rb'"\u0061\u0062"', False), (rb'"\u00e9c"', True)):
        state = program.derivative(program.root, text)
        assert bool(state and program.is_nullable(state)) == matches, text


@pytest.mark.parametrize(("a", "b", "turns"), [("1,2", "1,1", "2,2"), ("2,3", "1,1", "1,3"), ("1,3", "1,2", "3,3")])
def test_choices_of_repeated_elements_in_turns(a: str, b: str, turns: str) -> None:
    """``(a{1,2} | b){2,2}`` reads ``aa`` and ``ab``, as in all validators: iterations are not greedy."""
    xmlschema = pytest.importorskip("xmlschema")

    def occurs(counts: str) -> str:
        least, most = counts.split(",")
        return f'minOccurs="{least}" maxOccurs="{most}"'

    parts = "".join(f'<xs:element name="{n}" type="xs:int" {occurs(c)}/>' for n, c in (("a", a), ("b", b)))
    source = (
        '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="r"><xs:complexType>'
        f"<xs:choice {occurs(turns)}>{parts}</xs:choice></xs:complexType></xs:element></xs:schema>"
    )
    constraint, theirs = gr.xml_schema(source), xmlschema.XMLSchema(source)
    for word in (w for n in range(1, 6) for w in itertools.product("ab", repeat=n)):
        text = "<r>" + "".join(f"<{name}>1</{name}>" for name in word) + "</r>"
        assert constraint.matches(text) == theirs.is_valid(text), text


@dataclass(frozen=True)
class Items(gr.Constraint):
    """Digits as items of a list without separators: all different, or two equal."""

    twice: bool
    wrapped: bool

    def _lower(self, b: _core.Builder) -> int:
        one = b.item(b.choice([b"1", b"2", b"3"]))
        if self.wrapped:
            one = b.union([one, b.concat([b.literal(b"."), one])])
        body = b.repeat(one, 1, -1)
        return b.concat([b.literal(b"["), b.twice(body) if self.twice else b.distinct(body), b.literal(b"]")])


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("wrapped", [False, True])
def test_items_without_a_separator(twice: bool, wrapped: bool) -> None:
    """A repetition after its own body is a repetition again: reading it never ended."""
    constraint = Items(twice, wrapped)
    for length in range(1, 5):
        for text in map("".join, itertools.product("123" + "." * wrapped, repeat=length)):
            if ".." in text or text.endswith("."):
                continue
            values = text.replace(".", "")
            assert constraint.matches(f"[{text}]") == ((len(set(values)) < len(values)) == twice), text
    guide = gr.Guide(constraint, BYTES)
    for text in ("[", "[1", "[12", "[1."[: 2 + wrapped], "[11", "[123"):
        matcher = guide.matcher()
        if not matcher.accept_string(text):
            continue
        allowed = mask_of(matcher)
        for token in range(BYTES.size):
            assert matcher.fork().accept_token(token) == allowed[token], (text, token)
