"""What a request asks for. Names and defaults are those of vLLM; further fields are linnet's own."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Optional, Union


class RequestOutputKind(Enum):
    CUMULATIVE = 0  # each output has all of the text
    DELTA = 1  # each has what is new
    FINAL_ONLY = 2  # there is one output, at the end


@dataclass
class StructuredOutputsParams:
    """What the text must look like; one of these is given. docs/structured-output.md says what is known."""

    json: Union[str, dict, bool, None] = None  # a JSON schema
    regex: Optional[str] = None
    choice: Optional[list[str]] = None
    grammar: Optional[str] = None  # GBNF or Lark
    json_object: Optional[bool] = None
    structural_tag: Union[str, dict, None] = None
    disable_any_whitespace: bool = False
    disable_additional_properties: bool = False
    ordered: bool = False  # members in the order of the schema

    def __post_init__(self) -> None:
        given = [self.json is not None, self.regex is not None, self.choice is not None, self.grammar is not None,
                 bool(self.json_object), self.structural_tag is not None]
        if sum(given) != 1:
            raise ValueError("give one of json, regex, choice, grammar, json_object and structural_tag")

    def kind_and_text(self) -> tuple[str, str]:
        """The grammar's kind, as in linnet_grammar_kind, and its text."""
        if self.json_object:
            return "GRAMMAR_JSON", ""
        if self.json is not None:
            return "GRAMMAR_JSON_SCHEMA", _as_json(self.json)
        if self.regex is not None:
            return "GRAMMAR_REGEX", self.regex
        if self.choice is not None:
            return "GRAMMAR_CHOICE", json.dumps(list(self.choice))
        if self.structural_tag is not None:
            return "GRAMMAR_STRUCTURAL_TAG", _as_json(self.structural_tag)
        assert self.grammar is not None
        return ("GRAMMAR_GBNF" if "::=" in self.grammar else "GRAMMAR_LARK"), self.grammar

    def json_form(self) -> list[str]:
        """Flags of linnet_json_form."""
        return (["JSON_COMPACT"] * self.disable_any_whitespace + ["JSON_ORDERED"] * self.ordered
                + ["JSON_CLOSED"] * self.disable_additional_properties)


def _as_json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


GuidedDecodingParams = StructuredOutputsParams  # vLLM's former name


@dataclass
class SamplingParams:
    """How tokens are chosen, when to stop, and what to report."""

    n: int = 1
    best_of: Optional[int] = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0  # 0: the most likely token
    top_p: float = 1.0
    top_k: int = 0  # 0 or -1: off
    min_p: float = 0.0
    seed: Optional[int] = None  # None: drawn from the LLM's own seed
    stop: Union[str, list[str], None] = None
    stop_token_ids: Optional[list[int]] = None
    bad_words: Optional[list[str]] = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    max_tokens: Optional[int] = 16  # None: until the context is full
    min_tokens: int = 0
    logprobs: Optional[int] = None  # so many of the likeliest tokens besides the sampled one
    prompt_logprobs: Optional[int] = None
    skip_special_tokens: bool = True
    logit_bias: Optional[dict[int, float]] = None
    allowed_token_ids: Optional[list[int]] = None  # of which alone the output is made
    structured_outputs: Optional[StructuredOutputsParams] = None
    guided_decoding: Optional[StructuredOutputsParams] = None  # the same, by vLLM's former name
    output_kind: Optional[RequestOutputKind] = None  # None: DELTA in stream, else CUMULATIVE
    # linnet's own; linnet.h says what they do
    typical_p: float = 1.0
    top_n_sigma: float = 0.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    mirostat_tau: float = 0.0
    mirostat_eta: float = 0.1
    repeat_last_n: Optional[int] = None  # tokens that penalties see; None: all
    timeout: Optional[float] = None  # seconds, after which the request ends
    cache_salt: Optional[str] = None
    priority: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.stop, str):
            self.stop = [self.stop]
        if self.n < 1:
            raise ValueError(f"n must be at least 1, got {self.n}")
        if self.best_of is not None and self.best_of < self.n:
            raise ValueError(f"best_of must be at least n, got n={self.n} and best_of={self.best_of}")
        if self.temperature < 0:
            raise ValueError(f"temperature must not be negative, got {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p}")
        if self.top_k < -1:
            raise ValueError(f"top_k must be -1 or 0 (off) or more, got {self.top_k}")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {self.max_tokens}")
        if self.allowed_token_ids is not None and len(self.allowed_token_ids) == 0:
            raise ValueError("allowed_token_ids is empty: no token could come")
        if self.structured_outputs is None:
            self.structured_outputs = self.guided_decoding


@dataclass
class BeamSearchParams:
    beam_width: int
    max_tokens: int
    ignore_eos: bool = False
    length_penalty: float = 1.0


@dataclass
class PoolingParams:
    """How a vector is made; None: as the checkpoint says."""

    dimensions: Optional[int] = None  # the first so many numbers
    normalize: Optional[bool] = None
    pooling: Optional[str] = None  # "cls", "mean" or "last"


@dataclass
class LoRARequest:
    """An adapter (LoRA or IA3), which is loaded when a request first names it."""

    lora_name: str
    lora_int_id: int
    lora_path: str
    scale: float = field(default=1.0)
