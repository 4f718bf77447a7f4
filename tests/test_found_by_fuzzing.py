"""What fuzzers found, each fault by its name. `docs/testing.md` says how they run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest

import guiderail as gr
from core_support import mask_of, plain

BYTES = plain([*(bytes([b]) for b in range(256)), b'"a', b'"b":', b'",', b"1,"])
OBJECT = {"type": "object", "additionalProperties": {"type": "integer"}}
SET = {"type": "array", "uniqueItems": True, "items": {"type": "string"}}


def walk(constraint: gr.Constraint, text: bytes, vocabulary: gr.Vocabulary = BYTES) -> bool:
    """Reads ``text`` byte by byte, holding each mask against ``accept_token``; whether it is a match."""
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
    """Under a complement and inside a string, the texts of keys and items stay: looking for a form without them never
    ended, and took the process along."""
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
