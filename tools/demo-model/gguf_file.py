"""Writes GGUF version 3 files: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

ALIGNMENT = 32
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9  # value types
TENSOR_F32, TENSOR_Q8_0 = 0, 8
BLOCK = 32  # weights of a Q8_0 block: one float16 scale and 32 int8


def quantize_q8_0(weights: np.ndarray) -> bytes:
    """Rows of float32 [rows, columns], columns a multiple of 32, as Q8_0 blocks."""
    blocks = weights.astype(np.float32).reshape(-1, BLOCK)
    scale = np.abs(blocks).max(axis=1, keepdims=True) / 127
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
    scaled = blocks * inverse
    levels = np.trunc(scaled + np.copysign(np.float32(0.5), scaled)).astype(np.int8)  # halves away from zero
    packed = np.empty(len(blocks), dtype=[("scale", "<f2"), ("levels", "i1", BLOCK)])
    packed["scale"], packed["levels"] = scale[:, 0], levels
    return packed.tobytes()


def string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind: int, item: Any) -> bytes:
    if kind == STRING:
        return string(item)
    return struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}[kind], item)


class Writer:
    """Collects metadata and tensors, then writes the file at once."""

    def __init__(self) -> None:
        self.metadata: list[bytes] = []
        self.tensors: list[tuple[str, tuple[int, ...], int, bytes]] = []

    def add(self, key: str, kind: int, item: Any) -> None:
        self.metadata.append(string(key) + struct.pack("<I", kind) + value(kind, item))

    def add_array(self, key: str, kind: int, items: list) -> None:
        head = string(key) + struct.pack("<IIQ", ARRAY, kind, len(items))
        self.metadata.append(head + b"".join(value(kind, item) for item in items))

    def add_tensor(self, name: str, weights: np.ndarray) -> None:
        """Matrices become Q8_0, vectors stay float32. GGUF lists the fastest dimension first."""
        matrix = weights.ndim == 2
        data = quantize_q8_0(weights) if matrix else weights.astype("<f4").tobytes()
        self.tensors.append((name, weights.shape[::-1], TENSOR_Q8_0 if matrix else TENSOR_F32, data))

    def write(self, path: Path) -> None:
        pad = lambda size: -size % ALIGNMENT
        head = b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.metadata)) + b"".join(self.metadata)
        offset, body = 0, b""
        for name, shape, kind, data in self.tensors:
            head += string(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
            head += struct.pack("<IQ", kind, offset)
            offset += len(data) + pad(len(data))
            body += data + bytes(pad(len(data)))
        path.write_bytes(head + bytes(pad(len(head))) + body)
