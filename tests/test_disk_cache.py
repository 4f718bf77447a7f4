"""Grammars cached on disk: the same constraint is restored, and never a stale, broken or foreign one."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lark
import pytest

import guiderail as gr
from guiderail import _core
from guiderail.constraints import constraint as constraint_module
from guiderail.constraints.saving import program_file
from guiderail.frontends.grammar import constraint as module, library
from guiderail.frontends.grammar.constraint import GrammarConstraint
from guiderail.support import disk_cache, work

LARK = """
start: statement+
statement: NAME "=" sum ";" | "if" sum block | "let" NAME~1..3 ";"
block: "{" statement* "}"
sum: sum "+" product | product
product: product "*" atom | atom
atom: NUMBER | NAME | "(" sum ")" | STRING | list{atom}
list{x}: "[" (x ("," x)*)? "]"
NAME: /[a-z_]+/
NUMBER: /[0-9]+/
STRING: /"[^"]*?"/
%ignore /[ ]+/
"""
GBNF = 'root ::= "[" (item ("," item)*)? "]"\nitem ::= [0-9]+ | root | "é" | [^\\x00-\\x7f]{2,3}'
INDENTED = """
start: (line | block)+
line: NAME _NEWLINE
block: NAME ":" _NEWLINE INDENT (line | block)+ DEDENT
NAME: /[a-z]+/
_NEWLINE: /(\\r?\\n[\\t ]*)+/
%declare INDENT DEDENT
"""
CASES: dict[str, tuple[str, dict[str, Any], list[str], list[str]]] = {
    "lark": (
        LARK,
        {"syntax": "lark"},
        ["a=1+2*(b);", "if x{y=1;}", "let a b c;", 'a="x";b=[1,[2]];', "ifx=1;"],
        ["a=", "if{}", "let;", "a=1", "let a b c d;"],
    ),
    "lark, another start": (LARK, {"syntax": "lark", "start": "sum"}, ["1+2"], ["a=1;"]),
    "gbnf": (GBNF, {"syntax": "gbnf"}, ["[]", "[1,[2,é],€€]"], ["[", "[a]", "[€]"]),
    "ebnf": ('a ::= "x" a "y" | "z"', {"syntax": "ebnf-w3c"}, ["z", "xxzyy"], ["xz", ""]),
    "indentation": (
        INDENTED,
        {"syntax": "lark", "indenter": module.Indentation("_NEWLINE", "INDENT", "DEDENT", (), (), 8)},
        ["a\n", "a:\n b\n c:\n  d\ne\n"],
        ["a:\nb\n", " a\n"],
    ),
}


LETTERS = gr.Vocabulary(
    [*(bytes([i]) for i in range(256)), b"ab", b"if ", b";}", b"=1", b"[[", b",[", b"\n ", b"  ", b"</s>"],
    stop_token_ids=264,
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache directory, even for grammars that are read fast."""
    monkeypatch.setattr(module, "_WORTH_KEEPING", 0)
    monkeypatch.delenv(disk_cache.VARIABLE, raising=False)
    gr.set_cache_dir(tmp_path / "cache")
    yield tmp_path / "cache"
    gr.set_cache_dir(None)


def entries(directory: Path) -> list[Path]:
    return sorted(directory.iterdir())


def made(name: str) -> GrammarConstraint:
    text, options, _, _ = CASES[name]
    return gr.grammar(text, **options)


def program(constraint: gr.Constraint) -> _core.Program:
    b = _core.Builder()
    return b.finish(constraint._lower(b))


def was_read(constraint: GrammarConstraint) -> bool:
    return constraint._state.read is not None


# -- the same from disk -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", CASES)
def test_the_same_comes_back(cache: Path, name: str) -> None:
    fresh = made(name)
    assert was_read(fresh)
    size = program(fresh).node_count()
    assert len(entries(cache)) == 1
    again = made(name)
    assert not was_read(again)
    assert again == fresh and hash(again) == hash(fresh)
    assert program(again).node_count() == size
    for sample in CASES[name][2]:
        assert again.matches(sample) and fresh.matches(sample), sample
    for sample in CASES[name][3]:
        assert not again.matches(sample) and not fresh.matches(sample), sample
    assert not was_read(again)
    assert len(entries(cache)) == 1


@pytest.mark.parametrize("name", CASES)
def test_it_costs_the_same(cache: Path, name: str) -> None:
    """Read anew, read again from disk, and lowered a second time by the same object."""
    before = work.spent()
    fresh = made(name)
    program(fresh)
    first = work.spent() - before
    before = work.spent()
    again = made(name)
    assert not was_read(again)
    program(again)
    assert work.spent() - before == first
    steps = []
    for one in (fresh, again):
        before = work.spent()
        program(one)
        steps.append(work.spent() - before)
    assert steps[0] == steps[1]


@pytest.mark.parametrize("name", CASES)
def test_masks_are_equal(cache: Path, name: str) -> None:
    """All masks along every good sample."""
    fresh, vocabulary = made(name), LETTERS
    one = gr.compile(fresh, vocabulary, cache=False)
    other_constraint = made(name)
    assert not was_read(other_constraint)
    other = gr.compile(other_constraint, vocabulary, cache=False)
    seen = 0
    for sample in CASES[name][2]:
        a, b = one.matcher(), other.matcher()
        masks = [gr.allocate_token_bitmask(1, vocabulary.size) for _ in range(2)]
        for byte in sample.encode():
            a.fill_next_token_bitmask(masks[0])
            b.fill_next_token_bitmask(masks[1])
            assert masks[0].tolist() == masks[1].tolist(), sample
            assert a.is_accepting() == b.is_accepting()
            assert a.accept_token(byte) and b.accept_token(byte), (sample, byte)
            seen += 1
        assert a.is_accepting() and b.is_accepting()
    assert seen > 0


def test_the_large_grammar_of_python(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = library.READY["python"]
    text = library.grammar_text("python")
    program(gr.grammar(text, "lark", indenter=python.indentation))
    monkeypatch.setattr(GrammarConstraint, "_read", lambda self: pytest.fail("it was read again"))
    again = program(gr.grammar(text, "lark", indenter=python.indentation))
    state = again.root
    for byte in b"def f(a, *b):\n    return [x for x in a]\n":
        state = again.derivative(state, bytes([byte]))
    assert again.is_nullable(state)


def test_reports_are_found_out_when_asked(cache: Path) -> None:
    text = 'start: A | B | C\nA: /[ab]+/\nB: /b+c?/\nC: "c"\nUNUSED: "u"\ncycle: cycle "x"\n'
    fresh = gr.grammar(text, "lark")
    program(fresh)
    again = gr.grammar(text, "lark")
    assert not was_read(again)
    report = again.report()
    assert was_read(again)
    assert report == fresh.report()
    assert report.collisions == fresh.report().collisions != ()
    assert report.conflicts == fresh.report().conflicts
    assert report.unused_terminals == ("UNUSED",)
    assert again.tree == fresh.tree
    ambiguous = 'start: a | b\na: X Y?\nb: X Z?\nX: "x"\nY: "y"\nZ: "z"\n'
    program(gr.grammar(ambiguous, "lark"))
    late = gr.grammar(ambiguous, "lark")
    assert not was_read(late)
    assert late.report().conflicts != ()


def test_grammars_from_disk_compose_and_pickle(cache: Path) -> None:
    program(made("gbnf"))
    again = made("gbnf")
    whole = gr.sequence("<", again, ">")
    assert whole.matches("<[1]>") and not whole.matches("<[a]>")
    program(made("lark"))
    inside = gr.sequence(made("lark"), "!")
    assert inside.matches("a=1;!") and not inside.matches("a=1!")
    nested = gr.grammar({"S": [["(", gr.Ref("S"), ")"], [made("gbnf")]]})
    assert nested.matches("(([1]))") and not nested.matches("(([1])")
    assert pickle.loads(pickle.dumps(again)).matches("[2]")


# -- what is not kept -------------------------------------------------------------------------------------------------
def test_off_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WORTH_KEEPING", 0)
    monkeypatch.delenv(disk_cache.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert disk_cache.cache_dir() is None
    program(made("lark"))
    assert entries(tmp_path) == []


def test_what_is_read_quickly_is_not_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WORTH_KEEPING", 10**9)
    program(made("lark"))
    assert entries(cache) == []


def test_grammars_that_depend_on_more_than_their_text_are_not_kept(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "part.lark").write_text("WORD: /[a-z]+/\n")
    main = tmp_path / "main.lark"
    main.write_text("%import .part.WORD\nstart: WORD\n")
    program(gr.grammar(main))
    program(gr.grammar("%import part.WORD\nstart: WORD\n", "lark", imports=[tmp_path]))
    program(gr.grammar("start: @it\n", "lark", constraints={"it": gr.regex("[a-z]+")}))
    program(gr.grammar({"S": ["a"]}))
    assert entries(cache) == []
    assert gr.grammar(main).matches("abc")
    (tmp_path / "part.lark").write_text("WORD: /[0-9]+/\n")
    assert not gr.grammar(main).matches("abc")


def test_imports_of_larks_own_grammars_are_kept(cache: Path) -> None:
    text = "%import common.INT\nstart: INT\n"
    program(gr.grammar(text, "lark"))
    assert len(entries(cache)) == 1
    assert gr.grammar(text, "lark").matches("12")


def test_what_is_wrong_is_not_kept(cache: Path) -> None:
    for _ in range(2):
        with pytest.raises(gr.PatternError) as caught:
            gr.grammar("start: (\n", "lark")
        assert caught.value.span is not None
    assert entries(cache) == []


# -- keys -------------------------------------------------------------------------------------------------------------
def test_options_are_part_of_the_key(cache: Path) -> None:
    text = 'start: a\na: "x" a | "y"\n'
    for options in ({}, {"start": "a"}, {"max_rules": 100}, {"indenter": None}):
        program(gr.grammar(text, "lark", **options))  # type: ignore[arg-type]
    assert len(entries(cache)) == 3
    program(gr.grammar(text + "\n", "lark"))
    assert len(entries(cache)) == 4


@pytest.mark.parametrize("changed", ["lower.py", "load_grammar.py"])
def test_another_version_reads_anew(cache: Path, monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    program(made("lark"))
    assert not was_read(made("lark"))
    stat = Path.stat

    def later(self: Path, **options: Any) -> os.stat_result:
        found = list(stat(self, **options))
        return os.stat_result([*found[:6], found[6] + (self.name == changed), *found[7:]])

    monkeypatch.setattr(Path, "stat", later)
    disk_cache._fingerprint.cache_clear()
    try:
        again = made("lark")
        assert was_read(again)
        program(again)
    finally:
        monkeypatch.undo()
        disk_cache._fingerprint.cache_clear()
    assert len(entries(cache)) == 2


# -- broken entries ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "binary", "mixed"])
def test_a_damaged_entry_is_read_anew(cache: Path, damage: str) -> None:
    program(made("lark"))
    (path,) = entries(cache)
    good = path.read_bytes()
    path.write_bytes(
        {
            "flipped": good[:-9] + bytes([good[-9] ^ 1]) + good[-8:],
            "cut": good[: len(good) // 2],
            "empty": b"",
            "binary": bytes(range(256)) * 10,
            "mixed": program_file(gr.literal("a"))[:24] + good[24:],
        }[damage]
    )
    again = made("lark")
    found = program(again)
    assert was_read(again)
    assert found.node_count() > 50
    assert path.read_bytes() == good  # written again
    last = made("lark")
    assert program(last).node_count() == program(made("lark")).node_count()
    assert not was_read(last)


def test_a_limit_met_in_an_entry_is_no_damage(cache: Path) -> None:
    program(made("lark"))
    again = made("lark")
    with pytest.raises(gr.LimitError):
        again._lower(_core.Builder(10))
    assert not was_read(again)
    program(again)
    assert not was_read(again)


def test_a_key_covers_the_files_that_read(tmp_path: Path) -> None:
    """The core, the reader itself, its own reader, and Lark: an entry of another version is never found."""
    read = set(disk_cache._readers())
    for one in (_core.__file__, module.__file__, disk_cache.__file__, constraint_module.__file__, lark.__file__):
        assert Path(str(one)) in read, one


# -- the directory ----------------------------------------------------------------------------------------------------
def test_entries_are_for_their_owner_only(cache: Path) -> None:
    program(made("lark"))
    assert cache.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in entries(cache)] == [0o600]


@pytest.mark.skipif(os.name != "posix", reason="access rights of POSIX")
def test_a_directory_that_others_may_write_to_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    file = tmp_path / "file"
    file.write_text("")
    for path in (shared, link, file, file / "below"):
        with pytest.raises(gr.CompileError) as caught:
            gr.set_cache_dir(path)
        assert caught.value.code == "cache-dir"
        assert str(path) in caught.value.message
    assert disk_cache.cache_dir() is None
    monkeypatch.setenv(disk_cache.VARIABLE, str(shared))
    with pytest.raises(gr.CompileError) as caught:
        made("lark")
    assert caught.value.code == "cache-dir"


def test_a_directory_that_cannot_be_written_changes_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **named: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk_cache.os, "replace", full)
    constraint = made("lark")
    assert constraint.matches("a=1;")
    assert entries(cache) == []  # no partial file remains


def test_how_it_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    try:
        for value, where in (
            ("", None),
            ("0", None),
            ("1", tmp_path / "xdg/guiderail"),
            ("/some/where", "/some/where"),
        ):
            monkeypatch.setenv(disk_cache.VARIABLE, value)
            assert disk_cache.cache_dir() == (None if where is None else Path(where))
        gr.set_cache_dir(tmp_path / "chosen")
        assert disk_cache.cache_dir() == tmp_path / "chosen"
        gr.set_cache_dir(False)  # overrides the environment
        assert disk_cache.cache_dir() is None
        gr.set_cache_dir(True)
        assert disk_cache.cache_dir() == tmp_path / "xdg/guiderail"
        monkeypatch.setenv("XDG_CACHE_HOME", "relative")
        monkeypatch.setenv("HOME", str(tmp_path))
        gr.set_cache_dir(True)
        assert disk_cache.cache_dir() == tmp_path / ".cache/guiderail"
    finally:
        gr.set_cache_dir(None)
    assert disk_cache.cache_dir() == Path("/some/where")


def test_the_longest_unused_go_first(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "MAX_ENTRIES", 3)
    store = disk_cache.DiskCache(cache)
    for number in range(3):
        store.store(number, b"%d" % number)
        os.utime(store._path(number), (1000 + number,) * 2)
    assert store.load(0) == b"0"  # used now, so 1 is the least recently used
    store.store(3, b"3")
    assert [store.load(number) for number in range(4)] == [b"0", None, b"2", b"3"]
    monkeypatch.setattr(disk_cache, "MAX_BYTES", 950)
    store.store("large", b"x" * 950)
    assert store.load("large") == b"x" * 950
    assert len(entries(cache)) == 1
    store.clear()
    assert entries(cache) == []


def test_processes_share_a_directory(cache: Path) -> None:
    """Two processes start together: both are right and make one entry, which a third finds."""
    code = (
        "import sys, guiderail as gr\n"
        "from guiderail.frontends.grammar import constraint\n"
        "constraint._WORTH_KEEPING = 0\n"
        f"c = gr.grammar({LARK!r}, 'lark')\n"
        "print(c.matches('a=1;'), c.matches('a='), c._state.read is not None)\n"
    )
    environment = {**os.environ, disk_cache.VARIABLE: str(cache)}
    command = [sys.executable, "-c", code]
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [one.communicate(timeout=120)[0].split() for one in running]
    assert [one[:2] for one in told] == [["True", "False"]] * 2
    assert len(entries(cache)) == 1
    third = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=120)
    assert third.stdout.split() == ["True", "False", "False"]
    assert not was_read(made("lark"))  # and this one
