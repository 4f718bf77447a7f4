"""``guiderail.compat.xgrammar`` against the library itself: the same calls, the same answers."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import guiderail as gr
import guiderail.compat.xgrammar as ours
import guiderail.compat.xgrammar.testing
from guiderail.compat._errors import CompatError

TOKENS = [*(chr(i) for i in range(32, 127)), '{"', '": ', "true", "ab", "abc", "123", "\n", "é", "", "</s>"]
STOP = TOKENS.index("</s>")
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
}
OPTIONAL = {"type": "object", "properties": PERSON["properties"]}
TAG = {
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags",
        "triggers": ["<call="],
        "tags": [{"begin": "<call=a>", "content": {"type": "json_schema", "json_schema": PERSON}, "end": "</call>"}],
    },
}

# the function that compiles, its arguments, texts to try (whole texts, prefixes and others)
CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], list[str]]] = [
    (
        "compile_json_schema",
        (PERSON,),
        {},
        ['{"name": "a"}', '{ "name":"a" ,\n"age":1}', '{"name": "a", "b": 1}', "{}"],
    ),
    ("compile_json_schema", (json.dumps(PERSON),), {"strict_mode": False}, ['{"name": "a", "b": [1]}', '{"age": 1}']),
    ("compile_json_schema", (PERSON,), {"any_whitespace": False}, ['{"name": "a", "age": 1}', '{"name":"a"}']),
    (
        "compile_json_schema",
        (PERSON,),
        {"any_whitespace": False, "indent": 2},
        ['{\n  "name": "a"\n}', '{"name": "a"}'],
    ),
    (
        "compile_json_schema",
        (PERSON,),
        {"any_whitespace": False, "separators": (",", ":")},
        ['{"name":"a","age":1}', '{"name": "a"}'],
    ),
    ("compile_json_schema", (PERSON,), {"max_whitespace_cnt": 2}, ['{  "name":"a"}', '{   "name":"a"}']),
    ("compile_json_schema", (OPTIONAL,), {"any_order": True}, ['{"age": 1}', '{"name": "a"}', '{"b": 1}']),
    ("compile_json_schema", ({"type": "object"},), {}, ['{"a": {"b": [1, "c"]}}', "{}", "1"]),
    ("compile_json_schema", ({"type": "array", "prefixItems": [{"type": "null"}]},), {}, ["[null]", "[null, 1]"]),
    (
        "compile_json_schema",
        ({"type": "array", "prefixItems": [{"type": "null"}]},),
        {"strict_mode": False},
        ["[null]", "[null, 1]"],
    ),
    ("compile_json_schema", ({"enum": ["a/b", 1, None]},), {}, ['"a/b"', '"a\\/b"', "1", "null", "2"]),
    ("compile_json_schema", ({"type": "string"},), {}, ['"\\u0041\\/"', '"a"', '"\n"', '"']),
    ("compile_regex", (r"[a-c]+\d{2}",), {}, ["ab12", "ab1", "ab123", "12"]),
    ("compile_regex", (r"(yes|no)\.?",), {}, ["yes.", "no", "maybe"]),
    ("compile_grammar", ('root ::= "a" root "b" | "c"\n',), {}, ["c", "acb", "aacbb", "acbb", "a"]),
    ("compile_grammar", ('root ::= x\nx ::= [0-9]+ ("," x)?\n',), {"root_rule_name": "x"}, ["1,22", "1,", ","]),
    ("compile_builtin_json_grammar", (), {}, ['{"a": [1, {}]}', "[]", "1", '"a"']),
    ("compile_structural_tag", (TAG,), {}, ['hi <call=a>{"name": "x"}</call> b', "<call=b>", "plain"]),
]


@pytest.fixture(scope="module")
def theirs() -> Any:
    return pytest.importorskip("xgrammar")


def compiled(library: Any, case: tuple[str, tuple[Any, ...], dict[str, Any], list[str]]) -> Any:
    info = library.TokenizerInfo(TOKENS, stop_token_ids=[STOP])
    how, args, kwargs, _ = case
    return getattr(library.GrammarCompiler(info), how)(*args, **kwargs)


@pytest.mark.parametrize("case", CASES, ids=[f"{case[0]}-{i}" for i, case in enumerate(CASES)])
def test_texts_and_masks(theirs: Any, case: tuple[str, tuple[Any, ...], dict[str, Any], list[str]]) -> None:
    grammars = compiled(ours, case), compiled(theirs, case)
    for text in case[3]:
        mine = ours.GrammarMatcher(grammars[0], terminate_without_stop_token=True)
        other = theirs.GrammarMatcher(grammars[1], terminate_without_stop_token=True)
        for character in text:
            assert mine.is_terminated() == other.is_terminated()
            answers = mine.accept_string(character), other.accept_string(character)
            assert answers[0] == answers[1], (text, character)
        assert mine.is_completed() == other.is_completed()
    if case[0] == "compile_structural_tag":
        return  # where a text may end, XGrammar allows tokens that begin a trigger but cannot continue
    for text in case[3]:
        mine, other = ours.GrammarMatcher(grammars[0]), theirs.GrammarMatcher(grammars[1])
        masks = [library.allocate_token_bitmask(1, len(TOKENS)) for library in (ours, theirs)]
        for character in text:
            allowed = []
            for matcher, mask in zip((mine, other), masks, strict=True):
                matcher.fill_next_token_bitmask(mask)
                allowed.append(gr.bitmask_to_bool(mask, len(TOKENS))[0])
            different = [TOKENS[i] for i in np.flatnonzero(allowed[0] != allowed[1])]
            assert different == [], text
            if (mine.accept_string(character), other.accept_string(character)) != (True, True):
                break


STEPS: list[tuple[str, tuple[Any, ...]]] = [
    ("accept_token", (TOKENS.index("a"),)),
    ("accept_token", (10_000,)),
    ("accept_token", (-1,)),
    ("accept_token", (TOKENS.index(""),)),
    ("is_completed", ()),
    ("accept_token", (TOKENS.index("b"),)),
    ("find_jump_forward_string", ()),
    ("rollback", (1,)),
    ("rollback", (7,)),
    ("rollback", (0,)),
    ("accept_string", ("bb",)),
    ("rollback", (2,)),
    ("rollback", (1,)),
    ("accept_string", (b"b",)),
    ("accept_string", ("",)),
    ("is_terminated", ()),
    ("accept_token", (STOP,)),
    ("is_terminated", ()),
    ("accept_token", (STOP,)),
    ("accept_string", ("b",)),
    ("find_jump_forward_string", ()),
    ("rollback", (1,)),
    ("is_terminated", ()),
    ("reset", ()),
    ("is_completed", ()),
    ("accept_token", (STOP,)),
]


@pytest.mark.parametrize("options", [{}, {"terminate_without_stop_token": True}, {"override_stop_tokens": [96]}])
@pytest.mark.parametrize("grammar", ['root ::= "a" "b"*', 'root ::= "a" "b" "b"'])
def test_each_step_is_answered_alike(theirs: Any, grammar: str, options: dict[str, Any]) -> None:
    def told(matcher: Any, name: str, args: tuple[Any, ...]) -> Any:
        try:
            return getattr(matcher, name)(*args)
        except RuntimeError:
            return "error"

    case = ("compile_grammar", (grammar,), {}, [])
    mine = ours.GrammarMatcher(compiled(ours, case), **options)
    other = theirs.GrammarMatcher(compiled(theirs, case), **options)
    assert mine.stop_token_ids == other.stop_token_ids
    for name, args in STEPS:
        assert told(mine, name, args) == told(other, name, args), (name, args)
        twins = mine.fork(), other.fork()
        assert told(twins[0], "is_completed", ()) == told(twins[1], "is_completed", ())


VOCABULARIES = [
    (["▁a", "<0x0A>", "<0x1B>", "a▁b", "▁", "</s>"], 1),
    (["Ġa", "Ċ", "é", "Ã©", "日", "<s>"], 2),
    (["Ġa", b"\xff", "<0x0A>", "", "<|eot_id|>", "<|im_end|>"], 0),
    ([], 0),
]


@pytest.mark.parametrize(("tokens", "kind"), VOCABULARIES)
def test_vocabularies(theirs: Any, tokens: list[Any], kind: int) -> None:
    for size in (None, len(tokens) + 3):
        mine = ours.TokenizerInfo(tokens, ours.VocabType(kind), vocab_size=size)
        other = theirs.TokenizerInfo(tokens, theirs.VocabType(kind), vocab_size=size)
        for name in ("vocab_size", "decoded_vocab", "stop_token_ids", "special_token_ids", "add_prefix_space"):
            assert getattr(mine, name) == getattr(other, name), name
        assert mine.vocab_type.value == other.vocab_type.value
        assert json.loads(mine.dump_metadata()) == json.loads(other.dump_metadata())
        again = ours.TokenizerInfo.from_vocab_and_metadata(tokens, mine.dump_metadata())
        assert again.decoded_vocab == mine.decoded_vocab
        kept = ours.TokenizerInfo.deserialize_json(mine.serialize_json())
        assert kept.vocabulary == mine.vocabulary and kept.special_token_ids == mine.special_token_ids


@pytest.mark.parametrize("vocab_size", [None, 40, 5])
@pytest.mark.parametrize("indices", [None, [1]])
def test_applied_masks(theirs: Any, vocab_size: int | None, indices: list[int] | None) -> None:
    import torch

    mask = torch.tensor([[0x0F0F0F0F, -1], [0x33333333, 5]], dtype=torch.int32)
    made = [torch.zeros(2, 70), torch.zeros(2, 70)]
    for library, logits in zip((ours, theirs), made, strict=True):
        if vocab_size is None:
            with pytest.warns(UserWarning):
                library.apply_token_bitmask_inplace(logits, mask, vocab_size=vocab_size, indices=indices)
        else:
            library.apply_token_bitmask_inplace(logits, mask, vocab_size=vocab_size, indices=indices)
    assert torch.equal(*made)
    for backend in ("nonsense", "cuda"):
        with pytest.raises(ValueError, match=r"[Bb]ackend"):
            ours.apply_token_bitmask_inplace(made[0], mask, backend=backend)
    assert ours.get_bitmask_shape(3, 33) == theirs.get_bitmask_shape(3, 33) == (3, 2)
    assert ours.bitmask_dtype == theirs.bitmask_dtype


# nodes: a, b, c at the top; under a: b, c; under its b: c
TREE = ([1, 4, -1, -1, 6, -1, -1], [-1, 2, 3, -1, 5, -1, -1], "?abcbcc")


@pytest.mark.parametrize("grammar", ['root ::= "a" [bc]+', "root ::= [ab]+", 'root ::= "abc" "d"', 'root ::= "c"'])
def test_draft_trees(theirs: Any, grammar: str) -> None:
    import torch

    children, siblings, texts = (torch.tensor(one) for one in (TREE[0], TREE[1], [TOKENS.index(c) for c in TREE[2]]))
    rows = []
    for library in (ours, theirs):
        matcher = library.GrammarMatcher(compiled(library, ("compile_grammar", (grammar,), {}, [])))
        mask = torch.zeros(7, (len(TOKENS) + 31) // 32, dtype=torch.int32)
        assert matcher.traverse_draft_tree(children, siblings, texts, mask)
        rows.append(gr.bitmask_to_bool(mask, len(TOKENS)))
        assert matcher.accept_string("c") == (grammar == 'root ::= "c"'), "the matcher has not moved"
    assert np.array_equal(*rows)


def test_batches(theirs: Any) -> None:
    for library in (ours, theirs):
        batch = library.BatchGrammarMatcher(2)
        grammar = compiled(library, ("compile_grammar", ('root ::= "a" "b"',), {}, []))
        matchers = [library.GrammarMatcher(grammar) for _ in range(2)]
        mask = library.allocate_token_bitmask(4, len(TOKENS))
        batch.batch_fill_next_token_bitmask(matchers, mask, [3, 0])
        allowed = gr.bitmask_to_bool(mask, len(TOKENS))
        assert [TOKENS[i] for i in np.flatnonzero(allowed[3])] == ["a", "ab"]
        assert allowed[1].all() and np.array_equal(allowed[0], allowed[3])
        tokens = [TOKENS.index("a"), TOKENS.index("b")]
        assert batch.batch_accept_token(matchers, tokens) == [True, False]
        assert batch.batch_accept_string(matchers, ["b", "ab"]) == [True, True]
        with pytest.raises(RuntimeError):
            batch.batch_accept_token(matchers, tokens[:1])
        batch.batch_rollback(matchers, [2, 1])
        assert [matcher.is_completed() for matcher in matchers] == [False, False]
        with pytest.raises(RuntimeError):
            library.BatchGrammarMatcher(0)


BAD: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("compile_grammar", ("root ::= (",), {}, "RuntimeError"),
    ("compile_grammar", (3,), {}, "ValueError"),
    ("compile_regex", ("(",), {}, "RuntimeError"),
    ("compile_json_schema", ("{",), {}, "RuntimeError"),
    ("compile_json_schema", ({"type": "foo"},), {}, "RuntimeError"),
    ("compile_json_schema", (3,), {}, "ValueError"),
    ("compile_json_schema", ({},), {"max_whitespace_cnt": 0}, "RuntimeError"),
    ("compile_structural_tag", ({"a": 1},), {}, "RuntimeError"),
    ("compile_structural_tag", ("{",), {}, "RuntimeError"),
    ("compile_structural_tag", (3,), {}, "TypeError"),
    ("compile_structural_tag", (), {}, "TypeError"),
    ("compile_lark", ("start: (",), {}, "RuntimeError"),
    ("compile_lark", ("start: @a",), {"named_grammars": {"a": 3}}, "TypeError"),
]


@pytest.mark.parametrize(("how", "args", "kwargs", "error"), BAD)
def test_errors_are_caught_by_the_same_clauses(
    theirs: Any, how: str, args: tuple[Any, ...], kwargs: dict[str, Any], error: str
) -> None:
    kind = {"RuntimeError": RuntimeError, "ValueError": ValueError, "TypeError": TypeError}[error]
    for library in (ours, theirs):
        with pytest.raises(kind):
            compiled(library, (how, args, kwargs, []))


def made(library: Any, **options: Any) -> Any:
    compiler = library.GrammarCompiler(library.TokenizerInfo(TOKENS, stop_token_ids=STOP))
    return library.GrammarMatcher(compiler.compile_regex("ab*"), **options)


def logits(library: Any, *shape: int, **options: Any) -> None:
    import torch

    mask = library.allocate_token_bitmask(2, 32)
    library.apply_token_bitmask_inplace(torch.zeros(*shape), mask, **options)


# a call on either library, and what both raise
MISUSED: dict[str, tuple[Callable[[Any], Any], type[Exception]]] = {
    "a token that is a text": (lambda x: made(x).accept_token("1"), TypeError),
    "a token that is a fraction": (lambda x: made(x).accept_token(1.5), TypeError),
    "a token that is None": (lambda x: made(x).accept_token(None), TypeError),
    "a fraction of a step": (lambda x: made(x).rollback(1.5), TypeError),
    "too many steps": (lambda x: made(x).rollback(1), RuntimeError),
    "no stop tokens": (lambda x: made(x, override_stop_tokens=[]), RuntimeError),
    "a negative temperature": (lambda x: made(x, default_temperature=-1.0), RuntimeError),
    "a temperature that is a text": (lambda x: made(x, default_temperature="a"), ValueError),
    "a row that is None": (
        lambda x: made(x).fill_next_token_bitmask(x.allocate_token_bitmask(1, 200), None),
        TypeError,
    ),
    "a row too many": (lambda x: made(x).fill_next_token_bitmask(x.allocate_token_bitmask(1, 200), 1), RuntimeError),
    "a mask that is None": (lambda x: made(x).fill_next_token_bitmask(None), TypeError),
    "a negative batch": (lambda x: x.allocate_token_bitmask(-1, 32), RuntimeError),
    "half a batch": (lambda x: x.allocate_token_bitmask(1.5, 32), TypeError),
    "fewer rows than masks": (lambda x: logits(x, 1, 32), RuntimeError),
    "a row of logits too many": (lambda x: logits(x, 2, 32, indices=[2]), RuntimeError),
    "more tokens than bits": (lambda x: logits(x, 2, 64, vocab_size=40), RuntimeError),
    "no such backend": (lambda x: logits(x, 2, 32, backend="abacus"), ValueError),
    "a vocabulary that is a number": (lambda x: x.TokenizerInfo(5), TypeError),
    "a vocabulary that is a dict": (lambda x: x.TokenizerInfo({"a": 0}), TypeError),
    "a token without text": (lambda x: x.TokenizerInfo(["a", None]), RuntimeError),
    "a width that is a text": (lambda x: x.TokenizerInfo(["a"], vocab_size="2"), TypeError),
    "a compiler of a text": (lambda x: x.GrammarCompiler("a"), ValueError),
    "a matcher of a text": (lambda x: x.GrammarMatcher("a"), ValueError),
    "threads as a text": (lambda x: x.GrammarCompiler(x.TokenizerInfo(["a"]), max_threads="2"), TypeError),
    "a limit that is None": (lambda x: x.GrammarCompiler(x.TokenizerInfo(["a"]), cache_limit_bytes=None), TypeError),
    "separators as a text": (lambda x: x.Grammar.from_json_schema("{}", separators=",:"), TypeError),
    "separators as numbers": (lambda x: x.Grammar.from_json_schema("{}", separators=(1, 2)), TypeError),
    "a switch that is None": (lambda x: x.Grammar.from_json_schema("{}", any_whitespace=None), TypeError),
    "one index for two": (
        lambda x: x.BatchGrammarMatcher().batch_fill_next_token_bitmask(
            [made(x), made(x)], x.allocate_token_bitmask(2, 200), [0]
        ),
        RuntimeError,
    ),
    "a tag that is a number": (lambda x: x.StructuralTag.from_json(5), ValueError),
    "a tag that is no JSON": (lambda x: x.StructuralTag.from_json("x"), ValueError),
    "one token for two": (
        lambda x: x.BatchGrammarMatcher.batch_accept_token([made(x), made(x)], [1]),
        RuntimeError,
    ),
}


@pytest.mark.parametrize("name", MISUSED)
def test_misuse_is_caught_by_the_same_clauses(theirs: Any, name: str) -> None:
    call, kind = MISUSED[name]
    with pytest.raises(kind):
        call(theirs)
    with pytest.raises(kind) as told:
        call(ours)
    assert isinstance(told.value, gr.GuiderailError)


def test_a_refused_batch_changes_no_matcher() -> None:
    one, other = made(ours), made(ours)
    with pytest.raises(TypeError):
        ours.BatchGrammarMatcher.batch_accept_token([one, other], [TOKENS.index("a"), "b"])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        ours.BatchGrammarMatcher.batch_accept_string([one, other], ["a", 5])  # type: ignore[list-item]
    assert one.matcher.step_count == other.matcher.step_count == 0


def test_copies_are_independent() -> None:
    matcher = made(ours)
    for twin in (copy.copy(matcher), copy.deepcopy(matcher)):
        assert twin.accept_string(bytearray(b"ab"))
        assert matcher.matcher.step_count == 0


def test_errors_are_guiderails_too() -> None:
    with pytest.raises(gr.GuiderailError) as told:
        ours.Grammar.from_json_schema({"properties": {"a": {"type": "nope"}}})
    assert isinstance(told.value, RuntimeError) and "#/properties/a/type" in str(told.value)
    with pytest.raises(ours.InvalidJSONError):
        ours.Grammar.from_structural_tag("{")
    with pytest.raises(ours.InvalidStructuralTagError, match="#/format"):
        ours.Grammar.from_structural_tag({"type": "structural_tag", "format": {"type": "nope"}})


STRICT: list[tuple[Any, list[str], list[str]]] = [
    ({"properties": {"a": {}}, "required": ["b"]}, ['{"a": 1, "b": 2}', '{"b": []}'], ['{"b": 1, "c": 1}', '{"a": 1}']),
    ({"type": "object", "required": ["b"]}, ['{"b": 1}'], ['{"b": 2, "a": 1}', "{}"]),
    ({"type": "object", "propertyNames": {"pattern": "^x"}}, ['{"x1": 1}', "{}"], ['{"a": 1}']),
    ({"type": ["object", "null"]}, ['{"x1": 1}', "null"], ["1"]),
    ({"anyOf": [{"type": "object"}, {"type": "null"}]}, ['{"a": {"b": 1}}', "null"], ["1"]),
    ({"type": "object", "properties": {"a": {"type": "object"}}}, ['{"a": {"z": 1}}'], ['{"z": 1}']),
    (
        {"properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        ['{"a": 1}', '{"b": 1}'],
        ["{}", '{"a": 1, "c": 1}'],
    ),
    ({"prefixItems": [{}], "items": {"type": "null"}}, ["[1, null]"], ["[1, 1]"]),
    (
        {"type": "array", "items": {"$ref": "#/$defs/p"}, "$defs": {"p": {"type": "array", "prefixItems": [{}]}}},
        ["[[1], []]"],
        ["[[1, 2]]"],
    ),
    ({"type": "array", "not": {"prefixItems": [{"const": 1}], "type": "array"}}, ["[2, 3]"], ["[1, 2]", "[]"]),
    (
        {"not": {"$ref": "#/$defs/p"}, "type": "array", "$defs": {"p": {"prefixItems": [{"const": 1}]}}},
        ["[2, 3]"],
        ["[1, 2]"],
    ),
]


@pytest.mark.parametrize(("schema", "good", "bad"), STRICT)
def test_strict_mode_closes_and_never_opens(schema: Any, good: list[str], bad: list[str]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    strict = ours.Grammar.from_json_schema(schema).constraint
    loose = ours.Grammar.from_json_schema(schema, strict_mode=False).constraint
    judge = jsonschema.Draft202012Validator(schema)
    assert [strict.matches(text) for text in good + bad] == [True] * len(good) + [False] * len(bad)
    assert all(judge.is_valid(json.loads(text)) for text in good)
    assert [loose.matches(text) for text in good + bad] == [judge.is_valid(json.loads(text)) for text in good + bad]


def test_what_has_no_counterpart_is_refused() -> None:
    with pytest.raises(CompatError, match="EBNF"):
        ours.Grammar.from_regex("a", print_converted_ebnf=True)
    with pytest.raises(CompatError, match="tool_calls"):
        ours.get_model_structural_tag("llama")
    with pytest.raises(CompatError, match="max_work"):
        ours.set_max_recursion_depth(5)
    lark = ours.Grammar.from_lark('start: word\nword[capture]: "a"')
    matcher = ours.GrammarMatcher(ours.GrammarCompiler(ours.TokenizerInfo(TOKENS)).compile_grammar(lark))
    with pytest.raises(CompatError, match="deduplicate"):
        matcher.get_captures(deduplicate=False)
    with pytest.raises(CompatError, match="temperature"):
        ours.Grammar.from_lark('start: word\nword[temperature=0.5]: "a"')
    with pytest.raises(AttributeError):
        ours.nonsense  # noqa: B018


@pytest.mark.parametrize("case", CASES, ids=[f"{case[0]}-{i}" for i, case in enumerate(CASES)])
def test_serialized(case: tuple[str, tuple[Any, ...], dict[str, Any], list[str]]) -> None:
    made = compiled(ours, case)
    again = ours.CompiledGrammar.deserialize_json(made.serialize_json(), made.tokenizer_info)
    grammar = ours.Grammar.deserialize_json(made.grammar.serialize_json())
    for text in case[3]:
        assert again.grammar.constraint.matches(text) == made.grammar.constraint.matches(text)
        assert grammar.constraint.matches(text) == made.grammar.constraint.matches(text)
    for text, error in (("{", ours.InvalidJSONError), ('{"__VERSION__": "v16"}', ours.DeserializeVersionError)):
        with pytest.raises(error):
            ours.Grammar.deserialize_json(text)
    with pytest.raises(ours.DeserializeFormatError):
        ours.Grammar.deserialize_json(made.serialize_json())
    with pytest.raises(ours.DeserializeFormatError, match="another tokenizer"):
        ours.CompiledGrammar.deserialize_json(made.serialize_json(), ours.TokenizerInfo(["a"]))


def test_the_cache() -> None:
    compiler = ours.GrammarCompiler(ours.TokenizerInfo(TOKENS))
    assert compiler.compile_regex("a+") is compiler.compile_regex("a+")
    assert compiler.get_cache_size_bytes() > 0 and compiler.cache_limit_bytes == -1
    compiler.clear_cache()
    assert compiler.get_cache_size_bytes() == 0
    small = ours.GrammarCompiler(ours.TokenizerInfo(TOKENS), cache_limit_bytes=0)
    assert small.compile_regex("a+") is not small.compile_regex("a+")
    with pytest.raises(CompatError, match="max_threads"):
        ours.GrammarCompiler(ours.TokenizerInfo(TOKENS), max_threads=0)


def test_a_tag_as_classes(theirs: Any) -> None:
    pytest.importorskip("pydantic")
    for library in (ours, theirs):
        made = library.StructuralTag.from_json(TAG)
        assert made.format.tags[0].begin == "<call=a>"
        assert library.StructuralTag.from_json(made.model_dump_json()) == made
        item = library.StructuralTagItem(begin="<call=a>", schema=PERSON, end="</call>")
        both = [library.Grammar.from_structural_tag(made), library.Grammar.from_structural_tag([item], ["<call="])]
        for grammar in both:
            info = library.TokenizerInfo(TOKENS, stop_token_ids=[STOP])
            matcher = library.GrammarMatcher(library.GrammarCompiler(info).compile_grammar(grammar))
            assert matcher.accept_string('a <call=a>{"name": "x"}</call>') and matcher.is_completed()
            matcher.reset()
            assert not matcher.accept_string("a <call=b")


def test_captures(theirs: Any) -> None:
    text = 'start: key "=" value ";"\nkey[capture]: /[a-z]+/\nvalue[capture="v"]: /[0-9]+/'
    for library in (ours, theirs):
        info = library.TokenizerInfo(TOKENS, stop_token_ids=[STOP])
        matcher = library.GrammarMatcher(library.GrammarCompiler(info).compile_lark(text))
        assert matcher.accept_token(TOKENS.index("ab")) and matcher.accept_string("c=") and matcher.accept_string("12;")
        assert matcher.get_captures() == [("key", b"abc"), ("v", b"12")]
        twin = matcher.fork()
        twin.rollback(1)
        assert twin.accept_string("7;") and twin.get_captures() == [("key", b"abc"), ("v", b"7")]
        assert matcher.accept_token(STOP) and matcher.get_captures() == [("key", b"abc"), ("v", b"12")]
        matcher.reset()
        assert matcher.get_captures() == []


def test_named_grammars() -> None:
    digits = ours.Grammar.from_regex("[0-9]+")
    named = {"item": digits, "pair": 'start: @item ":" @item', "loop": "start: @loop"}
    matches = ours.Grammar.from_lark('start: "<" @pair ">"', named_grammars=named).constraint.matches
    assert matches("<1:22>") and not matches("<1:>")
    with pytest.raises(CompatError, match="@loop -> @loop"):
        ours.Grammar.from_lark("start: @loop", named_grammars=named)


def test_contrib_needs_no_import_of_its_own() -> None:
    pytest.importorskip("transformers")
    code = "import guiderail.compat.xgrammar as xgr; print(xgr.contrib.hf.LogitsProcessor.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout.strip() == "LogitsProcessor"


def test_a_logits_processor() -> None:
    torch, _ = pytest.importorskip("torch"), pytest.importorskip("transformers")
    from guiderail.compat.xgrammar.contrib.hf import LogitsProcessor

    grammar = compiled(ours, ("compile_grammar", ('root ::= "abc"',), {}, []))
    processor = LogitsProcessor(grammar)
    ids = torch.zeros(2, 1, dtype=torch.int64)
    for expected in (["a", "ab", "abc"], ["b"], ["c"], ["</s>"]):
        scores = processor(ids, torch.zeros(2, len(TOKENS)))
        assert [TOKENS[i] for i in torch.isfinite(scores[1]).nonzero().flatten().tolist()] == expected
        ids = torch.cat([ids, torch.full((2, 1), TOKENS.index(expected[0]))], dim=1)
    assert torch.isfinite(processor(ids, torch.zeros(2, len(TOKENS)))).sum(1).tolist() == [1, 1], "they may only stop"
    with pytest.raises(CompatError, match="rows"):
        processor(ids[:1], torch.zeros(1, len(TOKENS)))
    with pytest.raises(AssertionError, match="2 grammars for 3 rows"):
        LogitsProcessor([grammar, grammar])(torch.zeros(3, 1, dtype=torch.int64), torch.zeros(3, len(TOKENS)))
    with pytest.raises(AssertionError, match="forbids"):
        processor = LogitsProcessor(grammar)
        for _ in range(2):
            processor(torch.zeros(1, 1, dtype=torch.int64), torch.zeros(1, len(TOKENS)))
    for bad in ([], "a", None, [grammar, "a"]):
        with pytest.raises(CompatError, match="CompiledGrammar"):
            LogitsProcessor(bad)


_FUNCTIONS = [{"type": "function", "function": {"name": name}} for name in "fg"]
_SEARCH = {"type": "web", "name": "search"}
_TOOLS: list[Any] = [None, [], _FUNCTIONS, [*_FUNCTIONS, _SEARCH], [_SEARCH, _SEARCH], {}, [3]]
_CHOICES: list[Any] = [
    None, "auto", "none", "required", "any", {"type": "function", "function": {"name": "g"}}, {"type": "web"},
    {"type": "function", "function": {"name": "h"}},
    *({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}
      for mode in ("auto", "required") for tools in ([], [_FUNCTIONS[0]], [{"type": "web"}], [{"type": "function"}])),
]  # fmt: skip


def test_tools_and_choices_are_read_as_there() -> None:
    theirs = pytest.importorskip("xgrammar")

    def normal(library: Any, tools: Any, choice: Any) -> Any:
        try:
            functions, others, simplified = library.normalize_tool_choice(tools, choice)
        except ValueError:
            return None
        return [[one.model_dump() for one in part] for part in (functions, others)], simplified

    for tools in _TOOLS:
        for choice in _CHOICES:
            assert normal(ours, tools, choice) == normal(theirs, tools, choice), (tools, choice)


def test_registered_structural_tags() -> None:
    @ours.register_model_structural_tag("of this test")
    def made(functions: Any, others: Any, choice: str, reasoning: str, **options: Any) -> Any:
        assert (choice, reasoning, options["any_order"]) == ("forced", "disabled", True)
        names = [one.function.name for one in functions]
        return ours.StructuralTag(format={"type": "const_string", "value": names[0]})

    choice = {"type": "function", "function": {"name": "g"}}
    tag = ours.get_model_structural_tag("of this test", _FUNCTIONS, choice, reasoning=False, any_order=True)
    assert ours.Grammar.from_structural_tag(tag).constraint.matches("g")
    with pytest.raises(ValueError, match="reasoning must be"):
        ours.get_builtin_structural_tag("of this test", reasoning="high")
    assert ours.openai_tool_call_schema.FunctionToolParam(**_FUNCTIONS[0]).function.strict is None


def _read_anew(grammar: ours.Grammar) -> ours.Grammar:
    return ours.Grammar.deserialize_json(grammar.serialize_json())


@pytest.mark.parametrize("how", ["concat", "union", "lark"])
def test_grammars_that_share_their_parts(how: str) -> None:
    def doubled(one: ours.Grammar) -> ours.Grammar:
        if how == "lark":
            return ours.Grammar.from_lark("start: @a @b", named_grammars={"a": one, "b": one})
        return getattr(ours.Grammar, how)(one, one)  # type: ignore[no-any-return]

    def nested() -> ours.Grammar:
        made = ours.Grammar.from_regex("a?")
        for _ in range(60):  # written out, it has 2^60 parts
            made = doubled(made)
        return made

    compiler = ours.GrammarCompiler(ours.TokenizerInfo(["a", "b", "</s>"], stop_token_ids=2))
    compiled = compiler.compile_grammar(nested())
    assert compiler.compile_grammar(nested()) is compiler.compile_grammar(_read_anew(nested())) is compiled
    matcher = ours.GrammarMatcher(compiled)
    assert [matcher.accept_token(token) for token in (1, 0, 0, 2)] == [False, True, how != "union", True]
    assert matcher.get_captures() == []


@pytest.mark.parametrize("how", ["concat", "union"])
def test_grammars_joined_one_by_one(how: str) -> None:
    grammar, letter = ours.Grammar.from_regex("a"), ours.Grammar.from_regex("b?")
    for _ in range(2_000):
        grammar = getattr(ours.Grammar, how)(grammar, letter)
    compiler = ours.GrammarCompiler(ours.TokenizerInfo(["a", "b", "</s>"], stop_token_ids=2))
    matcher = ours.GrammarMatcher(compiler.compile_grammar(_read_anew(grammar)))
    assert [matcher.accept_token(token) for token in (0, 1, 2)] == [True, how == "concat", True]


@pytest.mark.parametrize(
    "recipes",
    [
        None,
        [],
        [1],
        [{"kind": "ebnf", "text": 'root ::= "a"', "options": {}, "parts": []}],
        [{"kind": "ebnf", "text": 5, "options": {"root": "root"}, "parts": []}],
        [{"kind": "ebnf", "text": 'root ::= "a"', "options": {"root": 5}, "parts": []}],
        [{"kind": "concat", "text": "", "options": {}, "parts": [0]}],
        [{"kind": "concat", "text": "", "options": {}, "parts": 5}],
        [{"kind": "schema", "text": "{}", "options": {"x": 1}, "parts": []}],
        [{"kind": "lark", "text": 'start: "a"', "options": {"names": ["b"]}, "parts": []}],
        [{"kind": "structural_tag", "text": "{", "options": {}, "parts": []}],
        [{"kind": "regex", "text": "a", "options": [], "parts": []}],
        [{"kind": "in_order", "text": "", "options": {}, "parts": []}],
    ],
)
def test_what_is_no_serialized_grammar(recipes: Any) -> None:
    text = json.dumps({"kind": "grammar", "grammar": recipes, "__VERSION__": "guiderail-1"})
    with pytest.raises(ours.DeserializeFormatError, match="not a serialized grammar"):
        ours.Grammar.deserialize_json(text)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ours.get_model_structural_tag(["llama"]),
        lambda: ours.normalize_tool_choice([5]),
        lambda: ours.normalize_tool_choice([], {1: 2}),
        lambda: ours.Grammar.from_structural_tag([1.0], ["<"]),
        lambda: ours.Grammar.from_structural_tag([("a", "b")], ["<"]),
        lambda: ours.BatchGrammarMatcher(np.zeros(2)),
        lambda: ours.BatchGrammarMatcher.batch_fill_temperature([], None),
        lambda: ours.BatchGrammarMatcher.batch_fill_temperature([], (1.0,)),
        lambda: ours.BatchGrammarMatcher.batch_accept_token([], int),
        lambda: ours.set_max_recursion_depth(np.zeros(2)),
        lambda: ours.apply_token_bitmask_inplace(np.zeros(4), np.zeros(1, np.int32), backend=np.zeros(2)),
        lambda: ours.testing.bool_mask_to_bitmask([True]),
        lambda: ours.testing._is_grammar_accept_string('root ::= "a"', "a", color=1),
    ],
)
def test_what_has_another_type_is_an_error_of_guiderail(call: Callable[[], Any]) -> None:
    pytest.importorskip("torch")
    with pytest.raises(gr.GuiderailError):
        call()
