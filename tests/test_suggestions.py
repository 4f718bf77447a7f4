"""An unknown name is answered with the known one that it resembles, or with all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import guiderail as gr
from guiderail.support.suggestions import resembling


def tool(x: int) -> None: ...


UNKNOWN: dict[str, tuple[Callable[[], Any], str]] = {
    "option of generate": (lambda: gr.generate(None, "x", ["a"], temprature=1), "did you mean 'temperature'?"),  # type: ignore[call-arg]
    "option of json_schema": (lambda: gr.json_schema({}, layot="compact"), "did you mean 'layout'?"),  # type: ignore[call-arg]
    "option like no other": (lambda: gr.json_schema({}, zzz=1), "there are base_uri, "),  # type: ignore[call-arg]
    "option of xml_schema": (lambda: gr.xml_schema("<x/>", layuot="compact"), "did you mean 'layout'?"),  # type: ignore[call-arg]
    "tool format": (lambda: gr.tool_calls([tool], format="Hermess"), "did you mean 'hermes'?"),
    "tool format like no other": (lambda: gr.tool_calls([tool], format="zzzzzz"), "there are apertus, "),
    "tool format, a file": (lambda: gr.tool_calls([tool], format="my.json"), "pass a file as pathlib.Path(…)"),
    "tool": (lambda: gr.tool_calls([tool], format="hermes", choice="tol"), "did you mean 'tool'?"),
    "public name": (lambda: gr.json_schem, "module 'guiderail' has no attribute 'json_schem'"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_names(name: str) -> None:
    call, says = UNKNOWN[name]
    with pytest.raises((gr.GuiderailError, AttributeError)) as caught:
        call()
    assert says in str(caught.value)


def test_case_does_not_count_and_nothing_is_guessed() -> None:
    assert resembling("TEMPERATUR", ["top_p", "Temperature"]) == "Temperature"
    assert resembling("x", ["temperature"]) is None
    assert resembling("temperature" * 1000, ["temperature"]) is None
