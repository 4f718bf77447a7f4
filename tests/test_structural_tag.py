"""Structural tags against XGrammar on the cases of its documentation; the differences, and their reasons."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest

import guiderail as gr
from guiderail.constraints.special_tokens import special_tokens_of
from structural_tag_cases import ANY, CASES, ITEM, PERSON, TRIGGERED, schema, tag, text


def wrapped(form: dict[str, Any]) -> dict[str, Any]:
    return {"type": "structural_tag", "format": form}


# -- the same as XGrammar -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", CASES)
def test_accepts_and_rejects_what_xgrammar_does(name: str) -> None:
    xgrammar = pytest.importorskip("xgrammar")
    from xgrammar.testing import _is_grammar_accept_string as accepts

    form, texts = CASES[name]
    ours = gr.structural_tag(wrapped(form))
    theirs = xgrammar.Grammar.from_structural_tag(wrapped(form))
    verdicts = {t: ours.matches(t) for t in texts}
    assert verdicts == {t: accepts(theirs, t) for t in texts}
    assert name == "any_text" or set(verdicts.values()) == {True, False}  # otherwise the texts prove nothing


# Where XGrammar 0.2.8 contradicts its documentation: (format, text, the right verdict, source).
DIFFERENCES = [
    pytest.param(
        schema({"type": "object", "properties": {"a": {"type": "integer"}}}),
        '{"a": 1, "b": 2}',
        True,
        id="'content that conforms to a JSON Schema': other members are allowed where none are forbidden",
    ),
    pytest.param(
        schema({"type": "object", "required": ["a"], "properties": {"b": {"type": "integer"}}}),
        '{"b": 1}',
        False,
        id="'conforms to a JSON Schema': a required name that is no property is required all the same",
    ),
    pytest.param(
        schema({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
        "[1, 1]",
        False,
        id="'conforms to a JSON Schema': keywords that it knows nothing of",
    ),
    pytest.param(
        schema(PERSON, any_order=True),
        '{"name": "B", "name": "B"}',
        False,
        id="'conforms to a JSON Schema', in any order: it says itself that presence is not checked then",
    ),
    pytest.param(
        {"type": "dispatch", "rules": [["b", text("y")], ["aba", text("x")]]},
        "abx",
        False,
        id="'when a pattern is matched': it misses one inside the beginning of another",
    ),
    pytest.param(
        {"type": "dispatch", "rules": [["ab", text("y")]], "excludes": ["b"]},
        "aby",
        True,
        id="'excludes' are about free text: a pattern that contains one is never matched",
    ),
]


@pytest.mark.parametrize(("form", "shown", "right"), DIFFERENCES)
def test_where_xgrammar_is_wrong(form: dict[str, Any], shown: str, right: bool) -> None:
    xgrammar = pytest.importorskip("xgrammar")
    from xgrammar.testing import _is_grammar_accept_string as accepts

    assert gr.structural_tag(wrapped(form)).matches(shown) is right
    assert accepts(xgrammar.Grammar.from_structural_tag(wrapped(form)), shown) is not right, "they have mended it"


# -- tokens -----------------------------------------------------------------------------------------------------------
WORDS = ["<s>", "</s>", "<call>", "</call>", "<sep>", "a", "b", "ab", "{", "}", '"', "<", "call", ">", "1"]
CALL = {
    "type": "tag",
    "begin": {"type": "token", "token": "<call>"},
    "content": {"type": "const_string", "value": "ab"},
    "end": {"type": "token", "token": "</call>"},
}
TOKEN_CASES: dict[str, tuple[dict[str, Any], list[list[str]]]] = {
    "token": ({"type": "token", "token": "<sep>"}, [["<sep>"], ["a"], []]),
    "token by id": ({"type": "token", "token": 4}, [["<sep>"], ["<call>"]]),
    "tag": (CALL, [["<call>", "ab", "</call>"], ["<call>", "a", "b", "</call>"], ["<", "call", ">"], ["<call>", "a"]]),
    "any_tokens": (
        {"type": "any_tokens", "exclude_tokens": ["<sep>"]},
        [[], ["a", "<call>", "b"], ["a", "<sep>"], ["<", "call"]],
    ),
    "any_tokens max_tokens 0": ({"type": "any_tokens", "max_tokens": 0}, [[], ["a"]]),
    "tag around any_tokens": (
        {**CALL, "content": {"type": "any_tokens"}},
        [["<call>", "</call>"], ["<call>", "a", "<sep>", "</call>"], ["<call>", "</call>", "</call>"], ["<call>", "a"]],
    ),
    "exclude_token": (
        {"type": "exclude_token", "exclude_tokens": ["<sep>", "b"]},
        [["a"], ["ab"], ["<call>"], ["<sep>"], ["b"], []],
    ),
    "token_triggered_tags": (
        {"type": "token_triggered_tags", "trigger_tokens": ["<call>"], "tags": [CALL], "exclude_tokens": ["<sep>"]},
        [[], ["a"], ["a", "<call>", "ab", "</call>", "b"], ["<call>", "a", "</call>"], ["<sep>"],
         ["<call>", "ab", "</call>", "<call>", "ab", "</call>"], ["</call>"]],
    ),
    "token_triggered_tags exactly one": (
        {"type": "token_triggered_tags", "trigger_tokens": ["<call>"], "tags": [CALL], "at_least_one": True,
         "stop_after_first": True},
        [[], ["a"], ["<call>", "ab", "</call>"], ["<call>", "ab", "</call>", "a"], ["a", "<call>", "ab", "</call>"]],
    ),
    "token_dispatch": (
        {"type": "token_dispatch", "rules": [["<call>", {"type": "const_string", "value": "ab"}], [4, text("1")]]},
        [[], ["<call>", "ab", "<sep>", "1"], ["<sep>", "a"], ["a", "<sep>", "1", "b"]],
    ),
    "token_dispatch once": (
        {"type": "token_dispatch", "rules": [["<call>", {"type": "const_string", "value": "ab"}]], "loop": False,
         "exclude_tokens": ["<sep>"]},
        [[], ["a", "<call>", "ab"], ["<call>", "ab", "a"], ["<sep>"]],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def words() -> gr.Vocabulary:
    special = {name: i for i, name in enumerate(WORDS[:5])}
    return gr.Vocabulary([w.encode() for w in WORDS], special_tokens=special, stop_token_ids=[1])


def reads(matcher: Any, tokens: list[int], stop: int) -> bool:
    return all(matcher.accept_token(t) for t in tokens) and matcher.accept_token(stop)


@pytest.mark.parametrize("name", TOKEN_CASES)
def test_tokens_as_xgrammar_reads_them(name: str, words: gr.Vocabulary) -> None:
    xgrammar = pytest.importorskip("xgrammar")
    form, texts = TOKEN_CASES[name]
    info = xgrammar.TokenizerInfo(WORDS, stop_token_ids=[1])
    compiled = xgrammar.GrammarCompiler(info).compile_structural_tag(json.dumps(wrapped(form)))
    guide = gr.compile(gr.structural_tag(wrapped(form), vocabulary=words), words)
    for tokens in texts:
        ids = [WORDS.index(t) for t in tokens]
        theirs = reads(xgrammar.GrammarMatcher(compiled), ids, 1)
        assert reads(guide.matcher(), ids, 1) == theirs, tokens


def test_masks_are_what_is_accepted(words: gr.Vocabulary) -> None:
    for form in [*(f for f, _ in TOKEN_CASES.values()), TRIGGERED]:
        guide = gr.compile(gr.structural_tag(wrapped(form), vocabulary=words), words)
        bitmask = gr.allocate_token_bitmask(1, words.size)
        for start in ([], [2], [2, 7], [11], [5]):
            matcher = guide.matcher()
            if not all(matcher.accept_token(t) for t in start):
                continue
            matcher.fill_next_token_bitmask(bitmask)
            allowed = [t for t in range(words.size) if bitmask[0, t // 32] >> (t % 32) & 1]
            assert allowed == [t for t in range(words.size) if matcher.fork().accept_token(t)]


def test_a_string_may_be_written_as_the_special_token_that_it_is(words: gr.Vocabulary) -> None:
    form = wrapped({"type": "triggered_tags", "triggers": ["<call>"], "tags": [tag("<call>", ANY, "</call>")]})
    with_tokens = gr.compile(gr.structural_tag(form, vocabulary=words), words)
    without = gr.structural_tag(form)
    assert without.matches("a<call>b</call>")
    compiled = gr.compile(without, words)  # a guide uses the tokens of its vocabulary
    bare = gr.Vocabulary([w.encode() for w in WORDS], stop_token_ids=[1])
    as_text = gr.compile(gr.structural_tag(form, vocabulary=bare), words)  # for another vocabulary
    special = [WORDS.index(t) for t in ("a", "<call>", "b", "</call>")]
    spelled = [WORDS.index(t) for t in ("a", "<", "call", ">", "b", "<")]
    assert reads(with_tokens.matcher(), special, 1) and reads(compiled.matcher(), special, 1)
    assert not reads(as_text.matcher(), special, 1)
    for guide in (with_tokens, compiled, as_text):
        matcher = guide.matcher()
        assert all(matcher.accept_token(t) for t in spelled)
        assert not matcher.is_accepting()  # inside the call
    with special_tokens_of(words):  # without a vocabulary there are no tokens, in any context
        assert gr.structural_tag(wrapped(tag("<call>", ANY, "</call>"))).program().core.symbols() == []


TOKENS = ["a", "<", "a<", "<func", "function=f>", "function=h>", "tion=", "tion=g", "f>",
          "h>", '{"a": 1}</function>', 'tion=f>{"a": 1}</function> b<', "<function=", "func", "</s>"]  # fmt: skip


@pytest.mark.parametrize(
    ("read", "allowed", "forbidden"),
    [
        (["a<"], ["function=f>", "a", "<", "<func", "func"], ["function=h>"]),
        (["a", "<"], ["function=f>", "<function=", "</s>"], ["function=h>"]),
        (["<func"], ["tion=", "tion=g", 'tion=f>{"a": 1}</function> b<', "a<", "function=h>"], []),
        (["<func", "tion="], ["f>"], ["h>", "a", "</s>"]),
        (["<func", 'tion=f>{"a": 1}</function> b<'], ["function=f>", "</s>"], ["function=h>"]),
        (["<", "<", "function=f>"], ['{"a": 1}</function>'], ["f>", "a", "</s>"]),
        (["<", "func"], ["tion=", "a"], []),
        (["a", "func"], ["tion=", "function=h>"], []),
    ],
)
def test_a_trigger_that_straddles_tokens(read: list[str], allowed: list[str], forbidden: list[str]) -> None:
    vocabulary = gr.Vocabulary([t.encode() for t in TOKENS], stop_token_ids=[len(TOKENS) - 1])
    matcher = gr.compile(gr.structural_tag(TRIGGERED), vocabulary).matcher()
    assert all(matcher.accept_token(TOKENS.index(t)) for t in read)
    bitmask = gr.allocate_token_bitmask(1, vocabulary.size)
    matcher.fill_next_token_bitmask(bitmask)
    mask = {t for i, t in enumerate(TOKENS) if bitmask[0, 0] >> i & 1}
    assert mask >= set(allowed)
    assert not mask & set(forbidden)
    assert mask == {t for i, t in enumerate(TOKENS) if matcher.fork().accept_token(i)}


# -- errors -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("spec", "code", "pointer"),
    [
        ("{", "structural-tag", None),
        ('{"type": "any_text", "type": "plus"}', "structural-tag", None),
        ([1], "structural-tag", None),
        ({"type": "structural_tag"}, "structural-tag", "#"),
        (wrapped({"type": "tagg"}), "structural-tag-type", "#/format"),
        (wrapped({}), "structural-tag-type", "#/format"),
        ({**wrapped(ANY), "strict": True}, "structural-tag", "#/strict"),
        (wrapped({**ANY, "exclude": ["a"]}), "structural-tag", "#/format/exclude"),
        (wrapped({**ANY, "excludes": "a"}), "structural-tag", "#/format/excludes"),
        (wrapped({**ANY, "excludes": [""]}), "structural-tag", "#/format/excludes/0"),
        (wrapped({**ANY, "max_tokens": -1}), "structural-tag", "#/format/max_tokens"),
        (wrapped({**ANY, "max_chars": -1}), "structural-tag", "#/format/max_chars"),
        (wrapped({"type": "const_string"}), "structural-tag", "#/format"),
        (wrapped({"type": "const_string", "value": "\ud800"}), "lone-surrogate", "#/format/value"),
        (wrapped({"type": "sequence", "elements": []}), "structural-tag", "#/format/elements"),
        (wrapped({"type": "sequence", "elements": [ANY, 1]}), "structural-tag", "#/format/elements/1"),
        (wrapped({"type": "repeat", "min": 3, "max": 1, "content": ANY}), "structural-tag", "#/format/max"),
        (wrapped(schema(ITEM, style="xml")), "structural-tag-style", "#/format/json_schema"),
        (wrapped(schema(ITEM, excludes=[""])), "structural-tag", "#/format/excludes/0"),
        (wrapped(schema(ITEM, style="cohere_xml", excludes=["a"])), "structural-tag-unsupported", "#/format/excludes"),
        (wrapped(schema(ITEM, style="qwen_xml", excludes=["a "])), "structural-tag-unsupported", "#/format/excludes"),
        (wrapped(schema({"type": "objec"})), "invalid-schema", "#/format/json_schema/type"),
        (wrapped({"type": "regex", "pattern": "(a"}), "regex-unterminated-group", "#/format/pattern"),
        (wrapped({"type": "grammar", "grammar": "root ::= nothing"}), None, "#/format/grammar"),
        (wrapped({**TRIGGERED, "triggers": []}), "structural-tag-trigger", "#/format/triggers"),
        (wrapped({**TRIGGERED, "triggers": ["<fun", "<func"]}), "structural-tag-trigger", "#/format/tags/0"),
        (wrapped({**TRIGGERED, "triggers": ["<f>"]}), "structural-tag-trigger", "#/format/tags/0"),
        (wrapped({**TRIGGERED, "tags": [CALL]}), "structural-tag", "#/format/tags/0"),
        (wrapped({"type": "tag", "begin": "a", "content": ANY, "end": []}), "structural-tag", "#/format/end"),
        (wrapped({"type": "tag", "begin": ANY, "content": ANY, "end": ""}), "structural-tag", "#/format/begin"),
        (wrapped({"type": "any_tokens", "exclude_tokens": [""]}), "structural-tag", "#/format/exclude_tokens/0"),
        (wrapped({"type": "dispatch", "rules": [["a", ANY], ["a", ANY]]}), "structural-tag-trigger", "#/format"),
        (wrapped({"type": "dispatch", "rules": [["a"]]}), "structural-tag", "#/format/rules/0"),
        (wrapped({"type": "dispatch", "rules": [["a", ANY]], "excludes": ["b", "a"]}), "structural-tag-trigger",
         "#/format/excludes/1"),
        (wrapped({**TRIGGERED, "excludes": TRIGGERED["triggers"]}), "structural-tag-trigger", "#/format/excludes/0"),
        ({"type": np.array([1, 2])}, "structural-tag-type", "#"),
        (wrapped({**TRIGGERED, "tags": [{**CALL, "type": np.array([1, 2])}]}), "structural-tag", "#/format/tags/0"),
        ({"type": "structural_tag", "structures": [{"begin": "a", "end": "b"}], "triggers": ["a"]}, "structural-tag",
         "#/structures/0"),
    ],
)  # fmt: skip
def test_errors_say_where(spec: Any, code: str | None, pointer: str | None) -> None:
    with pytest.raises(gr.ToolError) as caught:
        gr.structural_tag(spec).program()
    assert caught.value.pointer == pointer
    assert code is None or caught.value.code == code
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.pointer) == (str(caught.value), pointer)


def test_errors_deep_in_a_schema_are_found_when_it_is_compiled() -> None:
    inner = {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}
    made = gr.structural_tag(wrapped(tag("<a>", schema(inner), "</a>")))
    with pytest.raises(gr.ToolError) as caught:
        made.program()
    assert caught.value.code == "unresolvable-reference"
    assert caught.value.pointer is not None
    assert caught.value.pointer.startswith("#/format/content/json_schema/properties/a")


@pytest.mark.parametrize(
    ("form", "code"),
    [
        ({"type": "token", "token": "<none>"}, "unknown-token"),
        ({"type": "token", "token": 99}, "unknown-token"),
        ({"type": "any_tokens", "exclude_tokens": ["c"]}, "unknown-token"),
        ({"type": "token_triggered_tags", "trigger_tokens": ["<sep>"], "tags": [CALL]}, "structural-tag-trigger"),
    ],
)
def test_errors_about_tokens(form: dict[str, Any], code: str, words: gr.Vocabulary) -> None:
    with pytest.raises(gr.ToolError) as caught:
        gr.structural_tag(wrapped(form), vocabulary=words)
    assert caught.value.code == code


# -- forms ------------------------------------------------------------------------------------------------------------
def test_the_older_form() -> None:
    old = {
        "type": "structural_tag",
        "structures": [{"begin": "<function=f>", "schema": json.dumps(ITEM), "end": "</function>"}],
        "triggers": ["<function="],
    }
    made = gr.structural_tag(json.dumps(old))
    assert made.matches('so: <function=f>{"a": 1}</function>.')
    assert not made.matches('<function=f>{"a": "1"}</function>')


def test_xgrammars_own_objects_are_taken() -> None:
    pytest.importorskip("xgrammar")
    from xgrammar.structural_tag import StructuralTag

    made = gr.structural_tag(StructuralTag.from_json(wrapped(TRIGGERED)))
    assert made == gr.structural_tag(wrapped(TRIGGERED))
    assert pickle.loads(pickle.dumps(made)) == made
    assert made.matches("<function=g>abc</function>")


@pytest.mark.parametrize(
    "model", ["llama", "kimi", "deepseek_r1", "deepseek_v3_1", "qwen_3", "qwen_3_coder", "harmony", "deepseek_v3_2",
              "minimax", "glm_4_7", "cohere"]
)  # fmt: skip
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_the_tags_that_xgrammar_makes_for_models(model: str, choice: str) -> None:
    pytest.importorskip("xgrammar")
    import xgrammar
    from xgrammar.builtin_structural_tag import get_model_structural_tag
    from xgrammar.testing import _is_grammar_accept_string as accepts

    tool = {"type": "function", "function": {"name": "f", "parameters": PERSON}}
    made = get_model_structural_tag(model, [tool], tool_choice=choice, reasoning="auto")
    ours, theirs = gr.structural_tag(made), xgrammar.Grammar.from_structural_tag(made)
    program = ours.program().core
    for start in ("", "<", "Hi"):
        state = program.derivative(program.root, start.encode())
        rest = program.shortest(state, 2000)
        if rest is not None and state:
            assert accepts(theirs, start + rest.decode()), start + rest.decode()
    assert ours.matches("hello") == accepts(theirs, "hello")


def test_options_are_those_of_json_schema() -> None:
    assert gr.structural_tag(schema(ITEM), layout="compact").matches('{"a":1}')
    assert not gr.structural_tag(schema(ITEM), layout="compact").matches('{"a": 1}')
    with pytest.raises(gr.GuiderailError):
        gr.structural_tag(schema(ITEM), layout="wide")
