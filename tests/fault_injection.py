"""Injects failures: each allocation and each check of a limit fails once, one at a time.

``make faults`` runs it with a core that was built for it (``-DGUIDERAIL_FAULTS=ON``):

    python tools/faults.py --seconds 600
    python tools/faults.py --seconds 60 lexed "distinct items" --kinds limit
    python tools/faults.py lexed --stage texts --kinds allocation --only 1234

Each failure has its own process, a fork of one that is about to run the stage. The stage first runs without a failure,
which counts the events and records the answers. Then the n-th event fails, for every n: first one event of each place
(by callers), then the others in any order while there is time. Stages where a fault was found (FOUND) run first, with
all events. The call in which the failure happens must raise a GuiderailError or a MemoryError, or manage without. It is
repeated, and from then on every answer must equal the one without a failure: masks, budgets, forced bytes, drafts,
batches. In the end everything is freed, and no more memory may remain than without the failure.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import pickle
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import guiderail as gr
from fault_scenarios import SCENARIOS, Scenario
from guiderail import _core
from guiderail.constraints.saved import SavedConstraint
from guiderail.constraints.saving import program_file

KINDS = ("allocation", "limit", "lasting")
HANGS = 60  # seconds of one process
MOST_PLACES = 1 << 21  # events whose location is recorded
GROWN = 4096  # bytes by which tables of the process may be larger if something was made twice
Answers = list[tuple[str, Any]]


class Injected:
    """Makes calls, one of which fails; repeats that one."""

    def __init__(self, kind: str, number: int, everywhere: bool) -> None:
        self.failed: list[str] = []
        self.answers: Answers = []
        self._events = 0
        if number == 0:
            _core.watch(MOST_PLACES)  # type: ignore[attr-defined]
        _core.arm(kind == "limit", number, kind == "lasting", everywhere)  # type: ignore[attr-defined]

    def stop(self) -> int:
        """Ends the failures; returns the number of events."""
        self._events = self._events or _core.disarm()  # type: ignore[attr-defined]
        return self._events

    def __call__(self, name: str, call: Callable[[], Any]) -> Any:
        """Makes the call; returns its result, with or without a failure."""
        try:
            return call()
        except MemoryError:
            self.failed.append(f"{name}: MemoryError")
        except gr.GuiderailError as error:
            self.failed.append(f"{name}: {error.code}")
        self.stop()
        return call()

    def tell(self, name: str, call: Callable[[], Any]) -> None:
        """The same, and records the result or the error as an answer."""
        try:
            self.answers.append((name, self(name, call)))
        except gr.GuiderailError as error:
            self.answers.append((name, error.code))


def mask(matcher: gr.Matcher, budget: int | None = None) -> bytes:
    row = np.full((1, (matcher.guide.vocabulary.size + 31) // 32), -1, dtype=np.int32)
    matcher.fill_next_token_bitmask(row, 0, budget)
    return row.tobytes()


def budgeted(matcher: gr.Matcher) -> bool:
    """Returns whether the text can end; checks that it ends within the promised number of tokens."""
    text = matcher.fork()
    budget = text.least_tokens()
    if budget is None:
        return False
    for step in range(3):
        if text.is_accepting():
            break
        row = np.frombuffer(mask(text, budget - step), dtype=np.uint8)
        assert not (row & ~np.frombuffer(mask(text), dtype=np.uint8)).any(), "a budget allows more than there is"
        allowed = np.flatnonzero(np.unpackbits(row, bitorder="little"))
        assert text.accept_token(int(allowed[step % len(allowed)]))
        left = text.least_tokens(thorough=False)
        assert left is not None and left < budget - step, "the budget does not suffice any more"
    return True


def batch(matchers: list[gr.Matcher], threads: int) -> bytes:
    rows = np.zeros((len(matchers), (matchers[0].guide.vocabulary.size + 31) // 32), dtype=np.int32)
    gr.fill_next_token_bitmasks(matchers, rows, threads=threads)
    return rows.tobytes()


def background(matchers: list[gr.Matcher]) -> bytes:
    rows = np.zeros((len(matchers), (matchers[0].guide.vocabulary.size + 31) // 32), dtype=np.int32)
    filling = _core.Filling(matchers, rows, threads=2)
    filling.wait()
    return rows.tobytes()


def draft(matcher: gr.Matcher, tokens: list[int]) -> tuple[list[bool], bytes]:
    rows = np.zeros((len(tokens) + 1, (matcher.guide.vocabulary.size + 31) // 32), dtype=np.int32)
    return matcher.fill_draft(tokens, rows), rows.tobytes()


def applied(matcher: gr.Matcher) -> bytes:
    size = matcher.guide.vocabulary.size
    rows = gr.allocate_token_bitmask(1, size)
    matcher.fill_next_token_bitmask(rows)
    logits = np.arange(size, dtype=np.float32).reshape(1, size)
    gr.apply_token_bitmask_inplace(logits, rows)
    return logits.tobytes()


def read_text(run: Injected, guide: gr.Guide, text: bytes, size: int) -> None:
    """Reads one text in tokens of up to this many bytes, with all queries on the way."""
    tokens = cut(guide, text, size)
    matcher = run("matcher", guide.matcher)
    for i, token in enumerate(tokens):
        run.tell("mask", lambda: mask(matcher))
        ahead = tokens[i : i + 3]
        if i == 2:
            run.tell("mask within", lambda: budgeted(matcher))
        if i % 4 == 1:
            run.tell("draft", lambda ahead=ahead: draft(matcher, ahead))
        if i % 4 == 2:
            run.tell("forced", lambda: matcher.forced_bytes(8))
            run.tell("complete", matcher.is_complete)
            run.tell("applied", lambda: applied(matcher))
        if i % 5 == 3:
            other = run("fork", matcher.fork)
            run.tell("token of a fork", lambda other=other, token=token: other.accept_token(token))
            run.tell("batch", lambda other=other: batch([matcher, other, matcher], 1))
        run.tell("draft read", lambda ahead=ahead: matcher.validate(ahead))
        before = run("history", lambda: (matcher.history(), matcher.is_terminated()))
        within = i % 3 == 2

        def accept(token: int = token, within: bool = within, before: Any = before) -> bool:
            if run.failed and (matcher.history(), matcher.is_terminated()) != before:
                raise AssertionError("a call that failed has changed the matcher")
            return matcher.accept_within(token, 60) if within else matcher.accept_token(token)

        run.tell("token", accept)
    run.tell("last mask", lambda: mask(matcher))
    steps = run("history", matcher.history)
    run("rollback", lambda: matcher.rollback(len(steps) // 2))
    run.tell("mask after rollback", lambda: mask(matcher))
    run("reset", matcher.reset)
    run.tell("string", lambda: matcher.accept_string(text))
    run.tell("mask after a string", lambda: mask(matcher))


def cut(guide: gr.Guide, text: bytes, size: int) -> list[int]:
    vocabulary = guide.vocabulary
    if guide.is_canonical:
        return vocabulary.encode(text.decode())
    tokens = []
    while text:
        for length in range(min(size, len(text)), 0, -1):
            token = vocabulary.core.find(text[:length])
            if token is not None and token >= 0:
                break
        tokens.append(token)
        text = text[length:]
    return tokens


# -- stages: what runs before the first failure, and what may fail -----------------------------------------------------
Stage = Callable[[Injected], Iterator[object]]


def compiling(scenario: Scenario) -> Stage:
    """From a constraint to a guide; the masks show whether it is right."""
    held = [scenario.vocabulary()]
    constraint = scenario.constraint()

    def stage(run: Injected) -> Iterator[object]:
        tokens = held.pop()
        guide = run("compile", lambda: gr.compile(constraint, tokens, cache=False, **scenario.options))
        run.stop()
        yield guide
        for text in scenario.texts:
            read_text(run, guide, text.encode(), 3)

    return stage


def reading(scenario: Scenario) -> Stage:
    """Texts of a guide, the first ones over this vocabulary."""
    held = [
        gr.compile(scenario.constraint(), scenario.vocabulary(), cache=False, **(scenario.options | {"prepare": 0}))
    ]

    def stage(run: Injected) -> Iterator[object]:
        guide = held.pop()
        yield guide
        for size, text in enumerate(scenario.texts):
            read_text(run, guide, text.encode(), 1 + size % 3)

    return stage


def batches(scenario: Scenario) -> Stage:
    """Masks of many matchers on native threads; events on all of them count."""
    held = [
        gr.compile(scenario.constraint(), scenario.vocabulary(), cache=False, **(scenario.options | {"prepare": 0}))
    ]

    def stage(run: Injected) -> Iterator[object]:
        guide = held.pop()
        yield guide
        matchers = []
        for text in scenario.texts:
            tokens = cut(guide, text.encode(), 3)
            for end in range(0, len(tokens), 2):
                matcher = run("matcher", guide.matcher)
                for token in tokens[:end]:
                    run("token", lambda matcher=matcher, token=token: matcher.accept_token(token))
                matchers.append(matcher)
        run.tell("batch on threads", lambda: batch(matchers, 3))
        run.tell("batch beside", lambda: background(matchers))
        for matcher in matchers:
            run.tell("mask", lambda matcher=matcher: mask(matcher))

    return stage


def from_nothing(scenario: Scenario) -> Stage:
    """Includes vocabularies: made, written, read; and what needs none."""
    constraint = scenario.constraint()

    def stage(run: Injected) -> Iterator[object]:
        tokens = run("vocabulary", scenario.vocabulary)
        yield tokens
        tokens = run("vocabulary from a pickle", lambda: pickle.loads(pickle.dumps(tokens)))
        yield tokens
        guide = run("compile", lambda: gr.compile(constraint, tokens, cache=False, **scenario.options))
        yield guide
        text = scenario.texts[0]
        run.tell("matches", lambda: constraint.matches(text))
        run.tell("explain", lambda: repr(constraint.explain(text[: len(text) // 2])))
        run.tell("dump", lambda: len(guide.dump()) > 0)
        if scenario.finite:
            run.tell("automaton", lambda: automaton(guide))
        matcher = run("matcher", guide.matcher)
        run.tell("mask", lambda: mask(matcher))
        run("forget", tokens.core.clear_cache)
        run.tell("mask after that", lambda: mask(run("matcher", guide.matcher)))

    return stage


def saving(scenario: Scenario) -> Stage:
    """A constraint written to a file and read; the masks show whether it is right."""
    held = [scenario.vocabulary()]
    constraint = scenario.constraint()

    def stage(run: Injected) -> Iterator[object]:
        tokens = held.pop()
        file = run("written", lambda: program_file(constraint, tokens))
        run.answers.append(("written", file))
        saved = SavedConstraint(file)
        run.tell("read", lambda: saved.matches(scenario.texts[0]))
        guide = run("compile", lambda: gr.compile(saved, tokens, cache=False, **scenario.options))
        run.stop()
        yield guide
        for text in scenario.texts:
            read_text(run, guide, text.encode(), 3)

    return stage


def automaton(guide: gr.Guide) -> tuple[int, int]:
    table = guide.to_token_automaton()
    return len(table.indptr), len(table.token)


STAGES: dict[str, Callable[[Scenario], Stage]] = {
    "compile": compiling,
    "texts": reading,
    "batches": batches,
    "all": from_nothing,
    "saved": saving,
}


# -- one process per failure -------------------------------------------------------------------------------------------
@dataclass
class Outcome:
    answers: Answers
    events: int
    failed: list[str]
    firsts: list[int]  # numbers of events, one per place
    held: tuple[int, int, int]  # remaining blocks, their bytes, and bytes of pages
    told: tuple[int, int]  # bytes that guides and vocabularies reported before they were freed


def play(stage: Stage, kind: str, number: int, everywhere: bool) -> Outcome:
    run = Injected(kind, number, everywhere)
    things = list(stage(run))
    events = run.stop()
    places = {_core.place_of(i): i for i in range(events, 0, -1)} if number == 0 else {}  # type: ignore[attr-defined]
    guides = [thing for thing in things if isinstance(thing, gr.Guide)]
    told = sum(g.memory_size_bytes() for g in guides), sum(g.vocabulary.core.cache_size_bytes() for g in guides)
    del things, guides
    gc.collect()
    gr.clear_cache()
    firsts = sorted(places.values())
    return Outcome(run.answers, events, run.failed, firsts, _core.held(), told)  # type: ignore[attr-defined]


def differences(found: Outcome, right: Outcome) -> Iterator[str]:
    for i, (got, wanted) in enumerate(zip(found.answers, right.answers, strict=False)):
        if got != wanted:
            yield f"answer {i}, {got[0]}, is another one: {short(got[1])}, not {short(wanted[1])}"
            break
    if len(found.answers) != len(right.answers):
        yield f"{len(found.answers)} answers, not {len(right.answers)}"
    blocks, size, pages = (a - b for a, b in zip(found.held, right.held, strict=True))
    if blocks > 0 or size > GROWN or pages > 0:
        yield f"{blocks} blocks, {size} bytes and {pages} bytes of pages more stay"
    for what, got, wanted in zip(("guides", "vocabularies"), found.told, right.told, strict=True):
        if not wanted / 2 - (1 << 16) <= got <= 2 * wanted + (1 << 16):
            yield f"{what} say that they hold {got} bytes, not {wanted}"


def short(value: object) -> str:
    return repr(value)[:120]


def in_a_process(call: Callable[[], Any]) -> tuple[str, Any]:
    """Returns ("", the result), or (what went wrong, None)."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reader)
            signal.alarm(HANGS)
            try:
                message = pickle.dumps(("", call()))
            except BaseException:
                _core.disarm()  # type: ignore[attr-defined]
                message = pickle.dumps((traceback.format_exc(), None))
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(message)
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        message = pipe.read()
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"ended by {'a hang' if number == signal.SIGALRM else signal.Signals(number).name}", None
    return pickle.loads(message)


# Stages where a fault was found. Numbers of events would change with the code, and all events of these take seconds.
FOUND = [("ready grammar", "texts", "lasting")]  # a memo refers to a value before the value is stored


@dataclass
class Tally:
    events: int = 0
    places: int = 0
    injected: int = 0
    raised: int = 0
    faults: int = 0


def inject(name: str, stage_name: str, kind: str, until: float, only: int | None, rng: random.Random) -> Tally:
    scenario = SCENARIOS[name]
    # A first run in an independent process makes what lasts for the life of a process.
    stage = STAGES[stage_name](scenario)
    everywhere = stage_name == "batches"
    error, right = in_a_process(lambda: play(stage, kind, 0, everywhere))
    tally = Tally()
    if error:
        print(f"{name}, {stage_name}: fails without a failure: {error}", flush=True)
        tally.faults += 1
        return tally
    tally.events = right.events
    tally.places = len(right.firsts)
    firsts, others = list(right.firsts), sorted(set(range(1, right.events + 1)) - set(right.firsts))
    rng.shuffle(firsts)
    rng.shuffle(others)
    numbers = [only] if only else firsts + others
    where: dict[str, int] = {}

    def one(number: int) -> tuple[list[str], list[str]]:
        found = play(stage, kind, number, everywhere)
        return list(differences(found, right)), found.failed

    for number in numbers:
        if time.monotonic() > until and only is None:
            break
        error, found = in_a_process(lambda number=number: one(number))
        tally.injected += 1
        wrong, failed = found if found else ([error], [])
        for call in failed:
            tally.raised += 1
            where[call] = where.get(call, 0) + 1
        if wrong:
            tally.faults += 1
            if tally.faults <= 3:
                print(f"FAULT {name!r} --stage {stage_name} --kinds {kind} --only {number} {failed}:", flush=True)
                for line in wrong:
                    print("   ", line.strip().replace("\n", "\n    "), flush=True)
    return tally


def arguments() -> argparse.Namespace:
    """The arguments of the command line, checked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="scenarios (default: all)")
    parser.add_argument("--seconds", type=float, default=600, help="in total")
    parser.add_argument("--stage", choices=STAGES)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--only", type=int, help="number of the event that fails")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for given, known in ((options.names, tuple(SCENARIOS)), (options.kinds.split(","), KINDS)):
        if unknown := [name for name in given if name not in known]:
            parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
    return options


def main() -> int:
    options = arguments()
    gc.disable()
    names = options.names or list(SCENARIOS)
    rng = random.Random(options.seed)
    jobs = [
        (name, stage, kind)
        for name in names
        for stage in ([options.stage] if options.stage else STAGES)
        for kind in options.kinds.split(",")
        if stage != "batches" or SCENARIOS[name].threads
    ]
    jobs.sort(key=lambda job: job not in FOUND)
    began = time.monotonic()
    total = Tally()
    for i, (name, stage, kind) in enumerate(jobs):
        left = began + options.seconds - time.monotonic()
        # Each runs in its own process, so none starts with the state of another.
        until = time.monotonic() + (math.inf if jobs[i] in FOUND else left / (len(jobs) - i))
        seed = rng.random()
        error, tally = in_a_process_without_limit(
            lambda job=(name, stage, kind), until=until, seed=seed: inject(
                *job, until, options.only, random.Random(seed)
            )
        )
        if error:
            print(f"{name}, {stage}, {kind}: {error}", flush=True)
            total.faults += 1
            continue
        for field in ("events", "places", "injected", "raised", "faults"):
            setattr(total, field, getattr(total, field) + getattr(tally, field))
        state = "clean" if tally.faults == 0 else f"{tally.faults} FAULTS"
        print(
            f"{name}, {stage}, {kind}: {tally.injected} of {tally.events} events at {tally.places} places, {state}",
            flush=True,
        )
    print(
        f"{len(jobs)} stages, {total.events} events at {total.places} places, {total.injected} failures injected, "
        f"{total.raised} of them raised, {total.faults} faults, {time.monotonic() - began:.0f} s"
    )
    return 1 if total.faults else 0


def in_a_process_without_limit(call: Callable[[], Any]) -> tuple[str, Any]:
    def unhurried() -> Any:
        signal.alarm(0)
        return call()

    return in_a_process(unhurried)


if __name__ == "__main__":
    sys.exit(main())
