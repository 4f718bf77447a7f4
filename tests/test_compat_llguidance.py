"""``guiderail.compat.llguidance`` against the library itself: the same calls, the same answers."""

from __future__ import annotations

import copy
import importlib
import inspect
import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import guiderail as gr
import guiderail.compat.llguidance as ours
import guiderail.compat.llguidance.numpy as arrays
from guiderail.compat.llguidance.gbnf_to_lark import any_to_lark
from guiderail.compat.llguidance.tiktoken import lltokenizer_from_encoding

EOS = 261  # of the tokenizer "byte"
PAIR = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
    "required": ["a", "b"],
}

# the grammar's function, its arguments, texts (whole ones, prefixes and others)
GRAMMARS: list[tuple[str, tuple[Any, ...], dict[str, Any], list[str]]] = [
    ("grammar_from_json_schema", (PAIR,), {}, ['{"a":1,"b":"x"}', '{ "a" : 1 ,\n "b" : "x" }', '{"b":""}', ' {"a":1}']),
    ("grammar_from_json_schema", (json.dumps(PAIR),), {}, ['{"a":1,"b":"x","c":[null]}', '{"a": 1']),
    (
        "grammar_from_json_schema",
        (PAIR,),
        {"overrides": {"whitespace_flexible": False}},
        ['{"a":1,"b":"x"}', '{"a": 1,"b":"x"}'],
    ),
    (
        "grammar_from_json_schema",
        (PAIR,),
        {"defaults": {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}},
        ['{"a": 1, "b": "x"}', '{"a":1,"b":"x"}'],
    ),
    (
        "grammar_from_json_schema",
        ({**PAIR, "x-guidance": {"whitespace_pattern": r"[\x20\x0A\x0D\x09]{0,2}"}},),
        {},
        ['{"a":1,"b":"x"}', '{  "a":1,"b":"x"}'],
    ),
    (
        "grammar_from_json_schema",
        (PAIR,),
        {"overrides": {"whitespace_pattern": "[ ]{0,2}"}},
        ['{ "a" :1,  "b":"x"}', '{   "a":1}', '{\n"a":1}'],
    ),
    (
        "grammar_from_json_schema",
        (PAIR,),
        {"overrides": {"item_separator": r"[ ]{0,2},", "whitespace_flexible": False}},
        ['{"a":1  ,"b":"x"}', '{"a":1, "b":"x"}'],
    ),
    (
        "grammar_from_json_schema",
        (PAIR,),
        {"overrides": {"item_separator": ", "}},
        ['{"a":1 ,   "b":"x"}', '{"a":1,"b":"x"}'],
    ),
    (
        "grammar_from_json_schema",
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]},),
        {"overrides": {"coerce_one_of": True}},
        ["1", "1.5", "true"],
    ),
    ("grammar_from_json_schema", ({"type": "string"},), {}, ['"a\\n\\u0001é"', '"\\u0041"', '"\\/"', '"\n"']),
    ("grammar_from_json_schema", ({"enum": ["a/b", 1]},), {}, ['"a/b"', '"a\\/b"', "1", "2"]),
    ("grammar_from_json_schema", (True,), {}, ["[1]", '{"a":{}}', "nul", "x"]),
    ("grammar_from_regex", (r"[a-c]+/[0-9]{2}",), {}, ["ab/12", "ab/1", "/12"]),
    ("grammar_from_lark", ('start: "x" item ("," item)*\nitem: /[0-9]+/',), {}, ["x1,22", "x1,", "x,"]),
    ("grammar_from_lark", ('start: "a" "b"? "c"?',), {}, ["a", "ab", "abc", "ac", "abb"]),
]
STEPS: list[tuple[str, tuple[Any, ...]]] = [
    ("is_accepting", ()),
    ("compute_ff_bytes", ()),
    ("compute_ff_tokens", ()),
    ("validate_tokens", ([97, 98, EOS, EOS],)),
    ("try_consume_tokens", ([97, 120],)),
    ("is_accepting", ()),
    ("rollback", (1,)),
    ("consume_tokens", ([97, 98],)),
    ("is_stopped", ()),
    ("consume_token", (EOS,)),
    ("is_accepting", ()),
    ("is_stopped", ()),
    ("stop_reason", ()),
    ("validate_tokens", ([97],)),
    ("try_consume_tokens", ([97],)),
    ("compute_bitmask", ()),
    ("rollback", (1,)),
    ("is_accepting", ()),
    ("compute_logit_bias", ()),
    ("reset", ()),
    ("consume_token", (97,)),
    ("rollback", (7,)),
    ("is_error", ()),
    ("is_stopped", ()),
    ("stop_reason", ()),
    ("reset", ()),
    ("consume_token", (97,)),
    ("compute_bitmask", ()),
    ("compute_ff_tokens", ()),
]


@pytest.fixture(scope="module")
def theirs() -> Any:
    return pytest.importorskip("llguidance")


def grammar(library: Any, case: tuple[str, tuple[Any, ...], dict[str, Any], list[str]]) -> Any:
    return getattr(library.LLMatcher, case[0])(*case[1], **case[2])


def bits(mask: bytes) -> list[int]:
    return np.flatnonzero(np.unpackbits(np.frombuffer(mask, np.uint8), bitorder="little")).tolist()


@pytest.mark.parametrize("case", GRAMMARS, ids=[f"{case[0]}-{i}" for i, case in enumerate(GRAMMARS)])
def test_texts_and_masks(theirs: Any, case: tuple[str, tuple[Any, ...], dict[str, Any], list[str]]) -> None:
    matchers = [
        library.LLMatcher(library.LLTokenizer("byte"), grammar(library, case), log_level=0)
        for library in (ours, theirs)
    ]
    assert [matcher.get_error() for matcher in matchers] == ["", ""]
    for text in case[3]:
        twins = [matcher.deep_copy() for matcher in matchers]
        data = list(text.encode())
        assert twins[0].validate_tokens(data) == twins[1].validate_tokens(data), text
        for byte in data:
            assert twins[0].is_accepting() == twins[1].is_accepting()
            inside = case[1][0] == {"type": "string"} or b'"' in bytes(data)
            if not inside:
                assert bits(twins[0].compute_bitmask()) == bits(twins[1].compute_bitmask()), text
            if [twin.try_consume_tokens([byte]) for twin in twins] != [1, 1]:
                break
        assert twins[0].is_accepting() == twins[1].is_accepting()
        assert twins[0].is_stopped() == twins[1].is_stopped()


@pytest.mark.parametrize("text", ['start: "a" "b"', 'start: "a" "b"?', 'start: "ab" /c*d/', 'start: "x"', "start: ("])
def test_each_step_is_answered_alike(theirs: Any, text: str) -> None:
    mine, other = (library.LLMatcher(library.LLTokenizer("byte"), text, log_level=0) for library in (ours, theirs))
    for name, args in STEPS:
        answers = getattr(mine, name)(*args), getattr(other, name)(*args)
        assert answers[0] == answers[1], (name, args)
        assert bool(mine.get_error()) == bool(other.get_error()), (name, args)


def test_tokenizers(theirs: Any) -> None:
    class Words:
        eos_token_id = 3
        bos_token_id = None
        tokens = (b"a", b"b", b"ab", b"</s>", b"")
        special_token_ids = (3,)

        def __call__(self, text: bytes) -> list[int]:
            return [i for byte in text for i in (0, 1) if self.tokens[i] == bytes([byte])]

    made = []
    for library in (ours, theirs):
        byte = library.LLTokenizer("byte")
        words = library.LLTokenizer(library.TokenizerWrapper(Words()), eos_token=[3, 4])
        made.append(
            [
                [(t.vocab_size, t.eos_token, t.eos_tokens, t.is_canonical) for t in (byte, words)],
                byte.tokenize_str("hé\n"),
                byte.tokenize_bytes(b"a\xff"),
                byte.dbg_tokens([104, 10, 255, EOS]),
                byte.test_trace_tokens([104, 105]),
                byte.decode_bytes([104, 195]),
                byte.tokenize_partial(b"hello"),
                [byte.is_special_token(token) for token in (97, 256, EOS)],
                words.greedy_tokenize("abab"),
                words.tokenize_str("ab"),
                words.decode_str([2, 0]),
            ]
        )
    assert made[0] == made[1]
    with pytest.raises(ValueError, match="loaded"):
        ours.LLTokenizer("{not json")
    special = ours.LLTokenizer("byte").tokenize_str("a<|end|>b", parse_special=True)
    assert special == [97, EOS, 98]


def test_a_tokenizer_of_transformers(theirs: Any) -> None:
    tokenizers, transformers = pytest.importorskip("tokenizers"), pytest.importorskip("transformers")
    from guiderail.compat.llguidance import hf

    words = {c: i for i, c in enumerate('abcdefghijklmnopqrstuvwxyz{}":,0123456789Ġ')}
    words |= {"ab": len(words), "</s>": len(words) + 1}
    model = tokenizers.models.BPE(words, [("a", "b")])
    backend = tokenizers.Tokenizer(model)
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    backend.add_special_tokens(["</s>"])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>")
    import llguidance.hf

    mine, other = hf.from_tokenizer(fast, 64), llguidance.hf.from_tokenizer(fast, 64)
    assert (mine.vocab_size, mine.eos_token) == (other.vocab_size, other.eos_token)
    assert mine.tokenize_str("cab0") == other.tokenize_str("cab0")
    text = 'start: "ab" /[0-9]+/'
    masks = [lib.LLMatcher(t, text).compute_bitmask() for lib, t in ((ours, mine), (theirs, other))]
    assert set(bits(masks[1])) <= set(bits(masks[0])), "llguidance allows the tokenizer's own spelling alone"
    assert ours.LLTokenizer(backend.to_str(), eos_token=words["</s>"]).tokenize_str("ab") == [words["ab"]]


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_batches_and_drafts(theirs: Any, kind: str) -> None:
    pytest.importorskip(kind)
    from importlib import import_module

    rows = []
    for library in (ours, theirs):
        helpers = import_module(f"{library.__name__}.{kind}")
        tokenizer = library.LLTokenizer("byte")
        matchers = [library.LLMatcher(tokenizer, 'start: "a" "b" /c+/?', log_level=0) for _ in range(2)]
        executor = library.LLExecutor(2)
        assert helpers.consume_token_par(executor, [(matchers[0], 97), (matchers[1], 98)]) == [True, False]
        mask = helpers.allocate_token_bitmask(8, tokenizer.vocab_size)
        helpers.fill_next_token_bitmask_par(executor, [(matchers[0], 2), (matchers[1], 0)], mask)
        helpers.fill_next_token_bitmask_par_with_draft_tokens(executor, [(matchers[0], 3, [98, 99, EOS, 97])], mask)
        helpers.fill_next_token_bitmask(matchers[0], mask, 1)
        with pytest.raises((ValueError, TypeError)):
            helpers.fill_next_token_bitmask_par(executor, [(matchers[0], 8)], mask)
        rows.append(gr.bitmask_to_bool(mask, tokenizer.vocab_size))
        assert matchers[0].consume_tokens([98, 99]), "drafts have read nothing"
        if kind == "numpy":
            logits = np.zeros((1, 300), np.float32)
            helpers.apply_token_bitmask_inplace(logits, np.asarray(mask)[1])
            assert np.flatnonzero(np.isfinite(logits[0])).tolist() == [98]
    assert np.array_equal(*rows)


BAD = ["start: (", "", '{"grammars": []}', '{"foo": 1}', "{", '{"grammars": [{"json_schema": {"type": "nope"}}]}']


@pytest.mark.parametrize("text", BAD)
def test_bad_grammars_raise_nothing(theirs: Any, text: str) -> None:
    for library in (ours, theirs):
        tokenizer = library.LLTokenizer("byte")
        matcher = library.LLMatcher(tokenizer, text, log_level=0)
        assert matcher.is_error() and matcher.get_error() and matcher.is_stopped()
        assert not matcher.consume_token(97) and not matcher.rollback(1) and matcher.compute_ff_tokens() == []
        assert bits(matcher.compute_bitmask()) == [EOS]
        assert library.LLMatcher.validate_grammar(text)
        wrong, told = library.LLMatcher.validate_grammar_with_warnings(text, tokenizer)
        assert wrong and len(told) == 1
        with pytest.raises(ValueError):
            library.LLInterpreter(tokenizer, text)
    with pytest.raises(TypeError):
        ours.LLMatcher(3, text)  # type: ignore[arg-type]


def made(library: Any, **options: Any) -> Any:
    return library.LLMatcher(library.LLTokenizer("byte"), "start: /ab*/", log_level=0, **options)


def asked(library: Any) -> Any:
    interpreter = library.LLInterpreter(
        library.LLTokenizer("byte"), '{"grammars": [{"lark_grammar": "start: /[ab]b*/"}]}', log_level=0
    )
    interpreter.start_without_prompt()
    interpreter.compute_mask()
    return interpreter


def failed(library: Any) -> Any:
    interpreter = asked(library)
    with pytest.raises(ValueError, match="doesn't satisfy"):
        interpreter.commit_token(5)
    return interpreter


def converted(library: Any, text: str) -> Any:
    module = importlib.import_module(f"{library.__name__}.gbnf_to_lark")
    try:
        return module.gbnf_to_lark(text)
    except module.GbnfToLarkError as error:
        if isinstance(error, ValueError):
            raise
        raise ValueError(str(error)) from error  # theirs is a plain Exception


def filled(library: Any, mask: Any, index: Any = 0) -> Any:
    importlib.import_module(f"{library.__name__}.numpy").fill_next_token_bitmask(made(library), mask, index)


def tensor_filled(library: Any) -> Any:
    torch = pytest.importorskip("torch")
    module = importlib.import_module(f"{library.__name__}.torch")
    return module.fill_next_token_bitmask(made(library), torch.zeros((1, 9), dtype=torch.int64))


def applied(library: Any, logits: Any, mask: Any) -> Any:
    return importlib.import_module(f"{library.__name__}.numpy").apply_token_bitmask_inplace(logits, mask)


def wrapped(library: Any, end: int) -> Any:
    class Words:
        eos_token_id, bos_token_id, tokens = end, None, [b"a", b"b", b"</s>"]

        def __call__(self, text: Any) -> list[int]:
            return [0 if one in (97, "a") else 1 for one in text]

    return library.LLTokenizer(library.TokenizerWrapper(Words()))


MASK = np.zeros((1, 9), np.int32)

# a call on either library, and what both raise
MISUSED: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "a token that is a text": (lambda x: made(x).consume_token("1"), TypeError),
    "a token that is a fraction": (lambda x: made(x).consume_token(1.5), TypeError),
    "tokens that are a text": (lambda x: made(x).consume_tokens("ab"), TypeError),
    "tokens that are None": (lambda x: made(x).validate_tokens(None), TypeError),
    "tokens that are a number": (lambda x: made(x).try_consume_tokens(5), TypeError),
    "steps that are None": (lambda x: made(x).rollback(None), TypeError),
    "limits that are a number": (lambda x: made(x, limits=5), TypeError),
    "a limit that is a text": (lambda x: x.LLParserLimits(max_items_in_row="a"), TypeError),
    "a matcher of a text": (lambda x: x.LLMatcher("byte", "start: /a/"), TypeError),
    "no end token": (lambda x: x.LLTokenizer("byte", None, []), ValueError),
    "an end token that is a text": (lambda x: x.LLTokenizer("byte", None, "5"), ValueError),
    "a tokenizer that is None": (lambda x: x.LLTokenizer(None), ValueError),
    "slices that are a number": (lambda x: x.LLTokenizer("byte", None, None, 5), TypeError),
    "bytes that are a text": (lambda x: x.LLTokenizer("byte").tokenize_bytes("a"), TypeError),
    "a text that is bytes": (lambda x: x.LLTokenizer("byte").greedy_tokenize(b"a"), TypeError),
    "threads that are a text": (lambda x: x.LLExecutor("a"), TypeError),
    "a format that is none": (lambda x: x.grammar_from("nope", "a"), ValueError),
    "a grammar that is None": (lambda x: x.grammar_from("lark", None), TypeError),
    "options for no object": (lambda x: x.LLMatcher.grammar_from_json_schema(5, {"lenient": True}), ValueError),
    "a schema that is bytes": (lambda x: x.LLMatcher.grammar_from_json_schema(b"{}"), ValueError),
    "a schema that is no JSON": (lambda x: x.LLMatcher.grammar_from_json_schema("x", {"lenient": True}), ValueError),
    "a compiler of None": (lambda x: x.JsonCompiler().compile(None), TypeError),
    "separators as a text": (lambda x: x.JsonCompiler(separators=",:"), TypeError),
    "a tag without a trigger": (lambda x: x.StructTag(trigger="", begin="", grammar={}, end=""), AssertionError),
    "no tags": (lambda x: x.StructTag.to_grammar([]), AssertionError),
    "a row too many": (lambda x: filled(x, MASK, 1), IndexError),
    "a mask that is short": (lambda x: filled(x, MASK[:, :2].copy()), ValueError),
    "a prompt that is a text": (lambda x: asked(x).process_prompt("ab"), (TypeError, ValueError)),
    "a token that the grammar forbids": (lambda x: asked(x).commit_token(5), ValueError),
    "no token after a mask": (lambda x: asked(x).commit_token(None), ValueError),
    "a mask after an error": (lambda x: failed(x).compute_mask(), ValueError),
    "a grammar in GBNF that ends early": (lambda x: converted(x, 'root ::= "a'), ValueError),
    "a mask of one dimension": (lambda x: filled(x, MASK[0]), AssertionError),
    "a mask of 64 bits": (lambda x: filled(x, MASK.astype(np.int64)), AssertionError),
    "a mask whose rows are apart": (lambda x: filled(x, np.zeros((1, 18), np.int32)[:, ::2]), AssertionError),
    "a tensor of 64 bits": (lambda x: tensor_filled(x), AssertionError),
    "logits with more rows": (lambda x: applied(x, np.zeros((2, 262), np.float32), MASK), AssertionError),
    "logits under 64 bits": (lambda x: applied(x, np.ones((1, 9), np.float32), MASK.astype(np.int64)), AssertionError),
    "a target of the wrong type": (lambda x: asked(x).compute_mask_into(bytes(262)), TypeError),
}


@pytest.mark.parametrize("name", MISUSED)
def test_misuse_is_caught_by_the_same_clauses(theirs: Any, name: str) -> None:
    call, kind = MISUSED[name]
    with pytest.raises(kind):
        call(theirs)
    with pytest.raises(kind) as told:
        call(ours)
    assert isinstance(told.value, gr.GuiderailError)


@pytest.mark.parametrize("tokens", [[97], (97,), b"a", np.array([97]), range(97, 98), []], ids=repr)
def test_lists_of_tokens_in_any_form(theirs: Any, tokens: Any) -> None:
    for library in (ours, theirs):
        assert made(library).consume_tokens(tokens)
        assert made(library).validate_tokens(tokens) == made(library).try_consume_tokens(tokens) == len(tokens)


def test_nothing_is_read_after_the_end(theirs: Any) -> None:
    for library in (ours, theirs):
        matcher = made(library)
        assert matcher.consume_tokens([97, EOS]) and matcher.try_consume_tokens([EOS]) == 0
        assert not matcher.is_error()
        assert not matcher.consume_token(97) and matcher.is_error()
        assert matcher.consume_token(EOS) and not matcher.consume_tokens([])
        tokenizer = library.LLTokenizer("byte")
        assert tokenizer.dbg_tokens([97, 999]) == "⟦a‧≺OOB[999]≻⟧"
        assert tokenizer.test_trace_tokens([97, EOS]) == "a‧≺EOS≻"


def test_masks_that_cannot_be_written() -> None:
    read_only = np.broadcast_to(np.zeros(9, np.int32), (1, 9))
    with pytest.raises(ValueError, match="read-only"):
        filled(ours, read_only)
    assert not read_only.any()
    with pytest.raises(TypeError, match="row"):
        filled(ours, MASK.copy(), None)
    with pytest.raises(ValueError, match="0 or more"):
        made(ours).rollback(-1)


def test_options_of_other_types_are_faults_of_the_grammar(theirs: Any) -> None:
    for own in (5, "a", {"whitespace_flexible": "a"}, {"lenient": 1}, {"item_separator": 5}):
        text = json.dumps({"grammars": [{"json_schema": {"x-guidance": own}}]})
        for library in (ours, theirs):
            assert library.LLMatcher(library.LLTokenizer("byte"), text, log_level=0).is_error()


def test_copies_are_independent() -> None:
    matcher = made(ours)
    for twin in (copy.copy(matcher), copy.deepcopy(matcher)):
        assert twin.consume_token(97) and not matcher.is_accepting()


def test_what_cannot_be_kept_to_is_refused() -> None:
    tokenizer = ours.LLTokenizer("byte")
    for options, message in [
        ({"nonsense": 1}, "unknown field 'nonsense'"),
        ({"whitespace_pattern": "("}, "group"),
        ({"json_allowed_escapes": "n"}, "json_allowed_escapes"),
    ]:
        text = ours.LLMatcher.grammar_from_json_schema({}, overrides=options)
        assert message in ours.LLMatcher(tokenizer, text, log_level=0).get_error()
    limited = '{"grammars": [{"lark_grammar": "start: /a+/"}], "max_tokens": 3}'
    assert "max_tokens" in ours.LLMatcher(tokenizer, limited, log_level=0).get_error()
    loop = {"grammars": [{"lark_grammar": "start: @b"}, {"name": "b", "lark_grammar": "start: @b"}]}
    assert "@b -> @b" in ours.LLMatcher(tokenizer, loop, log_level=0).get_error()
    with pytest.raises(ValueError, match="0 or more"):
        ours.LLParserLimits(step_max_items=-3)
    with pytest.raises(TypeError, match="a number"):
        ours.LLParserLimits(step_max_items=True)
    with pytest.raises(ValueError, match="out of range"):  # llguidance takes it: texts would never end
        wrapped(ours, 9)
    assert pickle.loads(pickle.dumps(tokenizer)).tokenize_str("é") == [195, 169]
    with pytest.warns(UserWarning, match="max_step_work"):
        ours.LLParserLimits(step_max_items=3)
    assert ours.LLParserLimits().max_items_in_row == 2000


def test_named_grammars(theirs: Any) -> None:
    spec = {
        "grammars": [
            {"lark_grammar": 'start: "<" @pair ">"'},
            {"name": "pair", "lark_grammar": 'start: @number ":" @number'},
            {"name": "number", "json_schema": {"type": "integer"}},
        ]
    }
    for library in (ours, theirs):
        tokenizer = library.LLTokenizer("byte")
        for made in (spec, json.dumps(spec)):
            matcher = library.LLMatcher(tokenizer, made)
            assert matcher.try_consume_tokens(list(b"<1:22>")) == 6 and matcher.is_stopped()


def test_captures(theirs: Any) -> None:
    text = 'start: x y\nx[capture]: /[0-9]+/ ","\ny[capture="z"]: /[a-z]/'
    for library in (ours, theirs):
        matcher = library.LLMatcher(library.LLTokenizer("byte"), text)
        assert matcher.consume_tokens(list(b"12,a"))
        assert matcher.get_captures() == [("x", b"12,"), ("z", b"a")]
        assert matcher.get_capture("x") == b"12," and matcher.get_capture("q") is None


def test_sources(theirs: Any) -> None:
    for library in (ours, theirs):
        tokenizer = library.LLTokenizer("byte")

        def fits(text: str, sample: str, library: Any = library, tokenizer: Any = tokenizer) -> bool:
            matcher = library.LLMatcher(tokenizer, text, log_level=0)
            return matcher.try_consume_tokens(list(sample.encode())) == len(sample) and matcher.is_accepting()

        source = library.grammar_from
        assert fits(source("choice", '["a", "b\\"c"]'), 'b"c') and not fits(source("choice", '["a", "b"]'), "c")
        assert fits(source("gbnf", 'root ::= "a" root | [0-9]+'), "aa1")
        assert fits(source("ebnf", 'start: "a"'), "a") and fits(source("regex", "a+"), "aa")
        assert fits(source("json", '{"type": "null"}'), "null") and fits(source("llguidance", 'start: "q"'), "q")
        for bad in (("nope", "a"), ("gbnf", "root ::= (")):
            with pytest.raises(ValueError):
                source(*bad)
        assert fits(library.JsonCompiler().compile(json.dumps(PAIR)), '{"a": 1, "b": ""}')
        assert fits(library.RegexCompiler().compile("a|b"), "b")
        assert fits(library.LarkCompiler().compile('start: "z"'), "z")
        with pytest.raises(ValueError):
            library.LarkCompiler().compile("start: (")
        tag = library.StructTag(trigger="<f", begin="<f=x>", grammar=PAIR, end="</f>")
        made = library.StructTag.to_grammar([tag])
        assert fits(made, 'hi <f=x>{"a":1,"b":""}</f> there') and not fits(made, "hi <f=y>")
        with pytest.raises(AssertionError):
            library.StructTag(trigger="", begin="", grammar="", end="")
    for text in (r"\d\w/\/a", r"a\\d"):
        assert ours.regex_to_lark(text, "dws") == theirs.regex_to_lark(text, "dws")
        assert ours.regex_to_lark(text, "") == theirs.regex_to_lark(text, "")


def test_the_interpreter(theirs: Any) -> None:
    def told(interpreter: Any, token: int | None) -> Any:
        mask, reply = interpreter.compute_mask()
        progress = json.loads(reply)
        for one in progress["progress"]:
            one.pop("stats", None)
        allowed = None if mask is None else [i for i, bias in enumerate(mask) if bias]
        state = interpreter.is_accepting(), interpreter.stop_reason(), interpreter.has_pending_stop()
        return allowed, progress, state, None if token is None else interpreter.commit_token(token)

    for options in ({}, {"enable_ff_tokens": False, "enable_backtrack": False}):
        texts = [[49, 120, None]] if not options else [[49, 120, 121, None]]
        for text in texts:
            made = [
                library.LLInterpreter(library.LLTokenizer("byte"), 'start: "he" /[0-9]/ "xy"?', **options)
                for library in (ours, theirs)
            ]
            assert made[0].process_prompt([97]) == made[1].process_prompt([97])
            assert made[0].validate_tokens_raw([49, 120, 33]) == made[1].validate_tokens_raw([49, 120, 33])
            for token in text:
                answers = [told(interpreter, token) for interpreter in made]
                assert answers[0] == answers[1], token
            for interpreter in made:
                with pytest.raises(ValueError, match="after stop"):
                    interpreter.compute_mask()
    for library in (ours, theirs):
        with pytest.raises(ValueError, match="backtrack"):
            library.LLInterpreter(library.LLTokenizer("byte"), 'start: "a"', enable_ff_tokens=False)


def test_the_interpreter_without_a_mask(theirs: Any) -> None:
    """Without a mask, llguidance ignores the token; that is refused here, and nothing changes."""
    for library in (ours, theirs):
        interpreter = library.LLInterpreter(library.LLTokenizer("byte"), "start: /[ab]c/", log_level=0)
        assert interpreter.commit_token(None) == (0, [])
        interpreter.start_without_prompt()
        assert interpreter.commit_token(None) == (0, [])
        interpreter.compute_mask()
        assert interpreter.commit_token(97) == (0, [97, 99])
    interpreter = ours.LLInterpreter(ours.LLTokenizer("byte"), "start: /[ab][ab]c/", log_level=0)
    for before in (97, 98):
        with pytest.raises(ValueError, match="compute_mask"):
            interpreter.commit_token(before)
        interpreter.compute_mask()
        assert interpreter.commit_token(97) == (0, [97] if before == 97 else [97, 99])


GBNF = 'root ::= [a-z]+ "end" end?\nend ::= "." | "!"'


def test_gbnf_where_lark_is_expected(theirs: Any) -> None:
    from guiderail.compat.llguidance import gbnf_to_lark

    text = gbnf_to_lark.gbnf_to_lark(GBNF)
    tokenizer = ours.LLTokenizer("byte")
    named = json.dumps({"grammars": [{"lark_grammar": 'start: "<" @x ">"'}, {"name": "x", "lark_grammar": text}]})
    for grammar, written in [
        (text, "bend!"),
        (gbnf_to_lark.any_to_lark(GBNF), "bend"),
        (ours.LLMatcher.grammar_from_lark(text), "bend."),
        (ours.LarkCompiler().compile(text), "aend"),
        (ours.grammar_from("lark", text), "aend"),
        (named, "<aend>"),
    ]:
        matcher = ours.LLMatcher(tokenizer, grammar)
        assert matcher.consume_tokens(tokenizer.tokenize_str(written)), matcher.get_error()
        assert matcher.is_accepting()
    module = importlib.import_module("llguidance.gbnf_to_lark")
    for lark in ('start: "a ::= b"', "  start : /a/", "%llguidance {}\nstart: A", "A: /a/", "root ::= start"):
        assert gbnf_to_lark.is_lark_syntax(lark) == module.is_lark_syntax(lark)
    assert ours.grammar_from("ebnf", 'start: "a ::= b"') == theirs.grammar_from("ebnf", 'start: "a ::= b"')
    assert not gbnf_to_lark.is_lark_syntax('start ::= "a"')  # llguidance takes this for Lark
    with pytest.raises(gbnf_to_lark.GbnfToLarkError, match=r"(?s)no rule 'y'.*position 9"):
        gbnf_to_lark.gbnf_to_lark("root ::= y")


_A, _B = 97, 98
CALLS: dict[str, list[tuple[Any, ...]]] = {
    "a stop token after the end": [("consume_tokens", [_A, _B]), ("consume_tokens", [EOS]), ("consume_tokens", [])],
    "a stop token in the same call": [("consume_tokens", [_A, _B, EOS]), ("rollback", 1), ("consume_tokens", [EOS])],
    "two of them": [("consume_tokens", [_A, _B, EOS, EOS]), ("consume_token", EOS)],
    "one by one": [("consume_token", _A), ("consume_token", _B), ("consume_token", EOS), ("rollback", 1)],
    "all undone": [("consume_tokens", [_A, _B, EOS]), ("rollback", 3), ("consume_tokens", [_A])],
    "too much undone": [("consume_tokens", [_A, _B, EOS]), ("rollback", 4)],
    "nothing read": [("consume_tokens", [_A, _B, EOS]), ("rollback", 1), ("consume_tokens", [])],
    "tried": [("try_consume_tokens", [_A, _B, EOS, EOS]), ("try_consume_tokens", [EOS])],
    "validated": [("validate_tokens", [_A, _B, EOS, EOS]), ("consume_tokens", [_A, _B]), ("validate_tokens", [EOS])],
    "another token": [("consume_tokens", [_A, _B]), ("consume_token", _A)],
    "reset": [("consume_tokens", [_A, _B, EOS]), ("reset",), ("consume_tokens", [_A])],
    "a stop token first": [("consume_token", EOS), ("consume_tokens", [EOS])],
}
STATE = ("is_error", "is_stopped", "stop_reason", "is_accepting", "compute_ff_tokens", "compute_bitmask")


@pytest.mark.parametrize("grammar", ['start: "ab"', 'start: "ab" | "abc"', 'start: ""', "start: /a*b?/"])
@pytest.mark.parametrize("name", CALLS)
def test_after_the_end_of_a_text(name: str, grammar: str) -> None:
    theirs = pytest.importorskip("llguidance")
    found = []
    for library in (ours, theirs):
        matcher = library.LLMatcher(library.LLTokenizer("byte"), grammar, log_level=0)
        seen = []
        for call, *arguments in CALLS[name]:
            seen.append((call, getattr(matcher, call)(*arguments), *(getattr(matcher, one)() for one in STATE)))
        found.append(seen)
    assert found[0] == found[1]


def test_names_of_parameters_and_their_defaults_are_theirs() -> None:
    """Of everything that can be called by name."""
    theirs = pytest.importorskip("llguidance")
    for kind in ("LLMatcher", "LLExecutor", "LLInterpreter", "LLTokenizer", "JsonCompiler", "RegexCompiler"):
        for name in dir(getattr(theirs, kind)):
            if name.startswith("_") and name != "__new__":
                continue
            name = "" if name == "__new__" else name
            one, other = (getattr(library, kind) if not name else getattr(getattr(library, kind), name, None)
                          for library in (theirs, ours))  # fmt: skip
            try:
                wanted, given = (inspect.signature(one).parameters, inspect.signature(other).parameters)
            except (TypeError, ValueError):
                continue
            names = [(n, p.default) for n, p in wanted.items() if n != "self"]
            assert [(n, p.default) for n, p in given.items() if n != "self"] == names, (kind, name)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ours.TokenizerWrapper(5),
        lambda: ours.StructTag(5, "a", "b", "c"),
        lambda: ours.StructTag("<a>", b"<a>", "b", "c"),
        lambda: arrays.get_bitmask_shape("1", 8),
        lambda: arrays.get_bitmask_shape(1, [8]),
        lambda: arrays.fill_next_token_bitmask("matcher", arrays.allocate_token_bitmask(1, 8)),
        lambda: arrays.fill_next_token_bitmask_par([], [], arrays.allocate_token_bitmask(1, 8)),
        lambda: arrays.consume_token_par(None, []),
        lambda: ours.LLExecutor().unsafe_compute_mask_ptr([], 1, [4], 1),
        lambda: any_to_lark(5),
        lambda: ours.grammar_from(np.zeros(2), "a"),
        lambda: ours.RegexCompiler().compile("a", check=np.zeros(2)),
        lambda: lltokenizer_from_encoding([1]),
    ],
)
def test_what_has_another_type_is_an_error_of_guiderail(call: Callable[[], Any]) -> None:
    with pytest.raises(gr.GuiderailError):
        call()
