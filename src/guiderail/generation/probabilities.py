"""Computes how likely a model is to write each of some choices.

The probability of a token prefix is the probability that the model begins with it. The forward algorithm passes it on
from prefix to prefix, the most likely first: to the longer prefixes, to the choices for which an output counts, and to
"none of them". ``docs/probabilities.md`` defines what counts.
"""

from __future__ import annotations

import enum
import heapq
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, overload

import numpy as np
from numpy.typing import NDArray

from guiderail.constraints.constraint import choice
from guiderail.constraints.enumeration import texts_of
from guiderail.errors import CompileError, LimitError, ModelError, VocabularyError
from guiderail.generation.conversation import Conversation, Prompt, prompts_of
from guiderail.generation.generate import encoded_prompt
from guiderail.generation.models import Model, opened
from guiderail.generation.models.base import context_full
from guiderail.generation.models.branches import MOST_CHAINS, Branches, Tokens, open_branches
from guiderail.generation.options import options_of
from guiderail.generation.prefixes import AllSpellings, OneSpelling, Spread, Walk, log_softmax
from guiderail.generation.targets import as_constraint, uncompiled
from guiderail.support.arguments import checked
from guiderail.support.options import check_choice, check_flag, check_integer, is_real
from guiderail.support.texts import shown
from guiderail.vocabulary import Vocabulary

__all__ = ["Counting", "Probabilities", "choice_of", "probabilities", "probabilities_of", "token_chances"]

Spellings = Literal["canonical", "all"]
Ending = Literal["any", "stop"]

if TYPE_CHECKING:
    from typing_extensions import TypedDict, Unpack

    class ProbabilityOptions(TypedDict, total=False):
        """The options of :func:`probabilities`, for type checkers."""

        spellings: Spellings
        ending: Ending
        normalize: bool
        tolerance: float
        max_prefixes: int
        system: str | None
        chat: bool
        describe: bool


MAX_PREFIXES = 16_384
TOLERANCE = 1e-6
_ROUND = 128  # prefixes read together if the choice depends on earlier results


class Probabilities(Mapping[Any, float]):
    """A mapping from choices to their probabilities, in the order in which the choices were given.

    Attributes:
        logprobs: natural logarithms of the probabilities; exact even if a probability is too small for a float.
        total: the probability that the model writes one of the choices, before normalization.
        normalized: whether the probabilities are conditional on one of the choices being written, so that they sum to
            1.
        missing: upper bound on the probability that was left unexplored; neither ``total`` nor any choice includes it.
            0 if everything was read.
        passes: forward passes of the model.
        tokens_read: tokens that the model has read, including the prompt.
    """

    __slots__ = ("logprobs", "missing", "normalized", "passes", "tokens_read", "total")

    def __init__(
        self,
        logprobs: Mapping[Any, float],
        total: float,
        normalized: bool,
        missing: float = 0.0,
        passes: int = 0,
        tokens_read: int = 0,
    ) -> None:
        self.logprobs = dict(logprobs)
        self.total, self.normalized, self.missing = total, normalized, missing
        self.passes, self.tokens_read = passes, tokens_read

    def __getitem__(self, text: Any) -> float:
        return math.exp(self.logprobs[text])

    def __iter__(self) -> Iterator[Any]:
        return iter(self.logprobs)

    def __len__(self) -> int:
        return len(self.logprobs)

    @property
    def best(self) -> Any:
        """The most likely choice; if several are, the first of them."""
        return max(self.logprobs, key=self.logprobs.__getitem__)

    @property
    def other(self) -> float:
        """The probability that the model writes none of the choices."""
        return max(0.0, 1.0 - self.total)

    def ranked(self) -> list[tuple[Any, float]]:
        """Returns the choices with their probabilities, the most likely first."""
        return sorted(self.items(), key=lambda item: -item[1])

    def __repr__(self) -> str:
        some = ", ".join(f"{text!r}: {chance:.4g}" for text, chance in list(self.items())[:8])
        more = f", … {len(self)} in all" if len(self) > 8 else ""
        return f"<Probabilities {{{some}{more}}}, total {self.total:.4g}>"


@dataclass(frozen=True, slots=True)
class Counting:
    """Options of :func:`probabilities`, checked.

    Attributes:
        spellings, ending, normalize, tolerance, max_prefixes: see :func:`probabilities`.
        chains: maximum number of strings that one pass reads; see :func:`open_branches`.

    Raises:
        ModelError: ``bad-option``.
    """

    spellings: Spellings = "canonical"
    ending: Ending = "any"
    normalize: bool = False
    tolerance: float = TOLERANCE
    max_prefixes: int = MAX_PREFIXES
    chains: int = MOST_CHAINS

    def __post_init__(self) -> None:
        for name, value, kind in (("spellings", self.spellings, Spellings), ("ending", self.ending, Ending)):
            check_choice(name, value, get_args(kind), error=ModelError, code="bad-option")
        check_flag("normalize", self.normalize, error=ModelError, code="bad-option")
        if not is_real(self.tolerance) or not 0 <= self.tolerance < 1:
            raise ModelError(
                f"tolerance must be at least 0 and below 1, not {shown(self.tolerance)}", code="bad-option"
            )
        check_integer("max_prefixes", self.max_prefixes, 1, error=ModelError, code="bad-option")


@overload
def probabilities(model: Any, prompt: Prompt, choices: Any, **options: Unpack[ProbabilityOptions]) -> Probabilities: ...
@overload
def probabilities(
    model: Any,
    prompt: list[str] | tuple[str, ...] | Sequence[Conversation],
    choices: Any,
    **options: Unpack[ProbabilityOptions],
) -> list[Probabilities]: ...
@checked
def probabilities(
    model: Any,
    prompt: Prompt | Sequence[Prompt],
    choices: Any,
    *,
    spellings: Spellings = "canonical",
    ending: Ending = "any",
    normalize: bool = False,
    tolerance: float = TOLERANCE,
    max_prefixes: int = MAX_PREFIXES,
    system: str | None = None,
    chat: bool = True,
    describe: bool = False,
) -> Any:
    """Computes the model's own probability of each of some choices. Nothing is masked, and nothing is sampled.

    Example:
        >>> chances = gr.probabilities(None, f"Is this spam? {mail}", ["yes", "no"], normalize=True)
        >>> verdict = chances.best if chances[chances.best] > 0.9 else "ask a person"

    The model reads the prompt, and what several choices begin with, only once; usually in one forward pass.

    Args:
        model, prompt, system, chat, describe: as for :func:`generate`; several prompts give a list of results.
        choices: a list of strings; an ``Enum`` or a ``Literal``, whose members stand for the texts of their values
            (without quotes); or a constraint, a JSON Schema or a type that matches at most 4,096 texts, which become
            the keys.
        spellings: ``"canonical"`` counts only the tokens that the tokenizer makes of a choice; ``"all"`` counts every
            token sequence that spells it.
        ending: what must follow a choice.

            - ``"any"``: anything. An output counts for the longest choice that it begins with, and for no other. So
              ``"New York"`` does not get the probability of ``"New York City"``.
            - ``"stop"``: the end. The choice is all that the model writes.
        normalize: return the probabilities conditional on one of the choices being written. They sum to 1.
        tolerance: with ``spellings="all"``, stop when the spellings that remain hold less than this fraction of the
            probability found. 0 reads them all.
        max_prefixes: maximum number of token sequences to ask the model about.

    Returns:
        A :class:`Probabilities`: a mapping from choices to probabilities, with ``best``, ``logprobs``, ``total`` and
        ``other``. Together they sum to ``total``, unless they are normalized.

    Raises:
        LimitError: ``too-many-texts``; ``too-many-prefixes``: ``max_prefixes`` does not suffice.
        CompileError: ``not-a-constraint``, ``not-enumerable``; ``same-text``: two members have the same text.
        VocabularyError: ``no-encoder``, ``not-encodable``: there is no canonical spelling; ``no-stop-token``.
        ModelError: the model cannot be loaded or run, the prompt does not fit, or an option is out of range.
            ``nothing-likely``: with ``normalize``, all choices have probability 0.
    """
    counting = Counting(spellings, ending, normalize, tolerance, max_prefixes)
    options = options_of("probabilities", {"system": system, "chat": chat, "describe": describe})
    keys, texts = choice_of(choices)
    prompts, single = prompts_of(prompt, single=True)
    target = choice(texts) if describe and _is_members(choices) else choices
    with opened(model) as runner:
        encoded = [encoded_prompt(runner, one, target, options) for one in prompts]
        found = [probabilities_of(runner, tokens, keys, texts, counting) for tokens in encoded]
    return found[0] if single else found


def _is_members(choices: Any) -> bool:
    return get_origin(choices) is Literal or (isinstance(choices, type) and issubclass(choices, enum.Enum))


def choice_of(choices: Any) -> tuple[list[Hashable], list[str]]:
    """The keys of a result and their strings.

    Raises:
        CompileError, LimitError: see :func:`probabilities`.
    """
    if not _is_members(choices):
        texts = texts_of(uncompiled(as_constraint(choices)))
        return list(texts), texts
    members = list(get_args(choices) or choices)
    by_text: dict[str, Hashable] = {}
    for member in members:
        text = _text_of(member.value if isinstance(member, enum.Enum) else member)
        if by_text.setdefault(text, member) is not member:
            raise CompileError(
                f"{by_text[text]!r} and {member!r} have the same text, {text!r}; give texts that differ",
                code="same-text",
            )
    if not by_text:
        raise CompileError(f"{choices!r} has no members to choose from", code="bad-choice")
    return list(by_text.values()), list(by_text)


def _text_of(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return str(value)
    raise CompileError(
        f"a member with the value {shown(value)} has no text; give a list of strings", code="not-a-constraint"
    )


def probabilities_of(
    model: Model, prompt: Sequence[int], keys: Sequence[Hashable], texts: Sequence[str], counting: Counting
) -> Probabilities:
    """Like :func:`probabilities`, for a prompt of tokens.

    Raises:
        See :func:`probabilities`.
    """
    vocabulary = model.vocabulary
    stops = vocabulary.stop_token_ids if counting.ending == "stop" else None
    if stops is not None and not stops:
        raise VocabularyError(
            'the vocabulary has no token that ends a text, so ending="stop" has no meaning', code="no-stop-token"
        )
    usual = _usual(texts, vocabulary, must=counting.spellings == "canonical")
    walk: Walk
    if counting.spellings == "canonical":
        walk = OneSpelling(usual, stops)
    else:
        walk = AllSpellings([text.encode() for text in texts], vocabulary, stops)
    longest = max((len(text.encode()) for text in texts), default=0)
    if counting.spellings == "canonical":
        longest = max(map(len, usual), default=0)
    room = model.context_length - len(prompt)
    branches = open_branches(model, prompt, min(longest, room), counting.chains)
    try:
        found, missing = _Forward(model, branches, walk, counting, room).run(usual, len(texts))
        counted = _log_total(found)
        if counting.normalize:
            if counted == -math.inf:
                raise ModelError(
                    "the model gives each of the choices probability 0, so there is nothing to normalize; change the "
                    "prompt, or leave normalize out",
                    code="nothing-likely",
                )
            found = [value - counted for value in found]
        chances = dict(zip(keys, found, strict=True))
        return Probabilities(chances, math.exp(counted), counting.normalize, missing, branches.passes, branches.tokens)
    finally:
        branches.close()


def token_chances(
    model: Model, prompt: Sequence[int], texts: Sequence[str], tokens: Sequence[int], counting: Counting
) -> list[float | None]:
    """The probability of each token of a string given the previous ones, conditional on one of some strings being
    written.

    Args:
        texts: distinct strings.
        tokens: tokens that spell the beginning of one of them; stop tokens may follow.
        counting: must count all spellings, to their end.

    Returns:
        One for each token; None if too little is known of what may follow, and for one of several stop tokens.

    Raises:
        LimitError, VocabularyError, ModelError: see :func:`probabilities`.
    """
    vocabulary = model.vocabulary
    stops = vocabulary.stop_token_ids
    if not stops:
        raise VocabularyError("the vocabulary has no token that ends a text", code="no-stop-token")
    spelled = tuple(token for token in tokens if token not in stops)
    usual = [*_usual(texts, vocabulary, must=False), spelled]
    walk = AllSpellings([text.encode() for text in texts], vocabulary, stops)
    longest = max(len(text.encode()) for text in texts)
    room = model.context_length - len(prompt)
    branches = open_branches(model, prompt, min(longest, room), counting.chains)
    try:
        forward = _Forward(model, branches, walk, counting, room)
        _, missing = forward.run(usual, len(texts))
    finally:
        branches.close()
    after = [
        math.exp(_log_total([value for prefix, value in forward.ends if prefix[:end] == spelled[:end]]))
        for end in range(len(spelled) + 1)
    ]
    known = [value > 1000 * missing for value in after]
    found: list[float | None] = []
    for i, token in enumerate(tokens):
        if token in stops and len(stops) > 1:
            found.append(None)  # its share of them is not known
        elif token in stops:
            ended = math.exp(_log_total([value for prefix, value in forward.ends if prefix == spelled]))
            found.append(ended / after[-1] if known[-1] else None)
        else:
            found.append(min(1.0, after[i + 1] / after[i]) if known[i] else None)
    return found


def _usual(texts: Sequence[str], vocabulary: Vocabulary, *, must: bool) -> list[Tokens]:
    """The tokenizer's own spellings; if they are optional, those that exist."""
    made: list[Tokens] = []
    for text in texts:
        try:
            made.append(tuple(vocabulary.encode(text)))
        except ValueError as error:  # a VocabularyError, or what a tokenizer raises itself
            if must:
                code = error.code if isinstance(error, VocabularyError) else "not-encodable"
                reason = error.message if isinstance(error, VocabularyError) else str(error)
                raise VocabularyError(
                    f'{shown(text)} has no canonical spelling: {reason}; spellings="all" needs none', code=code
                ) from error
    return made


def _log_total(values: Sequence[float]) -> float:
    return float(np.logaddexp.reduce(np.array(values))) if len(values) else -math.inf


@dataclass(order=True, slots=True)
class _Waiting:
    """A prefix whose next tokens are unknown."""

    badness: float  # minus the log-probability
    prefix: Tokens
    state: int = field(compare=False)


class _Forward:
    """The forward algorithm over prefixes of tokens."""

    def __init__(self, model: Model, branches: Branches, walk: Walk, counting: Counting, room: int) -> None:
        self._model, self._branches, self._walk, self._counting = model, branches, walk, counting
        self._room = room  # tokens that a text may have in addition to the prompt
        self._spreads: dict[Tokens, Spread] = {}
        self._asked = 0
        self.ends: list[tuple[Tokens, float]] = []  # prefixes that decide the outcome, with their probabilities

    def run(self, usual: Sequence[Tokens], count: int) -> tuple[list[float], float]:
        """The log-probability of each string, and the probability that was left unexplored.

        Args:
            usual: spellings that have most of the probability.
            count: the number of strings.
        """
        found = [-math.inf] * count
        waiting = [_Waiting(0.0, (), 0)]
        self._read_usual(usual)
        while True:
            self._carry(waiting, found)
            left = _log_total([-one.badness for one in waiting])
            enough = _log_total(found) + (math.log(self._counting.tolerance) if self._counting.tolerance else -math.inf)
            if not waiting or left <= enough:
                return found, math.exp(left)
            heapq.heapify(waiting)
            batch: list[_Waiting] = []
            while waiting and len(batch) < _ROUND and left > enough:
                one = heapq.heappop(waiting)
                batch.append(one)
                if len(batch) % 16 == 0:
                    left = _log_total([-other.badness for other in waiting])
            self._read([(one.prefix, one.state) for one in batch])
            waiting += batch

    def _carry(self, waiting: list[_Waiting], found: list[float]) -> None:
        """Follows prefixes that are known; leaves those that must be read in ``waiting``."""
        ready = waiting[:]
        waiting.clear()
        while ready:
            one = ready.pop()
            settled = self._walk.settled(one.state)
            if settled is not None:
                found[settled] = float(np.logaddexp(found[settled], -one.badness))
                continue
            spread = self._spreads.pop(one.prefix, None)
            if spread is None:
                if one.badness < math.inf:
                    waiting.append(one)
                continue
            for text, logprob in spread.decided:
                self.ends.append((one.prefix, logprob - one.badness))
                found[text] = float(np.logaddexp(found[text], logprob - one.badness))
            for token, state, logprob in spread.inner:
                ready.append(_Waiting(one.badness - logprob, (*one.prefix, token), state))

    def _read_usual(self, usual: Sequence[Tokens]) -> None:
        """Reads the prefixes of these spellings, in as few passes as possible."""
        wanted: dict[Tokens, int] = {}
        for spelling in usual:
            state = 0
            for end in range(len(spelling) + 1):
                if end:
                    state = self._walk.step(state, spelling[end - 1])
                if self._walk.settled(state) is not None:
                    break
                wanted[spelling[:end]] = state
        self._read(list(wanted.items()))

    def _read(self, prefixes: list[tuple[Tokens, int]]) -> None:
        self._asked += len(prefixes)
        if self._asked > self._counting.max_prefixes:
            raise LimitError(
                f"the texts need more than the {self._counting.max_prefixes:,} prefixes that max_prefixes allows; "
                'raise it, raise tolerance, give fewer texts, or count spellings="canonical"',
                code="too-many-prefixes",
            )
        longest = max((len(prefix) for prefix, _ in prefixes), default=0)
        if longest > self._room:
            used = self._model.context_length - self._room
            raise context_full(self._model.name, used + longest, self._model.context_length)
        width = self._model.vocabulary.size
        for index, logits in self._branches.read([prefix for prefix, _ in prefixes]):
            prefix, state = prefixes[index]
            self._spreads[prefix] = self._walk.spread(state, _checked(log_softmax(logits, width)))


def _checked(logprobs: NDArray[np.float64]) -> NDArray[np.float64]:
    if np.isnan(logprobs).any():
        raise ModelError("the model's logits are not numbers (NaN or infinity)", code="bad-logits")
    return logprobs
