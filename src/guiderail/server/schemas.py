"""What requests may contain. Any other member is rejected by name: nothing that a client asks for is ignored.

Members that do not affect the text (``user``, ``metadata`` …) are accepted. Members for features that this server lacks
are accepted only with values that ask for nothing.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)

__all__ = [
    "ChatRequest",
    "CompletionRequest",
    "Extras",
    "Message",
    "ResponsesRequest",
    "StreamOptions",
    "StructuredOutputs",
]

_Json = dict[str, Any]


class _First(FailFast):
    """Reports only the first wrong item of a list, not a million of them."""

    def __hash__(self) -> int:  # unions of types are sets
        return hash(_First)


_Item = TypeVar("_Item")
_List = Annotated[list[_Item], _First()]
_MOST_MESSAGES = 4096
_MOST_STOPS = 64


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Labelled(_Closed):
    """Parameters by which clients and OpenAI's service file and price a request: accepted, and without effect here."""

    user: StrictStr | None = None
    metadata: _Json | None = None
    safety_identifier: StrictStr | None = None
    prompt_cache_key: StrictStr | None = None
    prompt_cache_options: _Json | None = None
    prompt_cache_retention: StrictStr | None = None
    service_tier: Literal["auto", "default"] | None = None


class StreamOptions(_Closed):
    include_usage: StrictBool | None = None
    include_obfuscation: StrictBool | None = None  # padding against traffic analysis: there is none
    continuous_usage_stats: Literal[False] | None = None


class StructuredOutputs(_Closed):
    """vLLM's extra parameter; exactly one kind."""

    json_: Any = Field(None, alias="json")
    regex: StrictStr | None = None
    choice: _List[StrictStr] | None = None
    grammar: StrictStr | None = None
    json_object: StrictBool | None = None
    structural_tag: StrictStr | _Json | None = None
    disable_any_whitespace: StrictBool = False
    disable_fallback: StrictBool = False  # there is no other backend to fall back to
    disable_additional_properties: Literal[False] = False
    whitespace_pattern: StrictStr | None = None


Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class Extras(_Closed):
    """Parameters that no other server has, under the name ``guiderail``."""

    on_incomplete: Literal["finish", "return"] | None = None


class SampledExtras(Extras):
    """Extras of both kinds of completions."""

    choice_logprobs: Literal["canonical", "all"] | None = None
    log_weight: StrictBool = False
    distribution: Literal["masked", "exact", "weighted"] = "masked"
    max_passes: Annotated[StrictInt, Field(ge=1)] | None = None
    particles: Annotated[StrictInt, Field(ge=1)] | None = None


class ThinkingExtras(Extras):
    """Extras of interfaces with reasoning."""

    max_reasoning_tokens: Annotated[StrictInt, Field(ge=0, le=1 << 20)] | None = None


class ChatExtras(SampledExtras, ThinkingExtras):
    """Extras of chat completions."""


class Sampled(_Labelled):
    """Parameters of every interface: sampling, stop strings, and constraints by the names of vLLM and SGLang."""

    model: StrictStr | None = None
    temperature: Annotated[StrictInt | StrictFloat, Field(ge=0, le=100)] | None = None
    top_p: Annotated[StrictInt | StrictFloat, Field(gt=0, le=1)] | None = None
    top_k: Annotated[StrictInt, Field(ge=-1)] | None = None
    seed: StrictInt | None = None
    n: Annotated[StrictInt, Field(ge=1)] | None = None
    stop: StrictStr | Annotated[_List[StrictStr], Field(max_length=_MOST_STOPS)] | None = None
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    presence_penalty: Annotated[StrictInt | StrictFloat, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[StrictInt | StrictFloat, Field(ge=-2, le=2)] | None = None
    repetition_penalty: Annotated[StrictInt | StrictFloat, Field(gt=0, le=100)] | None = None
    logit_bias: dict[str, Annotated[StrictInt | StrictFloat, Field(ge=-100, le=100)]] | None = None

    structured_outputs: StructuredOutputs | None = None
    guided_json: Any = None
    guided_regex: StrictStr | None = None
    guided_choice: _List[StrictStr] | None = None
    guided_grammar: StrictStr | None = None
    regex: StrictStr | None = None
    ebnf: StrictStr | None = None
    response_format: _Json | None = None
    guiderail: SampledExtras = SampledExtras()

    @property
    def stops(self) -> tuple[str, ...]:
        given = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return tuple(stop for stop in given if stop)


class Message(BaseModel):
    """One turn of a conversation. It may have more members, which a template may use."""

    model_config = ConfigDict(extra="allow")

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: StrictStr | _List[_Json] | None = None
    name: StrictStr | None = None
    tool_calls: _List[_Json] | None = None
    tool_call_id: StrictStr | None = None


class ChatRequest(Sampled):
    """``POST /v1/chat/completions``."""

    messages: Annotated[_List[Message], Field(min_length=1, max_length=_MOST_MESSAGES)]
    max_tokens: Annotated[StrictInt, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[StrictInt, Field(ge=1)] | None = None
    logprobs: StrictBool | None = None
    top_logprobs: Annotated[StrictInt, Field(ge=0, le=20)] | None = None
    tools: _List[_Json] | None = None
    tool_choice: StrictStr | _Json | None = None
    parallel_tool_calls: StrictBool | None = None
    functions: None = None
    function_call: None = None
    modalities: _List[Literal["text"]] | None = None
    audio: None = None
    prediction: None = None
    reasoning_effort: Effort | None = None
    guiderail: ChatExtras = ChatExtras()
    verbosity: Literal["medium"] | None = None
    store: Literal[False] | None = None
    web_search_options: None = None
    moderation: None = None

    @model_validator(mode="after")  # type: ignore[untyped-decorator, unused-ignore]
    def _agree(self) -> ChatRequest:
        both = {self.max_tokens, self.max_completion_tokens} - {None}
        if len(both) > 1:
            raise ValueError("max_tokens and max_completion_tokens differ; give one of them")
        if self.top_logprobs and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs: true")
        return self

    @property
    def limit(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens

    @property
    def effort(self) -> Effort | None:
        return self.reasoning_effort

    @property
    def effort_param(self) -> str:
        return "reasoning_effort"


class CompletionRequest(Sampled):
    """``POST /v1/completions``."""

    prompt: StrictStr | _List[StrictStr] | _List[StrictInt] | _List[_List[StrictInt]]
    max_tokens: Annotated[StrictInt, Field(ge=1)] | None = None
    logprobs: Annotated[StrictInt, Field(ge=0, le=20)] | None = None
    echo: Literal[False] | None = None
    suffix: Literal[""] | None = None
    best_of: StrictInt | None = None

    @model_validator(mode="after")  # type: ignore[untyped-decorator, unused-ignore]
    def _agree(self) -> CompletionRequest:
        if self.best_of is not None and self.best_of != (self.n or 1):
            raise ValueError("best_of other than n is not supported")
        return self


class ReasoningOptions(_Closed):
    """``reasoning`` of a response. Reasoning is returned whole and never summarized, so ``auto`` gives no summary."""

    effort: Effort | None = None
    summary: Literal["auto"] | None = None
    generate_summary: Literal["auto"] | None = None
    context: Literal["auto"] | None = None  # which of the earlier reasoning is shown is up to the chat template
    mode: Literal["standard"] | None = None


class ResponsesRequest(_Labelled):
    """``POST /v1/responses``."""

    model: StrictStr | None = None
    input: StrictStr | _List[_Json]
    instructions: StrictStr | None = None
    text: _Json | None = None
    tools: _List[_Json] | None = None
    tool_choice: StrictStr | _Json | None = None
    parallel_tool_calls: StrictBool | None = None
    max_output_tokens: Annotated[StrictInt, Field(ge=1)] | None = None
    temperature: Annotated[StrictInt | StrictFloat, Field(ge=0, le=100)] | None = None
    top_p: Annotated[StrictInt | StrictFloat, Field(gt=0, le=1)] | None = None
    top_logprobs: Literal[0] | None = None
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    structured_outputs: StructuredOutputs | None = None
    guiderail: ThinkingExtras = ThinkingExtras()

    include: _List[Literal["reasoning.encrypted_content"]] | None = None  # the reasoning is sent unencrypted anyway
    truncation: Literal["disabled"] | None = None
    background: Literal[False] | None = None
    store: Literal[False] | None = None
    previous_response_id: None = None
    conversation: None = None
    prompt: None = None
    reasoning: ReasoningOptions | None = None
    max_tool_calls: None = None
    moderation: None = None
    context_management: None = None

    @property
    def effort(self) -> Effort | None:
        return None if self.reasoning is None else self.reasoning.effort

    @property
    def effort_param(self) -> str:
        return "reasoning.effort"
