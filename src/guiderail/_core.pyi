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
def set_lock_slice(microseconds: int, /) -> None: ...  # how long others wait before long work lets them in; 0 in tests

# For tests. New tables use only these bits of their hashes. Returns the previous bits.
def set_bucket_bits(bits: int, /) -> int: ...

# The strategies that make masks, in order: name, where it applies, what it does, whether it is on; how often it was
# tried and made a mask, the steps of work that this took (including what it calls), the bytes it keeps. For all guides
# of the process.
def mask_strategies() -> list[dict[str, Any]]: ...

# For tests and benchmarks: switches a strategy off or on for all new masks of the process.
def switch_mask_strategy(name: str, on: bool, /) -> None: ...

# The identity of a state across programs, under a key of this process; None if only its own program knows the state.
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

def is_plain_json(value: object, most: int) -> bool: ...  # and of at most this many parts; shared ones count each time
def keys_within(value: object, names: tuple[str, ...]) -> set[str]: ...  # those that are keys of some dict in it
def unshared_parts(value: object, most: int) -> int: ...  # when written out; -1: some container occurs twice
def spend_work(steps: int, /) -> None: ...  # counts for this thread; CoreError "work" beyond the limit
def spent_work() -> int: ...  # by this thread so far
def limit_work(steps: int, /) -> tuple[int, int, int]: ...  # within outer limits; for restore_work
def restore_work(before: tuple[int, int, int], /) -> None: ...

class Builder:
    """Builds interned expressions bottom-up; ``finish`` makes them a Program."""

    EMPTY: int  # matches nothing
    EPSILON: int  # matches the empty string
    def __init__(
        self,
        max_nodes: int = 4_000_000,
        fuel: int = 200_000,
        step_work: int = ...,
        records: bool = False,  # records the operations
    ) -> None: ...
    @staticmethod
    def operations() -> dict[str, int]: ...  # names of operations, with their codes in files
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
    def scope(self, e: int, /) -> int: ...  # confines the text that look-arounds see
    def token(self, symbols: Sequence[str | int], /) -> int: ...  # one special token, by text or id
    # one token of any kind: one of these, or any except these and the stop tokens
    def token_set(self, tokens: Sequence[str | int], /, but: bool = False) -> int: ...
    def counted(self, e: int, most: int, /) -> int: ...  # e within at most this many tokens
    def rule(self, name: str, /, holds_items: bool = False) -> int: ...  # a reference to a rule, defined later
    def escaped(self, e: int, /, mode: int = 0) -> int: ...  # inside of a JSON string; 0: canonical, 1: all spellings
    def members(  # the inside of the braces of a JSON object
        self,
        names: Sequence[bytes],  # decoded, distinct
        values: Sequence[int | Sequence[tuple[int, int]]],  # EMPTY forbids the name; or (value, obligations it meets)
        required: Sequence[bool],
        others: Sequence[tuple[int, int, bool, int]],  # (decoded key text, value, dense, obligations)
        comma: int,
        colon: int,
        *,
        ordered: bool = False,
        min: int = 0,
        max: int = -1,
        escapes: int = 0,
        pending: int = 0,  # obligations to be met
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
        cells: Sequence[tuple[Sequence[int], int, int]],  # (required names, minimum, maximum of members or -1)
        parts: Sequence[tuple[int, Sequence[int]]],  # 0: a cell; of earlier parts, 1: all, 2: any, 3: one, 4: not
        effects: Sequence[Sequence[int]],  # cells that each makes fail
        settled: Sequence[tuple[Sequence[int], int]],  # if exactly these cells must hold, these members are equivalent
        wholes: Sequence[Sequence[tuple[Sequence[int], int]]],  # by name: (some of its values, their union)
    ) -> int: ...
    def item(  # left: 1 if a value certainly remains, 2 if infinitely many; label: below 32, for equal sets of values
        self, e: int, /, left: int = 0, label: int = 0
    ) -> int: ...
    def distinct(self, body: int, /) -> int: ...  # its items are pairwise different JSON values
    def tally(  # a list, read item by item: a formula over cells; see core/json/tallies.cpp
        self,
        # by position, the last from there on: (values, cells that they make fail, counters that they increment)
        places: Sequence[Sequence[tuple[int, Sequence[int], Sequence[int]]]],
        comma: int,
        *,
        cells: Sequence[tuple[int, int]],  # (minimum, maximum of items or -1)
        parts: Sequence[tuple[int, Sequence[int]]],  # as for `vote`
        counters: Sequence[tuple[int, int, int]],  # (its cell, minimum, maximum or -1)
    ) -> int: ...
    def twice(self, body: int, /) -> int: ...  # at least two of its items are equal JSON values
    def recall(self, label: int, /) -> int: ...  # what a group has matched; see core/captures/captures.cpp
    def capture(self, label: int, group: int, rest: int, /) -> int: ...
    def patterned(  # a text beside patterns, which decide on the value after it; see core/json/patterned.cpp
        self,
        text: int,
        patterns: Sequence[int],
        next: Sequence[Sequence[int]],  # by outcome, by pattern: the outcome of what also matches the pattern
        values: Sequence[int],  # by outcome; EMPTY: no text may have it
        /,
    ) -> int: ...
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
    def lexer(  # how texts are cut into terminals; returns the number of the lexer
        self,
        # (text; EMPTY: none, 0: ends with its longest match, 1: its shortest, 2: so does the lexeme, 3: it is nested,
        # keyword of these, guard of this one: it competes with it, and is rejected)
        terminals: Sequence[tuple[int, int, Sequence[int], int | None]],
        ignore: Sequence[int],
        # newline, indent, dedent, opening, closing, columns of a tab, strict tabs, final newline
        indentation: tuple[int, int, int, Sequence[int], Sequence[int], int, bool, bool] | None = None,
        before: bytes = b"",  # read as if it preceded the text
        traps: Sequence[int] = (),  # terminals that may precede never()
    ) -> int: ...
    def terminal(self, lexer: int, index: int, /) -> int: ...  # a symbol in the bodies of `lexed`
    def never(self, lexer: int, /) -> int: ...  # after a terminal: it competes, and its matches are rejected
    def identifier_lexer(  # a lexer whose last terminals are identifiers
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
    def replay(self, file: bytes, /) -> int: ...  # runs a program file; returns its root
    def recorded(self, root: int, /) -> bytes: ...  # the program file of an expression; needs records=True
    def is_nullable(self, e: int, /) -> bool: ...
    def is_empty(self, e: int, /) -> bool: ...  # decided exactly; may run out of fuel (CoreError "fuel")
    def first_bytes(self, e: int, /) -> bytes: ...
    def dump(self, e: int, /) -> str: ...
    def finish(self, root: int, /) -> Program: ...

class TokenSet:
    """Tokens of any kind: these, or all except these and the stop tokens."""

    tokens: list[str | int]
    but: bool

class Program:
    """A finalized expression, with derivatives that are found as needed. Thread-safe."""

    root: int
    serial: int  # unique in the process
    def derivative(self, state: int, data: bytes, /) -> int: ...
    def derivative_symbol(self, state: int, symbol: str | int | TokenSet, /) -> int: ...
    def is_nullable(self, state: int, /) -> bool: ...
    def is_live(self, state: int, /) -> bool: ...  # some completion exists
    def first_bytes(self, state: int, /) -> bytes: ...  # exactly the bytes that keep the state alive
    def first_symbols(self, state: int, /) -> list[str | int | TokenSet]: ...
    def symbols(self) -> list[str | int | TokenSet]: ...  # the tokens it names
    def forced_bytes(self, state: int, limit: int, /) -> bytes: ...
    def shortest(self, state: int, limit: int, /) -> bytes | None: ...  # a completion; a shortest one if it is close
    def least_bytes(self, state: int, /) -> int: ...  # a lower bound on the length of completions
    def likely(self, state: int, limit: int, /) -> bytes: ...  # a guess at how a completion begins
    def dump(self, state: int, /) -> str: ...
    def node_count(self) -> int: ...
    def memory_size_bytes(self) -> int: ...
    def memory_parts(self) -> dict[str, int]: ...  # the same by part

# Both free first what a thread would soon free.
def pages_in_use() -> int: ...  # bytes that the core uses of its pages
def heap_in_use() -> int: ...  # bytes, of the whole process; 0 if the C library does not tell
def character_sets_bytes() -> int: ...  # of all sets of characters
def trim_heap() -> None: ...  # returns free memory to the system; takes some milliseconds
def apply_bitmask(
    logits: NDArray[Any],  # (columns,) or (rows, columns), numbers of 2, 4 or 8 bytes; changed
    bitmask: NDArray[np.int32],
    rows: Sequence[int],
    limit: int,  # columns from here on are not allowed
    infinity: int,  # the bits of -inf
    /,
    threads: int = 0,  # 0: as many as pay
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
    longest_token: int
    stop_token_ids: list[int]
    def token_bytes(self, token: int, /) -> bytes: ...
    def spells(self, tokens: Sequence[int], text: bytes, /) -> bool: ...  # text tokens with these bytes
    def find(self, data: bytes, /) -> int: ...  # the token with these bytes, or -1
    def warm(self, sets: Sequence[CharSet], /) -> None: ...  # makes their class masks now
    def tokens_with_prefix(self, prefix: bytes, limit: int, /) -> list[int]: ...
    def memory_size_bytes(self) -> int: ...
    def cache_size_bytes(self) -> int: ...  # the part of this for cached masks
    def clear_cache(self) -> None: ...

class Spelling:
    """Which sequences of tokens a byte-pair encoding makes of their text. Thread-safe."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        merges: NDArray[np.uint32],  # four numbers each: left, right, made, rank
        bytes: Sequence[int],  # the token of each byte, or -1
        # of a pre-tokenizer: (instructions, start, whether text between matches is a piece)
        levels: Sequence[tuple[Sequence[tuple[int, int, int, int]], int, bool]],
        atoms: bytes,  # of each code point
        whole: bool,  # a piece that is the text of a token becomes that token
        separate: Sequence[bytes],  # texts that are always tokens of their own
        by_character: bool = False,  # merging begins with characters that are tokens, and with bytes otherwise
        characters: Sequence[tuple[int, int]] = (),  # non-ASCII ones: code point, token
        added: Sequence[int] = (),  # the tokens of separate texts
        closed: bool = False,  # no text follows these
        broken: int = 0xFFFFFFFFFFFFFFFF,  # atoms of characters that several tokens may share
    ) -> None: ...
    odd: list[int]  # tokens that merges do not make
    def is_canonical(self, tokens: Sequence[int], /) -> bool: ...
    def restrict(self, tokens: Sequence[int], /) -> list[int]: ...  # words of a mask: what may come after these
    def memory_size_bytes(self) -> int: ...

class Guide:
    """Masks of a program over a vocabulary. Thread-safe.

    A program that outgrows max_memory (bytes; 0: never) is replaced by a fresh one. States are numbers of one program:
    in a Guide, of the current one; in a Matcher, of its own."""

    def __init__(
        self, program: Program, vocabulary: Vocabulary, symbols: dict[str, int], /, max_memory: int = 0
    ) -> None: ...
    program: Program  # of new matchers
    def fill_state(self, state: int, bitmask: NDArray[np.int32], row: int, /) -> bool: ...
    def accept_state(self, state: int, token: int, /) -> int: ...  # 0: rejected
    def is_accepting_state(self, state: int, /) -> bool: ...
    root: int  # of every program
    def require(self, spelling: Spelling, /) -> None: ...  # from now on; call it before any matcher is made
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
    state: int  # within `program`
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
    def is_complete(self) -> bool: ...  # accepting, and only a stop token can follow
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
    def seconds(self) -> list[float]: ...  # for each row; empty until it is done

def fill_next_token_bitmasks(
    matchers: Sequence[Matcher], bitmask: Any, rows: Sequence[int] | None = None, threads: int | None = None
) -> None: ...
