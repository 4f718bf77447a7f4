"""A logits processor for the ``Generator`` of onnxruntime-genai.

    >>> from guiderail.integrations.onnxruntime_genai import logits_processor
    >>> generator = og.Generator(model, params)
    >>> generator.append_tokens(tokenizer.encode(prompt))
    >>> only_dates = logits_processor(gr.patterns.date(), folder, generator, params)
    >>> while not generator.is_done():
    ...     only_dates()
    ...     generator.generate_next_token()

The library has no callback: you write the loop, and ``only_dates()`` in it masks the logits of the step. It reads from
the generator what each row has written, so rewinding needs nothing else. For the next turn of a chat, append its tokens
and call ``restart``.

Greedy search, sampling and batches work. Beam search is an error: while it runs, the generator does not say which beam
a row of logits continues, and requesting the sequences ends the search. The ``Engine`` class does not expose logits.
``rewind_to(n)`` keeps the token at position ``n``, too: the library appends it again as soon as logits are requested.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from guiderail.errors import MatcherError, ModelError
from guiderail.integrations._rows import RowState, as_guides, check_width, fill_rows, rows_of_each
from guiderail.matching.bitmask import allocate_token_bitmask, apply_token_bitmask_inplace
from guiderail.matching.guide import Guide
from guiderail.support.arguments import checked, checked_methods

__all__ = ["OnnxGenaiLogitsProcessor", "logits_processor"]


@checked_methods
class OnnxGenaiLogitsProcessor:
    """Masks the logits of one generator. Made by :func:`logits_processor`; call it before each
    ``generate_next_token``.
    """

    def __init__(
        self, guides: Sequence[Guide], generator: Any, rows: int, stop_token_ids: int | Sequence[int] | None = None
    ) -> None:
        share = rows_of_each(len(guides), rows)
        self.generator = generator
        self._guides = [guide for guide in guides for _ in range(share)]
        self._stop_token_ids = stop_token_ids
        self.restart()

    def restart(self) -> None:
        """Begins new texts after the tokens that the generator holds now, which count as the prompt.

        Raises:
            MatcherError: ``bad-prompt``: the generator holds no tokens yet.
        """
        self._prompt: int = self.generator.token_count()
        if self._prompt == 0:
            raise MatcherError(
                "the generator has no prompt yet, so guiderail cannot tell where its output begins; "
                "call append_tokens first",
                code="bad-prompt",
            )
        self._rows = [RowState(guide, self._stop_token_ids) for guide in self._guides]

    def __call__(self) -> None:
        """Sets the logits of forbidden tokens to -inf.

        Raises:
            MatcherError: ``token-outside-mask``: a row holds a token that was forbidden; ``bad-prompt``: the generator
                was rewound into the prompt.
            ModelError: ``bad-logits``: the number of rows differs from the generator's parameters.
            VocabularyError: ``vocabulary-mismatch``: the model has fewer tokens than the constraint's vocabulary.
        """
        # Called first: after rewind_to(n), this call appends the n-th token to the sequences again.
        logits = np.array(self.generator.get_logits(), np.float32)  # rows, positions (the last one), tokens
        if self.generator.token_count() < self._prompt:
            raise MatcherError(
                f"the generator was rewound into its prompt, to {self.generator.token_count()} of {self._prompt} "
                "tokens; call restart when the prompt is complete",
                code="bad-prompt",
            )
        if logits.ndim != 3 or len(logits) != len(self._rows):
            raise ModelError(
                f"the generator gives logits of shape {logits.shape} for {len(self._rows)} rows; were the parameters "
                "changed after it was made?",
                code="bad-logits",
            )
        for row, state in enumerate(self._rows):
            state.follow(self.generator.get_sequence(row)[self._prompt :].tolist())
        vocabulary = self._guides[0].vocabulary
        check_width(vocabulary, logits.shape[-1])
        bitmask = allocate_token_bitmask(len(self._rows), vocabulary.size)
        fill_rows([state.matcher for state in self._rows], bitmask)
        apply_token_bitmask_inplace(logits[:, -1], bitmask, vocab_size=min(vocabulary.size, logits.shape[-1]))
        self.generator.set_logits(logits)


@checked
def logits_processor(
    constraint: Any,
    vocabulary: Any,
    generator: Any,
    params: Any,
    *,
    stop_token_ids: int | Sequence[int] | None = None,
) -> OnnxGenaiLogitsProcessor:
    """Makes a logits processor for one ``onnxruntime_genai.Generator``.

    Args:
        constraint: a guide or a constraint for all rows, or a list with one for each prompt of the batch.
        vocabulary: the model's folder, its transformers tokenizer, or a Vocabulary; None for guides.
        generator: the ``Generator``, with its prompt appended.
        params: the ``GeneratorParams`` that it was made with.
        stop_token_ids: the tokens that end a text. By default those at which the model stops (``eos_token_id`` in the
            folder's ``genai_config.json``); for other sources, the vocabulary's.

    Raises:
        CompileError: see :func:`guiderail.compile`; ``no-vocabulary``, ``other-vocabulary``.
        MatcherError: ``bad-batch``: the rows cannot be divided among the constraints; ``bad-prompt``: no prompt was
            appended.
        ModelError: ``bad-option``: the parameters request beam search.
    """
    options = params.get_search_options()
    beams, rows = int(options.get("num_beams", 1)), int(options.get("batch_size", 1))
    if beams > 1:
        raise ModelError(
            f"onnxruntime-genai does not say which of its {beams} beams a row of logits continues, so beams cannot be "
            "constrained; set num_beams to 1, and do_sample for different texts",
            code="bad-option",
        )
    stops = stop_token_ids
    if stops is None and isinstance(vocabulary, str | os.PathLike):
        settings = Path(vocabulary) / "genai_config.json"
        if settings.exists():
            ends = json.loads(settings.read_text(encoding="utf-8")).get("model", {}).get("eos_token_id")
            stops = ends
    return OnnxGenaiLogitsProcessor(as_guides(constraint, vocabulary), generator, rows, stops)
