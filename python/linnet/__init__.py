"""linnet: an engine for language models.

    from linnet import LLM, SamplingParams

    llm = LLM("model.gguf")
    for output in llm.generate(["Hello, my name is"], SamplingParams(max_tokens=32)):
        print(output.outputs[0].text)
"""

from ._native import (
    ArgumentError, CancelledError, ComputeError, FormatError, InputOutputError, LimitError, LinnetError,
    OutOfMemoryError, RequestTimeoutError, StateError, UnsupportedError, lib as _lib)
from .async_llm import AsyncLLM, AsyncLLMEngine
from .llm import LLM, EngineArgs
from .outputs import (
    BeamSearchOutput, BeamSearchSequence, ClassificationOutput, ClassificationRequestOutput, CompletionOutput,
    EmbeddingOutput, EmbeddingRequestOutput, Logprob, PoolingOutput, PoolingRequestOutput, RequestMetrics,
    RequestOutput, ScoringOutput, ScoringRequestOutput)
from .sampling_params import (
    BeamSearchParams, GuidedDecodingParams, LoRARequest, PoolingParams, RequestOutputKind, SamplingParams,
    StructuredOutputsParams)
from .tokenizer import Tokenizer

AsyncEngineArgs = EngineArgs
__version__ = _lib.version_text

__all__ = [
    "LLM", "AsyncLLM", "AsyncLLMEngine", "EngineArgs", "AsyncEngineArgs", "SamplingParams",
    "BeamSearchParams", "PoolingParams", "LoRARequest",
    "StructuredOutputsParams", "GuidedDecodingParams", "RequestOutputKind", "RequestOutput", "CompletionOutput",
    "RequestMetrics", "Logprob", "BeamSearchOutput", "BeamSearchSequence", "PoolingOutput", "PoolingRequestOutput",
    "EmbeddingOutput", "EmbeddingRequestOutput", "ClassificationOutput", "ClassificationRequestOutput",
    "ScoringOutput", "ScoringRequestOutput", "Tokenizer", "LinnetError", "OutOfMemoryError", "InputOutputError",
    "FormatError", "UnsupportedError", "ArgumentError", "LimitError", "RequestTimeoutError", "CancelledError",
    "StateError", "ComputeError", "__version__"]
