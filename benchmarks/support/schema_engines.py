"""Runs the engines of ``engines.py``, and LM Format Enforcer, on JSON Schemas.

``compile`` takes the schema as a parsed document and includes all that the engine does with it in Python. ``final()``
returns whether the text may end here. Times of ``fill`` and ``accept`` are around one call, as in ``engines.py``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from engines import Accept, Engine, Fill, Guiderail, LLGuidance, OutlinesCore, XGrammar

Final = Callable[[], bool]


class SchemaEngine(Engine):
    """An engine, as ``schemas.py`` uses it."""

    stop: int  # the stop token, if only the mask shows whether the text may end
    caches = False  # whether the engine caches compiled schemas
    checks_refusals = False  # accept() of a token that the mask forbids returns False and changes nothing

    def compile(self, schema: Any) -> Any:
        """Returns a guide. Raises if the engine does not support the schema."""
        raise NotImplementedError

    def begin(self, guide: Any) -> tuple[Fill, Accept, Final]:
        raise NotImplementedError

    def allows(self, token: int) -> bool:
        """Returns whether the last mask contains the token."""
        return bool(int(self.bits[0, token // 32]) >> (token % 32) & 1)

    def may_stop(self, fill: Fill) -> bool:
        """Returns whether the next mask contains the stop token ``self.stop``."""
        fill()
        return self.allows(self.stop)


class GuiderailSchemas(Guiderail, SchemaEngine):
    caches = True
    checks_refusals = True

    def __init__(self, tokenizer: Any, size: int, options: dict[str, Any] | None = None) -> None:
        self.options = options or {}
        super().__init__(tokenizer, size)

    def warm_up(self) -> None:
        self.compile({"type": "null"})

    def compile(self, schema: Any) -> Any:
        return self.gr.compile(self.gr.json_schema(schema, **self.options), self.vocabulary)

    def begin(self, guide: Any) -> tuple[Fill, Accept, Final]:
        matcher = guide.matcher()
        return partial(matcher.fill_next_token_bitmask, self.bits, 0), matcher.accept_token, matcher.is_accepting


class GuiderailUnprepared(GuiderailSchemas):
    """guiderail without the masks of a likely text that compiling normally computes. Shows their value."""

    name = "guiderail-unprepared"

    def compile(self, schema: Any) -> Any:
        return self.gr.compile(self.gr.json_schema(schema, **self.options), self.vocabulary, prepare=0)


class LLGuidanceSchemas(LLGuidance, SchemaEngine):
    def compile(self, schema: Any) -> Any:
        matcher = self.llg.LLMatcher(self.tokenizer, json.dumps({"grammars": [{"json_schema": schema}]}))
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def begin(self, guide: Any) -> tuple[Fill, Accept, Final]:
        matcher = guide.deep_copy()
        fill = partial(self.llg.numpy.fill_next_token_bitmask, matcher, self.bits, 0)
        return fill, matcher.consume_token, matcher.is_accepting


class XGrammarSchemas(XGrammar, SchemaEngine):
    """In its compliant mode: any whitespace, additional properties as the schema says."""

    def __init__(self, tokenizer: Any, size: int) -> None:
        super().__init__(tokenizer, size)
        self.stop = tokenizer.eos_token_id

    def compile(self, schema: Any) -> Any:
        return self.compiler.compile_json_schema(json.dumps(schema), any_whitespace=True, strict_mode=False)

    def begin(self, guide: Any) -> tuple[Fill, Accept, Final]:
        matcher = self.xgr.GrammarMatcher(guide)
        fill = partial(matcher.fill_next_token_bitmask, self.tensor, 0)
        return fill, matcher.accept_token, partial(self.may_stop, fill)


class OutlinesCoreSchemas(OutlinesCore, SchemaEngine):
    def __init__(self, tokenizer: Any, size: int) -> None:
        super().__init__(tokenizer, size)
        self.stop = tokenizer.eos_token_id

    def compile(self, schema: Any) -> Any:
        from outlines_core.json_schema import build_regex_from_schema

        return self.core.Index(build_regex_from_schema(json.dumps(schema)), self.vocabulary)

    def begin(self, guide: Any) -> tuple[Fill, Accept, Final]:
        matcher = self.core.Guide(guide)
        fill = partial(matcher.write_mask_into, self.bits.ctypes.data, self.bits.size, self.bits.itemsize)
        return fill, partial(matcher.advance, return_tokens=False), partial(self.may_stop, fill)


class LMFormatEnforcerSchemas(SchemaEngine):
    """LM Format Enforcer. ``get_allowed_tokens`` makes its masks and includes the parser's step; ``accept`` only
    appends.
    """

    name = package = "lm-format-enforcer"

    def __init__(self, tokenizer: Any, size: int) -> None:
        from lmformatenforcer import JsonSchemaParser, TokenEnforcer, TokenEnforcerTokenizerData

        logging.disable(logging.ERROR)
        self.parser, self.enforcer = JsonSchemaParser, TokenEnforcer
        # Replicates its integration for transformers, which does not work with transformers 5.
        special, zero = set(tokenizer.all_special_ids), tokenizer.encode("0", add_special_tokens=False)[-1]
        ids = [i for i in range(len(tokenizer)) if i not in special]
        texts = tokenizer.batch_decode([[zero, i] for i in ids])
        alone = tokenizer.batch_decode([[i] for i in ids])
        tokens = [(i, t[1:], len(t) - 1 > len(a)) for i, t, a in zip(ids, texts, alone, strict=True)]
        self.data = TokenEnforcerTokenizerData(
            tokens, lambda read: tokenizer.decode(read).rstrip("\ufffd"), tokenizer.eos_token_id, True, size
        )
        self.stop = tokenizer.eos_token_id
        self.bits = np.zeros((1, (size + 31) // 32), np.int32)

    def compile(self, schema: Any) -> Any:
        self.parser(schema)  # raises here if it does not support the schema
        return schema

    def begin(self, guide: Any) -> tuple[Fill, Accept, Final]:
        enforcer = self.enforcer(self.data, self.parser(guide))
        read: list[int] = []

        def fill() -> None:
            allowed = enforcer.get_allowed_tokens(read).allowed_tokens
            self.bits[0] = allowed.numpy() if hasattr(allowed, "numpy") else allowed

        return fill, read.append, partial(self.may_stop, fill)


SCHEMA_ENGINES: dict[str, type[SchemaEngine]] = {
    e.name: e
    for e in (
        GuiderailSchemas,
        GuiderailUnprepared,
        LLGuidanceSchemas,
        XGrammarSchemas,
        OutlinesCoreSchemas,
        LMFormatEnforcerSchemas,
    )
}
