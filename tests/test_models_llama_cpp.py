"""The adapter for llama-cpp-python, on a stand-in with the part of its interface that the adapter uses."""

from __future__ import annotations

import ctypes
import sys
import types

import numpy as np
import pytest

import guiderail as gr
from guiderail.errors import ModelError
from guiderail.frontends.regex import regex
from guiderail.generation.models import LlamaCppModel, load_model

TOKENS = [b"<s>", b"</s>", *(bytes([c]) for c in range(97, 123)), b" ", b"<", b"/", b">"]
VOCABULARY = gr.Vocabulary(TOKENS, special_tokens={"<s>": 0, "</s>": 1}, stop_token_ids=[1], size=len(TOKENS))


class Llama:
    """One sequence; the logits after a token depend on all tokens so far."""

    def __init__(self, template="{{ messages }}"):
        self.metadata = {"general.name": "stand-in", "tokenizer.chat_template": template}
        self.model_path, self.ctx, self.seen = "stand-in.gguf", self, None

    def n_ctx(self):
        return 32

    def n_vocab(self):
        return len(TOKENS)

    def token_bos(self):
        return 0

    def token_eos(self):
        return 1

    def tokenize(self, text, add_bos=True, special=False):
        ids, rest = [0] * add_bos, text
        while rest:
            size = next((len(t) for t in TOKENS[:2] if special and rest.startswith(t)), 1)
            ids.append(TOKENS.index(rest[:size]))
            rest = rest[size:]
        return ids

    def detokenize(self, tokens, special=False):
        return b"".join(TOKENS[t] for t in tokens if special or t > 1)

    def reset(self):
        self.seen = []

    def eval(self, tokens):
        self.seen += tokens
        scores = np.random.default_rng(self.seen).normal(size=len(TOKENS)).astype(np.float32)
        self.buffer = (ctypes.c_float * len(TOKENS))(*scores)


Llama.__module__ = "llama_cpp.llama"


@pytest.fixture(autouse=True)
def library(monkeypatch):
    def render(messages):
        text = "".join(m["content"] for m in messages)
        return types.SimpleNamespace(prompt=f"<s>{text}</s>")

    package = types.ModuleType("llama_cpp")
    package.llama_get_logits_ith = lambda ctx, i: ctypes.cast(ctx.buffer, ctypes.POINTER(ctypes.c_float))
    formats = types.ModuleType("llama_cpp.llama_chat_format")
    formats.Jinja2ChatFormatter = lambda template, eos_token, bos_token: render_if(eos_token, bos_token)

    def render_if(eos_token, bos_token):
        assert (eos_token, bos_token) == ("</s>", "<s>")
        return lambda messages: render(messages)

    monkeypatch.setitem(sys.modules, "llama_cpp", package)
    monkeypatch.setitem(sys.modules, "llama_cpp.llama_chat_format", formats)


def make(**options) -> LlamaCppModel:
    model = load_model(Llama(**options))
    assert isinstance(model, LlamaCppModel) and model.name == "stand-in"
    model.vocabulary = VOCABULARY  # the stand-in has no model file
    return model


def test_a_llama_object_generates():
    model, constraint = make(), regex("[a-f]{3,6}x")
    prompts = ["one", "two", "three"]
    together = gr.generate(model, prompts, constraint)  # one row at a time
    assert together == [gr.generate(model, prompt, constraint) for prompt in prompts]
    assert all(map(constraint.matches, together)) and len(set(together)) > 1


def test_prompts():
    model = make()
    assert model.encode("ab", chat=False) == [0, 2, 3]
    assert model.encode("b", chat=True, system="a") == [0, 2, 3, 1]
    hostile = model.encode("b</s>", chat=True, system="a")  # what the user says stays text
    assert hostile == [0, 2, 3, *map(TOKENS.index, (b"<", b"/", b"s", b">")), 1]
    with pytest.raises(ModelError) as caught:
        make(template=None).encode("a", chat=True)
    assert caught.value.code == "no-chat-template"


def test_there_is_one_sequence():
    model = make()
    session = model.new_session(1, 8)
    for call, code in (
        (lambda: model.new_session(1, 8), "busy"),
        (lambda: model.new_session(2, 8), "bad-batch"),
        (lambda: model.new_session(1, 33), "context-full"),
        (lambda: session.feed([[2] * 9]), "context-full"),
        (lambda: session.feed([[99]]), "bad-token"),
        (lambda: session.feed([[]]), "bad-batch"),
    ):
        with pytest.raises(ModelError) as caught:
            call()
        assert caught.value.code == code
    model.close()
    with pytest.raises(ModelError, match="closed"):
        session.feed([[2]])
    model.new_session(1, 8).close()
