"""Documents that a guide could have produced: random walks over the bytes of a constraint, and over its masks."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guiderail as gr

xmlschema = pytest.importorskip("xmlschema")
etree = pytest.importorskip("lxml.etree")

LONGEST_END = 4000
HEAD = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">'


def schema(body: str, head: str = HEAD, **options: object) -> gr.XmlSchema:
    return gr.xml_schema(f"{head}{body}</xs:schema>", **options)


def element(content: str, **options: object) -> gr.XmlSchema:
    """Returns a schema whose root ``a`` has a complex type."""
    return schema(f'<xs:element name="a"><xs:complexType>{content}</xs:complexType></xs:element>', **options)


class _Local(etree.Resolver):
    def resolve(self, url: str, public_id: str, context: object) -> object:
        if url.endswith("xml.xsd"):  # the schema of xml:lang, which the library contains
            return self.resolve_filename(str(Path(xmlschema.__file__).parent / "schemas" / "XML" / "xml.xsd"), context)
        return None


def second_opinion(text: str) -> Any:
    parser = etree.XMLParser()
    parser.resolvers.add(_Local())
    return etree.XMLSchema(etree.fromstring(text.encode(), parser))


def check(constraint: gr.XmlSchema, documents: list[str]) -> None:
    """Checks that both validators accept every document."""
    other = second_opinion(constraint.source.text)
    for document in documents:
        constraint.schema.validate(document)
        assert other.validate(etree.fromstring(document.encode())), (document, other.error_log.last_error)


def walks(constraint: gr.XmlSchema, count: int = 20, seed: int = 1) -> list[str]:
    rng = random.Random(seed)
    return [byte_walk(constraint, rng, rng.choice([30, 150, 400, 800])) for _ in range(count)]


def byte_walk(constraint: gr.Constraint, rng: random.Random, steps: int) -> str:
    """Random bytes (ASCII four times out of five if there is any) for ``steps`` of them, then those that close
    something, where some do, until it may end."""
    core = constraint.program().core
    state, out = core.root, bytearray()
    for step in range(steps + LONGEST_END):
        choices = core.first_bytes(state)
        if not choices or (core.is_nullable(state) and (step > steps or rng.random() < 0.1)):
            break
        ascii_only = bytes(byte for byte in choices if byte < 128)
        tags = [byte for byte in b'<"/' if byte in choices]
        closing = _closing(choices, out[-1:]) if step >= steps else None
        if closing is not None:
            byte = closing
        elif tags and step < steps and rng.random() < 0.25:
            byte = rng.choice(tags)
            if byte == 47 and len(choices) > 1 and rng.random() < 0.7:  # not so soon
                byte = rng.choice(choices)
        else:
            byte = rng.choice(ascii_only if ascii_only and rng.random() < 0.8 else choices)
        out.append(byte)
        state = core.derivative(state, bytes([byte]))
    if not core.is_nullable(state):
        end = core.shortest(state, LONGEST_END)
        assert end is not None, f"no end of {bytes(out[-200:])!r}"
        out += end
    assert core.is_nullable(core.derivative(core.root, bytes(out)))
    return out.decode()


def _closing(choices: bytes, last: bytes) -> int | None:
    """Returns the byte that closes the current context, if there is one."""
    if set(choices) <= set(b" />"):  # after a name or an attribute
        wanted = b"/> "
    elif last == b"<":
        wanted = b"/"
    else:
        wanted = b'<"'  # text ends with a tag, a value with a quote
    return next((byte for byte in wanted if byte in choices), None)


def token_walk(guide: gr.Guide, rng: random.Random, steps: int) -> str | None:
    """Random tokens out of the masks, after 30 of them those that lead out of where the text is; None where the text
    was not finished after ``steps``."""
    vocabulary, matcher = guide.vocabulary, guide.matcher()
    bitmask = gr.allocate_token_bitmask(1, vocabulary.size)
    texts = [vocabulary.token_bytes(token) for token in range(vocabulary.size)]
    closing = [np.array([text.startswith(way) for text in texts]) for way in (b"</", b'"', b"/>", b">", b"/", b"<")]
    stops = np.array(vocabulary.stop_token_ids)
    out = bytearray()
    for step in range(steps):
        matcher.fill_next_token_bitmask(bitmask, 0)
        allowed = gr.bitmask_to_bool(bitmask, vocabulary.size)[0]
        if allowed[stops].any():
            assert matcher.is_accepting()
            return out.decode()
        ways = [allowed & way for way in closing] if step > 30 else []
        allowed = next((way for way in ways if way.any()), allowed)
        token = int(rng.choice(np.flatnonzero(allowed)))
        assert matcher.accept_token(token)
        out += vocabulary.token_bytes(token)
    return None
