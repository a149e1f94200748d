"""LLM: a model and an engine in this process, for batches and streams."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import random
import select
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Optional, Union

from . import _native as c
from ._engine import Engine, Model, Queue, float_view, numpy
from ._native import lib, number
from ._request import (
    Pending, PendingGeneration, PendingVector, Prompt, base_options, divide, embed_options, generate_options, is_list,
    is_one_prompt, messages_of, params_of, text_or_ids, texts_of)
from .hub import find_model
from .outputs import (
    BeamSearchOutput, BeamSearchSequence, ClassificationOutput, ClassificationRequestOutput, EmbeddingOutput,
    EmbeddingRequestOutput, RequestOutput, ScoringOutput, ScoringRequestOutput)
from .pooling import cosine, sigmoid, softmax
from .sampling_params import BeamSearchParams, LoRARequest, PoolingParams, RequestOutputKind, SamplingParams
from .tokenizer import Tokenizer

_KV_TYPES = {"auto": "KV_AUTO", "float32": "KV_F32", "float16": "KV_F16", "bfloat16": "KV_BF16", "fp8": "KV_FP8",
             "q8_0": "KV_Q8_0"}
_DEFAULT_SEQS = 16
# of vLLM's LLM; linnet has nothing that they would change
_WITHOUT_EFFECT = {
    "tokenizer", "tokenizer_mode", "skip_tokenizer_init", "trust_remote_code", "gpu_memory_utilization",
    "enforce_eager", "disable_log_stats", "max_seq_len_to_capture", "disable_custom_all_reduce", "load_format",
    "compilation_config", "runner", "task", "swap_space", "cpu_offload_gb", "distributed_executor_backend",
    "enable_chunked_prefill", "disable_async_output_proc", "block_size", "download_dir"}

Messages = Sequence[dict]
Loras = Union[LoRARequest, Sequence[Optional[LoRARequest]], None]


class EngineArgs:
    """Arguments of LLM or AsyncLLM, for their from_engine_args."""

    def __init__(self, model: str, **options: Any) -> None:
        self.model, self.options = model, options


class Base:
    """What LLM and AsyncLLM share: the model, the engine, and how requests are made.

    model: a GGUF file, a Hugging Face folder, or a name in the Hugging Face hub's cache. The arguments are named as
    vLLM's where it has them. `engine_options` are any fields of linnet_engine_options (linnet.h) by name.
    """

    _waits = True  # for the place of an adapter

    def __init__(
            self, model: str, *, max_model_len: Optional[int] = None, max_num_seqs: Optional[int] = None,
            max_num_batched_tokens: Optional[int] = None, dtype: str = "auto", quantization: Optional[str] = None,
            kv_cache_dtype: str = "auto", device: str = "auto", seed: int = 0, revision: Optional[str] = None,
            enable_prefix_caching: bool = True, chat_template: Optional[str] = None, threads: Optional[int] = None,
            tensor_parallel_size: int = 1, enable_lora: bool = False, max_loras: int = 1, max_lora_rank: int = 16,
            speculative_config: Optional[dict] = None, on_load: Optional[Callable[[int, int], None]] = None,
            engine_options: Optional[dict[str, Any]] = None, **others: Any) -> None:
        unknown = sorted(set(others) - _WITHOUT_EFFECT)
        if unknown:
            raise TypeError(f"unknown arguments: {', '.join(unknown)}")
        if tensor_parallel_size != 1:
            raise c.UnsupportedError("tensor parallelism needs `mpirun linnet serve`; docs/scaling.md says how")
        if kv_cache_dtype not in _KV_TYPES:
            raise ValueError(f"kv_cache_dtype is none of {', '.join(_KV_TYPES)}: {kv_cache_dtype}")
        self.model_path = find_model(model, revision)
        self._model = Model(self.model_path)
        if chat_template is not None:
            self._model.set_chat_template(chat_template)
        options = c.init(c.EngineOptions, lib.engine_options_init)
        options.backend = device.encode()
        options.precision = number("PRECISION_EXACT" if dtype == "float32" else "PRECISION_FAST")
        options.kv_type = number(_KV_TYPES[kv_cache_dtype])
        options.quantize_on_load = _quantization_on_load(self.model_path, quantization)
        options.n_threads, options.prefix_cache = threads or 0, enable_prefix_caching
        options.max_adapters, options.max_adapter_rank = (max_loras, max_lora_rank) if enable_lora else (0, 0)
        if on_load is not None:
            options.on_load = c.LoadFn(lambda _user, ready, total: on_load(ready, total))
        _set_draft(options, speculative_config)
        _set_sizes(options, self._model, max_model_len, max_num_seqs, max_num_batched_tokens)
        known = {name for name, *_ in c.EngineOptions._fields_}
        for name, value in (engine_options or {}).items():
            if name not in known:  # ctypes would take it and set nothing
                raise TypeError(f"engine_options: linnet_engine_options has no field {name}")
            setattr(options, name, value.encode() if isinstance(value, str) else value)
        self._engine = Engine(self._model, options)
        self._seeds, self._ids = random.Random(seed), itertools.count()

    @classmethod
    def from_engine_args(cls, engine_args: EngineArgs) -> Any:
        return cls(engine_args.model, **engine_args.options)

    @property
    def max_model_len(self) -> int:
        """The longest sequence, in tokens."""
        return self._engine.memory.ctx_tokens

    def get_tokenizer(self) -> Tokenizer:
        return Tokenizer(self._model)

    def stats(self) -> dict[str, int]:
        """What the engine does and did; linnet_engine_stats says what the numbers are."""
        return self._engine.stats()

    def close(self) -> None:
        """Ends the engine and frees its memory. No other call may be under way."""
        self._engine.close()

    shutdown = close

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_exception: Any) -> None:
        self.close()

    def _prompt(self, prompt: Any) -> Prompt:
        return prompt if isinstance(prompt, Prompt) else Prompt(self._model, prompt)

    def _chat_prompt(self, messages: Messages, options: dict[str, Any]) -> Prompt:
        """`options`: of chat, those that are about the template."""
        ids, text = self._model.render_chat(
            messages_of(messages), options.get("tools"), options.get("chat_template_kwargs"),
            options.get("add_generation_prompt", True), options.get("chat_template"))
        prompt = Prompt(self._model, {"prompt_token_ids": ids})
        prompt.text = text
        return prompt

    def _submit(self, queue: Queue, prompt: Any, params: Optional[SamplingParams],
                lora: Optional[LoRARequest] = None, request_id: Optional[str] = None) -> PendingGeneration:
        params, prompt = params_of(params, SamplingParams), self._prompt(prompt)
        options = generate_options(self._model, prompt, params, self._seeds, lora)
        parts = divide(options, self._engine.memory.max_seqs)
        with contextlib.nullcontext() if lora is None else self._engine.adapter(
                lora.lora_name, lora.lora_path, lora.scale, self._waits):
            return PendingGeneration(request_id or str(next(self._ids)), self._engine, prompt, params, queue, parts,
                                     lora)

    def _text_limit(self) -> int:
        """Tokens that texts are cut to for vectors."""
        return min(self.max_model_len, self._model.info.embed_tokens or self.max_model_len)

    def _submit_vector(self, queue: Queue, text: Any, params: Optional[PoolingParams], head: str = "HEAD_DEFAULT",
                       second: Optional[str] = None) -> tuple[PendingVector, list[int]]:
        n_first = 0
        text = text_or_ids(text)
        if isinstance(text, str):
            ids, n_first = self._model.encode_pair(text, second, self._text_limit())
            text = {"prompt_token_ids": ids}
        prompt = Prompt(self._model, text, embeds=True)
        options = embed_options(prompt, params_of(params, PoolingParams), head, n_first)
        return PendingVector(str(next(self._ids)), self._engine, [options], queue), prompt.ids


def _quantization_on_load(path: str, asked: Optional[str]) -> Optional[bytes]:
    """What matrices become while they load; None where `asked` names what the checkpoint has already."""
    if asked is None:
        return None
    method = asked.removesuffix("_marlin")
    if method == "gguf" and os.path.isfile(path):
        return None
    try:
        with open(os.path.join(path, "config.json"), encoding="utf-8") as file:
            own = json.load(file).get("quantization_config") or {}
    except (OSError, ValueError):
        own = {}
    named = own.get("quant_method") or ""
    return None if named.replace("_", "-") == method.replace("_", "-") else asked.encode()


def _set_draft(options: c.EngineOptions, config: Optional[dict]) -> None:
    """Speculative decoding as vLLM's speculative_config says it."""
    if config is None:
        return
    options.draft_tokens = config.get("num_speculative_tokens", 0)
    if config.get("model") is not None:
        options.draft_model = find_model(config["model"]).encode()
    method = config.get("method")
    if method is not None:
        name = {"eagle3": "eagle", "draft_model": "model"}.get(method, "mtp" if method.endswith("_mtp") else method)
        if name not in ("ngram", "mtp", "eagle", "dflash", "model"):
            raise c.UnsupportedError(f"speculative_config: the method {method} is none of ngram, mtp, eagle, eagle3, "
                                     "dflash and draft_model")
        options.draft = name.encode()


def _set_sizes(options: c.EngineOptions, model: Model, max_len: Optional[int], max_seqs: Optional[int],
               max_batch: Optional[int]) -> None:
    """As many sequences as asked for, with a context that is as long as one alone would have: they share the KV
    cache that the plan has room for."""
    options.ctx_tokens, options.max_batch_tokens = max_len or 0, max_batch or 0
    context = model.plan(options).ctx_tokens
    if model.info.embeds_only:  # a text is one step
        context = min(context, model.info.embed_tokens or context)
        options.max_batch_tokens = max_batch or max(512, context)
    options.max_seqs = max_seqs or _DEFAULT_SEQS
    if options.max_batch_tokens and options.max_batch_tokens < options.max_seqs:
        options.max_seqs = options.max_batch_tokens
    options.ctx_tokens = 0
    shared = model.plan(options).ctx_tokens
    options.ctx_tokens = context
    if shared < context:
        options.kv_tokens = max(shared * options.max_seqs, context)


class LLM(Base):
    """Generates for batches of prompts, and streams."""

    def generate(self, prompts: Any, sampling_params: Union[SamplingParams, Sequence[SamplingParams], None] = None,
                 *, use_tqdm: bool = True, lora_request: Loras = None) -> list[RequestOutput]:
        """prompts: a text, token ids, a dict with "prompt" or "prompt_token_ids", or a list of these. Control tokens
        in a text count as such. sampling_params and lora_request: one for all, or a list with one for each prompt.
        Outputs come in the order of the prompts."""
        prompts = [prompts] if is_one_prompt(prompts) else list(prompts)
        params = _of_each(sampling_params, len(prompts), "sampling_params", SamplingParams)
        loras = _of_each(lora_request, len(prompts), "lora_request", LoRARequest)
        return self._run_all(
            (partial(self._submit, prompt=prompt, params=its_params, lora=lora)
             for prompt, its_params, lora in zip(prompts, params, loras)), len(prompts), use_tqdm)

    def chat(self, messages: Union[Messages, Sequence[Messages]],
             sampling_params: Union[SamplingParams, Sequence[SamplingParams], None] = None, use_tqdm: bool = True,
             lora_request: Loras = None, chat_template: Optional[str] = None,
             add_generation_prompt: bool = True, tools: Optional[list[dict]] = None,
             chat_template_kwargs: Optional[dict[str, Any]] = None) -> list[RequestOutput]:
        """One conversation (a list of messages) or several. The model's template renders them."""
        is_one = not is_list(messages) or (len(messages) > 0 and isinstance(messages[0], dict))
        chats: list[Any] = [messages] if is_one else list(messages)
        options = {"chat_template": chat_template, "add_generation_prompt": add_generation_prompt, "tools": tools,
                   "chat_template_kwargs": chat_template_kwargs}
        return self.generate([self._chat_prompt(chat, options) for chat in chats], sampling_params,
                             use_tqdm=use_tqdm, lora_request=lora_request)

    def stream(self, prompt: Any, sampling_params: Optional[SamplingParams] = None, *,
               lora_request: Optional[LoRARequest] = None) -> Iterator[RequestOutput]:
        """One prompt's outputs as they come: what is new (DELTA), unless output_kind says otherwise."""
        params = params_of(sampling_params, SamplingParams)
        kind = params.output_kind or RequestOutputKind.DELTA
        queue = Queue()
        pending = self._submit(queue, prompt, params, lora_request)
        try:
            for _ in _ready(queue, [pending]):
                shown = pending.shown(kind)
                if shown is not None:
                    yield shown
        finally:
            pending.close()
            queue.close()

    def stream_chat(self, messages: Messages, sampling_params: Optional[SamplingParams] = None, *,
                    lora_request: Optional[LoRARequest] = None, **template_options: Any) -> Iterator[RequestOutput]:
        """stream of a conversation; template_options as in chat."""
        return self.stream(self._chat_prompt(messages, template_options), sampling_params, lora_request=lora_request)

    def beam_search(self, prompts: Sequence[Any], params: BeamSearchParams) -> list[BeamSearchOutput]:
        prompts = [prompts] if is_one_prompt(prompts) else list(prompts)
        params = params_of(params, BeamSearchParams)
        sampling = SamplingParams(n=params.beam_width, max_tokens=params.max_tokens, ignore_eos=params.ignore_eos,
                                  temperature=0)

        def submit(queue: Queue, given: Any) -> PendingGeneration:
            prompt = self._prompt(given)
            options = generate_options(self._model, prompt, sampling, self._seeds)
            options.beam_width, options.length_penalty = params.beam_width, params.length_penalty
            return PendingGeneration(str(next(self._ids)), self._engine, prompt, sampling, queue, [options])

        all_pending = self._run(partial(submit, given=given) for given in prompts)
        return [BeamSearchOutput([
            BeamSearchSequence(p.output.prompt_token_ids + out.token_ids, out.text, p.scores[out.index],
                               out.finish_reason)
            for out in p.cumulative().outputs]) for p in all_pending]

    def embed(self, prompts: Any, *, pooling_params: Optional[PoolingParams] = None,
              use_tqdm: bool = True) -> list[EmbeddingRequestOutput]:
        """The vectors of texts."""
        return [EmbeddingRequestOutput(p.request_id, EmbeddingOutput(p.data), ids)
                for p, ids in self._vectors(prompts, pooling_params, "HEAD_DEFAULT")]

    def classify(self, prompts: Any, *, use_tqdm: bool = True) -> list[ClassificationRequestOutput]:
        """Probabilities of a classifier's labels: a softmax, or of one label a sigmoid."""
        return [ClassificationRequestOutput(
            p.request_id, ClassificationOutput(softmax(p.data) if len(p.data) > 1 else [sigmoid(p.data[0])]), ids)
            for p, ids in self._vectors(prompts, None, "HEAD_CLASSES")]

    def score(self, data_1: Union[str, Sequence[str]], data_2: Union[str, Sequence[str]], *,
              use_tqdm: bool = True) -> list[ScoringRequestOutput]:
        """How well texts go together: by a reranker's head where the model has one, else the cosine of their
        vectors. One text is paired with each of the others."""
        first, second = texts_of(data_1), texts_of(data_2)
        first = first * len(second) if len(first) == 1 else first
        if len(first) != len(second):
            raise ValueError(f"there are {len(first)} first and {len(second)} second texts")
        if self._model.info.n_labels == 0:
            vectors = self._vectors(first + second, None, "HEAD_DEFAULT")
            return [ScoringRequestOutput(a.request_id, ScoringOutput(cosine(a.data, b.data)), ids_a + ids_b)
                    for (a, ids_a), (b, ids_b) in zip(vectors[:len(first)], vectors[len(first):])]
        pairs = self._vectors(first, None, "HEAD_CLASSES", second)
        return [ScoringRequestOutput(p.request_id, ScoringOutput(sigmoid(p.data[0])), ids) for p, ids in pairs]

    def logits(self, prompt: Any, on_row: Optional[Callable[[int, Any], None]] = None) -> Any:
        """The logits after each token of a prompt, as a NumPy array [tokens, vocabulary]. With on_row(position, row)
        each row is handed over as it is computed instead: the library's own memory, valid during the call only."""
        ready = self._prompt(prompt)
        rows: Any = None
        errors: list[BaseException] = []
        if on_row is None:
            if numpy is None:
                raise ImportError("logits without on_row needs NumPy")
            rows = numpy.empty((len(ready.ids), self._model.info.n_vocab), numpy.float32)

        def receive(_user: Any, position: int, address: int, n: int) -> None:  # on the engine's thread
            try:
                if on_row is not None:
                    on_row(position, float_view(address, n))
                else:
                    ctypes.memmove(rows[position].ctypes.data, address, 4 * n)
            except BaseException as e:  # no exception can pass through C
                errors.append(e)

        options = base_options("REQUEST_SCORE", ready)
        options.on_logits = c.LogitsFn(receive)
        self._run([lambda queue: Pending(str(next(self._ids)), self._engine, [options], queue)])
        if errors:
            raise errors[0]
        return rows

    # ---- many requests at once

    def _run_all(self, submits: Iterable[Callable[[Queue], Any]], n: int, use_tqdm: bool) -> list[RequestOutput]:
        bar = _bar(n) if use_tqdm else None
        try:
            return [p.cumulative() for p in self._run(submits, bar.update if bar is not None else None)]
        finally:
            if bar is not None:
                bar.close()

    def _vectors(self, prompts: Any, params: Optional[PoolingParams], head: str,
                 second: Optional[list[str]] = None) -> list[tuple[PendingVector, list[int]]]:
        prompts = [prompts] if is_one_prompt(prompts) else list(prompts)
        ids: list[list[int]] = []

        def submit(queue: Queue, i: int) -> PendingVector:
            pending, its_ids = self._submit_vector(queue, prompts[i], params, head, second[i] if second else None)
            ids.append(its_ids)
            return pending

        return list(zip(self._run(partial(submit, i=i) for i in range(len(prompts))), ids))

    def _run(self, submits: Iterable[Callable[[Queue], Any]], on_end: Optional[Callable[[], Any]] = None) -> list[Any]:
        """Submits all, waits for all. Whatever goes wrong, none is left behind."""
        queue, pending = Queue(), []
        done = False
        try:
            for submit in submits:
                pending.append(submit(queue))
            for ready in _ready(queue, pending):
                if ready.finished and on_end is not None:
                    on_end()
            done = True
            return pending
        finally:
            for p in pending:
                if not (done and isinstance(p, PendingVector)):  # whose vector lies in it
                    p.close()


def _of_each(given: Any, n: int, name: str, kind: Any) -> list[Any]:
    """What each of n prompts has of it; None stays None."""
    all_given = list(given) if is_list(given) else [given] * n
    if len(all_given) != n:
        raise ValueError(f"there are {n} prompts and {len(all_given)} {name}")
    for one in all_given:
        if one is not None and not isinstance(one, kind):
            raise TypeError(f"{name}: {kind.__name__} are expected; this is of type {type(one).__name__}")
    return all_given


def _ready(queue: Queue, all_pending: list[Any]) -> Iterator[Any]:
    """Each that has something new, until all are finished. A signal, such as Ctrl-C, ends the wait."""
    poll = select.poll()
    poll.register(queue.fd, select.POLLIN)
    pending = {request.address: p for p in all_pending for request in p.requests}
    while pending:
        poll.poll()
        address = queue.next()
        while address is not None:
            ready = pending.get(address)
            if ready is not None:
                ready.update()
                if ready.finished:
                    for request in ready.requests:
                        del pending[request.address]
                yield ready
            address = queue.next() if pending else None


def _bar(n: int) -> Any:
    """A bar of progress, on a terminal and where tqdm is installed."""
    if not sys.stderr.isatty():
        return None
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped]
    except ImportError:
        return None
    return tqdm(total=n, desc="Processed prompts", dynamic_ncols=True)
