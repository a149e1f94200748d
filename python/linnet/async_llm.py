"""AsyncLLM: the same for asyncio. Tokens wake the event loop by one descriptor; there is no thread and no polling."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Optional

from ._engine import Queue
from ._request import Pending, params_of
from .llm import Base, Messages
from .outputs import EmbeddingOutput, EmbeddingRequestOutput, RequestOutput
from .sampling_params import LoRARequest, PoolingParams, RequestOutputKind, SamplingParams


class _Receiver:
    """The completion queue of one event loop, and who waits for its requests."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop, self.queue = loop, Queue()
        self.pending: dict[int, tuple[Pending, asyncio.Event]] = {}
        loop.add_reader(self.queue.fd, self._read)

    def add(self, pending: Pending) -> asyncio.Event:
        woken = asyncio.Event()
        for request in pending.requests:
            self.pending[request.address] = (pending, woken)
        return woken

    def remove(self, pending: Pending) -> None:
        for request in pending.requests:
            self.pending.pop(request.address, None)

    def _read(self) -> None:
        while (address := self.queue.next()) is not None:
            if address in self.pending:
                self.pending[address][1].set()

    def close(self) -> None:
        if not self.loop.is_closed():
            self.loop.remove_reader(self.queue.fd)


class AsyncLLM(Base):
    """Requests of coroutines share the engine's steps."""

    _waits = False  # the event loop goes on

    def __init__(self, model: str, **options: Any) -> None:
        super().__init__(model, **options)
        self._receiver: Optional[_Receiver] = None
        self._by_id: dict[str, Pending] = {}

    async def generate(self, prompt: Any, sampling_params: Optional[SamplingParams] = None,
                       request_id: Optional[str] = None, *,
                       lora_request: Optional[LoRARequest] = None) -> AsyncIterator[RequestOutput]:
        """Outputs of one prompt as they come: all so far (CUMULATIVE), unless output_kind says otherwise. Leaving the
        loop early ends the request."""
        params = params_of(sampling_params, SamplingParams)
        kind = params.output_kind or RequestOutputKind.CUMULATIVE
        receiver = self._own_receiver()
        pending = self._submit(receiver.queue, prompt, params, lora_request, request_id)
        self._by_id[pending.request_id] = pending
        try:
            async for _ in _updates(receiver, pending):
                shown = pending.shown(kind)
                if shown is not None:
                    yield shown
        finally:
            if self._by_id.get(pending.request_id) is pending:  # no later request has taken the id
                del self._by_id[pending.request_id]

    def chat(self, messages: Messages, sampling_params: Optional[SamplingParams] = None,
             request_id: Optional[str] = None, *, lora_request: Optional[LoRARequest] = None,
             **template_options: Any) -> AsyncIterator[RequestOutput]:
        """generate for a conversation; template_options as in LLM.chat."""
        return self.generate(self._chat_prompt(messages, template_options), sampling_params, request_id,
                             lora_request=lora_request)

    async def embed(self, prompt: Any, pooling_params: Optional[PoolingParams] = None) -> EmbeddingRequestOutput:
        receiver = self._own_receiver()
        pending, ids = self._submit_vector(receiver.queue, prompt, pooling_params)
        async for _ in _updates(receiver, pending, keep=True):
            pass
        return EmbeddingRequestOutput(pending.request_id, EmbeddingOutput(pending.data), ids)

    async def abort(self, request_id: str) -> None:
        """Ends a request; its generator gives a last output with finish_reason "abort"."""
        if request_id in self._by_id:
            self._by_id[request_id].cancel()

    def close(self) -> None:
        if self._receiver is not None:
            self._receiver.close()
            self._receiver = None
        super().close()

    shutdown = close

    def _own_receiver(self) -> _Receiver:
        loop = asyncio.get_running_loop()
        if self._receiver is None or self._receiver.loop is not loop:
            if self._receiver is not None:
                self._receiver.close()
            self._receiver = _Receiver(loop)
        return self._receiver


async def _updates(receiver: _Receiver, pending: Pending, keep: bool = False) -> AsyncIterator[None]:
    """Once for each time that there is something new. keep: the request's memory is still needed."""
    woken = receiver.add(pending)
    try:
        while not pending.finished:
            await woken.wait()
            woken.clear()
            pending.update()
            yield
    finally:
        receiver.remove(pending)
        if not (keep and pending.finished):
            pending.close()


AsyncLLMEngine = AsyncLLM  # vLLM's other name
