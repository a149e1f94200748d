"""Between Python's objects and a request of the C API: options on the way in, events on the way out."""

from __future__ import annotations

import ctypes
import json
import math
import random
from functools import partial
from numbers import Integral
from typing import Any, Optional

from . import _native as c
from ._engine import Engine, Model, Queue, Request, float_view, token_ids
from ._native import lib, number
from .outputs import CompletionOutput, Logprob, RequestMetrics, RequestOutput
from .sampling_params import LoRARequest, PoolingParams, RequestOutputKind, SamplingParams

INT32_MAX = 2**31 - 1
MAX_LOGPROBS = 64  # LINNET_MAX_TOP_LOGPROBS
_FINISH = {number("FINISH_STOP"): "stop", number("FINISH_LENGTH"): "length", number("FINISH_CANCELLED"): "abort",
           number("FINISH_TIMEOUT"): "timeout"}


_WITHOUT = ("multi_modal_data", "prompt_embeds")  # of vLLM's prompts; they would change the answer
_FORMS = 'a prompt is a text, token ids, or a dict with "prompt" or "prompt_token_ids"'


class Prompt:
    """A prompt in any form that generate takes: a text, token ids, or a dict with one of them."""

    def __init__(self, model: Model, prompt: Any, embeds: bool = False) -> None:
        """`embeds`: a vector is wanted of it, so no encoder and decoder divide it."""
        self.ids: list[int] = []
        self.text: Optional[str] = None
        self.encoder_ids: Optional[list[int]] = None
        self.cache_salt: Optional[str] = prompt.get("cache_salt") if isinstance(prompt, dict) else None
        if isinstance(prompt, dict) and "encoder_prompt" in prompt:
            self.encoder_ids, _ = _ids_and_text(model, prompt["encoder_prompt"])
            prompt = prompt.get("decoder_prompt") or None
        elif model.info.has_encoder and not embeds:  # one text is what the encoder reads
            self.encoder_ids, _ = _ids_and_text(model, prompt)
            prompt = None
        if self.encoder_ids is None or prompt is not None:
            self.ids, self.text = _ids_and_text(model, prompt)


def text_or_ids(prompt: Any) -> Any:
    """What a dict has of them, and what else is given as it is."""
    if not isinstance(prompt, dict):
        return prompt
    for name in _WITHOUT:
        if prompt.get(name) is not None and len(prompt[name]) > 0:
            raise c.UnsupportedError(f"a prompt has {name}, and there are texts and token ids alone")
    return prompt["prompt_token_ids"] if "prompt_token_ids" in prompt else prompt.get("prompt")


def _ids_and_text(model: Model, prompt: Any) -> tuple[list[int], Optional[str]]:
    prompt = text_or_ids(prompt)
    if isinstance(prompt, str):
        return model.encode(prompt), prompt
    return token_ids(prompt, _FORMS), None


def is_list(given: Any) -> bool:
    """Whether it is a sequence of any type, but no text."""
    return (hasattr(given, "__len__") and hasattr(given, "__getitem__")
            and not isinstance(given, (str, bytes, bytearray, dict)))


def is_one_prompt(prompts: Any) -> bool:
    """Whether it is one prompt rather than a list of them."""
    if isinstance(prompts, (str, dict)):
        return True
    if not is_list(prompts):
        raise TypeError(f"{_FORMS}, or there is a list of these; this is of type {type(prompts).__name__}")
    return len(prompts) > 0 and isinstance(prompts[0], Integral)


def texts_of(given: Any) -> list[str]:
    """One text, or a list of them."""
    texts = list(given) if is_list(given) else [given]
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"texts are expected; this is of type {type(text).__name__}")
    return texts


def messages_of(given: Any) -> list[dict]:
    """A conversation."""
    if not is_list(given) or not all(isinstance(message, dict) for message in given):
        raise TypeError("a conversation is a list of messages, which are dicts with role and content")
    return [_message_of(message) for message in given]


def _message_of(message: dict) -> dict:
    """As templates expect it: content that is a text, and the object in arguments of calls."""
    shaped = dict(message)
    if is_list(message.get("content")):
        shaped["content"] = "\n".join(_part_text(part) for part in message["content"])
    if is_list(message.get("tool_calls")):
        shaped["tool_calls"] = [_call_of(call) for call in message["tool_calls"]]
    return shaped


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
        raise ValueError(f"content has parts of type text alone; this is {part!r:.60}")
    return part["text"]


def _call_of(call: Any) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except ValueError:
        raise ValueError(f"the arguments of a call are no JSON: {function['arguments']!r:.60}") from None
    return {**call, "function": {**function, "arguments": arguments}}


def params_of(given: Any, kind: Any) -> Any:
    """`given`, or the defaults."""
    if given is not None and not isinstance(given, kind):
        raise TypeError(f"{kind.__name__} are expected; this is of type {type(given).__name__}")
    return given if given is not None else kind()


def base_options(kind: str, prompt: Prompt) -> c.RequestOptions:
    options = c.init(c.RequestOptions, lib.request_options_init)
    options.kind = number(kind)
    options.prompt_ids, options.n_prompt_ids = c.id_array(prompt.ids), len(prompt.ids)
    if prompt.encoder_ids is not None:
        options.encoder_ids, options.n_encoder_ids = c.id_array(prompt.encoder_ids), len(prompt.encoder_ids)
    return options


def generate_options(model: Model, prompt: Prompt, p: SamplingParams, seeds: random.Random,
                     lora: Optional[LoRARequest] = None) -> c.RequestOptions:
    options = base_options("REQUEST_GENERATE", prompt)
    options.max_tokens = p.max_tokens or 0
    options.min_tokens, options.ignore_eos, options.keep_special = p.min_tokens, p.ignore_eos, not p.skip_special_tokens
    options.n, options.best_of = p.n, p.best_of or 0
    options.timeout_ms = max(1, int(p.timeout * 1000)) if p.timeout is not None else 0
    options.priority = p.priority
    salt = p.cache_salt if p.cache_salt is not None else prompt.cache_salt
    options.cache_salt = salt.encode() if salt is not None else None
    options.adapter = lora.lora_name.encode() if lora is not None else None
    _set_sampling(options.sampling, p, seeds)
    _set_lists(options, model, p)
    for asked in (p.logprobs, p.prompt_logprobs):
        if asked is not None and not 0 <= asked <= MAX_LOGPROBS:
            raise ValueError(f"logprobs and prompt_logprobs are at most {MAX_LOGPROBS}, got {asked}")
    options.logprobs, options.prompt_logprobs = p.logprobs is not None, p.prompt_logprobs is not None
    options.top_logprobs = min(max(p.logprobs or 0, p.prompt_logprobs or 0), model.info.n_vocab)
    if p.structured_outputs is not None:
        kind, text = p.structured_outputs.kind_and_text()
        options.grammar_kind, options.grammar = number(kind), text.encode()
        options.grammar_bytes = len(options.grammar)
        options.json_form = sum(number(form) for form in p.structured_outputs.json_form())
    return options


def _set_sampling(s: c.Sampling, p: SamplingParams, seeds: random.Random) -> None:
    s.temperature, s.top_p, s.top_k, s.min_p = p.temperature, p.top_p, max(p.top_k, 0), p.min_p
    s.repeat_penalty, s.frequency_penalty, s.presence_penalty = (
        p.repetition_penalty, p.frequency_penalty, p.presence_penalty)
    s.repeat_last_n = INT32_MAX if p.repeat_last_n is None else p.repeat_last_n
    s.seed = seeds.getrandbits(63) if p.seed is None else p.seed % 2**64
    for name in ("typical_p", "top_n_sigma", "xtc_probability", "xtc_threshold", "dry_multiplier", "dry_base",
                 "dry_allowed_length", "mirostat_tau", "mirostat_eta"):
        setattr(s, name, getattr(p, name))


def _set_lists(options: c.RequestOptions, model: Model, p: SamplingParams) -> None:
    """Arrays; ctypes keeps them alive with the struct that points to them."""
    if p.stop:
        options.stop, options.n_stop = (ctypes.c_char_p * len(p.stop))(*[s.encode() for s in p.stop]), len(p.stop)
    if p.stop_token_ids:
        options.stop_ids, options.n_stop_ids = c.id_array(p.stop_token_ids), len(p.stop_token_ids)
    pairs = [(int(token), bias) for token, bias in (p.logit_bias or {}).items()]
    if p.allowed_token_ids is not None:
        allowed = set(token_ids(p.allowed_token_ids))
        pairs += [(token, -math.inf) for token in range(model.info.n_vocab) if token not in allowed]
    if pairs:
        options.logit_bias = _array(c.LogitBias, [c.LogitBias(*pair) for pair in pairs])
        options.n_logit_bias = len(pairs)
    if p.bad_words:
        lists = [model.encode(form, add_special=False) for word in p.bad_words
                 for form in dict.fromkeys((word, " " + word.lstrip()))]
        options.bad_words = _array(c.TokenList, [(c.id_array(ids), len(ids)) for ids in lists])
        options.n_bad_words = len(lists)


def _array(struct: Any, rows: list) -> Any:
    return (struct * len(rows))(*rows)


def embed_options(prompt: Prompt, p: PoolingParams, head: str = "HEAD_DEFAULT", n_first: int = 0) -> c.RequestOptions:
    options = base_options("REQUEST_EMBED", prompt)
    options.head, options.n_first_ids, options.dimensions = number(head), n_first, p.dimensions or 0
    options.pooling = number("POOLING_" + (p.pooling or "default").upper())
    if p.normalize is not None:
        options.normalization = number("NORMALIZATION_ON" if p.normalize else "NORMALIZATION_OFF")
    return options


def divide(options: c.RequestOptions, most: int) -> list[c.RequestOptions]:
    """Requests of at most so many outputs each, which are those of the one: a step holds no more of a request."""
    n = options.n
    if n <= most or options.best_of > n:
        return [options]
    parts = []
    for first in range(0, n, most):
        part = c.RequestOptions.from_buffer_copy(options)
        part.whole = options  # has the arrays
        part.n, part.best_of, part.first_output = min(most, n - first), 0, first
        part.prompt_logprobs = options.prompt_logprobs and first == 0
        parts.append(part)
    return parts


class Pending:
    """What was asked for and is under way, as one request or as several that follow each other, with all that their
    events have said."""

    def __init__(self, request_id: str, engine: Engine, parts: list[c.RequestOptions], queue: Queue) -> None:
        self.request_id = request_id
        self.error: Optional[str] = None
        self.finished = False
        self.requests: list[Request] = []
        try:
            for options in parts:
                self.requests.append(Request(engine, options, queue))
        except BaseException:
            self.close()
            raise
        self._open = [(request, options.first_output) for request, options in zip(self.requests, parts)]

    def update(self) -> None:
        """Takes what is there; raises if a request failed."""
        try:
            self._open = [(request, first) for request, first in self._open
                          if not request.events(partial(self.take, first=first))]
            self.finished = not self._open
            if self.error is not None:
                raise c.ComputeError(self.error)
        except BaseException:
            self.close()
            raise

    def cancel(self) -> None:
        for request in self.requests:
            request.cancel()

    def close(self) -> None:
        for request in self.requests:
            request.close()

    def take(self, event: c.Event, first: int) -> None:
        """`first`: the number of the request's output 0."""
        if event.finish == number("FINISH_ERROR"):
            self.error = (event.error or b"the engine failed").decode("utf-8", "replace")


class PendingGeneration(Pending):
    def __init__(self, request_id: str, engine: Engine, prompt: Prompt, params: SamplingParams, queue: Queue,
                 parts: list[c.RequestOptions], lora: Optional[LoRARequest] = None) -> None:
        self._model, self._params = engine.model, params
        n = sum(max(options.n, 1) for options in parts)
        wants = params.logprobs is not None
        self.output = RequestOutput(
            request_id, prompt.text, prompt.ids, None,
            [CompletionOutput(i, "", [], 0.0 if wants else None, [] if wants else None, lora_request=lora)
             for i in range(n)], False, RequestMetrics(), lora)
        self._texts: list[list[str]] = [[] for _ in range(n)]
        self._shown = [(0, 0, False)] * n  # pieces of text, tokens and the end that were given out as deltas
        self.scores = [0.0] * n
        self._n_ended = 0
        super().__init__(request_id, engine, parts, queue)

    def take(self, event: c.Event, first: int) -> None:
        super().take(event, first)
        params, out = self._params, self.output.outputs[first + event.index]
        if event.text_bytes:
            self._texts[out.index].append(c.event_text(event))
        if event.token >= 0:
            out.token_ids.append(event.token)
            if out.logprobs is not None:
                out.logprobs.append(self._logprobs(event.token, event.logprob, event.top_logprobs, params.logprobs))
                out.cumulative_logprob += event.logprob
        if event.prompt_logprobs and params.prompt_logprobs is not None and self.output.prompt_logprobs is None:
            self._take_prompt_logprobs(event)
        if event.first_token_ns and first == 0:
            self.output.metrics.first_token_time = event.first_token_ns / 1e9
        if event.last_token_ns:
            last = max(self.output.metrics.last_token_time or 0, event.last_token_ns / 1e9)
            self.output.metrics.last_token_time = last
        if first == 0:
            self.output.num_cached_tokens = event.n_cached_tokens
        if event.finish:
            self._end(out, event)

    def _end(self, out: CompletionOutput, event: c.Event) -> None:
        out.finish_reason = _FINISH.get(event.finish, "error")
        self.scores[out.index] = event.score
        if event.stop_index >= 0 and self._params.stop:
            out.stop_reason = self._params.stop[event.stop_index]
            if self._params.include_stop_str_in_output:
                self._texts[out.index].append(out.stop_reason)
        self._n_ended += 1
        self.output.finished = self._n_ended == len(self.output.outputs)

    def _take_prompt_logprobs(self, event: c.Event) -> None:
        ids, width = self.output.prompt_token_ids, self._top
        self.output.prompt_logprobs = [None] + [
            self._logprobs(ids[i], event.prompt_logprobs[i],
                           event.prompt_top_logprobs[i * width:(i + 1) * width] if width else [],
                           self._params.prompt_logprobs)
            for i in range(1, min(event.n_prompt_tokens, len(ids)))]

    @property
    def _top(self) -> int:
        p = self._params
        return min(max(p.logprobs or 0, p.prompt_logprobs or 0), self._model.info.n_vocab)

    def _logprobs(self, token: int, logprob: float, top: Any, n: Optional[int]) -> dict[int, Logprob]:
        """The token's own logprob first, then those of the n likeliest."""
        best = [(top[i].id, top[i].logprob) for i in range(min(n or 0, self._top))]
        ranks = {other: rank for rank, (other, _) in enumerate(best, 1)}
        out = {token: Logprob(logprob, ranks.get(token), self._model.token_text(token))}
        for other, value in best:
            out.setdefault(other, Logprob(value, ranks[other], self._model.token_text(other)))
        return out

    def cumulative(self) -> RequestOutput:
        """All so far, with lists that grow no more."""
        outputs = [self._copy(out, 0, 0) for out in self.output.outputs]
        return _replaced(self.output, outputs)

    def delta(self) -> Optional[RequestOutput]:
        """What is new since the last call; None: nothing."""
        outputs = []
        for out in self.output.outputs:
            before = self._shown[out.index]
            now = (len(self._texts[out.index]), len(out.token_ids), out.finished())
            if now != before:
                outputs.append(self._copy(out, before[0], before[1]))
                self._shown[out.index] = now
        return _replaced(self.output, outputs) if outputs else None

    def _copy(self, out: CompletionOutput, texts: int, tokens: int) -> CompletionOutput:
        return CompletionOutput(
            out.index, "".join(self._texts[out.index][texts:]), out.token_ids[tokens:], out.cumulative_logprob,
            out.logprobs[tokens:] if out.logprobs is not None else None, out.finish_reason, out.stop_reason,
            out.lora_request)

    def shown(self, kind: RequestOutputKind) -> Optional[RequestOutput]:
        """What a receiver of this kind is given now."""
        if kind == RequestOutputKind.DELTA:
            return self.delta()
        return self.cumulative() if self.finished or kind == RequestOutputKind.CUMULATIVE else None


def _replaced(output: RequestOutput, outputs: list[CompletionOutput]) -> RequestOutput:
    return RequestOutput(output.request_id, output.prompt, output.prompt_token_ids, output.prompt_logprobs, outputs,
                         output.finished, output.metrics, output.lora_request, output.num_cached_tokens)


class PendingVector(Pending):
    """A request of kind EMBED. `data` lies in the request, which lives as long as it."""

    data: Any = None

    def take(self, event: c.Event, first: int) -> None:
        super().take(event, first)
        if event.embedding:
            self.data = float_view(event.embedding, event.n_embedding, self.requests[0])
        elif event.finish and self.error is None:
            self.error = "the request ended without a vector"
