"""The model in the playground: its texts under schemas validate, and its tokens show what was removed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from browser import Browser
from test_playground import (
    BUILT,
    SCHEMAS,
    choose,
    page as page,  # the fixture
    shown,
    until,
)

WRITTEN = "document.getElementById('model').dataset.wrote"


@pytest.fixture(autouse=True)
def model() -> Iterator[None]:
    if not (BUILT / "model" / "model.gguf").exists():
        pytest.skip("the playground is not built with its model: make playground-files")
    yield


def write(page: Browser, prompt: str) -> str:
    page.run(f"document.getElementById('prompt').value = {json.dumps(prompt)}")
    page.run("delete document.getElementById('model').dataset.wrote")
    page.run("document.getElementById('write').click()")
    until(page, f"{WRITTEN} !== undefined || /stopped/.test(document.getElementById('model-says').textContent)", 600)
    status = shown(page, "model-says")
    assert "stopped" not in status, status
    text = page.run(WRITTEN)
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize("number", range(len(SCHEMAS)))
def test_what_the_model_writes_validates(page: Browser, number: int) -> None:
    from jsonschema import Draft202012Validator, FormatChecker

    schema: Any = SCHEMAS[number]
    choose(page, "schema", json.dumps(schema))
    text = write(page, "Answer with a short JSON value.")
    Draft202012Validator(schema, format_checker=FormatChecker()).validate(json.loads(text))
    until(page, f"document.body.dataset.looked === {json.dumps(text)}")
    assert shown(page, "verdict") in ("complete", "may end here")
    assert page.complaints == []


def test_a_token_tells_what_was_removed(page: Browser) -> None:
    choose(page, "regex", "[XYZ]{3}")
    text = write(page, "Say hello.")
    assert re.fullmatch("[XYZ]{3}", text)
    page.run("document.getElementById('tokens').focus()")
    page.press("Home")
    told = shown(page, "token")
    assert "of 49,152 tokens allowed" in told and "removed by the mask" in told and "written" in told
    assert page.run("document.querySelectorAll('#tokens [aria-selected=true]').length") == 1
    assert "The mask changed" in shown(page, "model-says")
    assert page.complaints == []
