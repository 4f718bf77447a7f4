"""Vocabularies of llama.cpp through ``guiderail.compat.llguidance`` and through the library itself."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import guiderail as gr
import guiderail.compat.llguidance as ours
from guiderail.compat.llguidance._llama import _TOKENIZE
from guiderail.compat.llguidance.llamacpp import lltokenizer_from_vocab

TOKENS = [*(bytes([i]) for i in range(256)), b"ab", b"abc", b"\xff<s>", b"\xff</s>", b"", b"\xff<tool>", b"<x>", b"<y"]
END, VOCAB = 259, 1234
USER, CONTROL, NORMAL = 16, 8, 4


@pytest.fixture(scope="module")
def theirs() -> Any:
    return pytest.importorskip("llguidance")


class Llama:
    """``llama_tokenize``: the longest token first.

    ``lies``: what it returns instead of the number of tokens; ``again``: it says how much room it needs, then takes it.
    """

    def __init__(self, lies: int | None = None, again: bool = False) -> None:
        self.lies, self.again = lies, again
        self.asked: list[int] = []
        self.function = _TOKENIZE(self.tokenize)  # kept, as the address does not keep it
        self.address = ctypes.cast(self.function, ctypes.c_void_p).value

    def tokenize(self, vocab: int, text: bytes, size: int, out: Any, room: int, begin: bool, special: bool) -> int:
        assert (vocab, begin) == (VOCAB, False)
        self.asked.append(room)
        if self.lies is not None:
            return self.lies
        found, at, text = [], 0, text[:size]
        while at < size:
            token = next((i for i in (257, 256) if text.startswith(TOKENS[i], at)), text[at])
            found.append(token)
            at += len(TOKENS[token])
        if len(found) > room or (self.again and len(self.asked) % 2):
            return -len(found)
        for i, token in enumerate(found):
            out[i] = token
        return len(found)


@pytest.fixture
def llama() -> Iterator[Llama]:
    yield Llama()


def made(library: Any, llama: Llama, **changed: Any) -> Any:
    given = {"tokens": TOKENS, "vocab_ptr": VOCAB, "tokenize_fptr": llama.address, "eos_token": END, **changed}
    return library.LLTokenizer.from_llamacpp(**given)


def test_the_tokens(theirs: Any, llama: Llama) -> None:
    mine, other = made(ours, llama), made(theirs, Llama())
    for name in ("vocab_size", "eos_token", "eos_tokens", "is_canonical"):
        assert getattr(mine, name) == getattr(other, name)
    for text in (b"abcab x", b"a\xffb", "aéb€".encode()[:-1], b"", b"a<s>b"):
        assert mine.tokenize_bytes(text) == other.tokenize_bytes(text)
    for token in sorted({*range(len(TOKENS))} - {255}):  # a byte that is no text, which llguidance calls special
        assert mine.is_special_token(token) == other.is_special_token(token), token
        if TOKENS[token]:
            assert mine.decode_bytes([token]) == other.decode_bytes([token]), token
    assert mine.dbg_tokens([258, 260, 97]) == other.dbg_tokens([258, 260, 97])
    assert made(ours, llama, eos_token=[END, 258]).eos_tokens == made(theirs, Llama(), eos_token=[END, 258]).eos_tokens
    assert made(ours, Llama(again=True)).tokenize_str("abcab x") == [257, 256, 32, 120]


def test_a_grammar(theirs: Any, llama: Llama) -> None:
    for library in (ours, theirs):
        tokenizer = made(library, llama)
        matcher = library.LLMatcher(tokenizer, 'start: <tool> "abc" /[a-c]/ <s>', log_level=0)
        assert matcher.consume_tokens([261, 257, 97, 258])
        assert matcher.is_accepting()


def test_what_cannot_be_a_vocabulary(theirs: Any, llama: Llama) -> None:
    wrong: list[tuple[dict[str, Any], type[Exception]]] = [
        ({"tokens": ["a"]}, TypeError),
        ({"vocab_ptr": 0}, ValueError),
        ({"tokenize_fptr": 0}, ValueError),
        ({"vocab_ptr": "x"}, TypeError),
        ({"eos_token": None}, ValueError),
        ({"eos_token": []}, ValueError),
        ({"eos_token": 999}, ValueError),
    ]
    for changed, kind in wrong:
        with pytest.raises(kind):
            made(theirs, llama, **changed)
        with pytest.raises(kind) as told:
            made(ours, llama, **changed)
        assert isinstance(told.value, gr.GuiderailError)


@pytest.mark.parametrize("answer", [-(2**31), -5, 10**6, -(10**9)])
def test_a_tokenizer_that_fails(answer: int) -> None:
    """No tokens are invented: the longest ones that spell the text come instead."""
    llama = Llama(answer)
    assert made(ours, llama).tokenize_str("abx") == [256, 120]
    assert len(llama.asked) <= 4


def test_the_vocabulary_of_a_model(theirs: Any, llama: Llama, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {258: CONTROL, 259: CONTROL, 261: USER, 262: USER, 263: USER}

    def piece(vocab: int, token: int, buffer: Any, room: int, strip: int, special: bool) -> int:
        text = TOKENS[token].removeprefix(b"\xff") if token > 255 else TOKENS[token]
        buffer[: len(text)] = text
        return len(text)

    fake = SimpleNamespace(
        llama_vocab_p=int,  # in an annotation
        llama_vocab_n_tokens=lambda vocab: len(TOKENS),
        llama_vocab_eos=lambda vocab: END,
        llama_token_to_piece=piece,
        llama_token_get_attr=lambda vocab, token: kinds.get(token, NORMAL),
        LLAMA_TOKEN_ATTR_USER_DEFINED=USER,
        LLAMA_TOKEN_ATTR_CONTROL=CONTROL,
        llama_cpp=SimpleNamespace(_lib=SimpleNamespace(llama_tokenize=llama.function)),
    )
    monkeypatch.setitem(sys.modules, "llama_cpp", fake)
    from llguidance.llamacpp import lltokenizer_from_vocab as other

    for size in (None, 300, 3):
        both = [function(VOCAB, n_vocab=size) for function in (lltokenizer_from_vocab, other)]
        assert both[0].vocab_size == both[1].vocab_size
        assert both[0].eos_tokens == both[1].eos_tokens == [END]
        special = [[i for i in range(len(TOKENS)) if one.is_special_token(i) and i != 255] for one in both]
        assert special[0] == special[1]
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    with pytest.raises(gr.GuiderailError, match="llama-cpp-python"):
        lltokenizer_from_vocab(VOCAB)
