"""The server's Prometheus metrics. Each server has its own registry, so that two in a process do not mix."""

from __future__ import annotations

from typing import Any

__all__ = ["Metrics"]

_FAST = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_SLOW = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Metrics:
    """The counters; names begin with ``guiderail_``. Safe to use from any thread."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry = CollectorRegistry()

        def counter(name: str, help: str, *labels: str) -> Any:
            return Counter(f"guiderail_{name}", help, labels, registry=self.registry)

        def gauge(name: str, help: str) -> Any:
            return Gauge(f"guiderail_{name}", help, registry=self.registry)

        def histogram(name: str, help: str, buckets: tuple[float, ...]) -> Any:
            return Histogram(f"guiderail_{name}", help, buckets=buckets, registry=self.registry)

        self.requests = counter("requests", "Requests answered.", "path", "status")
        self.errors = counter("errors", "Requests rejected or failed, by code.", "code")
        self.cancelled = counter("cancelled", "Texts given up because the client had gone or the time had run out.")
        self.prompt_tokens = counter("prompt_tokens", "Tokens of prompts.")
        self.generated_tokens = counter("generated_tokens", "Tokens written.")
        self.forced_tokens = counter("forced_tokens", "Of these, tokens that the constraint left no choice about.")
        self.finished = counter("texts", "Texts ended, by reason.", "reason")
        self.mask_seconds = counter("mask_seconds", "Time spent on masks.")
        self.model_seconds = counter("model_seconds", "Time spent in the model.")
        self.steps = counter("steps", "Steps of the model.")
        self.cache_hits = counter("compile_cache_hits", "Constraints found compiled.")
        self.cache_misses = counter("compile_cache_misses", "Constraints that had to be compiled.")
        self.compile_seconds = histogram("compile_seconds", "Time to compile a constraint.", _FAST)
        self.first_token_seconds = histogram("first_token_seconds", "From the request to its first token.", _SLOW)
        self.request_seconds = histogram("request_seconds", "From the request to its last token.", _SLOW)
        self.active_streams = gauge("active_streams", "Answers being streamed.")
        self.running = gauge("running_texts", "Texts being written.")
        self.waiting = gauge("waiting_texts", "Texts waiting for their turn.")
        self.reserved_tokens = gauge("reserved_cache_tokens", "Tokens of key-value cache that are reserved.")

    def render(self) -> tuple[bytes, str]:
        """Returns the text for a scraper, and its content type."""
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

        return generate_latest(self.registry), CONTENT_TYPE_LATEST
