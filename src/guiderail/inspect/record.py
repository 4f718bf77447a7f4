"""What happened in a generation, token by token: what was allowed, what the model wanted, what was taken.

A :class:`Recorder` watches. :func:`record` hands it to the decoding loop
(:class:`guiderail.generation.decoding.Observer`). :func:`replay` has it read a given text, with or without a model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from guiderail.constraints.constraint import Constraint
from guiderail.constraints.explain import symbol_words, words_after
from guiderail.errors import CompileError, ModelError, VocabularyError
from guiderail.frontends.given import constraint_of
from guiderail.generation.models import Model, opened
from guiderail.generation.models.base import empty_prompt
from guiderail.generation.options import options_of, takes_options
from guiderail.generation.result import check_ends
from guiderail.generation.targets import as_constraint
from guiderail.inspect.exact import add_exact
from guiderail.inspect.place import Place
from guiderail.inspect.sentences import why
from guiderail.inspect.weighing import Weights, weigh
from guiderail.inspect.where import Source, Where, source_of
from guiderail.matching.bitmask import allocate_token_bitmask, bitmask_to_bool
from guiderail.matching.guide import Guide, compile
from guiderail.matching.matcher import Matcher
from guiderail.support.arguments import checked
from guiderail.support.options import check_integer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from guiderail.generation.options import GenerateOptions
    from guiderail.vocabulary import Vocabulary

__all__ = ["Candidate", "Record", "Recorder", "Step", "Weights", "record", "replay", "weigh"]

FORMAT = "guiderail-record-1"

_ALWAYS = ("text", "token", "start")  # also where they are 0 or empty
_WHERE_KNOWN = ("exact", "log_weight")

How = Literal["chosen", "forced", "given", "refused"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token that could have come.

    Attributes:
        token: the token id.
        text: its readable spelling: its text, its bytes in hexadecimal between ⟨ and ⟩, or the name of a special token.
        before: its probability by the model alone.
        after: its probability under the constraint; 0 if it is forbidden.
    """

    token: int
    text: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Step:
    """One token. Probabilities are the model's at temperature 1, and None if no model was asked.

    Attributes:
        token: the token id.
        text: its readable spelling: its text, its bytes in hexadecimal between ⟨ and ⟩, or the name of a special token.
        readable: whether ``text`` is the token's own text.
        start: the offset at which it begins in the record's text, in bytes.
        how: ``"chosen"``: by the model under the mask; ``"forced"``: written without asking the model, because nothing
            else was possible; ``"given"``: part of the text of a replay; ``"refused"``: given, but not allowed.
        is_stop: whether it ends the text.
        allowed: how many tokens could come.
        size: the size of the vocabulary.
        expected: how the text could continue, in words: what the allowed tokens begin with.
        forced_text: the text that had to come next, or "" if there was a choice.
        no_choice: whether the token is part of that, so that no other text was possible.
        may_end: whether the text could end here.
        place: the location in the text and in the constraint, or None.
        before: the probability of the token by the model alone.
        after: its probability under the constraint.
        removed: the total probability of the forbidden tokens.
        preferred: how many forbidden tokens the model found more likely than this one.
        blocked: the most likely of these.
        candidates: the most likely of the allowed tokens.
        exact: the probability of the token if texts of the constraint were drawn from the model's own distribution,
            which looks ahead to how likely the model is to finish. Known for constraints with at most 64 texts.
        log_weight: natural logarithm of the weight of the text up to this token: the product of the probabilities that
            the masks left (see ``Generation.log_weight``). None from the first token on for which no model was asked.
        why: the above in a sentence or two.
    """

    token: int
    text: str
    readable: bool
    start: int
    how: How
    is_stop: bool
    allowed: int
    size: int
    expected: tuple[str, ...]
    forced_text: str
    no_choice: bool
    may_end: bool
    place: Place | None
    before: float | None = None
    after: float | None = None
    removed: float | None = None
    preferred: int = 0
    blocked: tuple[Candidate, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    exact: float | None = None
    log_weight: float | None = None
    why: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data without empty values, and with probabilities of six digits."""
        values: dict[str, Any] = {}
        for name in self.__slots__:
            value = getattr(self, name)
            if name == "place":
                value = value.as_dict() if value is not None else None
            elif name in ("blocked", "candidates"):
                value = [[c.token, c.text, _rounded(c.before), _rounded(c.after)] for c in value]
            elif isinstance(value, float):
                value = _rounded(value)
            always = name in _ALWAYS or (name in _WHERE_KNOWN and value is not None)
            if always or value not in (None, "", (), [], False):
                values[name] = value
        return values


@dataclass(frozen=True, slots=True)
class Record:
    """A generation or a replay, token by token. Made by :func:`record` and :func:`replay`.

    Attributes:
        text: the text that was written.
        steps: one for each token.
        finish: ``"complete"``, ``"stop"``, ``"shortened"`` or ``"length"`` (see :class:`Generation`), ``"stop-string"``
            if a stop string came, ``"refused"`` if a given text is not allowed, or ``"open"`` if a given text could
            continue.
        matched: whether the constraint allows the text.
        source: what the constraint was made from.
        model: the name of the model, or None if none was asked.
        prompt: the prompt, or None.
        vocabulary: the name of the vocabulary.
        unread: the part of a refused text that was not read.
    """

    text: str
    steps: tuple[Step, ...]
    finish: str
    matched: bool
    source: Source
    model: str | None
    prompt: str | None
    vocabulary: str
    unread: str = ""

    @property
    def removed(self) -> float | None:
        """The mean of the probability removed, over the steps at which a model was asked; None if there are none."""
        known = [step.removed for step in self.steps if step.removed is not None]
        return sum(known) / len(known) if known else None

    def summary(self) -> str:
        """Returns the record in a few lines: how many tokens, how often the model was overruled, and where most
        strongly.
        """
        forced = sum(step.how == "forced" for step in self.steps)
        lines = [f"{len(self.steps):,} tokens, {forced:,} of them forced; the end: {self.finish}"]
        overruled = [step for step in self.steps if step.preferred]
        if self.removed is not None:
            share = f"{self.removed:.1%} of the probability removed on average"
            lines.append(f"the model was overruled at {len(overruled):,} of them; {share}")
        worst = sorted(overruled, key=lambda step: -(step.removed or 0))[:3]
        refused = [step for step in self.steps if step.how == "refused"]
        for step in [*refused, *worst]:
            lines.append(f"  token {self.steps.index(step) + 1:,}: {step.why}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data, as :meth:`to_json` writes it."""
        source: dict[str, Any] = {"kind": self.source.kind, "text": self.source.text}
        if self.source.kind == "json-schema":
            source["schema"] = self.source.schema
        if self.source.rules:
            source["rules"] = [list(rule) for rule in self.source.rules]
        return {
            "format": FORMAT,
            "text": self.text,
            "finish": self.finish,
            "matched": self.matched,
            "unread": self.unread,
            "model": self.model,
            "prompt": self.prompt,
            "vocabulary": self.vocabulary,
            "removed": None if self.removed is None else _rounded(self.removed),
            "source": source,
            "steps": [step.as_dict() for step in self.steps],
        }

    def to_json(self, path: str | Path | None = None) -> str:
        """Returns the record as JSON, and writes it to ``path`` if one is given (UTF-8).

        The top level has ``format`` (``"guiderail-record-1"``) and the attributes of :class:`Record`. A step has those
        attributes of :class:`Step` that are not empty; ``blocked`` and ``candidates`` are lists of
        ``[token, text, before, after]``.
        """
        # A lone surrogate in a schema or a text is not valid Unicode, but JSON can represent it as an escape.
        made = json.dumps(self.as_dict(), ensure_ascii=True, separators=(",", ":"))
        if path is not None:
            Path(path).write_text(made + "\n", encoding="utf-8")
        return made

    def to_html(self, path: str | Path | None = None) -> str:
        """Returns the record as an HTML page, and writes it to ``path`` if one is given; see
        :func:`guiderail.inspect.page`.
        """
        from guiderail.inspect.page import page

        made = page(self)
        if path is not None:
            Path(path).write_text(made, encoding="utf-8")
        return made


class Recorder:
    """Records what happens at each token of one text.

    Args:
        guide: the guide that the text is written under.
        top: how many of the allowed tokens to keep, and how many of the forbidden ones.
        row: the row of the batch to watch.

    Raises:
        ModelError: ``bad-option``: ``top`` is negative.
    """

    def __init__(self, guide: Guide, *, top: int = 8, row: int = 0) -> None:
        check_integer("top", top, 0, error=ModelError, code="bad-option")
        self.guide, self.top, self.row = guide, top, row
        self.steps: list[Step] = []
        self._where = Where(guide.constraint)
        self._vocabulary = guide.vocabulary
        self._bitmask = allocate_token_bitmask(1, self._vocabulary.size)
        self._length = 0  # bytes of text so far
        self._log_weight: float | None = 0.0

    def __repr__(self) -> str:
        return f"<Recorder of {self.guide!r}, {len(self.steps)} tokens>"

    def on_step(
        self,
        row: int,
        matcher: Matcher,
        token: int,
        logits: NDArray[np.float32] | Weights | None,
        *,
        how: How | None = None,
    ) -> None:
        """Called before a token is read; see :class:`guiderail.generation.decoding.Observer`.

        Args:
            logits: the logits, or what :func:`weigh` kept of them.
            how: by default ``"chosen"``, or ``"forced"`` without logits.
        """
        if row != self.row:
            return
        vocabulary = self._vocabulary
        size = vocabulary.size
        matcher.fill_next_token_bitmask(self._bitmask)
        allowed = bitmask_to_bool(self._bitmask, size)[0]
        program, state = matcher.program, matcher.state
        expected = words_after(program, state)
        expected += tuple(map(symbol_words, program.first_symbols(state)))
        text, readable = self._spelled(token)
        is_stop = token in matcher.stop_token_ids()
        facts: dict[str, Any] = {}
        if logits is not None:
            weights = logits if isinstance(logits, Weights) else weigh(token, allowed, logits, self.top)
            facts = self._facts(weights)
            if self._log_weight is not None and how != "refused":
                so_far = self._log_weight + weights.log_left
                self._log_weight = facts["log_weight"] = so_far if math.isfinite(so_far) else None
        else:
            self._log_weight = None
        forced_text = matcher.find_jump_forward_string()
        count = int(allowed.sum())
        alone = count == 1 and bool(allowed[token])
        step = Step(
            token=token,
            text=text,
            readable=readable,
            start=self._length,
            how=how or ("forced" if logits is None else "chosen"),
            is_stop=is_stop,
            allowed=count,
            size=size,
            expected=expected,
            forced_text=forced_text,
            no_choice=alone or (readable and forced_text.startswith(text)),
            may_end=matcher.is_accepting(),
            place=self._where.place(matcher.dump()),
            **facts,
        )
        object.__setattr__(step, "why", why(step))
        self.steps.append(step)
        if not is_stop:
            data = vocabulary.token_bytes(token)
            self._length += len(data)
            if vocabulary.is_text(token):
                self._where.feed(data)

    def _facts(self, weights: Weights) -> dict[str, Any]:
        return {
            "before": weights.before,
            "after": weights.after,
            "removed": weights.removed,
            "preferred": weights.preferred,
            "blocked": tuple(Candidate(i, self._spelled(i)[0], before, 0.0) for i, before in weights.blocked),
            "candidates": tuple(Candidate(i, self._spelled(i)[0], *both) for i, *both in weights.candidates),
        }

    def _spelled(self, token: int) -> tuple[str, bool]:
        """A readable spelling of a token, and whether that is its own text."""
        data = self._vocabulary.token_bytes(token)
        if not self._vocabulary.is_text(token):
            return data.decode(errors="replace") or f"token {token}", False
        try:
            return data.decode(), True
        except UnicodeDecodeError:
            return f"⟨{data.hex(' ')}⟩", False


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


@takes_options(without=["n", "logprobs", "heal"], on_incomplete="return")
@checked
def record(
    model: Any,
    prompt: str,
    target: Any,
    *,
    top: int = 8,
    **options: Unpack[GenerateOptions],
) -> Record:
    """Generates like :func:`guiderail.generate`, and records how the text came about.

        >>> found = gr.inspect.record(None, "When did Apollo 11 land?", gr.patterns.date())
        >>> found.to_html("apollo.html")

    Forced tokens are written without asking the model, so they have no probabilities.
    ``replay(target, found.text, model=model, prompt=prompt)`` asks the model at every token.

    Args:
        model: as for :func:`generate`, and so are the options that are not listed here. One default differs:
            ``on_incomplete="return"``.
        prompt: one prompt.
        target: a constraint, a guide, a JSON Schema (a dict) or a Python type.
        top: how many of the allowed tokens to keep at each step, and how many of the forbidden ones.

    Raises:
        IncompleteError: with ``on_incomplete="error"``, if the tokens run out.
        LimitError: with ``on_incomplete="finish"``, if ``max_tokens`` is too low; see :func:`guiderail.generate`.
    """
    from guiderail.generation import generate as generation
    from guiderail.generation.decoding import Batch

    if not isinstance(prompt, str):
        raise ModelError(f"record takes one prompt, a string, not {type(prompt).__name__}", code="bad-prompt")
    chosen = options_of("record", dict(options), without=["n", "logprobs", "heal"], on_incomplete="return")
    wanted = as_constraint(target)
    with opened(model) as runner:
        guide = generation.guide_for(wanted, runner, chosen.canonical)
        recorder = Recorder(guide, top=top)
        encoded = generation.encoded_prompt(runner, prompt, target, chosen)
        batch = Batch(
            runner,
            [encoded],
            [guide],
            [wanted.reading()],
            options=chosen,
            observer=recorder,
        )
        for _ in batch.steps():
            continue
        result = batch.generation(0)
        name = runner.name
        add_exact(recorder.steps, runner, encoded, guide)
    check_ends([result], chosen.on_incomplete, chosen.on_shortened or "return")
    return Record(
        result.text,
        tuple(recorder.steps),
        result.finish_reason,
        result.matched,
        source_of(guide.constraint),
        name,
        prompt,
        _name(guide.vocabulary),
    )


@checked
def replay(
    target: Any,
    text: str | Sequence[int],
    *,
    vocabulary: Vocabulary | None = None,
    model: Any = None,
    prompt: str = "",
    system: str | None = None,
    chat: bool = True,
    top: int = 8,
) -> Record:
    """Reads a given text under a constraint, token by token, and records what was allowed at each.

    If the text is not allowed, the record ends with a ``"refused"`` step. Every match is allowed, even one that no
    model would write (see :meth:`guiderail.Constraint.as_written`).

        >>> letters = gr.Vocabulary([b"y", b"e", b"s", b"es", b"no"], encode=lambda text: [0, 3])
        >>> for step in gr.inspect.replay(gr.choice(["yes", "no"]), "yes", vocabulary=letters).steps:
        ...     print(step.text, step.allowed, step.expected)
        y 2 ("one of 'n', 'y'",)
        es 2 ("'e'",)

    Args:
        target: a constraint, a guide, a JSON Schema (a dict) or a Python type.
        text: a text, which is split into tokens as the tokenizer does it (if the vocabulary has no encoder, into the
            longest tokens from left to right); or token ids.
        vocabulary: by default that of the guide, or of the model.
        model: a model to ask at every token what it would have written; as for :func:`generate`, but None asks no
            model.
        prompt: the prompt for the model.
        system: the system message, with ``chat=True``.
        chat: wrap the prompt in the model's chat template.
        top: how many of the allowed tokens to keep at each step, and how many of the forbidden ones.

    Raises:
        CompileError: ``no-vocabulary``: neither a vocabulary nor a guide nor a model is given; or the target is
            invalid.
        VocabularyError: the vocabulary cannot spell the text.
        ModelError: the model cannot be used, or the text does not fit.
    """
    source = as_constraint(target)
    if model is None and (prompt or system is not None):
        raise ModelError("a prompt or a system message needs a model; pass model=…", code="bad-option")
    with nullcontext() if model is None else opened(model) as runner:
        vocabulary = _vocabulary_of(source, vocabulary, runner)
        tokens = _tokens(vocabulary, text) if isinstance(text, str) else [int(token) for token in text]
        guide = source if isinstance(source, Guide) else _guide_of(source, constraint_of(target), vocabulary, tokens)
        recorder = Recorder(guide, top=top)
        asked = [] if runner is None else runner.encode(prompt, chat=chat, system=system)
        if runner is not None and not asked:
            raise empty_prompt()
        matcher = guide.matcher()
        read = _read_along(recorder, matcher, tokens, runner, asked)
        if runner is not None:
            add_exact(recorder.steps, runner, asked, guide)
        name = None if runner is None else runner.name
    ended = matcher.is_terminated()
    refused = read < len(tokens) and not ended
    finish = "refused" if refused else "stop" if ended else "complete" if matcher.is_complete() else "open"
    return Record(
        vocabulary.decode(tokens[: read - ended], skip_special_tokens=False),
        tuple(recorder.steps),
        finish,
        not refused and (ended or matcher.is_accepting()),
        source_of(guide.constraint),
        name,
        prompt if name is not None else None,
        _name(vocabulary),
        vocabulary.decode(tokens[read:], skip_special_tokens=False),
    )


def _vocabulary_of(target: Constraint | Guide, given: Vocabulary | None, model: Model | None) -> Vocabulary:
    """The vocabulary of a replay: the given one, that of the model, or that of the guide. They must be the same."""
    own = target.vocabulary if isinstance(target, Guide) else None
    found = given or (own if model is None else model.vocabulary)
    if found is None:
        raise CompileError(
            "a replay needs the tokens of a model: pass vocabulary=…, model=… or a compiled guide",
            code="no-vocabulary",
        )
    if model is not None and found != model.vocabulary:
        raise CompileError("this is not the model's vocabulary; leave it out", code="other-vocabulary")
    if own is not None and found != own:
        raise CompileError(
            "the guide was compiled for another vocabulary; compile it for this one", code="other-vocabulary"
        )
    return found


def _read_along(
    recorder: Recorder, matcher: Matcher, tokens: Sequence[int], model: Model | None, prompt: Sequence[int]
) -> int:
    """Reads tokens up to the first that is not allowed, or that ends the text. Returns how many were read.

    Args:
        model: asked at every token what it would have written, if there is one.
        prompt: the tokens of its prompt.
    """
    session = None if model is None else model.new_session(1, len(prompt) + len(tokens))
    try:
        for i, token in enumerate(tokens):
            logits = None
            if session is not None:
                logits = session.feed([prompt if i == 0 else [tokens[i - 1]]])[0].copy()
            fits = matcher.fork().accept_token(token)
            recorder.on_step(0, matcher, token, logits, how="given" if fits else "refused")
            if not fits:
                return i
            matcher.accept_token(token)
            if matcher.is_terminated():
                return i + 1
    finally:
        if session is not None:
            session.close()
    return len(tokens)


def _guide_of(written: Constraint, judged: Constraint, vocabulary: Vocabulary, tokens: Sequence[int]) -> Guide:
    """The guide that a model writes under; or the one that judges texts, if that reads more of this text."""
    guide = compile(written, vocabulary)
    read = guide.matcher().validate(tokens)
    if written is judged or read == len(tokens):
        return guide
    other = compile(judged, vocabulary)
    return other if other.matcher().validate(tokens) > read else guide


def _tokens(vocabulary: Vocabulary, text: str) -> list[int]:
    """The tokens of a text; without an encoder, the longest token at each position."""
    if vocabulary.can_encode:
        return vocabulary.encode(text)
    core, data = vocabulary.core, text.encode("utf-8", "surrogatepass")
    tokens: list[int] = []
    at = 0
    while at < len(data):
        for end in range(min(len(data), at + core.longest_token), at, -1):
            token = core.find(data[at:end])
            if token >= 0:
                break
        else:
            raise VocabularyError(
                f"no token of the vocabulary spells the text at byte {at}, which continues with {data[at : at + 8]!r}",
                code="not-encodable",
            )
        tokens.append(token)
        at = end
    return tokens


def _name(vocabulary: Vocabulary) -> str:
    return f"{vocabulary.name or 'vocabulary'}, {vocabulary.size:,} tokens"
