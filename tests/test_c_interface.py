"""The C interface: the same masks as Python, bit for bit; errors, threads, null pointers. ``make test-c`` builds it."""

from __future__ import annotations

import ctypes as c
import gzip
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import c_library
import guiderail as gr
from c_library import ARGUMENT, BITMASK, COMPILE, FILE, LIMIT, MATCHER, VOCABULARY as VOCABULARY_ERROR, Library
from core_support import words as words_of
from guiderail.constraints.saving import program_file
from guiderail.vocabulary._storage import save
from saved_cases import CASES, INSTANCES
from test_saved import VOCABULARY

WORDS = words_of(VOCABULARY.size)
COMPILERS = {"c": ("cc", ["-std=c99", "-pedantic"]), "c++": ("c++", ["-std=c++11"])}


@pytest.fixture(scope="module")
def lib() -> Library:
    return c_library.library()


@pytest.fixture(scope="module")
def vocabulary(lib: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[c.c_void_p]:
    path = tmp_path_factory.mktemp("c") / "bytes.rail"
    save(VOCABULARY, path)
    handle = lib.made("vocabulary_load", str(path).encode())
    yield handle
    lib.vocabulary_free(handle)


def read(lib: Library, constraint: gr.Constraint) -> c.c_void_p:
    file = program_file(constraint)
    return lib.made("program_read", file, len(file), None)


class Text:
    """A C matcher and a Python matcher in parallel."""

    def __init__(self, lib: Library, constraint: gr.Constraint, vocabulary: c.c_void_p, of: gr.Vocabulary) -> None:
        self.lib, self.words = lib, words_of(of.size)
        program = read(lib, constraint)
        guide = lib.made("guide_new", program, vocabulary, None)
        self.c = lib.made("matcher_new", guide)
        lib.guide_free(guide)  # in any order
        lib.program_free(program)
        self.py = gr.compile(constraint, of, cache=False).matcher()

    def check(self) -> None:
        bitmask = np.zeros((1, self.words), np.int32)
        self.py.fill_next_token_bitmask(bitmask)
        assert (self.lib.mask(self.c, self.words) == bitmask[0].view(np.uint32)).all()
        assert self.lib.asked(c.c_bool, "matcher_is_accepting", self.c) == self.py.is_accepting()

    def write(self, tokens: list[int]) -> None:
        self.check()
        for token in tokens:
            accepted = self.py.accept_token(token)
            assert self.lib.accept(self.c, token) == accepted
            if not accepted:
                break
            terminated = self.py.is_terminated()
            assert self.lib.asked(c.c_bool, "matcher_is_terminated", self.c) == terminated
            if terminated:
                break
            self.check()

    def free(self) -> None:
        self.lib.matcher_free(self.c)


@pytest.mark.parametrize("language", COMPILERS)
def test_the_header_compiles_alone(language: str, tmp_path: Path) -> None:
    compiler, options = COMPILERS[language]
    if not shutil.which(compiler):
        pytest.skip(f"no compiler {compiler} here")
    source = tmp_path / "alone.c"
    source.write_text('#include "guiderail.h"\nint main(void) { return GR_OK; }\n', encoding="utf-8")
    command = [compiler, "-x", language, *options, "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    subprocess.run([*command, "-I", str(c_library.HEADER.parent), str(source)], check=True)


def test_exactly_the_functions_of_the_header_are_exported(lib: Library) -> None:
    where = c_library.folder()
    assert where is not None
    if not shutil.which("nm") or not (where / "libguiderail.so").exists():
        pytest.skip("no compiler nm here")
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(where / "libguiderail.so")], capture_output=True, text=True, check=True
    ).stdout
    assert {line.split()[-1] for line in listed.splitlines()} == set(c_library.declared())


def test_versions(lib: Library) -> None:
    assert lib.version() == 1000
    assert gr.__version__.startswith(lib.version_text().decode())


@pytest.mark.parametrize("name", CASES)
def test_masks_are_those_of_python(lib: Library, vocabulary: c.c_void_p, name: str) -> None:
    for text in INSTANCES.get(name, ["go", "x", "a a b"])[:2]:
        both = Text(lib, CASES[name], vocabulary, VOCABULARY)
        both.write([*text.encode(), 262])
        both.free()


def real_schemas() -> list[tuple[Any, list[Any]]]:
    """Returns schemas with values: from a file ``GUIDERAIL_SCHEMAS`` in MaskBench format, else those of the tests."""
    given = os.environ.get("GUIDERAIL_SCHEMAS")
    if given:
        with gzip.open(given, "rt", encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        step = max(1, len(rows) // int(os.environ.get("GUIDERAIL_SCHEMA_COUNT", "300")))
        return [(row["schema"], [one["data"] for one in row["tests"]]) for row in rows[::step]]
    sample = Path(__file__).parent / "data" / "real_schemas.json.gz"
    rows = json.loads(gzip.decompress(sample.read_bytes()))
    return [(row["schema"], [value for value, _ in row["values"]]) for row in rows]


def spelled(vocabulary: gr.Vocabulary, text: bytes) -> list[int]:
    """Returns the tokens of a text, each as long as possible."""
    tokens = []
    while text:
        size = next(n for n in range(min(16, len(text)), 0, -1) if vocabulary.core.find(text[:n]) >= 0)
        tokens.append(vocabulary.core.find(text[:size]))
        text = text[size:]
    return tokens


def test_masks_of_real_schemas(lib: Library, smollm2: gr.Vocabulary, tmp_path: Path) -> None:
    save(smollm2, tmp_path / "smollm2.rail")
    vocabulary = lib.made("vocabulary_load", str(tmp_path / "smollm2.rail").encode())
    tried = 0
    for schema, values in real_schemas():
        try:
            constraint = gr.json_schema(schema)
            constraint.program()
        except gr.GuiderailError:
            continue
        for value in values[:1]:
            both = Text(lib, constraint, vocabulary, smollm2)
            text = json.dumps(value, ensure_ascii=False)[:300]
            both.write(spelled(smollm2, text.encode()))
            both.free()
            tried += 1
    assert tried > 20
    print(f"{tried} schemas")
    lib.vocabulary_free(vocabulary)


def test_a_vocabulary_of_tokens(lib: Library) -> None:
    tokens = [b"a", b"b", b"", b"ab", b"</s>", b"<|x|>"]
    lengths = np.array([len(token) for token in tokens], np.uint32)

    class Parts(c.Structure):
        _fields_ = (
            ("struct_size", c.c_size_t), ("bytes", c.c_char_p), ("lengths", c.c_void_p), ("token_count", c.c_size_t),
            ("special", c.c_void_p), ("special_texts", c.c_void_p), ("special_count", c.c_size_t), ("stop", c.c_void_p),
            ("stop_count", c.c_size_t), ("size", c.c_uint32),
        )  # fmt: skip

    parts = Parts()
    lib.vocabulary_parts_init(c.byref(parts))
    assert parts.struct_size == c.sizeof(Parts)
    data = b"".join(tokens)
    special, stop = np.array([5], np.uint32), np.array([4], np.uint32)
    parts.bytes, parts.lengths, parts.token_count = data, lengths.ctypes.data, len(tokens)
    parts.special, parts.special_count = special.ctypes.data, 1
    parts.stop, parts.stop_count = stop.ctypes.data, 1
    vocabulary = lib.made("vocabulary_new", c.byref(parts))
    assert lib.vocabulary_size(vocabulary) == 6 and lib.vocabulary_bitmask_words(vocabulary) == 1
    assert lib.asked(c.c_uint32, "vocabulary_special_token", vocabulary, b"<|x|>") == 5
    assert lib.asked(c.c_uint32, "vocabulary_special_token", vocabulary, b"</s>") == 4
    out, size = c.c_void_p(), c.c_size_t()
    lib.vocabulary_token_bytes(vocabulary, 3, c.byref(out), c.byref(size))
    assert c.string_at(out.value or 0, size.value) == b"ab"
    of = gr.Vocabulary([t or None for t in tokens], special_tokens={"<|x|>": 5}, stop_token_ids=4)
    both = Text(lib, gr.sequence(gr.regex("(ab)*"), gr.special_token("<|x|>")), vocabulary, of)
    both.write([0, 1, 3, 5, 4])
    assert lib.asked(c.c_bool, "matcher_is_terminated", both.c)
    both.free()
    parts.size = 3
    with pytest.raises(c_library.Error, match="out of range") as caught:
        lib.made("vocabulary_new", c.byref(parts))
    assert caught.value.status == VOCABULARY_ERROR
    lib.vocabulary_free(vocabulary)


def test_what_a_matcher_can_do(lib: Library, vocabulary: c.c_void_p) -> None:
    both = Text(lib, gr.regex("(ab|cd){2}xyz"), vocabulary, VOCABULARY)
    m = both.c
    tokens = np.array([*b"abcdxyz!"], np.uint32)
    assert lib.asked(c.c_size_t, "matcher_validate", m, tokens.ctypes.data, 8) == 7
    both.write([*b"ab"])
    assert lib.asked(c.c_bool, "matcher_accept_bytes", m, b"cd", 2)
    assert not lib.asked(c.c_bool, "matcher_accept_bytes", m, b"q", 1)
    assert lib.text("matcher_forced_bytes", m, 10) == b"xyz"
    assert lib.text("matcher_forced_bytes", m, 10, room=2) == b"xy"
    forced, count = np.zeros(8, np.uint32), c.c_size_t()
    lib.matcher_forced_tokens(m, forced.ctypes.data, 8, c.byref(count))
    assert bytes(forced[: count.value - 1].tolist()) == b"xyz" and forced[count.value - 1] == 262
    assert lib.asked(c.c_uint32, "matcher_least_tokens", m) == 3
    fork = lib.made("matcher_fork", m)
    assert lib.accept(fork, ord("x")) and lib.asked(c.c_size_t, "matcher_step_count", fork) == 4
    assert lib.asked(c.c_size_t, "matcher_step_count", m) == 3
    lib.matcher_rollback(fork, 4)
    assert lib.accept(fork, ord("c"))
    lib.matcher_free(fork)
    assert lib.asked(c.c_bool, "matcher_accept_bytes", m, b"xyz", 3)
    assert lib.asked(c.c_bool, "matcher_is_accepting", m) and lib.asked(c.c_bool, "matcher_is_complete", m)
    assert lib.accept(m, 262) and lib.asked(c.c_bool, "matcher_is_terminated", m)
    with pytest.raises(c_library.Error, match="ended with a stop token") as caught:
        lib.mask(m, WORDS)
    assert (caught.value.status, caught.value.code) == (MATCHER, "matcher-terminated")
    lib.matcher_reset(m)
    assert (lib.mask(m, WORDS + 2)[WORDS:] == 0).all()
    assert b"xyz" in lib.text("matcher_dump", m)
    both.free()


def test_budgets(lib: Library, vocabulary: c.c_void_p) -> None:
    both = Text(lib, gr.regex("a{4}|bb"), vocabulary, VOCABULARY)
    mask = np.zeros(WORDS, np.uint32)
    lib.matcher_fill_bitmask_within(both.c, 2, mask.ctypes.data, WORDS, None)
    assert mask[ord("b") // 32] == 1 << ord("b") % 32
    mask[:] = 7
    with pytest.raises(c_library.Error, match="takes 2 tokens, but the budget is 1") as caught:
        lib.matcher_fill_bitmask_within(both.c, 1, mask.ctypes.data, WORDS, None)
    assert (caught.value.status, caught.value.code) == (LIMIT, "budget-too-small")
    assert (mask == 7).all()
    both.free()


def test_programs_without_a_vocabulary(lib: Library) -> None:
    program = read(lib, gr.regex(r"\d{4}-\d{2}"))
    for text, fits in ((b"2024-02", True), (b"2024-2", False), (b"", False)):
        assert lib.asked(c.c_bool, "program_matches", program, text, len(text)) == fits
    start = lib.asked(c.c_uint32, "program_start", program)
    state = lib.asked(c.c_uint32, "program_advance", program, start, b"2024", 4)
    assert lib.text("program_forced_bytes", program, state, 9) == b"-"
    flags = (c.c_bool * 256)()
    lib.program_next_bytes(program, start, flags)
    assert bytes(b for b in range(256) if flags[b]) == b"0123456789"
    out, count, found = c.create_string_buffer(16), c.c_size_t(), c.c_bool()
    lib.program_shortest(program, state, 16, out, 16, c.byref(count), c.byref(found))
    assert found.value and count.value == 3
    with pytest.raises(c_library.Error, match="no such state"):
        lib.asked(c.c_uint32, "program_advance", program, 1 << 30, b"", 0)
    lib.program_free(program)


@pytest.mark.parametrize("name", ["regex", "schema", "lexed", "python"])
def test_builders_make_what_files_hold(lib: Library, name: str) -> None:
    file = program_file(CASES[name])
    builder = lib.made("builder_new", None)
    root = lib.asked(c.c_uint32, "builder_replay", builder, file, len(file))
    assert lib.asked(c.c_bool, "builder_is_nullable", builder, 1)
    assert lib.text("builder_save", builder, root, room=1 << 16) == file
    program = lib.made("builder_finish", builder, root)
    for text in INSTANCES[name]:
        data = text.encode()
        assert lib.asked(c.c_bool, "program_matches", program, data, len(data)) == CASES[name].matches(text)
    lib.builder_free(builder)
    lib.program_free(program)


def test_instructions(lib: Library) -> None:
    builder = lib.made("builder_new", None)

    def add(instruction: bytes) -> int:
        return lib.asked(c.c_uint32, "builder_add", builder, instruction, len(instruction))

    ab, x = add(b"\x01\x02ab"), add(b"\x01\x01x")
    both = add(bytes([4, 2, ab, x]))
    assert (ab, x, both) == (2, 3, 4)
    assert lib.text("builder_dump", builder, both) == b'"ab" [x]'
    for bad in (b"", b"\x63", b"\x01\x05ab", bytes([4, 1, 99]), b"\x01\x01a!"):
        with pytest.raises(c_library.Error) as caught:
            add(bad)
        assert caught.value.status == FILE
    assert add(b"\x01\x01y") == 5  # those that were refused have made nothing
    lib.builder_free(builder)


@pytest.mark.parametrize(
    ("file", "status", "says"),
    [
        (b"", FILE, "does not begin like one"),
        (b"\x89RAIL\r\n\x1a", FILE, "ends too early"),
        (program_file(gr.literal("abc"))[:-1], FILE, "damaged"),
        (program_file(gr.nothing()), COMPILE, "matches no text"),
    ],
)
def test_bad_programs(lib: Library, vocabulary: c.c_void_p, file: bytes, status: int, says: str) -> None:
    with pytest.raises(c_library.Error, match=says) as caught:
        program = lib.made("program_read", file, len(file), None)
        lib.made("guide_new", program, vocabulary, None)
    assert caught.value.status == status


def test_files_that_are_not_there(lib: Library) -> None:
    for function, more in (("program_load", (None,)), ("vocabulary_load", ())):
        with pytest.raises(c_library.Error, match="cannot read /nowhere/x: No such file") as caught:
            lib.made(function, b"/nowhere/x", *more)
        assert caught.value.status == FILE


def test_null_pointers_are_refused(lib: Library) -> None:
    """Every function that can fail, with only nulls and zeros."""
    for name, (result, arguments) in c_library.declared().items():
        nothing = [None if "*" in one or "[" in one else 0 for one in arguments]
        if result.strip() != "gr_status":
            getattr(lib.raw, name)(*nothing)
            continue
        status = getattr(lib.raw, name)(*nothing)
        if name in ("gr_matchers_fill_bitmask", "gr_apply_bitmask"):  # nothing to do
            assert status == 0
        else:
            assert status == ARGUMENT and b"null pointer" in lib.error_message(), name


def test_batches(lib: Library, vocabulary: c.c_void_p) -> None:
    all_of_them = [Text(lib, CASES[name], vocabulary, VOCABULARY) for name in ("regex", "schema", "grammar", "python")]
    handles = (c.c_void_p * 4)(*[one.c.value for one in all_of_them])
    mask = np.full((5, WORDS + 1), 9, np.uint32)
    rows = np.array([4, 0, 1, 2], np.uintp)
    lib.matchers_fill_bitmask(handles, 4, mask.ctypes.data, WORDS + 1, 5, rows.ctypes.data, 2)
    for row, one in zip(rows, all_of_them, strict=True):
        assert (mask[row, :-1] == lib.mask(one.c, WORDS)).all() and mask[row, -1] == 0
    assert (mask[3] == 9).all()
    lib.matchers_fill_bitmask(handles, 4, mask.ctypes.data, WORDS + 1, 1 << 62, rows.ctypes.data, 2)  # costs nothing
    for bad, says in (([0, 1, 2, 5], "not below 5"), ([0, 1, 1, 2], "two matchers")):
        with pytest.raises(c_library.Error, match=says) as caught:
            given = np.array(bad, np.uintp)
            lib.matchers_fill_bitmask(handles, 4, mask.ctypes.data, WORDS + 1, 5, given.ctypes.data, 0)
        assert caught.value.status == BITMASK
    for one in all_of_them:
        one.free()


@pytest.mark.parametrize(("dtype", "kind"), [(0, np.float16), (2, np.float32), (3, np.float64)])
def test_logits(lib: Library, dtype: int, kind: type) -> None:
    logits = np.zeros((2, 70), kind)
    mask = np.array([[1, 0, 3], [0xFFFFFFFF, 0xFFFFFFFF, 0]], np.uint32)
    lib.apply_bitmask(logits.ctypes.data, dtype, 2, 70, mask.ctypes.data, 3, 66)
    assert np.flatnonzero(logits[0] == 0).tolist() == [0, 64, 65]
    assert np.flatnonzero(logits[1] == 0).tolist() == list(range(64))
    with pytest.raises(c_library.Error, match="fewer bits"):
        lib.apply_bitmask(logits.ctypes.data, dtype, 2, 70, mask.ctypes.data, 2, 66)
    for unknown in (4, -1):
        with pytest.raises(c_library.Error, match="no number type"):
            lib.apply_bitmask(logits.ctypes.data, unknown, 2, 70, mask.ctypes.data, 3, 66)


def test_threads_share_a_guide(lib: Library, vocabulary: c.c_void_p) -> None:
    """Each writes its own texts; ctypes releases the interpreter lock, so they are in the core at the same time."""
    program = read(lib, CASES["python"])
    guide = lib.made("guide_new", program, vocabulary, None)
    text = INSTANCES["python"][0].encode()
    one = gr.compile(CASES["python"], VOCABULARY).matcher()
    expected = []
    for byte in text:
        bitmask = np.zeros((1, WORDS), np.int32)
        one.fill_next_token_bitmask(bitmask)
        expected.append(bitmask[0].view(np.uint32))
        assert one.accept_token(byte)
    wrong: list[object] = []

    def write() -> None:
        try:
            for _ in range(5):
                matcher = lib.made("matcher_new", guide)
                for byte, mask in zip(text, expected, strict=True):
                    if (lib.mask(matcher, WORDS) != mask).any() or not lib.accept(matcher, byte):
                        wrong.append(byte)
                lib.matcher_free(matcher)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=write) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    lib.guide_free(guide)
    lib.program_free(program)


def test_one_matcher_in_many_threads_is_refused_or_right(lib: Library, vocabulary: c.c_void_p) -> None:
    both = Text(lib, gr.regex("a*"), vocabulary, VOCABULARY)
    counts = [0] * 4
    wrong: list[object] = []

    def write(i: int) -> None:
        for _ in range(2000):
            try:
                counts[i] += lib.accept(both.c, ord("a"))
            except c_library.Error as error:
                if error.code != "matcher-shared":
                    wrong.append(error)

    threads = [threading.Thread(target=write, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert lib.asked(c.c_size_t, "matcher_step_count", both.c) == sum(counts)
    both.free()
