"""Constraints as files: they are restored with the same masks and verdicts; damaged files are rejected."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import guiderail as gr
from core_support import EVERY_BYTE, PROPERTY, mask_of, regex_patterns
from guiderail import _core
from guiderail.constraints.saved import SavedConstraint
from guiderail.constraints.saving import program_file
from saved_cases import CASES, INSTANCES

OPERATIONS = _core.Builder.operations()
NO_OPERATIONS = {"EMPTY", "EPSILON", "operations", "replay", "recorded", "finish"}
LOOKS = {"is_nullable", "is_empty", "first_bytes", "dump"}
TOKENS = [*(bytes([b]) for b in range(256)), b"ab", b'{"', b'": ', b"the ", b" x", b"12", b"</s>", b"<|end|>"]
VOCABULARY = gr.Vocabulary(TOKENS, special_tokens={"<|end|>": 263}, stop_token_ids=262)


def walk(constraint: gr.Constraint, text: bytes) -> list[np.ndarray]:
    """Returns the masks along a text, byte by byte, as far as it can be read."""
    matcher = gr.compile(constraint, VOCABULARY, cache=False).matcher()
    masks = [mask_of(matcher)]
    for byte in text:
        if not matcher.accept_token(byte):
            break
        masks.append(mask_of(matcher))
    return masks


def read_back(constraint: gr.Constraint) -> SavedConstraint:
    return SavedConstraint(program_file(constraint))


def test_every_operation_of_a_builder_can_be_saved() -> None:
    methods = {name for name in dir(_core.Builder) if not name.startswith("_")}
    assert methods - NO_OPERATIONS - LOOKS == set(OPERATIONS)
    assert len(set(OPERATIONS.values())) == len(OPERATIONS)


ORDERS = """
import hashlib
import guiderail as gr
from guiderail.constraints.saving import program_file
from saved_cases import CASES

names = [f"key{i}" for i in range(7)]
defs = {name: {"type": "string", "pattern": f"^[{i}-9]+-v$"} for i, name in enumerate(names)}
own = {name: {"$ref": f"#/$defs/{name}"} for name in names}
more = {"type": "array", "items": {"$ref": "#/$defs/tree"}}
defs["tree"] = {"type": "object", "required": names, "properties": {"more": more, **own}}
deep = [{"type": "object", "required": names, "properties": {name: {"enum": [i, {"a": i}]} for name in names}}
        for i in range(6)]
schemas = [
    {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/$defs/tree"}}},
    {"type": "object", "oneOf": [{"$ref": "#/$defs/tree"}, *deep]},
    {"allOf": [{"anyOf": [{"required": names[i:]}, {"required": [f"b{i}", *names[:i]]}]} for i in range(7)]},
    {"allOf": [{"anyOf": [{"properties": {"k": one}}, {"required": [f"x{i}"]}]} for i, one in enumerate(deep)]},
]
for constraint in [*CASES.values(), *(gr.json_schema({**schema, "$defs": defs}) for schema in schemas)]:
    print(hashlib.sha256(program_file(constraint)).hexdigest())
"""


def test_a_program_is_the_same_in_every_process() -> None:
    def written(seed: str) -> list[bytes]:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.check_output([sys.executable, "-c", ORDERS], env=environment).split()

    first, *others = map(written, "123")
    assert len(first) == len(CASES) + 4
    assert others == [first, first]


def test_the_table_of_operations_in_the_docs() -> None:
    text = (Path(__file__).parent.parent / "docs" / "program_format.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", text, re.MULTILINE)
    assert {name: int(code) for code, name in rows} == OPERATIONS


def test_the_cases_use_every_operation() -> None:
    used = set()

    class Spy:
        def __init__(self, of: _core.Builder) -> None:
            self.of = of

        def __getattr__(self, name: str) -> Any:
            used.add(name)
            return getattr(self.of, name)

    for constraint in CASES.values():
        constraint._lower(Spy(_core.Builder()))  # type: ignore[arg-type]
    assert set(OPERATIONS) <= used


@pytest.mark.parametrize("name", CASES)
def test_round_trip(name: str) -> None:
    constraint = CASES[name]
    file = program_file(constraint)
    again = SavedConstraint(file)
    assert program_file(again) == file
    for text in INSTANCES.get(name, []):
        assert again.matches(text) == constraint.matches(text), text
    for text in INSTANCES.get(name, ["go", "x", "a a b"])[:3]:
        for one, other in zip(walk(constraint, text.encode()), walk(again, text.encode()), strict=True):
            assert (one == other).all(), text


@given(pattern=regex_patterns(), text=st.text("abc01 -", max_size=6))
@settings(PROPERTY, max_examples=30)
def test_patterns(pattern: str, text: str) -> None:
    constraint = gr.regex(pattern)
    again = read_back(constraint)
    assert again.matches(text) == constraint.matches(text)


def mask() -> int:
    """What the user's mask takes away from new files."""
    found = os.umask(0)
    os.umask(found)
    return found


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "date.rail"
    date = gr.regex(r"\d{4}-\d{2}")
    date.save(path)
    read = gr.load(path)
    assert isinstance(read, gr.Constraint)
    assert read.matches("2024-02") and not read.matches("2024-2")
    assert (read + "!").matches("2024-02!")
    assert read == gr.load(path) and hash(read) == hash(gr.load(path))
    assert [one.name for one in tmp_path.iterdir()] == ["date.rail"]
    if os.name == "posix":  # others may read it, as any file; what was set by hand stays
        assert path.stat().st_mode & 0o777 == 0o666 & ~mask()
        path.chmod(0o600)
        date.save(path)
        assert path.stat().st_mode & 0o777 == 0o600
    gr.literal("x").program().save(path)
    again = gr.load(path)
    assert isinstance(again, gr.Constraint) and again.matches("x")
    VOCABULARY.save(path)
    assert gr.load(path) == VOCABULARY


def test_markers_of_tools_become_tokens_of_the_vocabulary(tmp_path: Path) -> None:
    path = tmp_path / "tools.rail"
    tokens = [*EVERY_BYTE, b"<tool_call>", b"</tool_call>", b"</s>"]
    special = {"<tool_call>": 256, "</tool_call>": 257, "</s>": 258}
    vocabulary = gr.Vocabulary(tokens, special_tokens=special, stop_token_ids=258)
    gr.compile(CASES["tools"], vocabulary).save(path)
    assert b"<tool_call>" in path.read_bytes()
    read = gr.load(path)
    assert isinstance(read, gr.Constraint)
    one, other = (gr.compile(c, vocabulary, cache=False).matcher() for c in (CASES["tools"], read))
    assert (mask_of(one) == mask_of(other)).all()
    assert one.accept_token(256) and other.accept_token(256)
    assert (mask_of(one) == mask_of(other)).all()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "does not begin like one"),
        (b"hello", "does not begin like one"),
        (b"\x89RAIL\r\n\x1a", "does not begin like one|ends too early"),
        (b"\x89RAIL\r\n\x1a\x01\0\0\0", "ends too early"),
        (b"\x89RAIL\r\n\x1a\x01\0\0\0\x09\0\0\0" + 16 * b"\0", "version 9"),
        (b"\x89RAIL\r\n\x1a\x07\0\0\0\x01\0\0\0" + 16 * b"\0", "does not know"),
    ],
)
def test_other_files(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "x.rail"
    path.write_bytes(content)
    with pytest.raises(gr.CompileError, match=says) as caught:
        gr.load(path)
    assert caught.value.code == "saved-file"


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(gr.CompileError, match=r"missing\.rail cannot be read") as caught:
        gr.load(tmp_path / "missing.rail")
    assert caught.value.code == "saved-file"
    with pytest.raises(gr.CompileError, match="cannot be written"):
        gr.literal("a").save(tmp_path / "none" / "x.rail")


@pytest.mark.parametrize("wrong", [0, [], b"", gr.Vocabulary])
def test_what_is_no_vocabulary(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(gr.ArgumentError, match="vocabulary"):
        gr.literal("a").save(tmp_path / "x.rail", vocabulary=wrong)
    assert not (tmp_path / "x.rail").exists()


def checked(contents: bytes) -> bytes:
    """Returns a file of these contents with a valid checksum."""
    head = b"\x89RAIL\r\n\x1a\x01\0\0\0\x01\0\0\0" + len(contents).to_bytes(8, "little") + contents
    return head + zlib.crc32(head).to_bytes(4, "little")


def test_every_truncation_and_flipped_bit_is_refused() -> None:
    file = program_file(CASES["schema"])
    for size in range(len(file)):
        with pytest.raises(gr.CompileError, match=r"damaged|begin"):
            _core.Builder().replay(file[:size])
    for at in range(0, len(file), 3):
        with pytest.raises(gr.CompileError):
            _core.Builder().replay(file[:at] + bytes([file[at] ^ 1 << at % 8]) + file[at + 1 :])


@pytest.mark.parametrize("name", CASES)
def test_damaged_contents_with_a_right_checksum(name: str) -> None:
    """An error of guiderail's, or another constraint; ``make fuzz-programs`` does this at length."""
    rng = random.Random(name)
    contents = program_file(CASES[name])[24:-4]
    for _ in range(60 if len(contents) < 5000 else 6):
        bent = bytearray(contents)
        for _ in range(rng.randint(1, 3)):
            bent[rng.randrange(len(bent))] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        if rng.random() < 0.2:
            del bent[rng.randrange(len(bent)) :]
        before = _core.limit_work(300_000)
        try:
            builder = _core.Builder(100_000, 2_000)
            builder.finish(builder.replay(checked(bytes(bent))))
        except gr.GuiderailError as error:
            assert error.code
        finally:
            _core.restore_work(before)
