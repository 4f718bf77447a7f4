"""Runs a model under a constraint, a JSON Schema or a Python type.

:func:`generate` returns an output or a value, :func:`stream` shows it while it grows, and :func:`generations` also
returns tokens, finish reasons and times. The loop is in :mod:`guiderail.generation.decoding`;
:mod:`guiderail.generation.targets` turns what a user passes into a constraint.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from guiderail.constraints.constraint import Constraint
from guiderail.constraints.reading import Reading
from guiderail.errors import CompileError, ModelError
from guiderail.frontends.given import are_texts
from guiderail.frontends.prompts import prompt_of
from guiderail.generation.conversation import Conversation, Prompt, encode_prompt, prompts_of, with_words
from guiderail.generation.decoding import Batch
from guiderail.generation.distribution.draws import draws
from guiderail.generation.healing import take_back
from guiderail.generation.models import Model, model_of, opened
from guiderail.generation.options import MISSING, Options, options_of, takes_options
from guiderail.generation.result import (
    FinishReason,
    Generation,
    IncompleteError,
    OnShortened,
    ShortenedError,
    ShortenedWarning,
    check_ends,
)
from guiderail.generation.streams import Drawn, Snapshot, Stream, ValueStream
from guiderail.generation.targets import as_constraint, uncompiled
from guiderail.matching.guide import Guide, compile
from guiderail.support.arguments import checked

if TYPE_CHECKING:
    from typing import TypeAlias

    from typing_extensions import Unpack

    from guiderail.frontends.json_schema import JsonSchema
    from guiderail.frontends.python_types import PythonType
    from guiderail.frontends.tools import ToolCalls, ToolText
    from guiderail.frontends.xml_schema import XmlSchema
    from guiderail.generation.options import GenerateOptions, StreamOptions

    _Many: TypeAlias = list[str] | tuple[str, ...] | Sequence[Conversation]
    _Text: TypeAlias = Constraint | list[str] | tuple[str, ...]  # what gives a text as it is written
    _Valued: TypeAlias = JsonSchema | XmlSchema  # constraints whose texts are read as values


__all__ = [
    "FinishReason",
    "Generation",
    "IncompleteError",
    "ShortenedError",
    "ShortenedWarning",
    "Snapshot",
    "Stream",
    "ValueStream",
    "generate",
    "generations",
    "stream",
]

T = TypeVar("T")


@overload
def stream(model: Any, prompt: Prompt, target: type[T], **options: Unpack[StreamOptions]) -> ValueStream[T]: ...
@overload
def stream(model: Any, prompt: Prompt, target: PythonType[T], **options: Unpack[StreamOptions]) -> ValueStream[T]: ...
@overload
def stream(
    model: Any, prompt: Prompt, target: ToolCalls, **options: Unpack[StreamOptions]
) -> ValueStream[ToolText]: ...
@overload
def stream(
    model: Any, prompt: Prompt, target: Mapping[str, Any] | _Valued, **options: Unpack[StreamOptions]
) -> ValueStream[Any]: ...
@overload
def stream(model: Any, prompt: Prompt, target: _Text, **options: Unpack[StreamOptions]) -> Stream: ...
@overload
def stream(model: Any, prompt: Prompt, target: Any, **options: Unpack[StreamOptions]) -> Any: ...
@checked
@takes_options(without=["n"], log_weight=True)
def stream(
    model: Any,
    prompt: Prompt,
    target: Any = MISSING,
    *,
    growing_strings: bool = True,
    **options: Any,
) -> Stream | ValueStream[Any]:
    """Like :func:`generate` for one prompt, but yields the result while it grows.

    Under a constraint on plain text, it yields pieces of the text as strings:

        >>> for piece in gr.stream(None, "When did Apollo 11 land?", gr.patterns.date()):
        ...     print(piece, end="", flush=True)

    Under a JSON Schema or a Python type, it yields a snapshot of the value for each piece. A snapshot has ``value``,
    ``text``, ``delta``, ``finished`` and ``path``. The last one has ``done`` set, and its value is validated:

        >>> for snapshot in gr.stream(None, "Describe Ada Lovelace.", Person):
        ...     print(snapshot.value.name, snapshot.finished)

    In the value of a snapshot, finished parts have their final type. Unfinished models, dataclasses and other records
    are made without validation, and fields that are not written yet are None. Numbers, dates and the like appear when
    they are finished.

    With ``distribution="exact"`` or ``"weighted"``, the text is known only when it is complete, and comes in one piece.

    Args:
        model: as for :func:`generate`, and so are the options that are not listed here.
        prompt: one prompt: a string, or a list of messages.
        target: as for :func:`generate`.
        growing_strings: show unfinished strings (where the type says ``str``); False holds them back.

    Returns:
        A :class:`Stream` of strings or a :class:`ValueStream` of snapshots (:class:`Snapshot`), with ``tokens``,
        ``text``, ``finish_reason`` and ``result``. ``on_incomplete`` and ``on_shortened`` take effect after the last
        piece. If a value was shortened, no snapshot has ``done`` set.
    """
    chosen = options_of("stream", options, target, without=["n"], log_weight=True)
    asked, single = prompts_of(prompt, single=True)
    if not single:
        raise ModelError("stream takes one prompt: a string, or a list of messages", code="bad-prompt")
    wanted = as_constraint(target)
    reading = wanted.reading()
    if reading.is_text and growing_strings is not True:
        raise ModelError(
            "growing_strings applies to the values of schemas and types; this target yields text",
            code="bad-option",
        )
    runner, owned = model_of(model)
    try:
        encoded = encoded_prompt(runner, asked[0], target, chosen)
        encoded, guide, prefix = _begun(runner, encoded, wanted, chosen)
        batch: Batch | Drawn
        if chosen.distribution == "masked":
            batch = Batch(runner, [encoded], [guide], [reading], options=chosen, prefixes=[prefix])
        else:
            batch = Drawn(
                runner,
                reading,
                len(encoded),
                lambda stop: draws(runner, encoded, guide, reading, chosen, prefix=prefix, stop=stop),
            )
    except BaseException:
        if owned:
            runner.close()
        raise
    if reading.is_text:
        return Stream(batch, chosen, owned)
    return ValueStream(batch, chosen, owned, growing_strings)


@checked
@takes_options(on_incomplete="return", log_weight=True)
def generations(
    model: Any,
    prompts: Sequence[Prompt],
    target: Any = MISSING,
    *,
    n: int | None = None,
    **options: Unpack[GenerateOptions],
) -> list[Generation]:
    """Like :func:`generate` for a list of prompts, but returns a :class:`Generation` for each: text, value, tokens …

    Three defaults differ. ``on_incomplete="return"``: the model writes as if there were no limit, and an output that
    runs out of tokens is returned as it is, with the ``finish_reason`` ``"length"``. ``on_shortened="return"``: with
    ``on_incomplete="finish"``, the ``finish_reason`` says that an output was shortened. ``log_weight=True``.
    """
    chosen = options_of("generations", {**options, "n": n}, target, on_incomplete="return", log_weight=True)
    results, _ = run(model, prompts, target, chosen, single=False)
    return finished(results, chosen, on_shortened="return")


def run(
    model: Any, prompt: object, target: Any, options: Options, *, single: bool, stop: threading.Event | None = None
) -> tuple[list[Generation], bool]:
    """Generates, and says whether one prompt was given by itself.

    Args:
        single: whether one prompt may be given by itself.
        stop: set by a caller who wants no more; then what there is so far is returned.
    """
    prompts, alone = prompts_of(prompt, single=single)
    several = isinstance(target, list | tuple) and bool(target) and not are_texts(target)
    if several and len(target) != len(prompts):
        raise ModelError(
            f"the numbers of prompts ({len(prompts)}) and constraints ({len(target)}) differ; give one constraint, or "
            "one for each prompt. Choices must be a list of strings",
            code="bad-batch",
        )
    wanted = [as_constraint(one) for one in target] if several else [as_constraint(target)] * len(prompts)
    with opened(model) as runner:
        targets = target if several else [target] * len(prompts)
        encoded = [encoded_prompt(runner, one, goal, options) for one, goal in zip(prompts, targets, strict=True)]
        begun = [_begun(runner, tokens, one, options) for tokens, one in zip(encoded, wanted, strict=True)]
        if options.distribution != "masked":
            return _drawn(runner, begun, [one.reading() for one in wanted], options, stop), alone
        n = options.n or 1
        begun, wanted = _each(begun, n), _each(wanted, n)
        size = runner.max_batch or max(1, len(begun))
        results: list[Generation] = []
        for start in range(0, len(begun), size):
            part = slice(start, start + size)
            readings = [one.reading() for one in wanted[part]]
            tokens, guides, prefixes = zip(*begun[part], strict=True)
            batch = Batch(runner, tokens, guides, readings, options=options, first_row=start, prefixes=prefixes)
            with contextlib.closing(batch.steps()) as steps:
                for _ in steps:
                    if stop is not None and stop.is_set():
                        break
            results += [batch.generation(i) for i in range(len(batch.rows))]
    return results, alone


def _drawn(
    model: Model,
    begun: list[tuple[list[int], Guide, bytes]],
    readings: list[Reading],
    options: Options,
    stop: threading.Event | None,
) -> list[Generation]:
    """Like :func:`run`, but draws from the model's own distribution, one prompt at a time.

    Args:
        begun: see :func:`_begun`.
    """
    results: list[Generation] = []
    for i, ((prompt, guide, prefix), reading) in enumerate(zip(begun, readings, strict=True)):
        which = f" of prompt {i}" if len(begun) > 1 else ""
        first = i * (options.n or 1)
        results += draws(
            model, prompt, guide, reading, options, prefix=prefix, first_row=first, which=which,
            stop=None if stop is None else stop.is_set,
        )  # fmt: skip
    return results


def finished(
    results: list[Generation], options: Options, *, on_shortened: OnShortened | None = None
) -> list[Generation]:
    """The results, if the options accept how they ended.

    Args:
        on_shortened: used if the options do not say.
    """
    check_ends(results, options.on_incomplete, options.on_shortened or on_shortened, options.n or 1)
    return results


def values_of(results: list[Generation], options: Options, *, single: bool) -> Any:
    """What ``generate`` returns for these results."""
    values: list[Any] = [result.value for result in results]
    if options.n is not None:
        values = [values[i : i + options.n] for i in range(0, len(values), options.n)]
    return values[0] if single else values


@overload
def generate(model: Any, prompt: Prompt, target: type[T], *, n: int, **options: Unpack[GenerateOptions]) -> list[T]: ...
@overload
def generate(
    model: Any, prompt: Prompt, target: PythonType[T], *, n: int, **options: Unpack[GenerateOptions]
) -> list[T]: ...
@overload
def generate(
    model: Any, prompt: Prompt, target: ToolCalls, *, n: int, **options: Unpack[GenerateOptions]
) -> list[ToolText]: ...
@overload
def generate(
    model: Any,
    prompt: Prompt,
    target: Mapping[str, Any] | _Valued,
    *,
    n: int,
    **options: Unpack[GenerateOptions],
) -> list[Any]: ...
@overload
def generate(model: Any, prompt: Prompt, target: _Text, *, n: int, **options: Unpack[GenerateOptions]) -> list[str]: ...
@overload
def generate(model: Any, prompt: Prompt, target: type[T], **options: Unpack[GenerateOptions]) -> T: ...
@overload
def generate(model: Any, prompt: Prompt, target: PythonType[T], **options: Unpack[GenerateOptions]) -> T: ...
@overload
def generate(model: Any, prompt: Prompt, target: ToolCalls, **options: Unpack[GenerateOptions]) -> ToolText: ...
@overload
def generate(
    model: Any, prompt: Prompt, target: Mapping[str, Any] | _Valued, **options: Unpack[GenerateOptions]
) -> Any: ...
@overload
def generate(model: Any, prompt: Prompt, target: _Text, **options: Unpack[GenerateOptions]) -> str: ...
@overload
def generate(
    model: Any,
    prompt: _Many,
    target: type[T] | Sequence[type[T]],
    **options: Unpack[GenerateOptions],
) -> list[T]: ...
@overload
def generate(
    model: Any,
    prompt: _Many,
    target: PythonType[T] | Sequence[PythonType[T]],
    **options: Unpack[GenerateOptions],
) -> list[T]: ...
@overload
def generate(
    model: Any,
    prompt: _Many,
    target: ToolCalls | Sequence[ToolCalls],
    **options: Unpack[GenerateOptions],
) -> list[ToolText]: ...
@overload
def generate(
    model: Any,
    prompt: _Many,
    target: Mapping[str, Any] | _Valued | Sequence[Mapping[str, Any] | _Valued],
    **options: Unpack[GenerateOptions],
) -> list[Any]: ...
@overload
def generate(
    model: Any,
    prompt: _Many,
    target: _Text | Sequence[Constraint],
    **options: Unpack[GenerateOptions],
) -> list[str]: ...
@overload
def generate(
    model: Any,
    prompt: Prompt | _Many,
    target: Any,
    *,
    n: int | None = None,
    **options: Unpack[GenerateOptions],
) -> Any: ...
@checked
@takes_options()
def generate(
    model: Any,
    prompt: Prompt | _Many,
    target: Any = MISSING,
    **options: Any,
) -> Any:
    """Generates text under a constraint, or a value under a JSON Schema or a Python type.

    Example:
        >>> gr.generate(None, "When did Apollo 11 land on the Moon?", gr.patterns.date())
        >>> gr.generate(None, "Describe Ada Lovelace.", Person)

    Args:
        model: a :class:`Model` or whatever :func:`load_model` takes (load it once if you call this often). None means
            the embedded model, which stays loaded.
        prompt: one prompt, or a list of prompts that run together as a batch. A prompt is a string, or a list of
            messages for the model's chat template: dicts with a ``role`` (``system``, ``user``, ``assistant`` …) and a
            ``content``.
        target: what to write, or a list with one target for each prompt.

            - A constraint or a compiled guide returns the text. ``gr.json_schema(...)``, ``gr.python_type(...)`` and
              ``gr.xml_schema(...)`` return the value, and ``gr.tool_calls(...)`` returns what its ``parse`` finds:
              reasoning, content and calls.
            - A dict is a JSON Schema (one of its keys must be a keyword of JSON Schema) and returns the parsed JSON.
              For options, pass ``gr.json_schema(schema, ...)``. Both write properties in the order of the schema and
              whitespace like ``json.dumps``, unless ``property_order`` or ``layout`` say otherwise.
            - A list of strings, such as ``["yes", "no"]``, is a choice, and returns the chosen text.
            - A Python type (a pydantic model, a dataclass, ``list[int]``, ``Literal[...]`` …) returns a value of the
              type.
        max_tokens: maximum number of tokens to write, forced ones included. The text is complete by then; see
            ``on_incomplete``.
        temperature: 0 takes the most likely allowed token; 1 samples from the model's own probabilities.
        top_p: sample among the most likely tokens whose probabilities reach this sum.
        top_k: sample among this many of the most likely tokens.
        seed: makes sampling repeatable; each row has a random stream of its own.
        presence_penalty: subtracted from the logit of each token that is already in the text, from -2 to 2.
        frequency_penalty: subtracted once for each time that the token is in the text, from -2 to 2.
        repetition_penalty: for tokens of the prompt and the text, positive logits are divided by it and negative ones
            multiplied; 1 changes nothing.
        stop: one or several stop strings, which end the generation and are not part of the result. A text is
            returned as far as it was generated; a value must be complete by then.
        logprobs: return log-probabilities (``Generation.logprobs``): 0 for the written tokens only, a higher number
            also for that many of the most likely tokens at each step.
        log_weight: return the importance weight (``Generation.log_weight``). It needs the logits of forced tokens, and
            one more forward pass if only a stop token can follow the text. On by default in functions that return a
            :class:`Generation`.
        distribution: the distribution to draw from; see ``docs/distribution.md``. All but ``"masked"`` need a
            temperature.

            - ``"masked"``: each token from what the mask leaves. The beginnings of outputs are then as likely as
            without
              the constraint, whatever follows them.
            - ``"exact"``: what the model itself would write, given that it keeps to the constraint and ends within
              ``max_tokens``.
            - ``"weighted"``: approximately that, with estimates and their errors, from a population of outputs in
              ``Generation.draw``.
        max_passes: with ``"exact"``, maximum number of forward passes for one output.
        particles: with ``"weighted"``, the number of outputs in the population, at most 65,536.
        n: the number of outputs to write for each prompt, at most 65,536; the result is a list of them. Needs a
            temperature.
        system: the system message; needs ``chat=True``.
        chat: wrap the prompt in the model's chat template; False continues the prompt unchanged.
        describe: describe the schema or type in the prompt, in words (see :func:`prompt_of`). The model does not see it
            otherwise.
        jump_forward: write forced text as the tokenizer spells it, without asking the model token by token. The text is
            the same either way; the model then reads the usual spelling.
        canonical: write only tokens that the tokenizer itself would make of the text (``docs/canonical.md``).
        heal: remove the last tokens of the prompt if longer ones may begin with their text, and write that text again
            with what follows. The result does not contain it. For prompts that end inside a word; needs ``chat=False``.
        on_incomplete: what to do about an output that would not be complete after ``max_tokens`` tokens.

            - ``"finish"``: prevent it. The model never writes a token that leaves too few to finish. If ``max_tokens``
              does not suffice from the start, a LimitError says so at once. If the model is kept from a token that it
              chose, the text is *shortened*; see ``on_shortened``.
            - ``"error"``: the model writes as if there were no limit; reaching it raises an IncompleteError.
            - ``"return"``: the same, but return the text so far, or as much of the value as it holds.
        on_shortened: what to do about an output that is complete only because guiderail shortened it. Its last part is
            not what the model would have written: a list lacks rows, a total is wrong.

            - ``"error"``: raise a ShortenedError; the default if a value is returned.
            - ``"warn"``: return it, with a ShortenedWarning; the default if a text is returned.
            - ``"return"``: return it.

    Returns:
        The text or the value, or a list of them for a list of prompts. With ``n``, each of them is a list of ``n``;
        :func:`generations` returns a flat list, with the ``n`` of each prompt in sequence.

    Raises:
        LimitError: ``budget-too-small`` or ``budget-unknown``: see ``on_incomplete``.
        IncompleteError: see ``on_incomplete``.
        ShortenedError: see ``on_shortened``.
        CompileError: the target is none of these, or it cannot be compiled for the model's vocabulary.
        ReadError: your own code (a validator, ``__post_init__``) rejects the value.
        ModelError: the model cannot be loaded or run, the prompt does not fit, or an option is out of range.
            ``max-passes``: no exact draw was found in that many passes. ``no-mass``: the model gives no
            probability to any match.
    """
    chosen = options_of("generate", options, target)
    results, single = run(model, prompt, target, chosen, single=True)
    return values_of(finished(results, chosen), chosen, single=single)


def _each(values: Sequence[T], n: int) -> list[T]:
    return [one for one in values for _ in range(n)]


def encoded_prompt(model: Model, prompt: Prompt, target: Any, options: Options) -> list[int]:
    """The token ids of a prompt, with a description of the target if the options ask for it."""
    if options.describe:
        prompt = with_words(prompt, prompt_of(uncompiled(target)))
    return encode_prompt(model, prompt, options)


def _begun(
    model: Model, prompt: list[int], wanted: Constraint | Guide, options: Options
) -> tuple[list[int], Guide, bytes]:
    """The tokens of a prompt, the guide of what follows, and which bytes at its beginning belong to the prompt."""
    prefix = b""
    if options.heal:
        prompt, prefix = take_back(prompt, model.vocabulary)
    return prompt, guide_for(wanted, model, options.canonical, prefix.decode()), prefix


def guide_for(wanted: Constraint | Guide, model: Model, canonical: bool, prefix: str = "") -> Guide:
    """The guide of a target for a model's vocabulary.

    Args:
        canonical: whether only canonical spellings are allowed.
        prefix: a text that it requires first.

    Raises:
        CompileError: ``other-vocabulary``: the target is a guide for another vocabulary; or it cannot be compiled.
    """
    if isinstance(wanted, Guide):
        if wanted.vocabulary is not model.vocabulary and wanted.vocabulary != model.vocabulary:
            raise CompileError(
                f"the guide was compiled for {wanted.vocabulary!r}, not for the model's {model.vocabulary!r}; "
                "compile it again with gr.compile(constraint, model.vocabulary)",
                code="other-vocabulary",
            )
        canonical = canonical or wanted.is_canonical
        if canonical == wanted.is_canonical and not prefix:
            return wanted
        wanted = wanted.constraint
    return compile(prefix + wanted if prefix else wanted, model.vocabulary, canonical=canonical)
