"""What a user sees of an object at a prompt, in a log or in a debugger: what it is and where it stands, no address."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import pytest

import guiderail as gr
from guiderail.support.partial_json import PartialJson

VOCABULARY = gr.Vocabulary([b"a", b"b", b"</s>"], stop_token_ids=2, name="small")
SHOWN = "Vocabulary('small', tokens=3, size=3, special=1, stop_token_ids=[2])"


def fed() -> PartialJson:
    reader = PartialJson()
    reader.feed('{"name": "Ada')
    return reader


def tool_reader() -> gr.ToolCallReader:
    return gr.tool_calls([{"name": "w", "parameters": {"type": "object"}}], format="hermes").reader()


def recorder() -> Any:
    return gr.inspect.Recorder(gr.compile(gr.regex("a"), VOCABULARY))


def compiler() -> Any:
    xgr = importlib.import_module("guiderail.compat.xgrammar")
    return xgr.GrammarCompiler(xgr.TokenizerInfo([b"a", b"b", b"</s>"], stop_token_ids=2))


REPRS: dict[str, tuple[Callable[[], Any], str]] = {
    "program": (lambda: gr.regex("a").program(), "<Program of regex('a')>"),
    "partial JSON": (fed, "<PartialJson, open: {'name': 'Ada'}>"),
    "reader of tool calls": (tool_reader, "<ToolCallReader of the format 'hermes', 0 calls>"),
    "recorder": (recorder, f"<Recorder of <Guide of regex('a') over {SHOWN}>, 0 tokens>"),
    "limit of work": (lambda: gr.max_work(20_000), "max_work(20_000)"),
    "compiled grammar": (
        lambda: compiler().compile_regex("a"),
        "<CompiledGrammar of <Grammar of regex('a', dialect='ecma')> for <TokenizerInfo of "
        "Vocabulary(tokens=3, size=3, special=1, stop_token_ids=[2])>>",
    ),
}


@pytest.mark.parametrize("name", REPRS)
def test_reprs(name: str) -> None:
    make, expected = REPRS[name]
    assert repr(make()) == expected


def test_a_logits_processor() -> None:
    pytest.importorskip("transformers")
    module = importlib.import_module("guiderail.integrations.transformers")
    shown = repr(module.GuiderailLogitsProcessor(gr.compile(gr.regex("a"), VOCABULARY)))
    assert shown == f"<GuiderailLogitsProcessor of <StateTracker of <Guide of regex('a') over {SHOWN}>>>"


def test_every_public_class_has_a_repr() -> None:
    """Constraint is abstract; its classes have one each."""
    classes = {name: getattr(gr, name) for name in gr.__all__ if inspect.isclass(getattr(gr, name))}
    assert [name for name, one in classes.items() if one.__repr__ is object.__repr__] == ["Constraint"]
