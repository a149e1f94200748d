"""The C API (include/linnet.h) by ctypes: structs, functions, and errors as exceptions.

Every call through ctypes.CDLL releases the GIL. tests/python/test_layout.py lets a C compiler compare the structs
and numbers below with the header.
"""

from __future__ import annotations

import array
import ctypes
import ctypes.util
import operator
import os
from ctypes import (
    POINTER, c_bool, c_char, c_char_p, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64,
    c_void_p)
from typing import TYPE_CHECKING, Any

API_VERSION = "0.1"  # MAJOR.MINOR of the header that the structs below are of


# ---- errors --------------------------------------------------------------------------------

class LinnetError(Exception):
    """A failure inside the library. The text is the library's own sentence."""

    status = 0


class OutOfMemoryError(LinnetError, MemoryError):
    status = -1


class InputOutputError(LinnetError, OSError):
    status = -2


class FormatError(LinnetError, ValueError):
    """A malformed file."""

    status = -3


class UnsupportedError(LinnetError, NotImplementedError):
    status = -4


class ArgumentError(LinnetError, ValueError):
    status = -5


class LimitError(LinnetError, ValueError):
    """A limit is exceeded, such as the context."""

    status = -6


class RequestTimeoutError(LinnetError, TimeoutError):
    status = -7


class CancelledError(LinnetError):
    status = -8


class StateError(LinnetError, RuntimeError):
    status = -9


class ComputeError(LinnetError, RuntimeError):
    status = -10


_ERRORS = {e.status: e for e in (
    OutOfMemoryError, InputOutputError, FormatError, UnsupportedError, ArgumentError, LimitError,
    RequestTimeoutError, CancelledError, StateError, ComputeError)}
OK, TIMEOUT, STATE = 0, -7, -9


# ---- numbers of enums ----------------------------------------------------------------------

ENUMS = {
    "LINNET_OK": OK, "LINNET_ERR_TIMEOUT": TIMEOUT, "LINNET_ERR_STATE": STATE,
    "LINNET_ERR_COMPUTE": -10,
    "LINNET_PRECISION_FAST": 0, "LINNET_PRECISION_EXACT": 1,
    "LINNET_KV_AUTO": 0, "LINNET_KV_F32": 1, "LINNET_KV_F16": 2, "LINNET_KV_BF16": 3,
    "LINNET_KV_Q8_0": 4, "LINNET_KV_FP8": 5,
    "LINNET_POLICY_CHUNKED": 0, "LINNET_POLICY_PREFILL_FIRST": 1,
    "LINNET_ORDER_FCFS": 0, "LINNET_ORDER_PRIORITY": 1,
    "LINNET_PREEMPTION_AUTO": 0, "LINNET_PREEMPTION_SWAP": 1, "LINNET_PREEMPTION_RECOMPUTE": 2,
    "LINNET_POOLING_DEFAULT": 0, "LINNET_POOLING_CLS": 1, "LINNET_POOLING_MEAN": 2, "LINNET_POOLING_LAST": 3,
    "LINNET_REQUEST_GENERATE": 0, "LINNET_REQUEST_SCORE": 1, "LINNET_REQUEST_EMBED": 2,
    "LINNET_HEAD_DEFAULT": 0, "LINNET_HEAD_NONE": 1, "LINNET_HEAD_CLASSES": 2,
    "LINNET_NORMALIZATION_DEFAULT": 0, "LINNET_NORMALIZATION_ON": 1, "LINNET_NORMALIZATION_OFF": 2,
    "LINNET_GRAMMAR_NONE": 0, "LINNET_GRAMMAR_JSON": 1, "LINNET_GRAMMAR_JSON_SCHEMA": 2, "LINNET_GRAMMAR_REGEX": 3,
    "LINNET_GRAMMAR_CHOICE": 4, "LINNET_GRAMMAR_GBNF": 5, "LINNET_GRAMMAR_TOOLS": 6, "LINNET_GRAMMAR_LARK": 7,
    "LINNET_GRAMMAR_STRUCTURAL_TAG": 8,
    "LINNET_JSON_COMPACT": 1, "LINNET_JSON_ORDERED": 2, "LINNET_JSON_CLOSED": 4,
    "LINNET_REASONING_NONE": 0, "LINNET_REASONING_MAY_COME": 1, "LINNET_REASONING_OPEN": 2,
    "LINNET_EARLY_STOPPING_OFF": 0, "LINNET_EARLY_STOPPING_ON": 1, "LINNET_EARLY_STOPPING_NEVER": 2,
    "LINNET_FINISH_NONE": 0, "LINNET_FINISH_STOP": 1, "LINNET_FINISH_LENGTH": 2, "LINNET_FINISH_CANCELLED": 3,
    "LINNET_FINISH_ERROR": 4, "LINNET_FINISH_TIMEOUT": 5,
}


def number(name: str) -> int:
    """The number of an enum's name, without LINNET_."""
    return ENUMS["LINNET_" + name]


# ---- structs, in the order of the header ---------------------------------------------------

_BOUNDS = {kind: (lowest * 2**(bits - 1), 2**(bits + lowest) - 1) for kind, lowest, bits in (
    (c_int, -1, 32), (ctypes.c_uint, 0, 32), (c_size_t, 0, 8 * ctypes.sizeof(c_size_t)), (c_int64, -1, 64),
    (c_uint64, 0, 64))}


def check_range(name: str, value: Any, kind: Any) -> None:
    """ctypes would cut off the bits of a number that are too many."""
    if kind not in _BOUNDS:
        return
    try:
        number_given = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is a whole number, not {value!r:.60} of type {type(value).__name__}") from None
    lowest, highest = _BOUNDS[kind]
    if not lowest <= number_given <= highest:
        raise ValueError(f"{name} is {number_given}; it must be from {lowest} to {highest}")


class Structure(ctypes.Structure):
    """One whose numbers are what was given."""

    _kinds: dict[str, Any] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        check_range(name, value, self._kinds.get(name))
        super().__setattr__(name, value)

    def __init_subclass__(cls) -> None:
        cls._kinds = {name: kind for name, kind, *_ in cls._fields_}


class Error(Structure):
    _fields_ = [("status", c_int), ("message", c_char * 1024)]


class ModelInfo(Structure):
    _fields_ = [
        ("struct_bytes", c_size_t), ("architecture", c_char_p), ("name", c_char_p), ("n_vocab", c_int32),
        ("n_layers", c_int32), ("ctx_tokens", c_int64), ("has_tokenizer", c_bool), ("has_chat_template", c_bool),
        ("bos_id", c_int32), ("stop_ids", POINTER(c_int32)), ("n_stop_ids", c_size_t), ("has_encoder", c_bool),
        ("embeds_only", c_bool), ("n_embedding", c_int32), ("n_labels", c_int32), ("pooling", c_int),
        ("normalizes", c_bool), ("embed_tokens", c_int64)]


class ChatOptions(Structure):
    _fields_ = [
        ("struct_bytes", c_size_t), ("messages_json", c_char_p), ("tools_json", c_char_p),
        ("variables_json", c_char_p), ("omits_answer", c_bool), ("chat_template", c_char_p)]


LoadFn = ctypes.CFUNCTYPE(None, c_void_p, c_size_t, c_size_t)


class EngineOptions(Structure):
    _fields_ = [
        ("struct_bytes", c_size_t), ("precision", c_int), ("kv_type", c_int), ("backend", c_char_p),
        ("cpu", c_char_p), ("ctx_tokens", c_size_t), ("max_seqs", c_size_t), ("max_batch_tokens", c_size_t),
        ("n_threads", c_size_t), ("quantize_on_load", c_char_p), ("kv_tokens", c_size_t), ("prefix_cache", c_bool),
        ("swap_bytes", c_size_t), ("preemption", c_int), ("policy", c_int), ("order", c_int),
        ("max_long_prefills", c_size_t), ("long_prefill_tokens", c_size_t), ("pin_threads", c_bool),
        ("on_load", LoadFn), ("load_user", c_void_p), ("draft_tokens", c_size_t), ("draft_model", c_char_p),
        ("gpu_layers", c_int32), ("lazy_weights", c_bool), ("batch_invariant", c_bool), ("draft", c_char_p),
        ("max_adapters", c_size_t), ("max_adapter_rank", c_size_t), ("n_ranks", c_size_t), ("rank", c_size_t),
        ("n_stages", c_size_t), ("n_expert_ranks", c_size_t), ("collectives", c_int),
        ("cpu_experts", c_int32), ("experts_from_disk", c_size_t), ("adapt_experts", c_bool),
        ("serves", c_bool)]


class Arena(Structure):
    _fields_ = [("name", c_char_p), ("bytes", c_size_t)]


class MemoryPlan(Structure):
    _fields_ = [
        ("struct_bytes", c_size_t), ("ctx_tokens", c_size_t), ("max_seqs", c_size_t),
        ("max_batch_tokens", c_size_t), ("n_threads", c_size_t), ("n_arenas", c_size_t), ("arenas", Arena * 16),
        ("total_bytes", c_size_t), ("mapped_bytes", c_size_t), ("libraries_bytes", c_size_t),
        ("device_bytes", c_size_t), ("gpu_layers", c_size_t), ("draft", c_char_p), ("draft_tokens", c_size_t),
        ("draft_seqs", c_size_t), ("n_ranks", c_size_t), ("rank_token_bytes", c_size_t), ("cpu_experts", c_size_t),
        ("disk_experts", c_size_t), ("cached_experts", c_size_t), ("disk_token_bytes", c_size_t),
        ("kv_tokens", c_size_t)]


class EngineStats(Structure):
    _fields_ = [("struct_bytes", c_size_t)] + [(name, c_size_t) for name in (
        "n_waiting", "n_running", "n_swapped", "n_kv_blocks", "n_kv_used", "n_kv_cached", "n_swap_blocks",
        "n_swap_used")] + [(name, c_uint64) for name in (
            "n_steps", "n_computed_tokens", "n_prompt_tokens", "n_output_tokens", "n_prefix_query_tokens",
            "n_prefix_hit_tokens", "n_swap_preemptions", "n_recompute_preemptions", "n_swapped_blocks", "n_requests",
            "n_draft_tokens", "n_accepted_tokens", "is_lost", "n_failed_steps", "n_expert_hits",
            "n_expert_reads", "n_expert_bytes")]


class Sampling(Structure):
    _fields_ = [
        ("temperature", c_float), ("top_k", c_int32), ("top_p", c_float), ("min_p", c_float),
        ("repeat_penalty", c_float), ("repeat_last_n", c_int32), ("frequency_penalty", c_float),
        ("presence_penalty", c_float), ("seed", c_uint64), ("typical_p", c_float), ("top_n_sigma", c_float),
        ("xtc_probability", c_float), ("xtc_threshold", c_float), ("dry_multiplier", c_float), ("dry_base", c_float),
        ("dry_allowed_length", c_int32), ("dry_last_n", c_int32), ("mirostat_tau", c_float),
        ("mirostat_eta", c_float)]


class LogitBias(Structure):
    _fields_ = [("id", c_int32), ("bias", c_float)]


class TokenList(Structure):
    _fields_ = [("ids", POINTER(c_int32)), ("n_ids", c_size_t)]


class TokenLogprob(Structure):
    _fields_ = [("id", c_int32), ("logprob", c_float)]


class Event(Structure):
    _fields_ = [
        ("token", c_int32), ("text", c_void_p), ("text_bytes", c_size_t), ("finish", c_int), ("error", c_char_p),
        ("n_prompt_tokens", c_size_t), ("n_output_tokens", c_size_t), ("logprob", c_float),
        ("top_logprobs", POINTER(TokenLogprob)), ("prompt_logprobs", POINTER(c_float)),
        ("prompt_top_logprobs", POINTER(TokenLogprob)), ("index", c_uint32), ("n_open", c_uint32),
        ("n_cached_tokens", c_size_t), ("score", c_float), ("first_token_ns", c_uint64),
        ("last_token_ns", c_uint64), ("stop_index", c_int32), ("embedding", c_void_p), ("n_embedding", c_size_t),
        ("n_accepted_prediction", c_size_t), ("n_rejected_prediction", c_size_t)]


LogitsFn = ctypes.CFUNCTYPE(None, c_void_p, c_size_t, c_void_p, c_size_t)


class RequestOptions(Structure):
    _fields_ = [
        ("struct_bytes", c_size_t), ("kind", c_int), ("prompt_ids", POINTER(c_int32)), ("n_prompt_ids", c_size_t),
        ("max_tokens", c_size_t), ("ignore_eos", c_bool), ("keep_special", c_bool), ("sampling", Sampling),
        ("stop", POINTER(c_char_p)), ("n_stop", c_size_t), ("on_logits", LogitsFn), ("user", c_void_p),
        ("encoder_ids", POINTER(c_int32)), ("n_encoder_ids", c_size_t), ("min_tokens", c_size_t),
        ("stop_ids", POINTER(c_int32)), ("n_stop_ids", c_size_t), ("logit_bias", POINTER(LogitBias)),
        ("n_logit_bias", c_size_t), ("bad_words", POINTER(TokenList)), ("n_bad_words", c_size_t),
        ("dry_breakers", POINTER(c_int32)), ("n_dry_breakers", c_size_t), ("logprobs", c_bool),
        ("prompt_logprobs", c_bool), ("top_logprobs", c_int32), ("timeout_ms", c_uint32), ("n", c_uint32),
        ("best_of", c_uint32), ("beam_width", c_uint32), ("length_penalty", c_float), ("priority", c_int32),
        ("cache_salt", c_char_p), ("grammar_kind", c_int), ("grammar", c_char_p), ("grammar_bytes", c_size_t),
        ("early_stopping", c_int), ("completion_queue", c_void_p), ("reasoning", c_int), ("continues_prompt", c_bool),
        ("json_form", ctypes.c_uint), ("pooling", c_int), ("head", c_int), ("normalization", c_int),
        ("dimensions", c_size_t), ("n_first_ids", c_size_t), ("adapter", c_char_p),
        ("prediction_ids", POINTER(c_int32)), ("n_prediction_ids", c_size_t),
        ("first_output", c_uint32)]


class Adapter(Structure):
    _fields_ = [
        ("struct_bytes", c_size_t), ("name", c_char * 128), ("scale", c_float), ("rank", c_size_t),
        ("n_linears", c_size_t), ("n_requests", c_size_t)]


STRUCTS = {
    "linnet_error": Error, "linnet_model_info": ModelInfo, "linnet_chat_options": ChatOptions,
    "linnet_engine_options": EngineOptions, "linnet_memory_plan": MemoryPlan, "linnet_engine_stats": EngineStats,
    "linnet_sampling": Sampling, "linnet_logit_bias": LogitBias, "linnet_token_list": TokenList,
    "linnet_logprob": TokenLogprob, "linnet_event": Event, "linnet_request_options": RequestOptions,
    "linnet_adapter": Adapter}


# ---- the library ---------------------------------------------------------------------------

def _find_library() -> str:
    """LINNET_LIBRARY, the library inside the package, or an installed one."""
    given = os.environ.get("LINNET_LIBRARY")
    if given:
        return given
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")
    if os.path.isdir(folder):
        for name in sorted(os.listdir(folder)):
            if name.startswith("liblinnet.so"):
                return os.path.join(folder, name)
    return ctypes.util.find_library("linnet") or "liblinnet.so." + API_VERSION


_ids, _ids_out, _sizes_out, _err = POINTER(c_int32), POINTER(POINTER(c_int32)), POINTER(c_size_t), POINTER(Error)
_FUNCTIONS = {  # name: result, arguments
    "version": (c_char_p, ()),
    "free": (None, (c_void_p,)),
    "install_fault_handler": (c_int, (_err,)),
    "model_open": (c_int, (c_char_p, POINTER(c_void_p), _err)),
    "model_close": (None, (c_void_p,)),
    "model_get_info": (None, (c_void_p, POINTER(ModelInfo))),
    "model_set_chat_template": (c_int, (c_void_p, c_char_p, c_size_t, _err)),
    "model_encode": (c_int, (c_void_p, c_char_p, c_size_t, c_bool, c_bool, _ids_out, _sizes_out, _err)),
    "model_decode": (c_int, (c_void_p, _ids, c_size_t, c_bool, POINTER(c_void_p), _sizes_out, _err)),
    "model_encode_pair": (c_int, (c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, c_size_t, _ids_out, _sizes_out,
                                  _sizes_out, _err)),
    "model_get_prompt": (c_int, (c_void_p, c_char_p, POINTER(c_char_p), _err)),
    "chat_options_init": (None, (c_void_p,)),
    "model_render_chat": (c_int, (c_void_p, POINTER(ChatOptions), _ids_out, _sizes_out, POINTER(c_void_p), _err)),
    "engine_options_init": (None, (c_void_p,)),
    "plan_memory": (c_int, (c_void_p, POINTER(EngineOptions), POINTER(MemoryPlan), _err)),
    "engine_create": (c_int, (c_void_p, POINTER(EngineOptions), POINTER(c_void_p), _err)),
    "engine_destroy": (None, (c_void_p,)),
    "engine_get_memory": (None, (c_void_p, POINTER(MemoryPlan))),
    "engine_get_stats": (None, (c_void_p, POINTER(EngineStats))),
    "engine_load_adapter": (c_int, (c_void_p, c_char_p, c_char_p, c_float, _err)),
    "engine_unload_adapter": (c_int, (c_void_p, c_char_p, _err)),
    "engine_get_adapter": (c_bool, (c_void_p, c_size_t, POINTER(Adapter))),
    "request_options_init": (None, (c_void_p,)),
    "request_submit": (c_int, (c_void_p, POINTER(RequestOptions), POINTER(c_void_p), _err)),
    "request_next": (c_int, (c_void_p, c_int, POINTER(Event), _err)),
    "request_cancel": (None, (c_void_p,)),
    "request_close": (None, (c_void_p,)),
    "completion_queue_create": (c_int, (POINTER(c_void_p), _err)),
    "completion_queue_destroy": (None, (c_void_p,)),
    "completion_queue_get_fd": (c_int, (c_void_p,)),
    "completion_queue_next": (c_void_p, (c_void_p,)),
}


class _Library:
    """The functions of linnet.h without their linnet_."""

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, path: str) -> None:
        try:
            library = ctypes.CDLL(path)
        except OSError as e:
            raise ImportError(f"linnet: the library cannot be loaded: {e}") from e
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, "linnet_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        self.path = path
        self.version_text = self.version().decode()
        if not self.version_text.startswith(API_VERSION + "."):
            raise ImportError(f"linnet: {path} is version {self.version_text}; this package needs {API_VERSION}.x")


lib = _Library(_find_library())


def check(status: int, err: Error) -> None:
    """Raises the exception of a failed call."""
    if status != OK:
        raise _ERRORS.get(status, LinnetError)(err.message.decode("utf-8", "replace"))


def init(struct: Any, init_function: Any) -> Any:
    """An option struct with its defaults. A later library's may be longer, and begins like ours."""
    room = ctypes.create_string_buffer(1 << 16)
    init_function(room)
    options = struct.from_buffer_copy(room)
    options.struct_bytes = ctypes.sizeof(struct)
    return options


def sized(struct: Any) -> Any:
    return struct(struct_bytes=ctypes.sizeof(struct))


def id_array(ids: Any) -> Any:
    try:
        held = array.array("i", iter(ids))
    except OverflowError:
        raise ValueError("a token id is a number of 32 bits") from None
    return (c_int32 * len(held)).from_buffer(held)


def take_ids(ids: Any, n: int) -> list[int]:
    """A list of ids that the library allocated, which are freed."""
    try:
        return ids[:n]
    finally:
        lib.free(ids)


def event_text(event: Event) -> str:
    return ctypes.string_at(event.text, event.text_bytes).decode("utf-8", "replace")
