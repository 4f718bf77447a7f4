"""``/inspect``: shows why the model wrote what it wrote, for requested or for recent texts.

While a text is written, a :class:`Watch` records its tokens and the probabilities of their rivals, but not the logits.
When it has ended, a thread feeds the tokens to the constraint again and makes the record, which is kept in memory as
compressed JSON. The number of texts, and of tokens per text, is bounded.
"""

from __future__ import annotations

import base64
import hashlib
import html
import logging
import secrets
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from guiderail.inspect import Record, Recorder, Weights, page_headers, weigh
from guiderail.inspect.where import source_of
from guiderail.matching.bitmask import bitmask_to_bool
from guiderail.matching.guide import Guide
from guiderail.server.options import ServerOptions

__all__ = ["HEADER", "Inspections", "Kept", "Watch", "index_page"]

HEADER = "X-Guiderail-Inspect"
"""In a request: ``1`` to record its texts, ``0`` not to. In an answer: the path of the page."""

_TOP = 8  # tokens kept of those that were allowed, and of those that were not
_BUILD_SECONDS = 20.0  # maximum time for making one record; the rest is left out
_PROMPT = 4000  # characters of a prompt that are kept, the last ones
_log = logging.getLogger("guiderail.server")


@dataclass(frozen=True, slots=True)
class Kept:
    """A stored record.

    Attributes:
        request, number: the request, and the index of the text in it.
        path: the path of the request.
        time: when the text ended, as ``time.time`` gives it.
        begins: the first characters of the text.
        tokens, overruled: the number of tokens, and at how many the model's choice was forbidden.
        removed: the mean of the probability removed, or None.
        data: the record as compressed JSON.
    """

    request: str
    number: int
    path: str
    time: float
    begins: str
    tokens: int
    overruled: int
    removed: float | None
    finish: str
    data: bytes

    def json(self) -> str:
        return zlib.decompress(self.data).decode()


class Watch:
    """Records what happens in one text. For one thread at a time."""

    def __init__(self, limit: int, done: Callable[[Watch], None]) -> None:
        self.tokens: list[int] = []
        self.weights: list[Weights | None] = []
        self.guide: Guide | None = None
        self.prompt: list[int] = []
        self.finish, self.matched = "", False
        self._limit, self._done = limit, done

    def chosen(self, token: int, mask: NDArray[np.int32], logits: NDArray[np.float32], size: int) -> None:
        """Called when a token was sampled.

        Args:
            mask: the mask of the state before it, shape ``(1, words)``.
            logits: the logits before the mask.
            size: the size of the vocabulary.
        """
        kept = len(self.weights) < self._limit
        self.weights.append(weigh(token, bitmask_to_bool(mask, size)[0], logits, _TOP) if kept else None)
        self.tokens.append(token)

    def forced(self, token: int) -> None:
        """Called when a token was written without asking the model."""
        self.weights.append(None)
        self.tokens.append(token)

    def end(self, guide: Guide, prompt: list[int], finish: str, matched: bool) -> None:
        """Called when the text has ended."""
        self.guide, self.prompt, self.finish, self.matched = guide, prompt, finish, matched
        self._done(self)

    def record(self, model: str) -> Record:
        """Makes the record by feeding the tokens to the constraint again."""
        guide = self.guide
        assert guide is not None
        vocabulary = guide.vocabulary
        recorder, matcher = Recorder(guide, top=_TOP), guide.matcher()
        until = time.monotonic() + _BUILD_SECONDS
        pairs = list(zip(self.tokens, self.weights, strict=True))[: self._limit]
        for token, weights in pairs:
            if time.monotonic() > until:
                break
            recorder.on_step(0, matcher, token, weights)
            matcher.accept_token(token)
        read = len(recorder.steps)
        ended = self.tokens and self.tokens[-1] in matcher.stop_token_ids()
        shown = self.tokens[:-1] if ended else self.tokens
        prompt = vocabulary.decode(self.prompt, skip_special_tokens=False)
        return Record(
            vocabulary.decode(shown, skip_special_tokens=False),
            tuple(recorder.steps),
            self.finish,
            self.matched,
            source_of(guide.constraint),
            model,
            prompt if len(prompt) <= _PROMPT else "…" + prompt[-_PROMPT:],
            f"{vocabulary.name or 'vocabulary'}, {vocabulary.size:,} tokens",
            vocabulary.decode(shown[read:], skip_special_tokens=False),
        )


class Inspections:
    """The records of a server. Safe to use from any thread."""

    def __init__(self, model: str, options: ServerOptions) -> None:
        self.mode = options.inspect
        self._model, self._texts, self._limit = model, options.inspect_texts, options.inspect_tokens
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, int], Kept] = OrderedDict()
        self._pending: dict[tuple[str, int], Future[None]] = {}
        self._maker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="guiderail-inspect")

    def begin(self, path: str) -> tuple[str, Callable[[int], Watch]]:
        """Starts recording a request: returns its name, which cannot be guessed, and a watch for each text."""
        request = secrets.token_hex(12)

        def watch(number: int) -> Watch:
            return Watch(self._limit, lambda done: self._ended(request, number, path, done))

        return request, watch

    def _ended(self, request: str, number: int, path: str, watch: Watch) -> None:
        key, ended = (request, number), time.time()

        def make() -> None:
            try:
                record = watch.record(self._model)
                removed = record.removed
                kept = Kept(
                    request,
                    number,
                    path,
                    ended,
                    record.text[:80],
                    len(watch.tokens),
                    sum(1 for step in record.steps if step.preferred),
                    removed,
                    record.finish,
                    zlib.compress(record.to_json().encode(), 6),
                )
                with self._lock:
                    self._kept[key] = kept
                    while len(self._kept) > self._texts:
                        self._kept.popitem(last=False)
            except Exception:  # only the page is lost; the text has been sent long before
                _log.exception("a record could not be made")
            finally:
                with self._lock:
                    self._pending.pop(key, None)

        with self._lock:
            if len(self._pending) >= 2 * self._texts:  # the queue is full
                return
            try:
                self._pending[key] = self._maker.submit(make)
            except RuntimeError:  # the server is shutting down
                return

    def of(self, request: str, *, seconds: float = 0.0) -> list[Kept]:
        """Returns the records of a request, in the order of its texts.

        Args:
            seconds: how long to wait for records that are being made.
        """
        with self._lock:
            waiting = [future for (name, _), future in self._pending.items() if name == request]
        if waiting and seconds:
            wait(waiting, timeout=seconds)
        with self._lock:
            return sorted((k for k in self._kept.values() if k.request == request), key=lambda kept: kept.number)

    def recent(self) -> list[Kept]:
        """All records, the latest first."""
        with self._lock:
            return list(self._kept.values())[::-1]

    def close(self) -> None:
        self._maker.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._kept.clear()


_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 0 auto; padding: 1.5rem 1.25rem; }
h1 { font-size: 1.5rem; line-height: 1.25; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #8886; white-space: nowrap; }
th { font-size: .8125rem; font-weight: 500; }
td.text { white-space: normal; overflow-wrap: anywhere; min-width: 16rem; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
code { font-family: ui-monospace, monospace; font-size: .875rem; }
"""
_ENDS = {"complete": "complete", "stop": "ended", "stop-string": "stop string", "length": "cut off"}


def index_page(texts: list[Kept], note: str) -> tuple[str, dict[str, str]]:
    """Returns a list of records as an HTML document, and the headers to send it with."""
    rows = []
    for kept in texts:
        place = f"/inspect/{kept.request}/{kept.number}"
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(kept.time))
        removed = "" if kept.removed is None else f"{kept.removed:.1%}"
        rows.append(
            f'<tr><td>{when}</td><td>{html.escape(kept.path)}</td><td class="number">{kept.tokens:,}</td>'
            f'<td class="number">{kept.overruled:,}</td><td class="number">{removed}</td>'
            f"<td>{_ENDS.get(kept.finish, html.escape(kept.finish))}</td>"
            f'<td class="text"><a href="{place}"><code>{_shown(kept.begins)}</code></a></td></tr>'
        )
    heads = ["time (UTC)", "path", "tokens", "overruled", "removed", "end", "text"]
    numbers = {"tokens", "overruled", "removed"}
    head = "".join(f'<th scope="col"{" class=number" if name in numbers else ""}>{name}</th>' for name in heads)
    body = f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    style = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    made = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Look inside</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><h1>Look inside</h1><p>{html.escape(note)}</p>"
        f"{body if rows else ''}</body></html>"
    )
    return made, {**page_headers(), "Content-Security-Policy": policy}


def _shown(text: str) -> str:
    """The beginning of a text on one line, with invisible control characters as question marks."""
    plain = "".join(c if c.isprintable() else "↵" if c == "\n" else "?" for c in text)
    return html.escape(plain) or "(no text)"
