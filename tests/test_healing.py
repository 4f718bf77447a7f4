"""``heal=True``: the end of the prompt is removed, and the text must begin with it."""

from __future__ import annotations

import pytest

import guiderail as gr
from guiderail.errors import ModelError
from guiderail.generation.healing import take_back
from toy_models import TOKENS, VOCABULARY, Toy

ID = {text: i for i, text in enumerate(TOKENS)}


@pytest.mark.parametrize(
    "prompt, kept, prefix",
    [
        ([b" ", b"hel"], [b" "], b"hel"),  # hello begins with it
        ([b" ", b"hello"], [b" ", b"hello"], b""),  # nothing does
        ([b" ", b"a"], [b" "], b"a"),  # ab, aba
        ([b" ", b"a", b"b"], [b" "], b"ab"),  # aba begins with both
        ([b" ", b"a", b"b", b"b"], [b" ", b"a", b"b", b"b"], b""),
        ([b"a"], [b"a"], b""),  # the first token stays: a model must read something
        ([b"lo"], [b"lo"], b""),
        ([b" ", b"a", b""], [b" ", b"a", b""], b""),  # nothing to remove after a special token
        ([b" ", "€".encode()[:1]], [b" ", "€".encode()[:1]], b""),  # inside a character
    ],
)
def test_what_is_taken_back(prompt: list[bytes], kept: list[bytes], prefix: bytes) -> None:
    assert take_back([ID[one] for one in prompt], VOCABULARY) == ([ID[one] for one in kept], prefix)


class Prompted(Toy):
    """Its prompts are the tokens of their words."""

    def encode(self, prompt, *, chat, system=None):
        return [ID[word.replace("_", " ").encode()] for word in prompt.split("|")]


def test_the_text_is_returned_without_the_end_of_the_prompt() -> None:
    model = Prompted(favourite=ID[b"hello"])
    (plain,) = gr.generations(model, ["_|hel"], gr.choice(["lo", "lob"]), chat=False)
    assert plain.text.startswith("lo") and plain.prompt_tokens == 2
    (healed,) = gr.generations(model, ["_|hel"], gr.choice(["lo", "lob"]), chat=False, heal=True, logprobs=0)
    assert healed.tokens[0] == ID[b"hello"] and healed.prompt_tokens == 1
    assert healed.text in ("lo", "lob") and healed.matched
    assert healed.logprobs is not None and len(healed.logprobs) == len(healed.tokens)
    assert model.feeds[-1] or model.open == 0


def test_streams_values_stops_and_batches() -> None:
    model = Prompted(favourite=ID[b"hello"])
    pieces = list(gr.stream(model, "_|hel", gr.choice(["lo", "lob"]), chat=False, heal=True))
    assert "".join(pieces) in ("lo", "lob")
    texts = gr.generate(model, ["_|hel", "_|a|b", "_|lo"], gr.regex("(lo|a)b*"), chat=False, heal=True, max_tokens=9)
    assert all(text.lstrip("lo").lstrip("a").strip("b") == "" for text in texts) and all(texts)
    (stopped,) = gr.generations(model, ["_|hel"], gr.literal("lob"), chat=False, heal=True, stop="b")
    assert stopped.text == "lo" and stopped.stop_string == "b" and not stopped.matched
    guide = gr.compile(gr.literal("lob"), VOCABULARY)
    assert gr.generate(model, "_|hel", guide, chat=False, heal=True) == "lob"
    assert gr.generate(model, "_|b", guide, chat=False, heal=True) == "lob"


def test_a_chat_template_ends_between_words() -> None:
    with pytest.raises(ModelError) as caught:
        gr.generate(Toy(), "a", gr.literal("b"), heal=True)
    assert caught.value.code == "bad-option"


def test_the_embedded_model_continues_a_word() -> None:
    pytest.importorskip("xllamacpp", reason="the embedded model needs its library")
    model = gr.load_model()
    (one,) = gr.generations(
        model, ["The site is at http:"], gr.regex(r"//[a-z]{3,9}\.org"), chat=False, heal=True, canonical=True
    )
    assert one.text.startswith("//")
    tokens = [token for token in one.tokens if model.vocabulary.is_text(token)]
    written = model.vocabulary.decode(tokens)
    assert written.endswith(one.text) and model.vocabulary.encode(written) == tokens
