"""Untrusted constraints are compiled in a separate process, whose resources the system limits."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import guiderail as gr
from guiderail.errors import LimitError
from guiderail.server import ServerOptions
from guiderail.server.compile_process import CompileProcess
from guiderail.server.compiling import Compiler
from guiderail.server.constraints import Ask
from guiderail.server.engine import Overloaded
from guiderail.server.errors import ApiError
from guiderail.server.fair_queue import CLIENT, Turns
from guiderail.server.metrics import Metrics
from guiderail.server.recipes import Recipe
from guiderail.server.tools import chat_tools
from server_support import VOCABULARY, ToyModel, httpx, listening

pytestmark = pytest.mark.skipif(not CompileProcess.available, reason="processes cannot be forked safely here")

CHAT = "/v1/chat/completions"
HELLO = [{"role": "user", "content": "hello"}]
ANSWER = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": ANSWER}}]
PATIENT = ServerOptions(compile_seconds=60)  # a loaded machine takes seconds to start the process
RECIPES = {
    "schema": (Recipe(Ask("json", '{"type": "array", "items": {"enum": ["x", "y\\n"]}, "uniqueItems": true}', "p")), 0),
    "pattern": (Recipe(Ask("json", '{"type": "string", "pattern": "^a(?=b)", "maxLength": 9}', "p")), 0),
    "regex": (Recipe(Ask("regex", r"(?!ab)[a-c]{2}(?<=b)x*", "p")), 0),
    "grammar": (Recipe(Ask("grammar", 'start: "a" start | NAME\nNAME: /[b-d]+/\n%ignore " "', "p")), 0),
    "gbnf": (Recipe(Ask("grammar", 'root ::= "(" root ")" | "b"', "p")), 0),
    "choice": (Recipe(Ask("choice", '["yes", "no"]', "p")), 0),
    "tag": (Recipe(Ask("structural_tag", '{"type": "structural_tag", "format": {"type": "tag", "begin": "<|user|>",'
                       '"content": {"type": "any_text"}, "end": "<|assistant|>"}}', "p")), 0),
    "tools": (Recipe(None, chat_tools(TOOLS, "required", True, "hermes")), 1),
    "tools-or-json": (Recipe(Ask("json", '{"type": "null"}', "p"), chat_tools(TOOLS, "auto", True, "hermes")), 1),
}  # fmt: skip


def running(options: ServerOptions, work):
    """Returns the result of some work with a compiler, whose process must be gone afterwards."""

    async def main():
        compiler = Compiler(VOCABULARY, options, Metrics())
        try:
            return await work(compiler)
        finally:
            process = compiler._process._process
            compiler.close()
            assert process is None or process.poll() is not None

    return asyncio.run(main())


def guide_of(compiler: Compiler, recipe: Recipe, param: str = "p"):
    return compiler.guide(recipe, recipe, param)


def test_what_is_made_again_is_what_was_asked_for():
    """Walks through both guides get the same masks."""

    async def work(compiler):
        return {name: await guide_of(compiler, recipe) for name, (recipe, _) in RECIPES.items()}

    found = running(ServerOptions(inspect="all"), work)
    for name, (recipe, has_plan) in RECIPES.items():
        plan, guide = found[name]
        assert (plan is not None) == bool(has_plan), name
        expected = gr.compile(recipe.build(VOCABULARY)[1], VOCABULARY, cache=False)
        assert guide.constraint == expected.constraint
        one, other = guide.matcher(), expected.matcher()
        masks = gr.allocate_token_bitmask(2, VOCABULARY.size)
        for step in range(30):
            if one.is_complete():
                break
            one.fill_next_token_bitmask(masks, 0)
            other.fill_next_token_bitmask(masks, 1)
            assert (masks[0] == masks[1]).all(), name
            allowed = [t for t in range(VOCABULARY.size) if masks[0, t >> 5] >> (t & 31) & 1]
            token = allowed[step * 7 % len(allowed)]
            assert one.accept_token(token) and other.accept_token(token)
            if one.is_terminated():
                break
        if plan is not None:
            parts = plan.reader().feed('<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>')
            assert parts


def test_errors_come_back_with_their_code_and_place():
    async def work(compiler):
        with pytest.raises(ApiError) as caught:
            schema = '{"properties": {"a": {"type": "int"}}}'
            await guide_of(compiler, Recipe(Ask("json", schema, "guided_json")), "guided_json")
        return caught.value

    error = running(PATIENT, work)
    assert (error.status, error.code, error.param) == (400, "invalid-schema", "guided_json")
    assert error.place["pointer"] == "#/properties/a/type"


class Hard:
    """A request whose constraint misbehaves when it is built, only in the other process."""

    param = "p"

    def __init__(self, what: str) -> None:
        self.what, self.parent = what, os.getpid()

    def constraint(self, vocabulary):
        assert os.getpid() != self.parent
        if self.what == "python":
            while True:
                sum(range(100))
        if self.what == "native":  # a single uninterruptible call
            pow(3, 10**10)
        if self.what == "memory":
            return [bytes(1 << 20) for _ in range(100_000)]
        if self.what == "crash":
            os.abort()
        raise KeyError("a fault of ours")


@pytest.mark.parametrize(
    ("what", "code"),
    [("python", "compile-timeout"), ("native", "compile-timeout"), ("memory", "compile-memory"),
     ("crash", "compile-crash")],
)  # fmt: skip
def test_whatever_a_constraint_does_it_is_ended_and_others_go_on(what, code, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))

    async def work(compiler):
        await compiler.start()
        longest, stop = [0.0], threading.Event()

        async def heart():
            while not stop.is_set():
                began = time.monotonic()
                await asyncio.sleep(0.001)
                longest[0] = max(longest[0], time.monotonic() - began)

        beating = asyncio.ensure_future(heart())
        with pytest.raises((LimitError, ApiError)) as caught:
            await guide_of(compiler, Recipe(Hard(what)))
        stop.set()
        await beating
        _, guide = await guide_of(compiler, Recipe(Ask("regex", "a+", "p")))
        assert guide.matcher().accept_string(b"aa") and not guide.matcher().accept_string(b"b")
        return caught.value.code, longest[0]

    seconds = 1.5 if code == "compile-timeout" else 20.0
    found, longest = running(ServerOptions(compile_seconds=seconds, compile_bytes=256 << 20), work)
    assert found == code and longest < 1


def test_a_fault_of_ours_is_no_answer():
    async def work(compiler):
        with pytest.raises(RuntimeError, match="KeyError"):
            await guide_of(compiler, Recipe(Hard("fault")))

    running(PATIENT, work)


def test_who_gives_up_waiting_ends_the_process():
    async def work(compiler):
        waiting = asyncio.ensure_future(guide_of(compiler, Recipe(Hard("native"))))
        children = f"/proc/{{}}/task/{{}}/children"  # noqa: F541
        for _ in range(500):
            await asyncio.sleep(0.02)
            process = compiler._process._process
            if process and Path(children.format(process.pid, process.pid)).read_text().split():
                break
        waiting.cancel()
        for _ in range(500):
            await asyncio.sleep(0.02)
            if not Path(children.format(process.pid, process.pid)).read_text().split():
                return
        raise AssertionError("the child goes on")

    if not Path("/proc/self/task").exists():
        pytest.skip("children are read from /proc")
    running(ServerOptions(compile_seconds=60), work)


def test_a_process_that_was_ended_from_outside_is_started_again():
    async def work(compiler):
        await compiler.start()
        compiler._process._process.kill()
        compiler._process._process.wait()
        return await guide_of(compiler, Recipe(Ask("regex", "a+", "p")))

    assert running(ServerOptions(inspect="all"), work)[1].constraint == gr.regex("a+")


def test_clients_take_turns():
    async def main():
        turns, order = Turns(1, 8), []
        await turns.take()

        async def one(client, number):
            CLIENT.set(client)
            await turns.take()
            order.append((client, number))
            turns.give_back()

        tasks = [asyncio.ensure_future(one("many", i)) for i in range(5)]
        await asyncio.sleep(0)
        tasks += [asyncio.ensure_future(one("few", i)) for i in range(2)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.sleep(0)
        late = asyncio.ensure_future(one("late", 0))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await asyncio.gather(*(one("more", i) for i in range(3)))
        turns.give_back()
        await asyncio.gather(*tasks, late, return_exceptions=True)
        return order

    order = asyncio.run(main())
    assert [c for c, _ in order[:3]] == ["many", "few", "late"]
    assert [i for c, i in order if c == "many"] == [0, 2, 3, 4]


def test_a_server_compiles_in_a_process_and_ends_it():
    with listening(ToyModel('{"a": 1}')) as (base, service):
        body = {"messages": HELLO, "guided_json": ANSWER, "temperature": 0}
        answer = httpx.post(base + CHAT, json=body, timeout=60).json()
        assert answer["choices"][0]["message"]["content"] == '{"a": 1}'
        bad = httpx.post(base + CHAT, json={"messages": HELLO, "guided_regex": "("}, timeout=60)
        assert bad.status_code == 400 and bad.json()["error"]["param"] == "guided_regex"
        process = service.compiler._process._process
        assert process.poll() is None
    process.wait(10)


def test_a_grammar_is_not_read_again_by_the_thread_that_serves(monkeypatch):
    """A separate thread reads the result, if it is still needed."""
    from guiderail.frontends.grammar.constraint import GrammarConstraint

    readers: list[str] = []
    read = GrammarConstraint._read
    monkeypatch.setattr(
        GrammarConstraint, "_read", lambda self: readers.append(threading.current_thread().name) or read(self)
    )
    recipe = RECIPES["grammar"][0]

    async def work(compiler):
        return await guide_of(compiler, recipe)

    _, guide = running(PATIENT, work)
    assert guide.matcher().accept_string(b"ab") and not readers
    _, guide = running(ServerOptions(inspect="all"), work)
    assert guide.constraint == recipe.build(VOCABULARY)[1]
    assert readers[0] == "guiderail-compile"


LATE = """
import sys
from server_support import ToyModel, client_of
from test_server_compile_process import CHAT, HELLO, TOOLS

SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "format": "date", "pattern": "^\\\\w"}}}
ASKS = [
    {"guided_json": SCHEMA},
    {"guided_regex": "(?<!a)[a-c]{2}"},
    {"guided_grammar": 'start: "a" start | NAME\\nNAME: /[b-d]+/\\n%ignore " "'},
    {"guided_grammar": 'root ::= "(" root ")" | "b"'},
    {"guided_choice": ["yes", "no"]},
    {"tools": TOOLS, "tool_choice": "required"},
]
with client_of(ToyModel()) as client:
    before = set(sys.modules)
    for ask in ASKS:
        answer = client.post(CHAT, messages=HELLO, max_tokens=40, **ask)
        assert answer.status_code == 200, answer.text
print(*sorted(name for name in set(sys.modules) - before if name.startswith("guiderail.")))
"""


def test_no_request_loads_a_front_end():
    """Python holds its lock while it loads a module, and running texts wait."""
    tests = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", LATE], cwd=tests, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
