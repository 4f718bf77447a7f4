"""vLLM's interface of a structured-output backend, implemented with guides and matchers."""

from __future__ import annotations

import logging
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from vllm.v1.structured_output.backend_types import (
    StructuredOutputBackend,
    StructuredOutputGrammar,
    StructuredOutputOptions,
)

from guiderail.errors import CompileError, LimitError
from guiderail.integrations._drafts import Habits, Layout, draft
from guiderail.integrations._requests import Asked, GuideStore
from guiderail.integrations._rows import set_bits
from guiderail.integrations._text import EngineText
from guiderail.matching.matcher import Matcher, fill_next_token_bitmasks

if TYPE_CHECKING:
    from guiderail.vocabulary import Vocabulary

__all__ = [
    "FilledTogether",
    "GuiderailBackend",
    "GuiderailGrammar",
    "asked_of",
    "store_of",
    "vocabulary_of",
]

logger = logging.getLogger("vllm.guiderail")

_stores: OrderedDict[tuple[int, int], tuple[Any, GuideStore]] = OrderedDict()
_stores_lock = threading.Lock()
_STORES = 4  # tokenizers of a process


def vocabulary_of(tokenizer: Any, size: int) -> Vocabulary:
    """Returns the vocabulary of a vLLM tokenizer.

    Args:
        tokenizer: the tokenizer as vLLM holds it: of transformers, or a wrapper around one of mistral-common.
        size: the number of the model's logits.

    Raises:
        VocabularyError: the bytes of its tokens are unknown.
    """
    from guiderail.vocabulary import Vocabulary

    if getattr(tokenizer, "IS_MISTRAL_TOKENIZER", False):
        mistral = tokenizer.mistral
        return Vocabulary.from_tekken(mistral, size=size, stop_token_ids=[tokenizer.eos_token_id])
    return Vocabulary.from_huggingface(tokenizer, size=size)


def store_of(tokenizer: Any, size: int) -> GuideStore:
    """Returns this process's guides for a tokenizer. Checking and serving requests share them.

    Args:
        tokenizer: the tokenizer as vLLM holds it.
        size: the number of the model's logits.
    """
    key = (id(tokenizer), size)  # the tokenizer is kept, so the id stays its own
    with _stores_lock:
        found = _stores.get(key)
        if found is None:
            found = _stores[key] = (tokenizer, GuideStore(lambda: vocabulary_of(tokenizer, size)))
            while len(_stores) > _STORES:
                _stores.popitem(last=False)
        _stores.move_to_end(key)
    return found[1]


def asked_of(params: Any, *, compact: bool = False) -> Asked:
    """Returns the constraint that vLLM's ``StructuredOutputsParams`` describe.

    Args:
        params: the parameters of the request.
        compact: write JSON without whitespace, whatever the request says.

    Raises:
        CompileError: ``bad-option``: an option that does not apply here, or not to this kind.
    """
    from vllm.v1.structured_output.request import get_structured_output_key

    if getattr(params, "disable_additional_properties", None):
        raise CompileError(
            "disable_additional_properties is unknown to the guiderail backend and would be ignored; write "
            '"additionalProperties": false into the schema',
            code="bad-option",
        )
    kind, text = get_structured_output_key(params)
    name = kind.name.lower()
    pattern = getattr(params, "whitespace_pattern", None)
    if name in ("json", "json_object"):
        return Asked(name, text, compact or params.disable_any_whitespace, pattern)
    for option, given in (("disable_any_whitespace", params.disable_any_whitespace), ("whitespace_pattern", pattern)):
        if given:
            raise CompileError(f"{option} applies to json and json_object, not to {name}", code="bad-option")
    return Asked(name, text)


class FilledTogether:
    """Collects the masks of one engine step and fills them in one native call.

    vLLM requests one mask after another, including those after each token of a draft. Inside ``with``, a grammar adds a
    fork of its matcher and a row instead of filling the mask.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[EngineText, Matcher, Any, int, int]] = []
        self._lock = threading.Lock()
        self.open = False

    def __enter__(self) -> FilledTogether:
        self._waiting.clear()
        self.open = True
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self.open = False
        if kind is None:
            self.fill()
        self._waiting.clear()

    def add(self, text: EngineText, bitmask: Any, index: int, before: int) -> None:
        """Adds a row to be filled. Safe on many threads."""
        with self._lock:
            self._waiting.append((text, text.matcher.fork(), bitmask, index, before))

    def fill(self) -> None:
        """Fills the rows added. A text that reaches a limit gets only stop tokens."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        try:
            fill_next_token_bitmasks(
                [matcher for _, matcher, *_ in waiting], waiting[0][2], rows=[index for *_, index, _ in waiting]
            )
        except LimitError:  # one of them failed: by now the others' results are known
            for text, matcher, bitmask, index, before in waiting:
                text.fill(bitmask, index, before, matcher)


class GuiderailGrammar(StructuredOutputGrammar):
    """The constraint of one request. For one thread at a time.

    Args:
        matcher: a matcher at the start of the text.
        most: maximum number of tokens of the request; None: unknown, or the text need not be complete.
        spent: returns how many tokens the request has, including those before the constraint (reasoning).
        together: collects the masks of a step; None: fill each separately.
        habits: how earlier texts were laid out.
    """

    def __init__(
        self,
        matcher: Matcher,
        most: int | None = None,
        spent: Callable[[], int] | None = None,
        together: FilledTogether | None = None,
        habits: Habits | None = None,
    ) -> None:
        self._text = EngineText(matcher, most)
        self._together = together
        self._spent = None if most is None else spent
        self._before = 0  # tokens before the constraint, known when the first mask is filled
        self._habits = Habits() if habits is None else habits
        self._layout, self._seen = Layout(self._habits), 0  # and the tokens that it has read
        vocabulary = matcher.guide.vocabulary
        self._size = vocabulary.size
        special = set(vocabulary.special_tokens.values())
        self._texts = [token for token in matcher.stop_token_ids() if token not in special]

    @property
    def matcher(self) -> Matcher:
        """The current matcher."""
        return self._text.matcher

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Reads tokens; returns False at the first that is rejected. Tokens after the end of the text do not count."""
        for token in tokens:
            try:
                taken = self._text.read(token)
            except LimitError as error:
                logger.error("request %s ends here: %s", request_id, error)
                return False
            if not taken:
                logger.error("request %s: token %d cannot come here", request_id, token)
                if self._together is not None and self._together.open:
                    self._together.fill()  # vLLM copies the row before a rejected token of a draft
                return False
            if self.matcher.is_terminated() and self._habits.end != token and self.matcher.history(1) == [token]:
                self._habits.end = token
        return True

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """Returns the first tokens of a draft that are allowed, including a stop token; changes nothing."""
        probe = self.matcher.fork()
        good: list[int] = []
        for token in tokens:
            try:
                if probe.is_terminated() or not (0 <= token < self._size and probe.accept_token(token)):
                    break
            except LimitError:  # reported when the token itself is read
                break
            good.append(token)
        return good

    def draft(self, most: int) -> list[int]:
        """Returns up to a given number of likely next tokens for the model to verify; changes nothing.

        Call it at the current position of the text, not inside another draft.
        """
        matcher = self.matcher
        if self._text.error is not None:
            return []
        if matcher.step_count < self._seen:
            self._layout, self._seen = Layout(self._habits), 0
        new = matcher.history(matcher.step_count - self._seen) if matcher.step_count > self._seen else []
        bytes_of = matcher.guide.vocabulary.core.token_bytes
        self._layout.read(b"".join(bytes_of(token) for token in new if token >= 0))
        self._seen = matcher.step_count
        try:
            return draft(matcher, self._layout, most, self._habits.same)
        except LimitError:  # reported where the text itself needs that work
            return []

    def rollback(self, num_tokens: int) -> None:
        """Undoes the last tokens read."""
        self._text.rollback(num_tokens)

    def fill_bitmask(self, bitmask: Any, batch_index: int) -> None:
        """Writes the mask; near the end of the token budget, only tokens that lead to the end of the text.

        A request may name ordinary tokens as stop tokens. They are allowed where the text may end, and elsewhere only
        if nothing else is: vLLM would stop there.

        Args:
            bitmask: a CPU tensor, int32, of shape ``(rows, ceil(vocabulary / 32))``.
            batch_index: the row.
        """
        if self._spent is not None:
            self._before = max(0, self._spent() - self.matcher.step_count)
            self._spent = None  # which holds the request, which holds this
        together = self._together
        if together is not None and together.open and not self._texts and self._text.is_plain(self._before):
            together.add(self._text, bitmask, batch_index, self._before)
            return
        made = self._text.fill(bitmask, batch_index, self._before)
        if made and self._texts and not self.matcher.is_accepting():
            row = bitmask[batch_index].numpy()
            before = row.copy()
            set_bits(row, self._texts, allowed=False)
            if not row.any():
                row[:] = before

    def is_terminated(self) -> bool:
        """Whether a stop token was read."""
        return self.matcher.is_terminated()

    def reset(self) -> None:
        """Returns to the start of the text."""
        self._text.reset()

    def find_jump_forward_string(self) -> str:
        """Returns the text that must come next; empty if there is a choice."""
        return self.matcher.find_jump_forward_string()


class GuiderailBackend(StructuredOutputBackend):
    """Compiles the constraints of an engine's requests. vLLM calls it on its own threads.

    Args:
        vllm_config: the engine's configuration.
        tokenizer: the model's tokenizer.
        vocab_size: the number of the model's logits.
    """

    def __init__(self, vllm_config: Any, tokenizer: Any, vocab_size: int) -> None:
        super().__init__(vllm_config=vllm_config, tokenizer=tokenizer, vocab_size=vocab_size)
        self.compact = bool(vllm_config.structured_outputs_config.disable_any_whitespace)
        self.store = store_of(tokenizer, vocab_size)
        self.together = FilledTogether()
        self.habits = Habits()

    def compile_grammar(
        self,
        request_type: StructuredOutputOptions,
        grammar_spec: str,
        stop_token_ids: Collection[int] | None = None,
    ) -> GuiderailGrammar:
        """Returns the grammar of a request.

        Args:
            request_type: the kind of constraint.
            grammar_spec: its text.
            stop_token_ids: the tokens that end the text, allowed where it may end; by default the vocabulary's.

        Raises:
            GuiderailError: the constraint is malformed, or nothing can be written under it.
        """
        name = request_type.name.lower()
        compact = self.compact and name in ("json", "json_object")
        return self.compile_asked(Asked(name, grammar_spec, compact), stop_token_ids)

    def compile_asked(
        self,
        asked: Asked,
        stop_token_ids: Collection[int] | None = None,
        most: int | None = None,
        spent: Callable[[], int] | None = None,
    ) -> GuiderailGrammar:
        """Like :meth:`compile_grammar`, for the result of :func:`asked_of`; other arguments as for the grammar."""
        stops = sorted(token for token in stop_token_ids or () if 0 <= token < self.vocab_size)
        matcher = self.store.guide(asked).matcher(stops or None)
        return GuiderailGrammar(matcher, most, spent, self.together, self.habits)

    def allocate_token_bitmask(self, max_num_seqs: int) -> Any:
        """Returns a CPU tensor, int32, of shape ``(max_num_seqs, ceil(vocab_size / 32))``, that allows all tokens."""
        import torch

        return torch.full((max_num_seqs, math.ceil(self.vocab_size / 32)), -1, dtype=torch.int32)

    def destroy(self) -> None:
        """Drops the guides."""
        self.store.clear()
