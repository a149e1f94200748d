"""Objects around the C API's handles: model, engine, completion queue. Each closes itself when nobody has it."""

from __future__ import annotations

import contextlib
import ctypes
import json
import operator
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from ctypes import byref, c_size_t, c_void_p
from typing import Any, Optional

from . import _native as c
from ._native import lib

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]


def token_ids(given: Any, expected: str = "token ids are a list of whole numbers") -> list[int]:
    """`expected`: what the error says of it."""
    if not isinstance(given, (str, bytes, bytearray)):  # whose bytes would count as ids
        try:
            return [operator.index(token) for token in given]
        except TypeError:
            pass
    raise TypeError(f"{expected}; this is {given!r:.60} of type {type(given).__name__}")


class Model:
    """An open checkpoint, which threads may share."""

    def __init__(self, path: str) -> None:
        handle, err = c_void_p(), c.Error()
        c.check(lib.model_open(path.encode(), byref(handle), byref(err)), err)
        self.handle = handle
        self._close = weakref.finalize(self, lib.model_close, handle)
        self.info = c.sized(c.ModelInfo)
        lib.model_get_info(handle, byref(self.info))
        self._tokens: dict[int, str] = {}

    def set_chat_template(self, source: str) -> None:
        err, text = c.Error(), source.encode()
        c.check(lib.model_set_chat_template(self.handle, text, len(text), byref(err)), err)

    def encode(self, text: str, add_special: bool = True, parse_special: bool = True) -> list[int]:
        if not isinstance(text, str):
            raise TypeError(f"a text is expected; this is of type {type(text).__name__}")
        ids, n, err, data = ctypes.POINTER(ctypes.c_int32)(), c_size_t(), c.Error(), text.encode()
        c.check(lib.model_encode(self.handle, data, len(data), add_special, parse_special, byref(ids), byref(n),
                                 byref(err)), err)
        return c.take_ids(ids, n.value)

    def encode_pair(self, first: str, second: Optional[str], max_tokens: int) -> tuple[list[int], int]:
        """Ids of one text or two, and how many are the first one's (0: there is one text)."""
        ids, n, n_first, err = ctypes.POINTER(ctypes.c_int32)(), c_size_t(), c_size_t(), c.Error()
        a, b = first.encode(), second.encode() if second is not None else None
        c.check(lib.model_encode_pair(self.handle, a, len(a), b, len(b or b""), max_tokens, byref(ids), byref(n),
                                      byref(n_first), byref(err)), err)
        return c.take_ids(ids, n.value), n_first.value

    def decode(self, ids: Sequence[int], keep_special: bool = False) -> str:
        text, n, err = c_void_p(), c_size_t(), c.Error()
        c.check(lib.model_decode(self.handle, c.id_array(ids), len(ids), keep_special, byref(text), byref(n),
                                 byref(err)), err)
        try:
            return ctypes.string_at(text, n.value).decode("utf-8", "replace")
        finally:
            lib.free(text)

    def token_text(self, token: int) -> Optional[str]:
        if not self.info.has_tokenizer:
            return None
        if token not in self._tokens:
            self._tokens[token] = self.decode([token], keep_special=True)
        return self._tokens[token]

    def render_chat(self, messages: Any, tools: Any = None, variables: Optional[dict] = None,
                    add_generation_prompt: bool = True, template: Optional[str] = None) -> tuple[list[int], str]:
        options = c.init(c.ChatOptions, lib.chat_options_init)
        options.messages_json = json.dumps(messages).encode()
        options.tools_json = json.dumps(tools).encode() if tools else None
        options.variables_json = json.dumps(variables).encode() if variables else None
        options.omits_answer = not add_generation_prompt
        options.chat_template = template.encode() if template is not None else None
        ids, n, text, err = ctypes.POINTER(ctypes.c_int32)(), c_size_t(), c_void_p(), c.Error()
        c.check(lib.model_render_chat(self.handle, byref(options), byref(ids), byref(n), byref(text), byref(err)),
                err)
        rendered = ctypes.string_at(text).decode("utf-8", "replace")
        lib.free(text)
        return c.take_ids(ids, n.value), rendered

    def plan(self, options: c.EngineOptions) -> c.MemoryPlan:
        plan, err = c.sized(c.MemoryPlan), c.Error()
        c.check(lib.plan_memory(self.handle, byref(options), byref(plan), byref(err)), err)
        return plan


class Engine:
    """A running engine. It must be closed while no other thread uses it."""

    def __init__(self, model: Model, options: c.EngineOptions) -> None:
        handle, err = c_void_p(), c.Error()
        c.check(lib.engine_create(model.handle, byref(options), byref(handle), byref(err)), err)
        self.model, self._handle = model, handle
        self.close = weakref.finalize(self, _destroy_engine, handle, model)
        self.memory = c.sized(c.MemoryPlan)
        lib.engine_get_memory(handle, byref(self.memory))
        self._max_adapters: int = options.max_adapters
        self._adapters: dict[str, tuple[str, float]] = {}  # path and scale by name; that used last is the last
        self._lock = threading.Lock()

    @property
    def handle(self) -> c_void_p:
        if not self.close.alive:
            raise c.StateError("the engine is closed")
        return self._handle

    def stats(self) -> dict[str, int]:
        stats = c.sized(c.EngineStats)
        lib.engine_get_stats(self.handle, byref(stats))
        return {name: getattr(stats, name) for name, *_ in c.EngineStats._fields_[1:]}

    @contextlib.contextmanager
    def adapter(self, name: str, path: str, scale: float, waits: bool) -> Iterator[None]:
        """Loads it; it is there as long as the context, in which a request is submitted that has it from then on. Where
        there is no place, the one that was used the longest ago, of those that no request has, leaves; `waits`: until
        there is such a one."""
        with self._lock:
            if self._adapters.get(name) != (path, scale):
                if name in self._adapters:
                    self._unload_adapter(name)
                self._load_adapter(name, path, scale, waits)
            self._adapters.pop(name, None)
            self._adapters[name] = path, scale
            yield

    def _load_adapter(self, name: str, path: str, scale: float, waits: bool) -> None:
        while True:
            err = c.Error()
            try:
                c.check(lib.engine_load_adapter(self.handle, name.encode(), path.encode(), scale, byref(err)), err)
                return
            except c.StateError:  # there is no place
                if self._unload_idle_adapter():
                    continue
                if not waits or self._max_adapters == 0:
                    raise
            time.sleep(0.001)  # requests end though nobody reads them

    def _unload_adapter(self, name: str) -> None:
        err = c.Error()
        c.check(lib.engine_unload_adapter(self.handle, name.encode(), byref(err)), err)
        del self._adapters[name]

    def _unload_idle_adapter(self) -> bool:
        loaded, idle, i = c.sized(c.Adapter), set(), 0
        while lib.engine_get_adapter(self.handle, i, byref(loaded)):
            if loaded.n_requests == 0:
                idle.add(loaded.name.decode())
            i += 1
        name = next((name for name in self._adapters if name in idle), None)
        if name is not None:
            self._unload_adapter(name)
        return name is not None


def _destroy_engine(handle: c_void_p, model: Model) -> None:
    lib.engine_destroy(handle)  # `model` is held until here


class Queue:
    """A completion queue: one descriptor for all requests of one receiver."""

    def __init__(self) -> None:
        handle, err = c_void_p(), c.Error()
        c.check(lib.completion_queue_create(byref(handle), byref(err)), err)
        self.handle = handle
        self.fd: int = lib.completion_queue_get_fd(handle)
        self.close = weakref.finalize(self, lib.completion_queue_destroy, handle)

    def next(self) -> Optional[int]:
        """The address of a request that has events."""
        return lib.completion_queue_next(self.handle)


class Request:
    """A submitted request, and what keeps its memory alive: vectors lie in it."""

    def __init__(self, engine: Engine, options: c.RequestOptions, queue: Queue) -> None:
        handle, err = c_void_p(), c.Error()
        options.completion_queue = queue.handle
        c.check(lib.request_submit(engine.handle, byref(options), byref(handle), byref(err)), err)
        self.handle, self.address = handle, handle.value or 0
        callback = options if options.on_logits else None  # of the options, only this is used after submit
        self.close = weakref.finalize(self, _close_request, handle, engine.model, callback)

    def events(self, on_event: Callable[[c.Event], None]) -> bool:
        """Tells of all events that are there; whether the last one of all was among them."""
        event = c.Event.from_buffer(ctypes.create_string_buffer(1 << 10))  # a later library's is longer
        err = c.Error()
        while True:
            status = lib.request_next(self.handle, 0, byref(event), byref(err))
            if status == c.TIMEOUT:
                return False
            c.check(status, err)
            on_event(event)
            if event.finish and event.n_open == 0:
                return True

    def cancel(self) -> None:
        if self.close.alive:
            lib.request_cancel(self.handle)


def _close_request(handle: c_void_p, *_held: Any) -> None:
    lib.request_close(handle)  # what is held outlives it


def float_view(address: int, n: int, owner: Any = None) -> Any:
    """float32[n] at this address, without a copy: a NumPy array, or a memoryview without NumPy. `owner` lives as
    long as it does."""
    memory = (ctypes.c_float * n).from_address(address)
    memory.owner = owner  # type: ignore[attr-defined]
    view: Any = memoryview(memory).cast("B").cast("f").toreadonly()
    return numpy.frombuffer(view, numpy.float32) if numpy is not None else view
