"""Compares guiderail on random descriptions with judges that share no code with it.

    python fuzz/differential.py --seconds 60              # all targets in turn until the time is up
    python fuzz/differential.py --seconds 60 schema regex
    python fuzz/differential.py schema --seed 4242        # repeats one case

A case is a description and a judge that decides for any text whether the description means it. The texts are matches
that guiderail itself writes, texts that the target writes, and mutants of both. Along each text, masks are compared
with ``validate``, and walks of allowed tokens are completed: with and without a budget, in forks, and on threads.

A failing case is shrunk (fewer texts, then smaller parts of the description while it still fails) and written to
``build/fuzz-found``. ``--ledger`` adds a line to ``fuzz/ledger.md``.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import guiderail as gr

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "fuzz"), str(ROOT / "tests")]

from judges import TARGETS, Case, Unjudged  # noqa: E402
from ledger import note  # noqa: E402

PIECES = [
    '"a',
    '":',
    '": ',
    '",',
    '", "',
    '"}',
    "}}",
    "ab",
    "aa",
    "ba",
    "abc",
    "[[",
    "]]",
    "],",
    "1,",
    "01",
    "\\u00",
    "\\n",
    "<a",
    "</",
    "é",
    "€x",
]
BYTES = [bytes([b]) for b in range(256)] + [piece.encode() for piece in PIECES] + ["é".encode()[:1], "😀".encode()[:3]]
MOST_STEPS = 60
FEWEST = 12  # tokens that the search over all tokens looks ahead,
MOST_STATES = 3_000  # and states that it may reach


def vocabulary() -> gr.Vocabulary:
    end = len(BYTES)
    return gr.Vocabulary([*BYTES, b"<eos>"], special_tokens={"<eos>": end}, stop_token_ids=[end], size=end + 3)


class Wrong(AssertionError):
    """guiderail and the judge, or two answers of guiderail, differ."""


class Player:
    """Plays cases and counts the checks."""

    def __init__(self) -> None:
        self.vocabulary = vocabulary()
        self.counts: Counter[str] = Counter()

    def mask(self, matcher: gr.Matcher, budget: int | None = None) -> np.ndarray:
        bitmask = gr.allocate_token_bitmask(1, self.vocabulary.size)
        matcher.fill_next_token_bitmask(bitmask, 0, budget)
        self.counts["masks"] += 1
        return np.unpackbits(bitmask[0].view(np.uint8), bitorder="little").astype(bool)[: self.vocabulary.size]

    def play(self, case: Case, rng: random.Random) -> None:
        """Plays a case. Any exception is a finding."""
        self.counts["descriptions"] += 1
        try:
            constraint = case.constraint()
            guide = gr.compile(constraint, self.vocabulary, cache=False, prepare=0)
        except gr.GuiderailError as error:
            self.counts["refused"] += 1
            if error.code in ("unsatisfiable", "unsatisfiable-schema"):
                for text in case.texts(rng):
                    self.judge(case, text, False, "of what is said to match nothing")
            return
        texts = [*case.texts(rng), *self.spelled(guide, rng)]
        texts += [mutant(text, rng) for text in texts for _ in range(2)]
        for text in texts:
            self.judge(case, text, constraint.matches(text), "")
        for text in rng.sample(texts, min(3, len(texts))):
            self.along(guide, text, rng)
        for _ in range(2):
            self.walk(guide, case, rng)
        self.budgeted(guide, case, rng)
        if rng.random() < 0.1:
            self.threads(guide, rng)

    def judge(self, case: Case, text: str, answer: bool, what: str) -> None:
        try:
            expected = case.meaning(text)
        except Unjudged:
            return
        self.counts["texts"] += 1
        if answer != expected:
            raise Wrong(f"{text!r} {'is accepted, and means nothing' if answer else 'is refused, and is meant'} {what}")

    def spelled(self, guide: gr.Guide, rng: random.Random) -> list[str]:
        """Returns matches that guiderail writes: random walks of bytes, completed."""
        program = guide.constraint.program().core
        out = []
        for _ in range(2):
            state, read = program.root, bytearray()
            for _ in range(rng.randrange(20)):
                following = program.first_bytes(state)
                if not following:
                    break
                byte = rng.choice(following)
                read.append(byte)
                state = program.derivative(state, bytes([byte]))
            rest = program.shortest(state, 300)
            if rest is not None:
                out.append((bytes(read) + rest).decode())
        return out

    def along(self, guide: gr.Guide, text: str, rng: random.Random) -> None:
        """Compares masks with ``validate`` along a text."""
        matcher = guide.matcher()
        for byte in text.encode()[:MOST_STEPS]:
            if rng.random() < 0.4:
                self.compare(matcher, rng)
            state = matcher.state
            if not matcher.accept_token(byte):
                if matcher.state != state:
                    raise Wrong("a refused token changed the state")
                return
        self.compare(matcher, rng)

    def compare(self, matcher: gr.Matcher, rng: random.Random) -> None:
        mask = self.mask(matcher)
        for token in range(len(BYTES)):
            if bool(mask[token]) != (matcher.validate([token]) == 1):
                raise Wrong(f"mask and validate differ at {BYTES[token]!r}")
        if mask[len(BYTES)] != matcher.is_accepting():
            raise Wrong("the stop token is allowed where the text may not end, or the other way round")
        if not mask.any():
            raise Wrong("nothing is allowed")
        twin = matcher.fork()
        token = rng.choice(np.flatnonzero(mask[: len(BYTES)]).tolist() or [None])
        if token is not None and not twin.accept_token(token):
            raise Wrong("an allowed token is refused")
        if token is not None:
            twin.rollback(1)
        if twin.state != matcher.state:
            raise Wrong("rollback does not lead back")

    def walk(self, guide: gr.Guide, case: Case, rng: random.Random) -> None:
        """Checks that a random walk of allowed tokens can be completed, and that the judge accepts the result."""
        matcher, read = guide.matcher(), b""
        self.counts["walks"] += 1
        for _ in range(rng.randrange(12)):
            allowed = np.flatnonzero(self.mask(matcher)[: len(BYTES)]).tolist()
            if not allowed:
                if not matcher.is_accepting():
                    raise Wrong(f"a dead end after {read!r}")
                break
            token = rng.choice(allowed)
            if not matcher.accept_token(token):
                raise Wrong(f"{BYTES[token]!r} is allowed after {read!r} and refused")
            read += BYTES[token]
        program = guide.constraint.program().core
        rest = program.shortest(program.derivative(program.root, read), 400)
        if rest is None:
            self.counts["no completion found"] += 1
            return
        self.judge(case, (read + rest).decode(), True, "as the completion of a walk")

    def budgeted(self, guide: gr.Guide, case: Case, rng: random.Random) -> None:
        """Checks that a walk within a promised budget reaches an end, whatever the choices, also if it was promised in
        the midst of a text.
        """
        matcher, read = guide.matcher(), b""
        for _ in range(rng.choice([0, 0, rng.randrange(12)])):
            begun = np.flatnonzero(self.mask(matcher)[: len(BYTES)]).tolist()
            if not begun:
                break
            token = rng.choice(begun)
            matcher.accept_token(token)
            read += BYTES[token]
        needed = matcher.least_tokens()
        self.fewest(guide, read, needed)
        if needed is None or needed > MOST_STEPS:
            return
        self.counts["budgets"] += 1
        budget = needed + rng.choice([rng.randrange(6), 40])
        while True:
            mask = self.mask(matcher, budget)
            allowed = np.flatnonzero(mask).tolist()
            if not allowed:
                if matcher.is_accepting():  # no token is left for a stop token
                    break
                raise Wrong(f"a budgeted walk ends in an empty mask after {read!r}, {budget} left")
            for token in allowed if rng.random() < 0.2 else [rng.choice(allowed)]:
                if token != len(BYTES) and not matcher.fork().accept_within(token, budget):
                    raise Wrong(f"{BYTES[token]!r} is allowed after {read!r} within {budget} tokens and refused")
            token = rng.choice(allowed)
            if token == len(BYTES):
                break
            matcher.accept_token(token)
            read += BYTES[token]
            budget -= 1
        self.judge(case, read.decode(), True, "as a walk within a budget")

    def fewest(self, guide: gr.Guide, read: bytes, needed: int | None) -> None:
        """Compares the tokens that a text is said to need with a search over all tokens, where few states are in reach.

        Promising too few is a finding. Too many, or none, is counted: ``docs/budget.md`` says that it may happen.
        """
        program = guide.constraint.program().core
        layer = seen = {program.derivative(program.root, read)}
        for count in range(FEWEST if needed is None else min(needed, FEWEST)):
            if any(program.is_nullable(state) for state in layer):
                kind = "none" if needed is None else min(needed - count, 5)
                self.counts[f"promises above the fewest: {kind}"] += 1
                return
            reached = set()
            for state in layer:
                first = set(program.first_bytes(state))
                reached.update(program.derivative(state, token) for token in BYTES if token[0] in first)
                if len(seen | reached) > MOST_STATES:
                    return
            layer = {state for state in reached - seen if state and program.is_live(state)}
            seen = seen | layer
        if needed is None or needed > FEWEST:
            return
        if not any(program.is_nullable(state) for state in layer):
            raise Wrong(f"{needed} tokens are promised after {read!r}, and no text is so short")
        self.counts["promises of the fewest"] += 1

    def threads(self, guide: gr.Guide, rng: random.Random) -> None:
        """Checks that forks on threads see the same masks as one thread alone."""
        self.counts["threads"] += 1
        seeds = [rng.random() for _ in range(4)]
        expected = [self.path(guide.matcher(), seed) for seed in seeds]
        fresh = gr.compile(guide.constraint, self.vocabulary, cache=False, prepare=0)
        start, got = fresh.matcher(), {}

        def run(index: int) -> None:
            got[index] = self.path(start.fork(), seeds[index])

        running = [threading.Thread(target=run, args=(i,)) for i in range(4)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        if [got.get(i) for i in range(4)] != expected:
            raise Wrong("masks on threads differ from masks alone")

    def path(self, matcher: gr.Matcher, seed: float) -> list[bytes]:
        rng, out = random.Random(seed), []
        for _ in range(6):
            mask = self.mask(matcher)
            out.append(mask.tobytes())
            allowed = np.flatnonzero(mask[: len(BYTES)]).tolist()
            if not allowed:
                break
            matcher.accept_token(rng.choice(allowed))
        return out


def mutant(text: str, rng: random.Random) -> str:
    letters = text or "a"
    at, other = rng.randrange(len(letters)), rng.randrange(len(letters))
    at, other = min(at, other), max(at, other)
    return rng.choice(
        [
            lambda: text[:at] + text[at + 1 :],
            lambda: text[:at] + rng.choice('ab01"{}[],: \\n-.e€é<>/=&;') + text[at:],
            lambda: text[:at] + rng.choice('ab01"{}[],: \\n-.e€é<>/=&;') + text[at + 1 :],
            lambda: text[:at] + text[other:],
            lambda: text[:other] + text[at:],
        ]
    )()


def fails(target: Callable[[random.Random, Any], Case], seed: int, description: Any = None) -> BaseException | None:
    rng = random.Random(seed)
    try:
        case = target(rng, None)
        if description is not None:
            case = target(rng, description)
        Player().play(case, rng)
    except Exception as error:  # any exception is a finding
        return error
    return None


def smaller(value: Any) -> list[Any]:
    """Yields the same description with one part left out."""
    if isinstance(value, dict):
        out = [{k: v for k, v in value.items() if k != left} for left in value]
        return out + [{**value, k: less} for k, v in value.items() for less in smaller(v)]
    if isinstance(value, list):
        out = [value[:i] + value[i + 1 :] for i in range(len(value))]
        return out + [[*value[:i], less, *value[i + 1 :]] for i, v in enumerate(value) for less in smaller(v)]
    if isinstance(value, str) and len(value) > 1:
        return [value[:i] + value[i + 1 :] for i in range(len(value))]
    return []


def shrink(target: Callable[[random.Random, Any], Case], seed: int, seconds: float = 60) -> Any:
    """Returns the smallest description found that fails in the same way, with a nearby seed."""
    first = fails(target, seed)
    best = target(random.Random(seed), None).description
    stop = time.monotonic() + seconds
    changed = True
    while changed and time.monotonic() < stop:
        changed = False
        for less in smaller(best):
            if time.monotonic() > stop:
                break
            if any(type(fails(target, seed + i, less)) is type(first) for i in range(3)):
                best, changed = less, True
                break
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], help=f"of {', '.join(TARGETS)} (default: all)")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, help="play one case again")
    parser.add_argument("--from-seed", type=int, default=int(time.time()) << 20)
    parser.add_argument("--keep-going", action="store_true", help="after a failure; without shrinking")
    parser.add_argument("--ledger", action="store_true")
    options = parser.parse_args()
    targets = options.targets or list(TARGETS)
    if options.seed is not None:
        case = TARGETS[targets[0]](random.Random(options.seed), None)
        print(json.dumps(case.description, default=str, ensure_ascii=False, indent=1))
        rng = random.Random(options.seed)
        Player().play(TARGETS[targets[0]](rng, None), rng)
        return 0
    player, failures, seed = Player(), 0, options.from_seed
    print(f"from seed {seed}: {', '.join(targets)}", flush=True)
    began = time.monotonic()
    by_target: Counter[str] = Counter()
    while time.monotonic() - began < options.seconds:
        name = targets[seed % len(targets)]
        rng = random.Random(seed)
        started = time.process_time()
        try:
            case = TARGETS[name](rng, None)
        except Exception as error:  # the judge cannot read it, so there is nothing to compare
            player.counts[f"no judge: {type(error).__name__}"] += 1
            seed += 1
            continue
        try:
            player.play(case, rng)
        except gr.LimitError:
            player.counts["limits"] += 1
        except Exception as error:
            failures += 1
            print(f"FAILED {name} --seed {seed}: {type(error).__name__}: {error}", flush=True)
            keep(name, seed, error, shrunk=not options.keep_going)
            if not options.keep_going:
                break
        took = time.process_time() - started
        if took > 20:
            player.counts["slow"] += 1
            print(f"SLOW {name} --seed {seed}: {took:.0f} s", flush=True)
        by_target[name] += 1
        seed += 1
    seconds = time.monotonic() - began
    print(f"{dict(by_target)}\n{dict(player.counts)}\n{seconds:.0f} s, {failures} failures")
    if options.ledger:
        counts = player.counts
        what = f"differential: {', '.join(targets)}"
        note(what, seconds, counts["descriptions"], failures, texts=counts["texts"], masks=counts["masks"])
    return 1 if failures else 0


def keep(name: str, seed: int, error: BaseException, shrunk: bool) -> None:
    folder = ROOT / "build" / "fuzz-found"
    folder.mkdir(parents=True, exist_ok=True)
    description = TARGETS[name](random.Random(seed), None).description
    found = {
        "target": name,
        "seed": seed,
        "error": "".join(traceback.format_exception(error)),
        "description": description,
        "shrunk": shrink(TARGETS[name], seed) if shrunk else None,
    }
    file = folder / f"{name}-{seed}.json"
    file.write_text(json.dumps(found, indent=1, default=str, ensure_ascii=False) + "\n")
    print(f"  kept in {file}; shrunk: {json.dumps(found['shrunk'], default=str, ensure_ascii=False)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
