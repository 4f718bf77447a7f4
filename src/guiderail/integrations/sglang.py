"""guiderail as a grammar backend of SGLang.

SGLang finds it through the entry point group ``sglang.srt.plugins``:

    $ python -m sglang.launch_server --model-path MODEL --grammar-backend guiderail

It serves JSON Schemas, regular expressions, grammars (``ebnf``: GBNF, EBNF or Lark) and structural tags. A request that
cannot be served is answered with 400 and the reason. With ``--reasoning-parser``, nothing is constrained until the
reasoning has ended. SGLang wraps its own backends for that; this one wraps itself, also for
``--enable-strict-thinking``.
"""

from __future__ import annotations

import functools
import json
import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from sglang.srt.constrained.base_grammar_backend import (
    BaseGrammarBackend,
    BaseGrammarObject,
    GrammarStats,
    InvalidGrammarObject,
)

from guiderail.errors import CompileError, GuiderailError, LimitError
from guiderail.integrations._requests import Asked, GuideStore
from guiderail.integrations._text import EngineText
from guiderail.matching.bitmask import apply_token_bitmask_inplace
from guiderail.matching.guide import Guide
from guiderail.matching.matcher import Matcher, fill_next_token_bitmasks
from guiderail.support.json_objects import loads

if TYPE_CHECKING:
    from guiderail.vocabulary import Vocabulary

__all__ = ["NAME", "GuiderailGrammar", "GuiderailGrammarBackend", "create", "register"]

NAME = "guiderail"
_CACHED = 512  # grammars, by request, including rejected ones
logger = logging.getLogger(__name__)


def register() -> None:
    """Registers the grammar backend ``"guiderail"`` in this process; called by SGLang."""
    from sglang.srt.arg_groups.choices import GRAMMAR_BACKEND_CHOICES, add_grammar_backend_choices
    from sglang.srt.constrained.base_grammar_backend import register_grammar_backend

    if NAME not in GRAMMAR_BACKEND_CHOICES:
        add_grammar_backend_choices([NAME])
    register_grammar_backend(NAME, create)


def create(server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: Collection[int] | None) -> Any:
    """Makes the backend of a server; called by SGLang.

    Args:
        server_args: the arguments of the server.
        tokenizer: a transformers tokenizer.
        vocab_size: the number of the model's logits.
        eos_token_ids: the tokens that end the model's texts; None: those of the tokenizer.

    Raises:
        CompileError: ``bad-option``: an option of the server that would be ignored.
    """
    settings = _settings(server_args, "serving")
    if getattr(settings, "constrained_json_max_whitespace_cnt", None) is not None:
        raise CompileError(
            "--constrained-json-max-whitespace-cnt is unknown to the guiderail backend; use "
            r"--constrained-json-whitespace-pattern, such as '[ \n]{0,3}'",
            code="bad-option",
        )
    backend = GuiderailGrammarBackend(
        tokenizer,
        vocab_size,
        eos_token_ids,
        compact=bool(getattr(settings, "constrained_json_disable_any_whitespace", False)),
        whitespace=getattr(settings, "constrained_json_whitespace_pattern", None),
    )
    if getattr(_settings(server_args, "spec"), "speculative_algorithm", None):
        _guard_trees()
    return _reasoning(backend, settings, tokenizer)


def _guard_trees() -> None:
    """Has SGLang's walk through the tree of a draft survive a limit."""
    from sglang.srt.speculative import spec_utils

    original = spec_utils.traverse_tree
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def traverse_tree(next_token: Any, next_sibling: Any, tokens: Any, grammar: Any, *rest: Any, **more: Any) -> None:
        inner = getattr(grammar, "grammar", grammar)  # within the reasoning's
        with inner.draft() if isinstance(inner, GuiderailGrammar) else nullcontext():
            original(next_token, next_sibling, tokens, grammar, *rest, **more)

    spec_utils.traverse_tree = traverse_tree


def _settings(server_args: Any, namespace: str) -> Any:
    """What the server has decided, such as the parser that it found for ``auto``; the arguments stay as given."""
    from sglang.srt.runtime_context import get_context

    context = get_context()
    return context.config_bag(namespace) if context.is_config_namespace_published(namespace) else server_args


def _reasoning(backend: GuiderailGrammarBackend, settings: Any, tokenizer: Any) -> Any:
    """The backend, wrapped in SGLang's own for reasoning models, if the server's model is one."""
    strict = bool(getattr(settings, "enable_strict_thinking", False))
    parser_name = getattr(settings, "reasoning_parser", None)
    if parser_name:
        from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarBackend
        from sglang.srt.parser.reasoning_parser import ReasoningParser

        parser = ReasoningParser(model_type=parser_name, stream_reasoning=False, tokenizer=tokenizer)
        if parser.detector.get_think_end_token_ids(tokenizer):  # as SGLang decides for its own backends
            wrapper = ReasonerGrammarBackend(backend, parser, tokenizer, enable_strict_thinking=strict)
            wrapper.cache = _Recent(_CACHED)
            return wrapper
    return backend


class _Recent(OrderedDict[Any, Any]):
    """SGLang's cache would keep every grammar forever; this one drops the least recently used."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def get(self, key: Any, default: Any = None) -> Any:
        if key not in self:
            return default
        self.move_to_end(key)
        return self[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        while len(self) > self.most:
            self.popitem(last=False)


class GuiderailGrammar(BaseGrammarObject):
    """The constraint of one request. For one thread at a time.

    Args:
        guide: the guide, shared by all requests for the same constraint.
        asked: what was requested.
        stop_token_ids: the tokens that end the text; None: the vocabulary's.
        stats: what SGLang reports about it.
    """

    def __init__(self, guide: Guide, asked: Asked, stop_token_ids: Sequence[int] | None, stats: Any = None) -> None:
        super().__init__()
        self.guide, self.asked, self.stop_token_ids = guide, asked, stop_token_ids
        self._text = EngineText(guide.matcher(stop_token_ids))
        self._beyond: int | None = None  # tokens of a draft read since a limit was reached; None: not within a draft
        self.grammar_stats = stats

    @property
    def matcher(self) -> Matcher:
        """The current matcher."""
        return self._text.matcher

    def accept_token(self, token: int) -> None:
        """Reads a token. Tokens after the end of the text do not count.

        Raises:
            ValueError: the token is not allowed here.
        """
        if self.matcher.is_terminated():
            return
        self.current_token = token
        try:
            taken = not self._beyond and self._text.read(token)
        except LimitError as error:
            if self._beyond is None:
                raise ValueError(str(error)) from error
            taken = False
        if self._beyond is not None and not taken:
            self._beyond += 1
            return
        if not taken:
            raise ValueError(f"token {token} cannot come after {self.matcher.history(20)} under {self.asked!r:.200}")

    def rollback(self, k: int) -> None:
        """Undoes the last ``k`` tokens read."""
        if self._beyond:
            beyond = min(k, self._beyond)
            self._beyond, k = self._beyond - beyond, k - beyond
        if k > 0:
            self._text.rollback(k)

    @contextmanager
    def draft(self) -> Iterator[None]:
        """Within the block, a limit raises nothing: the tokens are those of a draft.

        SGLang catches errors only where it reads tokens that were sampled. If the model samples a token that a draft
        could not read, the limit is reported then. Outside a draft, nothing has changed after the block.
        """
        self._beyond = 0
        try:
            yield
        finally:
            self._beyond = None

    def is_terminated(self) -> bool:
        """Whether a stop token was read."""
        return self.matcher.is_terminated()

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> Any:
        """Returns a CPU tensor, int32, ``(batch_size, words)``, that allows all tokens."""
        return _allocate(max(vocab_size, self.guide.vocabulary.size), batch_size)

    def fill_vocab_mask(self, vocab_mask: Any, idx: int) -> None:
        """Writes the mask into row ``idx``."""
        if not self._beyond:  # or the text ends with an error before the row is used
            self._text.fill(vocab_mask, idx)

    @staticmethod
    def fill_vocab_mask_batched(entries: Sequence[Any], vocab_mask: Any) -> None:
        """Fills the rows of many requests in one native call, on several threads."""
        native = [entry for entry in entries if isinstance(entry.grammar, GuiderailGrammar)]
        if native:
            try:
                fill_next_token_bitmasks(
                    [entry.grammar.matcher for entry in native], vocab_mask, rows=[entry.row for entry in native]
                )
            except LimitError:  # one of them failed: by now the others' results are known
                for entry in native:
                    entry.grammar.fill_vocab_mask(vocab_mask, entry.row)
        if len(native) < len(entries):
            others = [entry for entry in entries if not isinstance(entry.grammar, GuiderailGrammar)]
            BaseGrammarObject.fill_vocab_mask_batched(others, vocab_mask)

    @staticmethod
    def reset_vocab_mask(vocab_mask: Any) -> None:
        """Allows all tokens in all rows."""
        vocab_mask.fill_(-1)

    @staticmethod
    def move_vocab_mask(vocab_mask: Any, device: Any) -> Any:
        """Returns the mask on the device of the logits."""
        return vocab_mask.to(device, non_blocking=True)

    @staticmethod
    def apply_vocab_mask(logits: Any, vocab_mask: Any) -> None:
        """Writes -inf to the logits of forbidden tokens."""
        apply_token_bitmask_inplace(logits, vocab_mask)

    def copy(self) -> GuiderailGrammar:
        """Returns one for another request, at the start of its text."""
        stats = self.grammar_stats
        if stats is not None:
            from dataclasses import replace

            stats = replace(stats, is_cache_hit=True, tree_traversal_time=[])
        return GuiderailGrammar(self.guide, self.asked, self.stop_token_ids, stats)

    def try_jump_forward(self, tokenizer: Any) -> tuple[list[int], str] | None:
        """Returns the text that must come next, without tokens; None if there is a choice."""
        try:
            text = self.matcher.find_jump_forward_string()
        except LimitError:  # reported where the text needs it
            return None
        return ([], text) if text else None

    def jump_forward_str_state(self, helper: tuple[list[int], str]) -> tuple[str, int]:
        """Returns the text of :meth:`try_jump_forward`; the state is unused."""
        return helper[1], -1

    def jump_and_retokenize(
        self, old_output_ids: Sequence[int], new_output_ids: Sequence[int], next_state: int
    ) -> None:
        """Reads the tokens after a jump, which may respell the text before it.

        Raises:
            ValueError: the constraint does not allow them; nothing has changed then.
        """
        same = 0
        while same < min(len(old_output_ids), len(new_output_ids)) and old_output_ids[same] == new_output_ids[same]:
            same += 1
        after = self.matcher.fork()
        if same < len(old_output_ids):
            after.rollback(len(old_output_ids) - same)
        for token in new_output_ids[same:]:
            if after.is_terminated() or not after.accept_token(token):
                raise ValueError(f"token {token} cannot come after the jump under {self.asked!r:.200}")
        self._text.matcher = after

    def __repr__(self) -> str:
        return f"<GuiderailGrammar of {self.asked!r:.200}: {self.matcher!r}>"


class GuiderailGrammarBackend(BaseGrammarBackend):
    """Compiles the constraints of a server's requests. SGLang calls it on its own threads.

    Args:
        tokenizer: a transformers tokenizer.
        vocab_size: the number of the model's logits.
        eos_token_ids: the tokens that end the model's texts; None: those of the tokenizer.
        compact: write JSON without whitespace between its parts.
        whitespace: a pattern of the whitespace between the parts of JSON.

    Raises:
        CompileError: ``bad-option``: both are given.
        PatternError: the pattern is malformed.
    """

    def __init__(
        self,
        tokenizer: Any,
        vocab_size: int,
        eos_token_ids: Iterable[int] | None = None,
        *,
        compact: bool = False,
        whitespace: str | None = None,
    ) -> None:
        from guiderail.frontends.json_schema.lowering.layout import layout_of

        super().__init__()
        layout_of(compact, whitespace)  # now, not at the first request
        self.cache = _Recent(_CACHED)
        self.vocab_size, self.compact, self.whitespace = vocab_size, compact, whitespace
        self.stop_token_ids = sorted(eos_token_ids) if eos_token_ids else None

        def make() -> Vocabulary:
            from guiderail.vocabulary import Vocabulary

            return Vocabulary.from_huggingface(tokenizer, size=vocab_size)

        self.store = self._framing = GuideStore(make)
        self.executor.submit(self.store.warm)

    def _grammar(self, kind: str, text: str, store: GuideStore | None = None) -> BaseGrammarObject:
        spaced = (self.compact, self.whitespace) if kind == "json" else ()
        asked = Asked(kind, text, *spaced)
        try:
            guide = (store or self.store).guide(asked)
        except GuiderailError as error:
            logger.warning("a request for %s was rejected: %s", kind, error)
            return InvalidGrammarObject(str(error))
        return GuiderailGrammar(guide, asked, self.stop_token_ids, GrammarStats(dispatch_type=kind))

    def dispatch_json(self, key_string: str) -> BaseGrammarObject:
        """Returns the grammar of a JSON Schema, or of any object for ``$$ANY$$``.

        The schema that SGLang makes of ``tools`` (``tool_choice`` "required" or a function) does not say that a call is
        an object, so ``null`` would be a call. Here a call is an object with a name and parameters, and nothing else.
        """
        return self._grammar("json", '{"type": "object"}' if key_string == "$$ANY$$" else _with_calls(key_string))

    def dispatch_regex(self, key_string: str) -> BaseGrammarObject:
        """Returns the grammar of a regular expression that must match the whole text."""
        return self._grammar("regex", key_string)

    def dispatch_ebnf(self, key_string: str) -> BaseGrammarObject:
        """Returns the grammar of a text in GBNF, EBNF or Lark."""
        return self._grammar("grammar", key_string)

    def dispatch_structural_tag(self, key_string: str) -> BaseGrammarObject:
        """Returns the grammar of a structural tag."""
        return self._grammar("structural_tag", key_string)

    def reserve_framing_tokens(self, token_ids: Collection[int]) -> None:
        """In the grammars of :meth:`compile_framed_grammar`, these tokens come only where the frame names them."""
        self._framing = GuideStore(lambda: _reserving(self.store.vocabulary, frozenset(token_ids)))

    def compile_framed_grammar(
        self, grammar: BaseGrammarObject, frame: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> BaseGrammarObject | None:
        """Returns the grammar inside the messages of a model that writes several; None if it cannot be used there."""
        if not isinstance(grammar, GuiderailGrammar) or grammar.asked.compact or grammar.asked.whitespace:
            return None
        kind, text = grammar.asked.kind, grammar.asked.text
        content: dict[str, Any]
        if kind == "json":
            content = {"type": "json_schema", "json_schema": json.loads(text)}
        elif kind == "regex":
            content = {"type": "regex", "pattern": text}
        elif kind == "grammar":
            content = {"type": "grammar", "grammar": text}
        else:
            return None
        made = self._grammar("structural_tag", json.dumps(frame(content)), self._framing)
        return made if isinstance(made, GuiderailGrammar) else None

    def initialize_vocab_mask_buffer(self, name: str, vocab_size: int, max_rows: int, device: Any) -> Any:
        """Returns a mask that SGLang reuses."""
        from sglang.srt.constrained.base_grammar_backend import register_vocab_mask_buffer

        return register_vocab_mask_buffer(name, _allocate(max(vocab_size, self.vocab_size), max_rows), max_rows)

    @property
    def is_support_token_filter(self) -> bool:
        """Whether :meth:`set_token_filter` has an effect, which strict thinking needs."""
        return True

    @staticmethod
    def set_token_filter(
        vocab_mask: Any, token_ids: list[int], batch_idx: int, is_allowed: bool = True, reset_vocab_mask: bool = True
    ) -> None:
        """Allows or forbids tokens in a row; with ``reset_vocab_mask``, does the opposite to all others."""
        from sglang.srt.constrained.torch_ops.token_filter_torch_ops import set_token_filter_torch

        set_token_filter_torch(
            vocab_mask, token_ids, batch_idx, is_allowed=is_allowed, reset_vocab_mask=reset_vocab_mask
        )

    @staticmethod
    def allocate_vocab_mask(vocab_size: int, batch_size: int, device: Any) -> Any:
        """Like :meth:`GuiderailGrammar.allocate_vocab_mask`, for requests without a grammar."""
        return _allocate(vocab_size, batch_size)

    move_vocab_mask = staticmethod(GuiderailGrammar.move_vocab_mask)
    apply_vocab_mask = staticmethod(GuiderailGrammar.apply_vocab_mask)


def _reserving(known: Vocabulary, tokens: frozenset[int]) -> Vocabulary:
    """A vocabulary with some more special tokens, which are never text."""
    from guiderail.vocabulary import Vocabulary

    new = sorted(tokens.intersection(range(known.token_count)) - set(known.special_tokens.values()))
    if not new:
        return known
    return Vocabulary(
        [known.token_bytes(i) if i not in known.unplaced else None for i in range(known.token_count)],
        special_tokens={**known.special_tokens, **{known.token_bytes(i).decode("utf-8", "replace"): i for i in new}},
        stop_token_ids=known.stop_token_ids,
        size=known.size,
        encode=known.encode if known.can_encode else None,
        bos_token_id=known.bos_token_id,
    )


def _with_calls(text: str) -> str:
    """If a schema is the one that SGLang makes of tools, the schema with calls as objects of exactly two members."""
    if '"parameters"' not in text:
        return text
    try:
        schema = loads(text)
    except ValueError:
        return text  # rejected when it is compiled, with the location
    items = schema.get("items") if isinstance(schema, dict) and schema.get("type") == "array" else None
    if not isinstance(items, dict):
        return text
    several = items.get("anyOf")
    calls = several if items.keys() == {"type", "anyOf"} and isinstance(several, list) else [items]
    if not calls or not all(map(_is_call, calls)):
        return text
    for call in calls:
        call.update(type="object", additionalProperties=False)
    return json.dumps(schema)


def _is_call(schema: Any) -> bool:
    if not isinstance(schema, dict) or schema.keys() != {"properties", "required"}:
        return False
    members = schema["properties"]
    return (
        schema["required"] == ["name", "parameters"]
        and isinstance(members, dict)
        and members.keys() == {"name", "parameters"}
        and isinstance(members["name"], dict)
        and len(members["name"].get("enum", ())) == 1
    )


def _allocate(vocab_size: int, rows: int) -> Any:
    import torch

    return torch.full((rows, math.ceil(vocab_size / 32)), -1, dtype=torch.int32, pin_memory=torch.cuda.is_available())
