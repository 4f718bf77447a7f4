"""Random constraints that count characters, on random vocabularies whose tokens end inside characters, walked token by
token. There are three judges: the mask, ``validate`` of each token alone, and all short texts that Python finds.

``python tests/mask_walks.py FIRST LAST`` walks these seeds and prints those that fail.
"""

from __future__ import annotations

import itertools
import random
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

import guiderail as gr
from core_support import bits_of, plain, words

# Characters that share their first bytes, and some that do not. `q` represents all that no constraint names.
LETTERS = "abéÿ€₭😀😁q"
LONGEST = 3  # characters of the texts that are enumerated
STEPS = 12

CLASSES = {
    "[ab]": "ab", "[^a]": "béÿ€₭😀😁q", "[é€]": "é€", "[ÿ😀]": "ÿ😀", "[aé₭]": "aé₭", ".": LETTERS,
    "[^é😁]": "abÿ€₭😀q", "[a-q]": "abq", "[😀😁]": "😀😁", "[a-z€]": "ab€q",
}  # fmt: skip


@dataclass(frozen=True)
class Walk:
    """A constraint, and whether it matches a text (without the quotes of JSON)."""

    shown: str
    constraint: gr.Constraint
    meaning: Callable[[str], bool]
    quoted: bool
    most: int | None  # maximum characters of a text


def pattern(rng: random.Random, depth: int = 0) -> str:
    kind = rng.randrange(10 if depth < 2 else 5)
    if kind < 5:
        return rng.choice([*CLASSES, "a", "b", "é", "€", "😀", "ab", ".*", ".*", ""])
    if kind < 7:
        inner = pattern(rng, depth + 1)
        return f"(?:{inner}){rng.choice(['*', '+', '?', '{2}', '{0,2}', '{1,3}', '{3,}', '{0,20}', '{2,9}'])}"
    if kind < 8:
        return f"(?:{pattern(rng, depth + 1)}|{pattern(rng, depth + 1)})"
    return pattern(rng, depth + 1) + pattern(rng, depth + 1)


def look(rng: random.Random) -> str:
    inner = rng.choice(["a", "b", "é", "[é€]", "[^a]", "[ab]", "😀", "ÿ", "[^é😁]"])
    return rng.choice([f"(?<={inner})", f"(?<!{inner})", f"(?={inner})", f"(?!{inner})", "\\b", f"(?=.*{inner})"])


def piece(rng: random.Random) -> str:
    counts = ["{0,1}", "{0,2}", "{0,3}", "{1,3}", "{2,5}", "{0,9}", "*", "+", "{2,}"]
    return rng.choice(list(CLASSES)) + rng.choice(counts)


def make(seed: int) -> Walk:
    rng = random.Random(seed)
    low, high = rng.choice([0, 0, 0, 1, 2]), rng.choice([None, 1, 2, 2, 3, 4, 5, 8, 30])
    if high is not None:
        low = min(low, high)
    kind = rng.randrange(5)
    if kind < 2:  # a string of a schema with limits of length and a pattern
        body = rng.choice(
            [piece(rng), piece(rng) + piece(rng), pattern(rng), piece(rng) + pattern(rng), look(rng) + piece(rng)]
        )
        body = rng.choice(["", "", "^"]) + body + rng.choice(["", "$", "$"])
        schema: dict[str, object] = {"type": "string", "pattern": body}
        if low:
            schema["minLength"] = low
        if high is not None:
            schema["maxLength"] = high
        if rng.random() < 0.15:
            schema["not"] = {"pattern": rng.choice(["[ab]", "[^a]", "[é€]*b", "(?:[aé][^b])+"]) + "$"}
        return Walk(repr(schema), gr.json_schema(schema), searches(schema, low, high), True, high)
    if kind == 2:  # look-arounds beside counts
        body = "".join(rng.choice([piece, piece, look, pattern])(rng) for _ in range(rng.randrange(1, 5)))
    elif kind == 3:  # counted characters may also begin the rest
        body = piece(rng) + piece(rng) + pattern(rng)
    else:
        body = f"(?:{piece(rng)}|{pattern(rng)}{look(rng)}{piece(rng)}){pattern(rng)}"
    other = piece(rng) + pattern(rng)
    one, two = re.compile(body, re.DOTALL), re.compile(other, re.DOTALL)
    constraint = gr.regex(body, flags="s")
    tail = rng.random() < 0.4
    if tail and rng.random() < 0.7:  # an intersection that something follows
        after = rng.choice([*CLASSES, "b", "€", "ÿ", "a", "é?", "[ab]*", "😁"])
        third = re.compile(after, re.DOTALL)
        both = (constraint & gr.regex(other, flags="s")) + gr.regex(after, flags="s")

        def cut(text: str) -> bool:
            return any(
                one.fullmatch(text[:i]) and two.fullmatch(text[:i]) and third.fullmatch(text[i:])
                for i in range(len(text) + 1)
            )

        return Walk(f"(regex({body!r}) & regex({other!r})) + regex({after!r})", both, cut, False, None)
    if tail:
        return Walk(
            f"regex({body!r}) & regex({other!r})",
            constraint & gr.regex(other, flags="s"),
            lambda text: bool(one.fullmatch(text) and two.fullmatch(text)),
            False,
            None,
        )
    if high is None:
        return Walk(f"regex({body!r})", constraint, lambda text: bool(one.fullmatch(text)), False, None)
    return Walk(
        f"regex({body!r}).limited_to({high})",
        constraint.limited_to(high),
        lambda text: len(text) <= high and bool(one.fullmatch(text)),
        False,
        high,
    )


def searches(
    schema: dict[str, object], low: int, high: int | None, flags: int = re.DOTALL | re.ASCII
) -> Callable[[str], bool]:
    wanted = re.compile(str(schema["pattern"]), flags)  # ASCII: word boundaries as in ECMAScript
    refused = schema.get("not")
    unwanted = re.compile(str(refused["pattern"]), flags) if isinstance(refused, dict) else None

    def meaning(text: str) -> bool:
        if len(text) < low or (high is not None and len(text) > high) or not wanted.search(text):
            return False
        return not (unwanted and unwanted.search(text))

    return meaning


@lru_cache(maxsize=1)
def all_texts() -> tuple[str, ...]:
    return tuple("".join(p) for n in range(LONGEST + 1) for p in itertools.product(LETTERS, repeat=n))


def vocabulary(seed: int, quoted: bool) -> gr.Vocabulary:
    """A vocabulary of all bytes, so that every text can be written, and of pieces that end anywhere."""
    rng = random.Random(f"vocabulary {seed}")
    tokens = {bytes([b]) for b in range(256)}
    for _ in range(rng.randrange(4, 60)):
        text = "".join(rng.choice(LETTERS) for _ in range(rng.choice([1, 2, 2, 3, 3, 4, 6]))).encode()
        low, high = rng.choice([0, 0, 1, 2]), rng.choice([0, 0, 1, 2, 3])
        tokens.add(text[low : len(text) - high] or b"a")
    if quoted:
        for _ in range(rng.randrange(6)):
            text = "".join(rng.choice(LETTERS) for _ in range(rng.randrange(1, 3))).encode()
            tokens.add(rng.choice([b'"' + text[: len(text) - rng.randrange(2)], text[rng.randrange(2) :] + b'"']))
    if seed % 5 == 0:  # enough for other mask strategies
        for _ in range(3000):
            text = "".join(rng.choice(LETTERS) for _ in range(rng.randrange(2, 9))).encode()
            tokens.add(text[: len(text) - rng.choice([0, 0, 0, 1])])
    return plain(sorted(tokens))


def mask(matcher: gr.Matcher, size: int, budget: int | None = None) -> np.ndarray:
    bitmask = np.full((1, words(size)), -1, np.int32)
    if budget is None:
        matcher.fill_next_token_bitmask(bitmask, 0)
    else:
        matcher.fill_next_token_bitmask(bitmask, 0, budget)
    return bits_of(bitmask)[:size]


def may_be_unknown(read: bytes, quoted: bool) -> bool:
    """Returns whether ``read`` has characters that no text here has, or ends inside one."""
    try:
        return not set(read.decode()) <= {*LETTERS, *('"' if quoted else "")}
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"


def check(seed: int) -> str | None:
    """Walks; returns a sentence that says what is wrong."""
    return check_walk(make(seed), seed)


def check_walk(walk: Walk, seed: int) -> str | None:
    rng = random.Random(f"walk {seed}")
    tokens = vocabulary(seed, walk.quoted)
    try:
        guide = gr.compile(walk.constraint, tokens, cache=False)
    except gr.CompileError as error:
        if error.code == "unsatisfiable" and any(map(walk.meaning, all_texts())):
            return f"{walk.shown}: refused, but {next(filter(walk.meaning, all_texts()))!r} matches"
        return None
    texts = {t for t in all_texts() if walk.meaning(t)}
    spelled = {(f'"{t}"' if walk.quoted else t).encode() for t in texts}
    prefixes = {t[:i] for t in spelled for i in range(len(t) + 1)}
    finite = walk.most is not None and walk.most <= LONGEST
    eos = tokens.stop_token_ids[0]
    matcher, read = guide.matcher(), b""
    for _ in range(STEPS):
        where = f"{walk.shown} after {read!r} (seed {seed})"
        allowed = mask(matcher, tokens.size)
        if not allowed.any():
            return f"{where}: nothing is allowed"
        for token in range(eos):
            text = tokens.token_bytes(token)
            if allowed[token] != bool(matcher.validate([token])):
                return f"{where}: the mask says {bool(allowed[token])} of {text!r}"
            if read + text in prefixes and not allowed[token]:
                return f"{where}: {text!r} begins a text and is not allowed"
            if (
                finite
                and allowed[token]
                and read + text not in prefixes
                and not may_be_unknown(read + text, walk.quoted)
            ):
                return f"{where}: {text!r} begins no text and is allowed"
        if allowed[eos] != matcher.is_accepting():
            return f"{where}: the mask says {bool(allowed[eos])} of the end"
        if finite and not may_be_unknown(read, walk.quoted) and bool(allowed[eos]) != (read in spelled):
            return f"{where}: whether the text may end is wrong"
        wrong = budgeted(matcher, tokens, rng)
        if wrong:
            return f"{where}: {wrong}"
        choices = np.flatnonzero(allowed[:eos])
        if not len(choices):
            return None
        token = int(rng.choice(choices.tolist()))
        if not matcher.accept_token(token):
            return f"{where}: token {token} is allowed and refused"
        read += tokens.token_bytes(token)
    return None


def budgeted(matcher: gr.Matcher, tokens: gr.Vocabulary, rng: random.Random) -> str | None:
    """A walk that ends within its number of tokens."""
    matcher = matcher.fork()
    left = matcher.least_tokens()
    if left is None:
        return None
    left += rng.randrange(3)
    written = []
    while True:
        allowed = mask(matcher, tokens.size, left)
        if not allowed.any():
            return f"nothing is allowed after {written} with {left} tokens left"
        token = int(rng.choice(np.flatnonzero(allowed).tolist()))
        if not matcher.accept_token(token):
            return f"{token} is allowed after {written} and refused"
        if matcher.is_terminated():
            return None
        written.append(token)
        left -= 1


if __name__ == "__main__":
    failed = 0
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        try:
            found = check(number)
        except gr.GuiderailError as raised:
            found = f"seed {number}: {type(raised).__name__} {raised}"
        if found:
            failed += 1
            print(found, flush=True)
    print(f"{failed} of {int(sys.argv[2]) - int(sys.argv[1])} seeds fail")
    sys.exit(failed > 0)
