"""Runs a model under a constraint, a JSON Schema or a Python type.

:func:`generate` returns a text or a value, :func:`stream` shows it while it grows, and :func:`generations` also returns
tokens, finish reasons and times. The loop is in :mod:`guiderail.generation.decoding`;
:mod:`guiderail.generation.targets` turns what a user passes into a constraint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from guiderail.constraints.constraint import Constraint
from guiderail.errors import CompileError, ModelError
from guiderail.frontends.given import are_texts
from guiderail.frontends.prompts import prompt_of
from guiderail.generation.decoding import Batch, FinishReason, Generation, IncompleteError
from guiderail.generation.models import Model, default_model, load_model
from guiderail.generation.sampling import Sampling
from guiderail.generation.streams import OnIncomplete as OnIncomplete, Snapshot, Stream, ValueStream, check_complete
from guiderail.generation.targets import as_constraint
from guiderail.matching.guide import Guide, compile
from guiderail.support.texts import shown

if TYPE_CHECKING:
    from typing import TypeAlias

    from typing_extensions import TypedDict, Unpack

    from guiderail.frontends.json_schema import JsonSchema
    from guiderail.frontends.python_types import PythonType
    from guiderail.frontends.tools import ToolCalls
    from guiderail.frontends.xml_schema import XmlSchema

    _Valued: TypeAlias = JsonSchema | ToolCalls | XmlSchema  # constraints whose texts are read as values

    class _Options(TypedDict, total=False):
        max_tokens: int
        temperature: float
        top_p: float
        top_k: int | None
        seed: int | None
        system: str | None
        chat: bool
        describe: bool
        jump_forward: bool
        on_incomplete: OnIncomplete

    class _StreamOptions(_Options, total=False):
        growing_strings: bool


__all__ = [
    "FinishReason",
    "Generation",
    "IncompleteError",
    "Snapshot",
    "Stream",
    "ValueStream",
    "generate",
    "generations",
    "stream",
]

T = TypeVar("T")

DEFAULT_MAX_TOKENS = 256


@overload
def stream(model: Any, prompt: str, target: type[T], **options: Unpack[_StreamOptions]) -> ValueStream[T]: ...
@overload
def stream(model: Any, prompt: str, target: PythonType[T], **options: Unpack[_StreamOptions]) -> ValueStream[T]: ...
@overload
def stream(
    model: Any, prompt: str, target: Mapping[str, Any] | _Valued, **options: Unpack[_StreamOptions]
) -> ValueStream[Any]: ...
@overload
def stream(model: Any, prompt: str, target: Constraint, **options: Unpack[_StreamOptions]) -> Stream: ...
@overload
def stream(model: Any, prompt: str, target: Any, **options: Unpack[_StreamOptions]) -> Any: ...
def stream(
    model: Any,
    prompt: str,
    target: Any,
    *,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    temperature: float = 0.0,
    top_p: float = 1.0,
    top_k: int | None = None,
    seed: int | None = None,
    system: str | None = None,
    chat: bool = True,
    describe: bool = False,
    jump_forward: bool = True,
    on_incomplete: OnIncomplete = "finish",
    growing_strings: bool = True,
) -> Stream | ValueStream[Any]:
    """Like :func:`generate` for one prompt, but yields the result while it grows.

    Under a constraint on plain text, it yields pieces of the text as strings:

        >>> for piece in gr.stream(None, "When did Apollo 11 land?", gr.patterns.date()):
        ...     print(piece, end="", flush=True)

    Under a JSON Schema or a Python type, it yields snapshots of the value, one for each piece. A snapshot has
    ``value``, ``text``, ``delta``, ``finished`` and ``path``; in the last, ``done`` is set and the value is validated:

        >>> for snapshot in gr.stream(None, "Describe Ada Lovelace.", Person):
        ...     print(snapshot.value.name, snapshot.finished)

    In the value of a snapshot, finished parts have their type. Models, dataclasses and other records that are not
    finished are made without validation, and fields that are not written yet are None. Numbers, dates and the like
    appear when they are finished.

    Args:
        model: as for :func:`generate`, and so are the options that are not listed here.
        prompt: one prompt.
        target: as for :func:`generate`.
        growing_strings: show strings (where the type says ``str``) that are not finished; False holds them back.

    Returns:
        A :class:`Stream` of strings or a :class:`ValueStream` of :class:`Snapshot`\\ s, with ``tokens``, ``text``,
        ``finish_reason`` and ``result``. With ``on_incomplete="error"`` it ends by raising IncompleteError if the
        tokens ran out; with ``"finish"``, the default, that cannot happen.
    """
    if not isinstance(prompt, str):
        raise ModelError(f"stream takes one prompt, a string, not {type(prompt).__name__}", code="bad-prompt")
    _check(on_incomplete, max_tokens, chat, system)
    wanted = as_constraint(target)
    reading = wanted.reading()
    if reading.is_text and growing_strings is not True:
        raise ModelError(
            "growing_strings applies to the values of schemas and types; this target yields text",
            code="bad-option",
        )
    sampling = Sampling(temperature, top_p, top_k, seed)
    runner, owned = _model(model)
    try:
        batch = Batch(
            runner,
            [runner.encode(_prompt(prompt, target, describe), chat=chat, system=system)],
            [_guide(wanted, runner)],
            [reading],
            max_tokens=max_tokens,
            sampling=sampling,
            first_row=0,
            jump_forward=jump_forward,
            finish=on_incomplete == "finish",
        )
    except BaseException:
        if owned:
            runner.close()
        raise
    if reading.is_text:
        return Stream(batch, on_incomplete, owned)
    return ValueStream(batch, on_incomplete, owned, growing_strings)


def generations(
    model: Any,
    prompts: Sequence[str],
    target: Any,
    *,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    temperature: float = 0.0,
    top_p: float = 1.0,
    top_k: int | None = None,
    seed: int | None = None,
    system: str | None = None,
    chat: bool = True,
    describe: bool = False,
    jump_forward: bool = True,
    on_incomplete: OnIncomplete = "return",
) -> list[Generation]:
    """Like :func:`generate` for a list of prompts, but also returns texts, tokens, finish reasons and times."""
    if not isinstance(prompts, list | tuple) or not all(isinstance(prompt, str) for prompt in prompts):
        raise ModelError("a prompt is a string, or several are a list of strings", code="bad-prompt")
    _check(on_incomplete, max_tokens, chat, system)
    sampling = Sampling(temperature, top_p, top_k, seed)
    several = isinstance(target, list | tuple) and not are_texts(target)
    if several and len(target) != len(prompts):
        raise ModelError(
            f"there are {len(prompts)} prompts and {len(target)} constraints; "
            "give one constraint, or one for each prompt",
            code="bad-batch",
        )
    wanted = [as_constraint(one) for one in target] if several else [as_constraint(target)] * len(prompts)
    runner, owned = _model(model)
    try:
        guides = [_guide(one, runner) for one in wanted]
        targets = target if several else [target] * len(prompts)
        asked = [_prompt(prompt, one, describe) for prompt, one in zip(prompts, targets, strict=True)]
        encoded = [runner.encode(prompt, chat=chat, system=system) for prompt in asked]
        size = runner.max_batch or max(1, len(prompts))
        results: list[Generation] = []
        for start in range(0, len(prompts), size):
            batch = Batch(
                runner,
                encoded[start : start + size],
                guides[start : start + size],
                [one.reading() for one in wanted[start : start + size]],
                max_tokens=max_tokens,
                sampling=sampling,
                first_row=start,
                jump_forward=jump_forward,
                finish=on_incomplete == "finish",
            )
            for _ in batch.steps():
                continue
            results += [batch.generation(i) for i in range(len(batch.rows))]
    finally:
        if owned:
            runner.close()
    check_complete(results, on_incomplete)
    return results


@overload
def generate(model: Any, prompt: str, target: type[T], **options: Unpack[_Options]) -> T: ...
@overload
def generate(model: Any, prompt: str, target: PythonType[T], **options: Unpack[_Options]) -> T: ...
@overload
def generate(model: Any, prompt: str, target: Mapping[str, Any] | _Valued, **options: Unpack[_Options]) -> Any: ...
@overload
def generate(model: Any, prompt: str, target: Constraint, **options: Unpack[_Options]) -> str: ...
@overload
def generate(
    model: Any, prompt: list[str] | tuple[str, ...], target: type[T] | Sequence[type[T]], **options: Unpack[_Options]
) -> list[T]: ...
@overload
def generate(
    model: Any,
    prompt: list[str] | tuple[str, ...],
    target: PythonType[T] | Sequence[PythonType[T]],
    **options: Unpack[_Options],
) -> list[T]: ...
@overload
def generate(
    model: Any,
    prompt: list[str] | tuple[str, ...],
    target: Mapping[str, Any] | _Valued | Sequence[Mapping[str, Any] | _Valued],
    **options: Unpack[_Options],
) -> list[Any]: ...
@overload
def generate(
    model: Any,
    prompt: list[str] | tuple[str, ...],
    target: Constraint | Sequence[Constraint],
    **options: Unpack[_Options],
) -> list[str]: ...
@overload
def generate(
    model: Any, prompt: str | list[str] | tuple[str, ...], target: Any, **options: Unpack[_Options]
) -> Any: ...
def generate(
    model: Any,
    prompt: str | list[str] | tuple[str, ...],
    target: Any,
    *,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    temperature: float = 0.0,
    top_p: float = 1.0,
    top_k: int | None = None,
    seed: int | None = None,
    system: str | None = None,
    chat: bool = True,
    describe: bool = False,
    jump_forward: bool = True,
    on_incomplete: OnIncomplete = "finish",
) -> Any:
    """Makes a model write: a text under a constraint, a value under a JSON Schema or a Python type.

    Example:
        >>> gr.generate(None, "When did Apollo 11 land on the Moon?", gr.patterns.date())
        >>> gr.generate(None, "Describe Ada Lovelace.", Person)

    Args:
        model: a :class:`Model` or whatever :func:`load_model` takes (load it once if you call this often); None is
            the embedded model, which stays loaded.
        prompt: one prompt, or a list of them, which run together as a batch.
        target: what to write; or a list with one target for each prompt.

            - A constraint or a compiled guide returns the text. ``gr.json_schema(...)``, ``gr.python_type(...)`` and
              ``gr.xml_schema(...)`` return the value, and ``gr.tool_calls(...)`` returns what its ``parse`` finds:
              reasoning, content and calls.
            - A dict is a JSON Schema (one of its keys must be a keyword of JSON Schema) and returns the parsed JSON.
              For options, pass ``gr.json_schema(schema, ...)``. In both, the model writes properties in the order in
              which the schema declares them, unless ``property_order="any"`` is said.
            - A list of texts, such as ``["yes", "no"]``, is a choice, and returns the one that was chosen.
            - A Python type (a pydantic model, a dataclass, ``list[int]``, ``Literal[...]`` …) returns a value of the
              type.
        max_tokens: maximum number of tokens to write, forced ones included. The text is complete by then; see
            ``on_incomplete``.
        temperature: 0 takes the most likely allowed token; 1 samples from the model's own probabilities.
        top_p: sample among the most likely tokens whose probabilities reach this sum.
        top_k: sample among this many of the most likely tokens.
        seed: makes sampling repeatable; each row has a random stream of its own.
        system: the system message; needs ``chat=True``.
        chat: wrap the prompt in the model's chat template; False continues the prompt unchanged.
        describe: add to the prompt what the schema or type wants, in words (see :func:`prompt_of`). The model does not
            see it otherwise.
        jump_forward: write forced text as the tokenizer spells it, without asking the model token by token. The text
            is the same either way; the model then reads the usual spelling.
        on_incomplete: what to do about a text that would not be complete after ``max_tokens`` tokens.

            - ``"finish"``: prevent it. The model never writes a token that leaves too few to finish. If ``max_tokens``
              does not suffice from the start, a LimitError says so at once.
            - ``"error"``: the model writes as if there were no limit; reaching it raises an IncompleteError.
            - ``"return"``: the same, but return the text so far, or as much of the value as it holds.

    Returns:
        The text or the value, or a list of them for a list of prompts. :func:`generations` gives both.

    Raises:
        LimitError: ``budget-too-small`` or ``budget-unknown``: see ``on_incomplete``.
        IncompleteError: see ``on_incomplete``.
        CompileError: this is not a target, or it cannot be compiled for the model's vocabulary.
        ReadError: the user's own code (a validator, ``__post_init__``) rejects the value.
        ModelError: the model cannot be loaded or run, the prompt does not fit, or an option is out of range.
    """
    single = isinstance(prompt, str)
    results = generations(
        model,
        [prompt] if isinstance(prompt, str) else prompt,
        target,
        max_tokens=max_tokens,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        seed=seed,
        system=system,
        chat=chat,
        describe=describe,
        jump_forward=jump_forward,
        on_incomplete=on_incomplete,
    )
    values = [result.value for result in results]
    return values[0] if single else values


def _check(on_incomplete: str, max_tokens: int, chat: bool, system: str | None) -> None:
    if on_incomplete not in ("finish", "error", "return"):
        raise ModelError(
            f'on_incomplete is "finish", "error" or "return", not {shown(on_incomplete)}', code="bad-option"
        )
    if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 1:
        raise ModelError(f"max_tokens must be a whole number from 1, not {shown(max_tokens)}", code="bad-option")
    if system is not None and not chat:
        raise ModelError("a system message needs the chat template: leave chat=True", code="bad-option")


def _prompt(prompt: str, target: Any, describe: bool) -> str:
    """The prompt, and what is wanted in words."""
    if not describe:
        return prompt
    return f"{prompt}\n\n{prompt_of(target.constraint if isinstance(target, Guide) else target)}"


def _model(source: Any) -> tuple[Model, bool]:
    """The model, and whether it was loaded for this call only."""
    if source is None:
        return default_model(), False
    model = load_model(source)
    return model, model is not source


def _guide(guide: Constraint | Guide, model: Model) -> Guide:
    if isinstance(guide, Constraint):
        return compile(guide, model.vocabulary)
    if guide.vocabulary is not model.vocabulary and guide.vocabulary != model.vocabulary:
        raise CompileError(
            f"the guide was compiled for {guide.vocabulary!r}, not for {model.vocabulary!r} of the model",
            code="other-vocabulary",
        )
    return guide
