"""The native core: expressions, programs, vocabularies, guides and matchers.

Handles of expressions are plain integers, valid only with the builder that made them.
"""

from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

class CoreError(Exception):
    """Raised where no factory is set; ``args == (code, message)``."""

def set_error_factory(make: Callable[[str, str], BaseException], /) -> None: ...
def set_lock_slice(microseconds: int, /) -> None: ...  # how long others wait for long work; 0 in tests

# For tests. Tables made from here on find by these bits of their hashes only; returns those of before.
def set_bucket_bits(bits: int, /) -> int: ...

# The ways to a mask, in order: name, where it applies, what it does, whether it is on; how often it was tried and made
# one, the steps of work that took (of what it calls, too), the bytes it keeps. Of all guides of the process.
def mask_strategies() -> list[dict[str, Any]]: ...

# For tests and benchmarks, of the process: masks made from here on are made without it, or with it again.
def switch_mask_strategy(name: str, on: bool, /) -> None: ...

# What a state is known by between programs, under this process's key; None where it is known in its own alone.
def identity(program: Program, state: int, /) -> tuple[int, int] | None: ...

class CharSet:
    """An immutable set of Unicode scalar values (surrogates are removed), shared process-wide."""

    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None: ...  # inclusive bounds, any order
    def ranges(self) -> list[tuple[int, int]]: ...  # sorted, disjoint, inclusive
    def __or__(self, other: CharSet, /) -> CharSet: ...
    def __and__(self, other: CharSet, /) -> CharSet: ...
    def __sub__(self, other: CharSet, /) -> CharSet: ...
    def __invert__(self) -> CharSet: ...
    def __contains__(self, code_point: int, /) -> bool: ...
    def __len__(self) -> int: ...  # number of code points
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

def is_plain_json(value: object, most: int) -> bool: ...  # at most so many parts, shared ones counted each time
def unshared_parts(value: object, most: int) -> int: ...  # where it is written out; -1: something is in it twice
def spend_work(steps: int, /) -> None: ...  # counts for this thread; CoreError "work" beyond the limit
def spent_work() -> int: ...  # by this thread so far
def limit_work(steps: int, /) -> tuple[int, int, int]: ...  # from now on, within the limit around; for restore_work
def restore_work(before: tuple[int, int, int], /) -> None: ...

class Builder:
    """Builds interned expressions bottom-up; ``finish`` freezes it into a Program."""

    EMPTY: int  # matches nothing
    EPSILON: int  # matches the empty string
    def __init__(
        self,
        max_nodes: int = 4_000_000,
        fuel: int = 200_000,
        step_work: int = ...,
        records: bool = False,  # writes down what it was asked for
    ) -> None: ...
    @staticmethod
    def operations() -> dict[str, int]: ...  # what makes expressions, with their codes in files
    def literal(self, data: bytes, /) -> int: ...
    def char_class(self, chars: CharSet, /) -> int: ...  # one character
    def byte_class(self, values: bytes, /) -> int: ...  # one byte out of these values
    def concat(self, parts: Sequence[int], /) -> int: ...
    def union(self, parts: Sequence[int], /) -> int: ...
    def intersection(self, parts: Sequence[int], /) -> int: ...
    def complement(self, e: int, /) -> int: ...  # every UTF-8 text that e does not match
    def repeat(self, e: int, min: int, max: int = -1, /) -> int: ...  # max < 0: unbounded
    def choice(self, strings: Sequence[bytes], /) -> int: ...  # a minimal acyclic automaton
    def substring_of_chunks(self, chunks: Sequence[bytes], /) -> int: ...  # any run of consecutive chunks
    def substring_of(self, texts: Sequence[bytes], /) -> int: ...  # any substring (character boundaries), linear size
    def look_ahead(self, e: int, negative: bool = False, /) -> int: ...  # zero-width; inside a scope
    def look_behind(self, e: int, negative: bool = False, /) -> int: ...  # zero-width; inside a scope
    def scope(self, e: int, /) -> int: ...  # where the text seen by look-arounds begins and ends
    def token(self, symbols: Sequence[str | int], /) -> int: ...  # one special token, by text or id
    # one token of any kind: of these, or any but these and those that end a text
    def token_set(self, tokens: Sequence[str | int], /, but: bool = False) -> int: ...
    def counted(self, e: int, most: int, /) -> int: ...  # e, of which at most so many tokens hold a byte
    def rule(self, name: str, /, holds_items: bool = False) -> int: ...  # a reference to a rule, defined later
    def escaped(self, e: int, /, mode: int = 0) -> int: ...  # inside of a JSON string; 0: canonical, 1: all spellings
    def members(  # what stands between the braces of a JSON object
        self,
        names: Sequence[bytes],  # decoded, distinct
        values: Sequence[int | Sequence[tuple[int, int]]],  # EMPTY forbids; or (value, obligations it discharges)
        required: Sequence[bool],
        others: Sequence[tuple[int, int, bool, int]],  # (decoded key text, value, dense, obligations)
        comma: int,
        colon: int,
        *,
        ordered: bool = False,
        min: int = 0,
        max: int = -1,
        escapes: int = 0,
        pending: int = 0,  # obligations to be discharged
    ) -> int: ...
    def vote(  # objects whose alternatives are read side by side
        self,
        names: Sequence[bytes],
        values: Sequence[Sequence[tuple[int, int]]],  # (value, its effect)
        required: Sequence[bool],  # in all alternatives
        others: Sequence[tuple[int, int, bool, int]],  # (decoded key text, value, dense, its effect)
        comma: int,
        colon: int,
        *,
        ordered: bool,
        escapes: int,
        cells: Sequence[tuple[Sequence[int], int, int]],  # (names that are required, least, most members or -1)
        parts: Sequence[tuple[int, Sequence[int]]],  # 0: a cell; of earlier parts 1: all, 2: any, 3: just one, 4: not
        effects: Sequence[Sequence[int]],  # cells that fail
        settled: Sequence[tuple[Sequence[int], int]],  # where just these cells must hold, these members say the same
    ) -> int: ...
    def item(  # infinite: surely infinitely many values; label: below 32, of items with the same values
        self, e: int, /, infinite: bool = False, label: int = 0
    ) -> int: ...
    def distinct(self, body: int, /) -> int: ...  # its items are pairwise different JSON values
    def tally(  # a list, read item by item: a formula over cells; see core/json/tallies.cpp
        self,
        # by position, the last from there on: (values, cells that fail, counters that go up)
        places: Sequence[Sequence[tuple[int, Sequence[int], Sequence[int]]]],
        comma: int,
        *,
        cells: Sequence[tuple[int, int]],  # (least, most items or -1)
        parts: Sequence[tuple[int, Sequence[int]]],  # as of `vote`
        counters: Sequence[tuple[int, int, int]],  # (of which cell, least, most or -1)
    ) -> int: ...
    def twice(self, body: int, /) -> int: ...  # some two of its items are equal JSON values; labels tell sets apart
    def decimals(  # plain decimals of one sign, from 0 on; see core/json/decimals.hpp
        self,
        cuts: Sequence[
            tuple[str, str, int, int, str]
        ],  # digits, of the fraction; labels at and above; units to the next
        labels: Sequence[
            tuple[bool, Sequence[tuple[str, Sequence[str]]]]
        ],  # dotted; (step or "0", but not multiples of)
        moduli: Sequence[str],
        scale: int,
        room: int = -1,  # digits after the point; < 0: any
    ) -> int: ...
    def lexer(  # how texts are cut into terminals; the number of the lexer
        self,
        # (text; EMPTY: none, 0: ends with its longest match, 1: its shortest, 2: so does the lexeme, 3: it is nested,
        # keyword of these, guard of this one: competes with it, is refused)
        terminals: Sequence[tuple[int, int, Sequence[int], int | None]],
        ignore: Sequence[int],
        # newline, indent, dedent, opening, closing, columns of a tab, strict tabs, final newline
        indentation: tuple[int, int, int, Sequence[int], Sequence[int], int, bool, bool] | None = None,
        before: bytes = b"",  # read as if it stood before the text
        traps: Sequence[int] = (),  # terminals that may stand in front of never()
    ) -> int: ...
    def terminal(self, lexer: int, index: int, /) -> int: ...  # a symbol in the bodies of `lexed`
    def never(self, lexer: int, /) -> int: ...  # after a terminal: it competes, and what it takes is refused
    def identifier_lexer(  # a lexer of which the last terminals are identifiers
        self,
        terminals: Sequence[tuple[int, int, Sequence[int], int | None]],
        ignore: Sequence[int],
        traps: Sequence[int],
        identifiers: Sequence[tuple[int, Sequence[int]]],  # (relation, the values for which each stands)
        # (terminal without a text, variable, relation): an identifier of the relation to a value of the variable
        placeholders: Sequence[tuple[int, int, int]],
    ) -> int: ...
    # a grammar whose placeholders narrow the values of variables down; for each variable, those that it may have
    def binding(self, lexer: int, domains: Sequence[Sequence[int]], body: int, /) -> int: ...
    def lexed(self, lexer: int, body: int, /) -> int: ...  # the texts whose terminals the body derives
    def define(self, rule: int, body: int, /) -> None: ...
    def replay(self, file: bytes, /) -> int: ...  # of a program file; its root
    def recorded(self, root: int, /) -> bytes: ...  # a program file of an expression; takes records=True
    def is_nullable(self, e: int, /) -> bool: ...
    def is_empty(self, e: int, /) -> bool: ...  # decided exactly; may run out of fuel (CoreError "fuel")
    def first_bytes(self, e: int, /) -> bytes: ...
    def dump(self, e: int, /) -> str: ...
    def finish(self, root: int, /) -> Program: ...

class TokenSet:
    """Tokens of any kind: these, or all but these and those that end a text."""

    tokens: list[str | int]
    but: bool

class Program:
    """A frozen expression with its lazily found derivatives. Thread-safe."""

    root: int
    serial: int  # no other program of the process has it
    def derivative(self, state: int, data: bytes, /) -> int: ...
    def derivative_symbol(self, state: int, symbol: str | int | TokenSet, /) -> int: ...
    def is_nullable(self, state: int, /) -> bool: ...
    def is_live(self, state: int, /) -> bool: ...  # some completion exists
    def first_bytes(self, state: int, /) -> bytes: ...  # exactly the bytes that keep the state alive
    def first_symbols(self, state: int, /) -> list[str | int | TokenSet]: ...
    def symbols(self) -> list[str | int | TokenSet]: ...  # the tokens it names
    def forced_bytes(self, state: int, limit: int, /) -> bytes: ...
    def shortest(self, state: int, limit: int, /) -> bytes | None: ...  # a shortest completion
    def least_bytes(self, state: int, /) -> int: ...  # that any completion has: a lower bound
    def likely(self, state: int, limit: int, /) -> bytes: ...  # a guess at how a completion begins
    def dump(self, state: int, /) -> str: ...
    def node_count(self) -> int: ...
    def memory_size_bytes(self) -> int: ...
    def memory_parts(self) -> dict[str, int]: ...  # the same by what it is of

def pages_in_use() -> int: ...  # bytes that the core has taken of its large pages
def heap_in_use() -> int: ...  # bytes, of the whole process; 0 where the C library does not tell it
def character_sets_bytes() -> int: ...  # of all sets of characters
def trim_heap() -> None: ...  # what is free in the heap goes back to the system; some milliseconds
def apply_bitmask(
    logits: NDArray[Any],  # (columns,) or (rows, columns), numbers of 2, 4 or 8 bytes; changed
    bitmask: NDArray[np.int32],
    rows: Sequence[int],
    limit: int,  # columns from here on are not allowed
    infinity: int,  # the bits of -inf
    /,
    threads: int | None = None,  # 0: as many as pay
) -> None: ...

class Vocabulary:
    """Token bytes as a prefix trie, with the class masks shared by all guides over it. Thread-safe."""

    def __init__(
        self,
        data: bytes,  # all token bytes, one after the other
        offsets: NDArray[np.uint32],  # shape (tokens + 1,): token i is data[offsets[i]:offsets[i + 1]]
        special: NDArray[np.uint8],  # shape (tokens,): 1 = special or unplaceable: never matched as text
        size: int,  # bits in a mask, >= tokens
        stop_token_ids: Sequence[int],
    ) -> None: ...
    size: int
    token_count: int
    trie_nodes: int
    longest_token: int
    stop_token_ids: list[int]
    def token_bytes(self, token: int, /) -> bytes: ...
    def spells(self, tokens: Sequence[int], text: bytes, /) -> bool: ...  # text tokens with these bytes
    def find(self, data: bytes, /) -> int: ...  # the token spelled so, or -1
    def warm(self, sets: Sequence[CharSet], /) -> None: ...  # makes their class masks now
    def tokens_with_prefix(self, prefix: bytes, limit: int, /) -> list[int]: ...
    def memory_size_bytes(self) -> int: ...
    def cache_size_bytes(self) -> int: ...  # of which shared masks
    def clear_cache(self) -> None: ...

class Spelling:
    """Which sequences of tokens a byte-pair encoding makes of their text. Thread-safe."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        merges: NDArray[np.uint32],  # four numbers each: left, right, made, rank
        bytes: Sequence[int],  # the token of each byte, or -1
        # of a pre-tokenizer: (instructions, where they begin, whether what nothing matches is a piece)
        levels: Sequence[tuple[Sequence[tuple[int, int, int, int]], int, bool]],
        atoms: bytes,  # of each code point
        whole: bool,  # a piece that is a token is that token
        separate: Sequence[bytes],  # texts that are tokens of their own
        by_character: bool = False,  # merging begins with characters that are tokens, and with bytes otherwise
        characters: Sequence[tuple[int, int]] = (),  # those but ASCII: code point, token
        added: Sequence[int] = (),  # the tokens of texts that are tokens of their own
        closed: bool = False,  # no text follows those
        broken: int = 0xFFFFFFFFFFFFFFFF,  # atoms of characters that several tokens may share
    ) -> None: ...
    odd: list[int]  # tokens that merges do not make
    def is_canonical(self, tokens: Sequence[int], /) -> bool: ...
    def restrict(self, tokens: Sequence[int], /) -> list[int]: ...  # words of a mask: what may come after these
    def memory_size_bytes(self) -> int: ...

class Guide:
    """Programs are replaced by fresh ones as they outgrow max_memory (bytes; 0: never). States are numbers of one
    program: here of the one that is current at the call, with a Matcher of its own. Thread-safe."""

    def __init__(
        self, program: Program, vocabulary: Vocabulary, symbols: dict[str, int], /, max_memory: int = 0
    ) -> None: ...
    program: Program  # of matchers made now
    def fill_state(self, state: int, bitmask: NDArray[np.int32], row: int, /) -> bool: ...
    def accept_state(self, state: int, token: int, /) -> int: ...  # 0: refused
    def is_accepting_state(self, state: int, /) -> bool: ...
    root: int  # of every program
    def require(self, spelling: Spelling, /) -> None: ...  # from now on, before a matcher is made
    def token_automaton(
        self, max_states: int, /
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]: ...
    def prepare(self, masks: int, /) -> None: ...
    def memory_size_bytes(self) -> int: ...

class Matcher:
    @overload
    def __init__(self, guide: Guide, stop_token_ids: Sequence[int] | None = None) -> None: ...
    @overload
    def __init__(self, other: Matcher, /) -> None: ...
    state: int  # a number of
    program: Program
    def accept_token(self, token: int, /) -> bool: ...
    def accept_within(self, token: int, budget: int, /) -> bool: ...
    def validate(self, draft: Sequence[int], /) -> int: ...
    def fill_draft(
        self, draft: Sequence[int], bitmask: Any, parents: Sequence[int] | None = None, first_row: int = 0
    ) -> list[bool]: ...
    def accept_string(self, data: bytes, /) -> bool: ...
    def fill_next_token_bitmask(self, bitmask: Any, row: int = 0, budget: int | None = None) -> bool: ...
    def least_tokens(self, thorough: bool = True) -> int | None: ...  # that complete the text; None: none found
    def rollback(self, count: int, /) -> None: ...
    def reset(self) -> None: ...
    def forced_bytes(self, limit: int, /) -> bytes: ...
    def is_accepting(self) -> bool: ...
    def is_complete(self) -> bool: ...  # accepting, and nothing but a stop token can follow
    def is_terminated(self) -> bool: ...
    def stop_token_ids(self) -> list[int]: ...
    step_count: int  # tokens and strings accepted so far
    def history(self, last: int | None = None) -> list[int]: ...  # accepted tokens; a string accepted as one step is -1

class Filling:
    """Masks that native threads fill meanwhile. The matchers and the rows belong to it until wait() returns."""

    def __init__(
        self, matchers: list[Any], bitmask: Any, rows: Sequence[int] | None = None, threads: int | None = None
    ) -> None: ...
    def wait(self) -> None: ...
    def done(self) -> bool: ...
    def seconds(self) -> list[float]: ...  # that each row took; empty until it is done

def fill_next_token_bitmasks(
    matchers: Sequence[Matcher], bitmask: Any, rows: Sequence[int] | None = None, threads: int | None = None
) -> None: ...
