"""The engine below the server's interfaces: turns and batches, limits, compilation, readers."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from hypothesis import given, strategies as st

import guiderail as gr
from guiderail.errors import LimitError
from guiderail.generation import row as rows
from guiderail.generation.row import StopText
from guiderail.generation.sampling import Sampling
from guiderail.server import ServerOptions
from guiderail.server.compiling import Compiler, interruptible
from guiderail.server.custom_tools import TaggedReader, custom_inputs, tagged_constraint
from guiderail.server.engine import Engine, Overloaded
from guiderail.server.metrics import Metrics
from guiderail.server.parts import CallEnd, CallInput, CallStart, Content
from guiderail.server.portions import shared_out
from guiderail.server.rows import Delta, Failed, Finished, Job
from server_support import VOCABULARY, ToyModel, client_of, wait_for

ANY = gr.compile(gr.any_text(), VOCABULARY)
PROMPT = [*b"hi", 257]


class Runner:
    """An engine, and the events of its jobs."""

    def __init__(self, model, **options):
        self.model, self.options = model, ServerOptions(**options)
        self.engine = Engine(model, self.options, Metrics())
        self.events = {}

    def __enter__(self):
        self.engine.start()
        return self

    def __exit__(self, *_):
        self.engine.stop()
        assert self.model.open == 0 and self.model.reserved == 0

    def job(self, name, guide=ANY, limit=8, prompt=PROMPT, **more):
        told = self.events[name] = []
        job = Job(list(prompt), guide, told.append, limit, Sampling(), **more)
        return job

    def submit(self, name, *arguments, **more):
        job = self.job(name, *arguments, **more)
        self.engine.submit(job)
        return job

    def text(self, name):
        return "".join(event.text for event in self.events[name] if isinstance(event, Delta))

    def ended(self, name, count=1):
        return sum(isinstance(event, Finished | Failed) for event in self.events[name]) == count

    def wait(self, *names):
        wait_for(lambda: all(self.ended(name) for name in names))


# -- turns and batches ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("can_clear", [False, True])
@pytest.mark.parametrize("max_batch", [None, 1, 2])
def test_texts_are_those_of_a_loop_by_itself(max_batch, can_clear):
    """However texts share sessions, each is the same as when generated alone."""
    constraint = gr.regex("(a|b|ab|12){3,9}")
    guide = gr.compile(constraint, VOCABULARY)
    prompts = [[*f"prompt {i}".encode() * (i + 1), 257] for i in range(9)]

    class Plain(ToyModel):
        def encode(self, prompt, *, chat, system=None):
            return list(prompts[int(prompt)])

    alone = [gr.generations(Plain(), [str(i)], constraint, max_tokens=12)[0].text for i in range(9)]
    with Runner(ToyModel(max_batch=max_batch, can_clear=can_clear), prefill_tokens=16, max_rows=4) as runner:
        for i, prompt in enumerate(prompts):
            runner.submit(i, guide, 12, prompt)
        runner.wait(*range(9))
        assert [runner.text(i) for i in range(9)] == alone


def test_what_waits_together_runs_together():
    model = ToyModel("x" * 20, delay=0.002)
    with Runner(model) as runner:
        with runner.engine._wake:  # all of them arrive while the engine is busy
            threads = [threading.Thread(target=runner.submit, args=(i, ANY, 20)) for i in range(6)]
            for thread in threads:
                thread.start()
        for thread in threads:
            thread.join()
        runner.wait(*range(6))
        assert max(sum(map(bool, feed)) for feed in model.feeds) > 1
        assert all(runner.text(i) == "x" * 20 for i in range(6))


@pytest.mark.parametrize("max_cached_tokens", [32_768, 3_000, 200])
def test_texts_that_come_one_by_one_share_few_sessions(max_cached_tokens):
    """With separate sessions, every text would wait for the steps of all others."""
    model, sessions = ToyModel("x" * 2000, delay=0.002, can_clear=True), 0
    with Runner(model, max_cached_tokens=max_cached_tokens) as runner:
        most = 8 if max_cached_tokens > 200 else 2
        for i in range(most):
            runner.submit(i, ANY, 60 + 10 * i)
            wait_for(lambda i=i: len(runner.events[i]) > 3 or runner.ended(i))
            sessions = max(sessions, model.open)
        runner.wait(*range(most))
        assert all(runner.text(i) == "x" * (60 + 10 * i) for i in range(most))
        assert model.most_reserved <= max_cached_tokens
        assert sessions <= 2 or max_cached_tokens < 32_768


def test_who_comes_later_waits_for_a_step_and_not_for_the_end():
    model = ToyModel("x" * 2000, delay=0.002)
    with Runner(model) as runner:
        long = runner.submit("long", ANY, 1000)
        wait_for(lambda: len(runner.events["long"]) > 5)
        runner.submit("short", ANY, 5)
        runner.wait("short")
        assert not runner.ended("long")
        long.cancelled = True
        wait_for(lambda: model.open == 0)


def test_prompts_are_read_in_portions_between_which_others_write():
    model = ToyModel("x" * 400, delay=0.001)
    with Runner(model, prefill_tokens=32) as runner:
        runner.submit("short", ANY, 200)
        wait_for(lambda: len(runner.events["short"]) > 3)
        before = len(runner.events["short"])
        runner.submit("long", ANY, 2, [97] * 999 + [257])
        runner.wait("long")
        assert max(len(row) for feed in model.feeds for row in feed) <= 32
        assert len(runner.events["short"]) - before > 20  # of the 32 portions


def test_a_long_prompt_does_not_delay_a_short_one():
    """The short prompt, in a later row of the same session, would fit into what is left of no step."""
    model = ToyModel("x" * 400)
    with Runner(model, prefill_tokens=32) as runner:
        with runner.engine._wake:  # both arrive while the engine is busy
            runner.submit("long", ANY, 2, [97] * 999 + [257])
            runner.submit("short", ANY, 2, [97] * 9 + [257])
        runner.wait("long", "short")
    together = [feed for feed in model.feeds if len(feed) == 2]
    assert [len(feed[1]) for feed in together[:2]] == [10, 1]  # its prompt and its first token
    assert all(sum(map(len, feed)) <= 32 for feed in together)


@given(st.integers(0, 100), st.lists(st.integers(0, 50)))
def test_shares_are_equal_unless_less_is_wanted(whole, wanted):
    shares = shared_out(whole, wanted)
    assert all(0 <= share <= want for share, want in zip(shares, wanted, strict=True))
    assert sum(shares) == min(whole, sum(wanted))
    cut = [share for share, want in zip(shares, wanted, strict=True) if share < want]
    assert not cut or max(shares) - min(cut) <= 1


def test_a_row_that_can_be_cleared_is_taken_by_who_waits():
    model = ToyModel("x" * 50, delay=0.001, can_clear=True)
    with Runner(model, max_rows=2) as runner:
        sessions = []
        new = model.new_session
        model.new_session = lambda batch, length: sessions.append(batch) or new(batch, length)
        for i in range(8):
            runner.submit(i, ANY, 10)
        runner.wait(*range(8))
        assert len(sessions) <= 3


def test_reserved_cache_stays_within_its_limit():
    model = ToyModel("x" * 50, delay=0.001)
    with Runner(model, max_cached_tokens=128) as runner:
        for i in range(12):
            runner.submit(i, ANY, 30)
        runner.wait(*range(12))
        assert 33 <= model.most_reserved <= 128
        with pytest.raises(gr.ModelError) as caught:
            runner.submit("huge", ANY, 200)
        assert caught.value.code == "context-full"


def test_several_texts_of_a_job_have_their_own_streams():
    with Runner(ToyModel()) as runner:
        job = runner.job("n", ANY, 6, count=5)
        job.sampling = Sampling(1.0, seed=3)
        runner.engine.submit(job)
        wait_for(lambda: runner.ended("n", 5))
        assert {event.index for event in runner.events["n"]} == set(range(5))


# -- limits --------------------------------------------------------------------------------------------------------
def test_a_full_queue_refuses():
    model = ToyModel("x" * 500, delay=0.005)
    with Runner(model, max_rows=1, max_queue=2) as runner:
        jobs = [runner.submit(0, ANY, 400)]
        wait_for(lambda: runner.events[0])
        jobs += [runner.submit(i, ANY, 4) for i in (1, 2)]
        with pytest.raises(Overloaded):
            runner.submit(3, ANY, 4)
        for job in jobs:
            job.cancelled = True
        wait_for(lambda: model.open == 0)


def test_a_job_that_takes_too_long_fails_running_or_waiting():
    model = ToyModel("x" * 5000, delay=0.005)
    with Runner(model, max_rows=1) as runner:
        soon = time.monotonic() + 0.3
        runner.submit("running", ANY, 4000, deadline=soon)
        runner.submit("waiting", ANY, 4000, deadline=soon)
        runner.wait("running", "waiting")
        for name in ("running", "waiting"):
            assert runner.events[name][-1].error.code == "timeout"


def test_a_model_that_fails_takes_down_its_texts_only():
    model = ToyModel("xyz")
    with Runner(model) as runner:
        model.broken = True
        runner.submit("bad")
        runner.wait("bad")
        assert runner.events["bad"][-1].error.code == "decode"
        model.broken = False
        runner.submit("good")
        runner.wait("good")
        assert runner.text("good") == "xyz" and runner.engine.is_alive


def test_a_session_that_cannot_be_opened_beside_others_waits_for_them():
    class One(ToyModel):
        def new_session(self, batch, length):
            if self.open or batch > 1:
                raise gr.ModelError("one at a time", code="busy")
            return super().new_session(batch, length)

    with Runner(One("abc", delay=0.002)) as runner:
        for i in range(5):
            runner.submit(i)
        runner.wait(*range(5))
        assert [runner.text(i) for i in range(5)] == ["abc"] * 5

    class Never(ToyModel):
        def new_session(self, batch, length):
            raise gr.ModelError("no", code="no-room")

    with Runner(Never()) as runner:
        runner.submit("x")
        runner.wait("x")
        assert runner.events["x"][-1].error.code == "no-room"


def hard_ones_hold_up_nobody_else(monkeypatch: pytest.MonkeyPatch, hard: gr.Guide) -> None:
    """Masks of one text take 0.15 s each; another text arrives while it is written."""
    fill = rows.fill_next_token_bitmasks

    def slowly(matchers, *more, **options):
        if matchers[0].guide is hard:
            time.sleep(0.15)
        fill(matchers, *more, **options)

    monkeypatch.setattr(rows, "fill_next_token_bitmasks", slowly)
    with Runner(ToyModel("x" * 300)) as runner:
        runner.submit("hard", hard, 300)
        wait_for(lambda: len(runner.events["hard"]) >= 2)
        started = time.monotonic()
        runner.submit("easy", ANY, 200)
        runner.wait("easy")
        assert time.monotonic() - started < 5  # not 200 times 0.15 s
        assert not runner.ended("hard")


def test_slow_masks_hold_up_nobody_else(monkeypatch):
    hard_ones_hold_up_nobody_else(monkeypatch, gr.compile(gr.regex("[ab]{400}"), VOCABULARY))


def test_masks_that_take_too_long_altogether_end_the_text(monkeypatch):
    fill = rows.fill_next_token_bitmasks
    monkeypatch.setattr(rows, "fill_next_token_bitmasks", lambda *a, **o: time.sleep(0.4) or fill(*a, **o))
    with Runner(ToyModel("x" * 300), mask_seconds=0.2) as runner:
        runner.submit("hard", ANY, 300)
        runner.wait("hard")
        assert runner.events["hard"][-1].error.code == "mask-timeout"


def test_stopping_fails_what_is_left():
    runner = Runner(ToyModel("x" * 5000, delay=0.005), max_rows=1)
    with runner:
        runner.submit("running", ANY, 4000)
        runner.submit("waiting", ANY, 4000)
        wait_for(lambda: runner.events["running"])
    assert all(runner.events[name][-1].error.code == "closed" for name in ("running", "waiting"))
    with pytest.raises(gr.ModelError):
        runner.submit("late")


# -- compilation -----------------------------------------------------------------------------------------------------
def spin(started=None, seconds=60.0):
    """Python code that does not end by itself."""
    if started is not None:
        started.set()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(50))
    raise AssertionError("it was not interrupted")


def compiler(**options):
    return Compiler(VOCABULARY, ServerOptions(**options), Metrics())


def test_what_takes_too_long_is_interrupted():
    async def main():
        threads = threading.active_count()
        with pytest.raises((TimeoutError, asyncio.TimeoutError)):
            await interruptible(spin, 0.2)
        for _ in range(200):
            if threading.active_count() <= threads:
                return
            await asyncio.sleep(0.02)
        raise AssertionError("the thread goes on")

    asyncio.run(main())


def test_a_compile_timeout_is_an_error_with_a_code_and_frees_its_place():
    async def main():
        one = compiler(compile_seconds=0.2, compile_workers=1)
        with pytest.raises(LimitError) as caught:
            await one.guide("spin", spin)
        assert caught.value.code == "compile-timeout"
        await asyncio.sleep(0.2)
        _, guide = await one.guide("good", lambda: ("plan", gr.regex("a+")))
        assert guide.constraint == gr.regex("a+")

    asyncio.run(main())


def test_equal_constraints_are_compiled_once_even_at_the_same_time():
    async def main():
        one, calls = compiler(), []

        def build():
            calls.append(1)
            time.sleep(0.05)
            return "plan", gr.regex("a+b")

        found = await asyncio.gather(*(one.guide("key", build) for _ in range(5)))
        assert len(calls) == 1 and len({id(guide) for _, guide in found}) == 1
        assert (await one.guide("key", build))[0] == "plan" and len(calls) == 1

    asyncio.run(main())


def test_a_compilation_that_nobody_waits_for_is_given_up():
    async def main():
        one, started = compiler(compile_seconds=30), threading.Event()
        waiting = [asyncio.ensure_future(one.guide("spin", lambda: spin(started))) for _ in range(2)]
        while not started.is_set():
            await asyncio.sleep(0.01)
        threads = threading.active_count()
        waiting[0].cancel()
        await asyncio.sleep(0.1)
        assert threading.active_count() == threads  # the other one still needs it
        waiting[1].cancel()
        for _ in range(200):
            if threading.active_count() < threads:
                return
            await asyncio.sleep(0.02)
        raise AssertionError("the thread goes on")

    asyncio.run(main())


def test_errors_of_a_compilation_are_not_kept():
    async def main():
        one, problems = compiler(), [gr.PatternError("first", code="x")]

        def build():
            if problems:
                raise problems.pop()
            return None, gr.regex("a")

        with pytest.raises(gr.PatternError):
            await one.guide("key", build)
        await one.guide("key", build)

    asyncio.run(main())


def test_the_cache_is_bounded():
    async def main():
        one = compiler(max_cached_guides=3)
        for i in range(6):
            await one.guide(i, lambda i=i: (None, gr.literal(str(i))))
        assert len(one._cache) == 3
        one = compiler(max_cached_bytes=0)
        for i in range(3):
            await one.guide(i, lambda i=i: (None, gr.literal(str(i))))
        assert len(one._cache) == 1

    asyncio.run(main())


def test_a_large_guide_does_not_displace_small_ones():
    words = [f"{i * 7919:x}" * 20 for i in range(3_000)]

    async def main():
        sizes = compiler()
        _, large = await sizes.guide("large", lambda: (None, gr.choice(words)))
        one = compiler(max_cached_bytes=large.memory_size_bytes() // 2)
        for i in range(3):
            await one.guide(i, lambda i=i: (None, gr.literal(str(i))))
        await one.guide("large", lambda: (None, gr.choice(words)))
        await one.guide("last", lambda: (None, gr.literal("last")))
        assert list(one._cache) == [0, 1, 2, "last"]

    asyncio.run(main())


def test_work_is_a_limit_of_the_server():
    with client_of(max_work=100_000) as client:
        many = {"type": "array", "allOf": [{"contains": {"const": i}} for i in range(30)]}
        assert client.error(structured_outputs={"json": many})["code"] in ("work", "schema-branches")
    with client_of(max_step_work=1_000) as client:
        grammar = 'root ::= r0{2} root* r1+ | "b"* "a"? | ""\nr0 ::= root | "a"{2} "b"? | root{0,2}\nr1 ::= [a-z+]*'
        assert client.error(structured_outputs={"grammar": grammar})["code"] == "step-work"


def test_nodes_and_fuel_are_limits_of_the_server():
    with client_of(max_nodes=2000, fuel=1000) as client:
        error = client.error(structured_outputs={"choice": [f"{i:x}" * 9 for i in range(3000)]})
        assert error["code"] == "nodes"
        error = client.error(structured_outputs={"regex": "(?=.*a.{30})(?=.*b.{40})(?!.*c.{50}d).*c"})
        assert error["code"] in ("fuel", "nodes")


# -- readers -------------------------------------------------------------------------------------------------------
@given(st.text("abEND x", max_size=40), st.lists(st.sampled_from(["END", "ab", "a x", "DE"]), max_size=3), st.data())
def test_stop_strings_cut_the_same_however_the_text_comes(text, stops, data):
    places = [text.find(stop) for stop in stops if stop in text]
    cut = StopText(stops)
    shown, rest = "", text
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        shown += cut.feed(rest[:size])
        rest = rest[size:]
        assert text.startswith(shown)
        if cut.found is not None:
            break
    shown += cut.flush()
    first = min(places, default=len(text))
    # a shorter stop string may end before a longer one that began earlier is complete
    assert shown == text[:first] if cut.found is None or not places else len(shown) >= first
    if not places:
        assert shown == text and cut.found is None


QUOTED = 'start: item+\nitem: "[" item* "]" | /"[^"]*"/'  # recursive
HEAD, END = '<custom_tool_call name="c">\n', "\n</custom_tool_call>"


@pytest.mark.parametrize(
    ("syntax", "definition", "inputs", "refused"),
    [
        ("regex", "(?s:.*)", ["", "a", "a<b", "\n</custom_tool_call"], [f"a{END}", f"a{END}b"]),
        ("lark", QUOTED, ['["a"]', f'"a{END}b"["{END}"]'], ["", f'"a{END}']),
    ],
    ids=["pattern", "grammar"],
)
def test_inputs_with_the_end_of_the_tag_are_read_as_they_are_written(syntax, definition, inputs, refused):
    format = {"type": "grammar", "grammar": {"syntax": syntax, "definition": definition}}
    customs = custom_inputs([{"name": "c", "format": format}])
    constraint = tagged_constraint([], customs, required=True, parallel=True)
    for text in inputs:
        assert constraint.matches(f"{HEAD}{text}{END}")
        for size in (1, 5, 1000):
            whole = f"{HEAD}{text}{END}"
            reader = TaggedReader([], customs)
            parts = [part for i in range(0, len(whole), size) for part in reader.feed(whole[i : i + size])]
            assert "".join(part.text for part in parts if isinstance(part, CallInput)) == text
            assert isinstance(parts[-1], CallEnd) and parts[-1].complete and not reader.close()
    for text in refused:
        assert not constraint.matches(f"{HEAD}{text}{END}")


@pytest.mark.parametrize("schema", [{}, True, {"type": ["object", "null"]}, {"enum": ["}", {"a": 1}]}], ids=repr)
def test_arguments_between_tags_are_objects(schema):
    constraint = tagged_constraint([{"name": "f", "parameters": schema}], {}, required=True, parallel=True)
    call = '<tool_call>\n{{"name": "f", "arguments": {}}}\n</tool_call>'
    assert constraint.matches(call.format('{"a": 1}'))
    assert not any(constraint.matches(call.format(value)) for value in ("null", '"}"', "1", "[]"))
    with pytest.raises(gr.ToolError, match="'f'"):
        tagged_constraint([{"name": "f", "parameters": {"type": "string"}}], {}, required=True, parallel=True)


TAGGED = [
    ("plain text", [("", "plain text")]),
    ('<tool_call>\n{"name": "f", "arguments": {"a": "}\\"{"}}\n</tool_call>', [("f", '{"a": "}\\"{"}')]),
    ('hi <custom_tool_call name="c">\nraw < text\n</custom_tool_call>\n', [("", "hi "), ("c", "raw < text")]),
    (
        '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>\n<custom_tool_call name="c">\n\n</custom_tool_call>',
        [("f", "{}"), ("c", "")],
    ),
    ("a <tool_call", [("", "a <tool_call")]),
    ('<custom_tool_call name="c">\nunfinished\n</cust', [("c", "unfinished\n</cust")]),
]


@pytest.mark.parametrize(("text", "expected"), TAGGED, ids=[text[:20] for text, _ in TAGGED])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_tagged_calls_are_read_the_same_however_the_text_comes(text, expected, size):
    reader = TaggedReader(["f"], custom_inputs([{"name": "c"}]))
    parts = [part for i in range(0, len(text), size) for part in reader.feed(text[i : i + size])] + reader.close()
    found = []
    for part in parts:
        if isinstance(part, CallStart):
            found.append([part.name, ""])
        elif isinstance(part, CallInput):
            found[-1][1] += part.text
        elif isinstance(part, Content):
            if not found or found[-1][0]:
                found.append(["", ""])
            found[-1][1] += part.text
    assert [tuple(one) for one in found] == expected
