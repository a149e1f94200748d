"""What requests give, shaped as vLLM's outputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional, Union

from .sampling_params import LoRARequest


@dataclass
class Logprob:
    logprob: float
    rank: Optional[int] = None  # 1: the likeliest; None: not among those asked for
    decoded_token: Optional[str] = None


PromptLogprobs = list[Optional[dict[int, Logprob]]]
SampleLogprobs = list[dict[int, Logprob]]


@dataclass
class CompletionOutput:
    """One output of a request."""

    index: int
    text: str
    token_ids: list[int]
    cumulative_logprob: Optional[float] = None
    logprobs: Optional[SampleLogprobs] = None
    finish_reason: Optional[str] = None  # "stop", "length", "abort" or "timeout"
    stop_reason: Optional[str] = None  # the stop string
    lora_request: Optional[LoRARequest] = None

    def finished(self) -> bool:
        return self.finish_reason is not None


@dataclass
class RequestMetrics:
    """Seconds from submission until steps gave the first and the last token."""

    first_token_time: Optional[float] = None
    last_token_time: Optional[float] = None


@dataclass
class RequestOutput:
    request_id: str
    prompt: Optional[str]
    prompt_token_ids: list[int]
    prompt_logprobs: Optional[PromptLogprobs]
    outputs: list[CompletionOutput]
    finished: bool
    metrics: RequestMetrics = field(default_factory=RequestMetrics)
    lora_request: Optional[LoRARequest] = None
    num_cached_tokens: Optional[int] = None


@dataclass
class PoolingOutput:
    """`data` is the library's own memory: a read-only NumPy array of float32, or a memoryview without NumPy."""

    data: Any


@dataclass
class EmbeddingOutput(PoolingOutput):
    @property
    def embedding(self) -> list[float]:
        return self.data.tolist()

    @property
    def hidden_size(self) -> int:
        return len(self.data)


@dataclass
class ClassificationOutput:
    probs: list[float]

    @property
    def num_classes(self) -> int:
        return len(self.probs)


@dataclass
class ScoringOutput:
    score: float


@dataclass
class PoolingRequestOutput:
    request_id: str
    outputs: Union[PoolingOutput, ClassificationOutput, ScoringOutput]
    prompt_token_ids: list[int]
    finished: bool = True


@dataclass
class EmbeddingRequestOutput(PoolingRequestOutput):
    outputs: EmbeddingOutput


@dataclass
class ClassificationRequestOutput(PoolingRequestOutput):
    outputs: ClassificationOutput


@dataclass
class ScoringRequestOutput(PoolingRequestOutput):
    outputs: ScoringOutput


@dataclass
class BeamSearchSequence:
    tokens: list[int]  # of prompt and output
    text: str  # of the output
    cum_logprob: float  # its score: the sum of logprobs / (tokens of output)^length_penalty
    finish_reason: Optional[str] = None


@dataclass
class BeamSearchOutput:
    sequences: list[BeamSearchSequence]  # best first
