"""Support for the tests of the core: vocabularies over a small alphabet, generated constraints and slow masks."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from hypothesis import HealthCheck, settings, strategies as st

import guiderail as gr
from guiderail import _core

PROPERTY = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

# Characters in constraints: one of each length in UTF-8.
LETTERS = "abzÿ€😀"
# `q` represents all characters that no constraint names.
ALPHABET = LETTERS + "q"
EVERY_BYTE = [bytes([b]) for b in range(256)]
LONGEST = 4  # characters of the texts that are enumerated


def words(size: int) -> int:
    return (size + 31) // 32


def bits_of(bitmask: np.ndarray, row: int = 0) -> np.ndarray:
    """Returns a row as bool, including padding."""
    return np.unpackbits(bitmask[row].view(np.uint8), bitorder="little").astype(bool)


def mask_of(matcher: gr.Matcher, spare_words: int = 0) -> np.ndarray:
    """Returns the mask of a matcher as bool, shape (32 * words,), written over garbage; checks ``fill``'s result."""
    size = matcher.guide.vocabulary.size
    bitmask = np.full((2, words(size) + spare_words), -1, dtype=np.int32)
    restricts = matcher.fill_next_token_bitmask(bitmask, 1)
    assert (bitmask[0] == -1).all(), "another row was written"
    bits = bits_of(bitmask, 1)
    if not restricts:
        assert bits[:size].all()
    assert not bits[size:].any(), "padding bits must be 0"
    return bits


def plain(tokens: list[bytes], **more: object) -> gr.Vocabulary:
    """Makes a vocabulary of these tokens, with ``<eos>`` at the end."""
    return gr.Vocabulary(
        [*tokens, b"<eos>"],
        special_tokens={"<eos>": len(tokens)},
        stop_token_ids=[len(tokens)],
        **more,  # type: ignore[arg-type]
    )


def byte_vocabulary() -> gr.Vocabulary:
    return plain(EVERY_BYTE)


def takes(program: _core.Program, text: str) -> bool:
    """Returns whether a program matches a text, by derivatives alone."""
    state = program.derivative(program.root, text.encode())
    return state != 0 and program.is_nullable(state)


# -- vocabularies --------------------------------------------------------------------------------------------------
def _pieces() -> list[bytes]:
    """Returns all possible tokens over the alphabet: runs of characters, parts of characters, non-text bytes."""
    found = {c.encode() for c in ALPHABET}
    found |= {bytes([b]) for c in ALPHABET for b in c.encode()}
    found |= {"".join(p).encode() for p in itertools.product("abzÿ", repeat=2)}
    found |= {"".join(p).encode() for p in itertools.product("ab", repeat=3)}
    found |= {"€".encode()[:2], "😀".encode()[:2], "😀".encode()[:3], "😀".encode()[1:], "€".encode()[1:]}
    found |= {b"a\xc3", b"\xbfb", b"b\xf0\x9f", b"\x98\x80a", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"a\xff", b"\xc3a"}
    return sorted(found)


PIECES = _pieces()


def vocabularies() -> st.SearchStrategy[gr.Vocabulary]:
    """Random vocabularies: duplicates, empty tokens, holes, special tokens between the others, spare width."""

    def make(tokens: list[bytes | None], stops: int, spare: int) -> gr.Vocabulary:
        items = [b"a", *tokens]
        ids = []
        for i in range(stops):
            ids.append(len(items))
            items += [b"b", b"ab"] if i else [b"a"]  # a stop token that looks like text
        return gr.Vocabulary(items, special_tokens=ids, stop_token_ids=ids, size=len(items) + spare)

    token = st.one_of(st.sampled_from(PIECES), st.sampled_from(PIECES), st.sampled_from([b"", None, b"a", b"ab"]))
    return st.builds(
        make, st.lists(token, min_size=1, max_size=40), st.integers(0, 3), st.sampled_from([0, 0, 1, 7, 40])
    )


# -- constraints with an independent meaning -----------------------------------------------------------------------
@lru_cache(maxsize=1)
def all_texts() -> tuple[str, ...]:
    return tuple("".join(p) for n in range(LONGEST + 1) for p in itertools.product(ALPHABET, repeat=n))


@dataclass(frozen=True)
class Case:
    """A constraint, and its meaning in pure Python."""

    constraint: gr.Constraint
    meaning: Callable[[str], bool]
    shown: str

    def __repr__(self) -> str:
        return self.shown


def regex_patterns() -> st.SearchStrategy[str]:
    atom = st.sampled_from(["a", "b", "ab", "z", "ÿ", "€", "😀", "[ab]", "[^a]", "[^b€]", ".", "[aÿ]", "[ÿ€]", ""])

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        counts = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,2}", "{2,3}", "{1,}", "{2,}", "{0,9}"])
        return st.one_of(
            st.tuples(inner, inner).map("".join),
            st.tuples(inner, inner).map(lambda p: f"(?:{p[0]}|{p[1]})"),
            st.tuples(inner, counts).map(lambda p: f"(?:{p[0]}){p[1]}"),
        )

    return st.recursive(atom, grow, max_leaves=6)


def looking_patterns() -> st.SearchStrategy[str]:
    small = st.sampled_from(["a", "b", "ab", "[^a]", ".*b", ".b", "a.*", "ÿ", "(?:ab)*", ".{2}", ".*€"])
    look = st.one_of(
        small.map(lambda p: f"(?={p})"),
        small.map(lambda p: f"(?!{p})"),
        st.sampled_from(["(?<=a)", "(?<!a)", "(?<=ab)", "(?<!€)", "(?<=[^b])"]),
    )
    piece = st.one_of(look, st.sampled_from(["a", "b", ".", ".*", "[ab]*", "(?:a|bÿ)", "[^a]?", "(?:ab){1,3}"]))
    return st.lists(piece, min_size=1, max_size=5).map("".join)


def _regex(pattern: str) -> Case:
    compiled = re.compile(pattern, re.DOTALL)  # line breaks are like all other characters
    return Case(gr.regex(pattern, flags="s"), lambda text: compiled.fullmatch(text) is not None, f"regex({pattern!r})")


def _items(texts: str, item: Case, separator: str, low: int, high: int | None, trailing: bool) -> bool:
    """Tries every way to cut ``texts`` into items and separators."""

    def rest(at: int, count: int) -> bool:  # after `count` items
        if at == len(texts) and count >= low:
            return True
        if trailing and count >= max(low, 1) and texts[at:] == separator:
            return True
        if high is not None and count >= high:
            return False
        if count and not texts.startswith(separator, at):
            return False
        start = at + (len(separator) if count else 0)
        key = (start, count)
        if key in seen:
            return False
        seen.add(key)
        return any(item.meaning(texts[start:end]) and rest(end, count + 1) for end in range(start, len(texts) + 1))

    seen: set[tuple[int, int]] = set()
    return rest(0, 0)


def cases(looks: bool = True) -> st.SearchStrategy[Case]:
    """Constraints of every kind."""
    text = st.text(LETTERS, max_size=4)
    nonempty = st.text("abÿ", min_size=1, max_size=2)
    leaf = [
        regex_patterns().map(_regex),
        regex_patterns().map(_regex),
        st.lists(text, min_size=1, max_size=6).map(
            lambda options: Case(gr.choice(options), set(options).__contains__, f"choice({options!r})")
        ),
        text.map(lambda t: Case(gr.literal(t), t.__eq__, f"literal({t!r})")),
        st.lists(st.text(LETTERS, max_size=7), min_size=1, max_size=2).map(
            lambda t: Case(gr.substring_of(*t), lambda s: any(s in x for x in t), f"substring_of({t!r})")
        ),
        nonempty.map(
            lambda stop: Case(
                gr.text_until(stop),
                lambda s: s.find(stop) == len(s) - len(stop) and s.endswith(stop),
                f"text_until({stop!r})",
            )
        ),
        nonempty.map(
            lambda stop: Case(
                gr.text_until(stop, include_stop=False), lambda s: stop not in s, f"text_until({stop!r}, False)"
            )
        ),
        st.just(Case(gr.any_text(), lambda s: True, "any_text()")),
    ]
    if looks:
        leaf.append(looking_patterns().map(_regex))

    def grow(inner: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
        def concat(p: tuple[Case, Case]) -> Case:
            one, two = p
            return Case(
                one.constraint + two.constraint,
                lambda s: any(one.meaning(s[:i]) and two.meaning(s[i:]) for i in range(len(s) + 1)),
                f"({one} + {two})",
            )

        def separated(p: tuple[Case, str, int, int | None, bool]) -> Case:
            item, separator, low, high, trailing = p
            if high is not None:
                high += low
            return Case(
                gr.separated_by(item.constraint, separator, low, high, trailing=trailing),
                lambda s: _items(s, item, separator, low, high, trailing),
                f"separated_by({item}, {separator!r}, {low}, {high}, trailing={trailing})",
            )

        pair = st.tuples(inner, inner)
        return st.one_of(
            pair.map(concat),
            pair.map(
                lambda p: Case(
                    p[0].constraint | p[1].constraint,
                    lambda s: p[0].meaning(s) or p[1].meaning(s),
                    f"({p[0]} | {p[1]})",
                )
            ),
            pair.map(
                lambda p: Case(
                    p[0].constraint & p[1].constraint,
                    lambda s: p[0].meaning(s) and p[1].meaning(s),
                    f"({p[0]} & {p[1]})",
                )
            ),
            inner.map(lambda c: Case(~c.constraint, lambda s: not c.meaning(s), f"~{c}")),
            st.tuples(inner, st.integers(0, 3)).map(
                lambda p: Case(
                    p[0].constraint.limited_to(p[1]),
                    lambda s: len(s) <= p[1] and p[0].meaning(s),
                    f"{p[0]}.limited_to({p[1]})",
                )
            ),
            inner.map(lambda c: Case(c.constraint.optional(), lambda s: not s or c.meaning(s), f"{c}.optional()")),
            st.tuples(
                inner,
                st.sampled_from(["a", "ÿ", "ba"]),
                st.integers(0, 2),
                st.sampled_from([None, 0, 1, 2]),
                st.booleans(),
            ).map(separated),
        )

    return st.recursive(st.one_of(*leaf), grow, max_leaves=4)


@dataclass(frozen=True)
class Language:
    """The texts of a case with at most ``LONGEST`` characters, and all their prefixes, as bytes."""

    texts: frozenset[bytes]
    prefixes: frozenset[bytes]

    @staticmethod
    def of(case: Case) -> Language:
        texts = frozenset(t.encode() for t in all_texts() if case.meaning(t))
        return Language(texts, frozenset(t[:i] for t in texts for i in range(len(t) + 1)))


def foreign(data: bytes) -> bool:
    """Returns whether ``data`` ends inside a character, or has characters that no enumerated text has."""
    try:
        return not set(data.decode()) <= set(ALPHABET)
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"


def expected_mask(language: Language, read: bytes, vocabulary: gr.Vocabulary) -> tuple[np.ndarray, np.ndarray]:
    """Returns the mask after ``read``, and the tokens for which it is known.

    A token is allowed if some text of the language begins with ``read`` and the token. It is unknown if only
        characters outside the alphabet could allow it.
    """
    mask = np.zeros(words(vocabulary.size) * 32, dtype=bool)
    known = np.ones(words(vocabulary.size) * 32, dtype=bool)
    for token in range(vocabulary.token_count):
        text = vocabulary.token_bytes(token)
        if vocabulary.is_text(token) and text:
            mask[token] = read + text in language.prefixes
            known[token] = mask[token] or not foreign(read + text)
    if read in language.texts:
        mask[list(vocabulary.stop_token_ids)] = True
    return mask, known
