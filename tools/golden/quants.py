#!/usr/bin/env python3
"""Reference answers for src/format/quants*.c, from the public `gguf` package.

  quants.py golden FILE [--blocks N] [--seed S]   blocks of every type and their values
  quants.py tables FILE                           the codebooks of the IQ types as a C table

A golden is a sequence of records, little-endian: 16 bytes of type name padded with NUL, u32 number of
elements, u32 number of bytes, the bytes of the blocks, and float32 values. A record whose name
begins with '>' has the values that were quantised in place of the dequantised ones.
"""

import argparse
import struct

import numpy as np
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T

# Where the f16 scales of a block lie, in bytes. IQ1_M spreads its own over four words.
SCALES = {
    T.F16: [0], T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0],
    T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208],
    T.IQ2_XXS: [0], T.IQ2_XS: [0], T.IQ2_S: [0], T.IQ3_XXS: [0], T.IQ3_S: [0], T.IQ1_S: [0],
    T.IQ1_M: [], T.IQ4_NL: [0], T.IQ4_XS: [0], T.TQ1_0: [52], T.TQ2_0: [64],
}
LATER = {T.NVFP4: [], T.Q1_0: [0]}  # written last, so that what comes before keeps its numbers
QUANTISED = [T.F16, T.BF16, T.Q8_0, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1]


def random_blocks(rng, dtype, n):
    """n blocks of random bytes whose scales are finite."""
    if dtype in (T.F32, T.BF16):
        values = rng.standard_normal(n).astype(np.float32)
        return values.view(np.uint8) if dtype == T.F32 else quants.quantize(values, T.BF16)
    _, size = GGML_QUANT_SIZES[dtype]
    blocks = rng.integers(0, 256, (n, size), dtype=np.uint8)
    for at in (SCALES | LATER).get(dtype, []):
        exponents = rng.integers(0, 31, n) << 10  # 31 would be infinite
        halves = exponents | rng.integers(0, 1024, n) | rng.integers(0, 2, n) << 15
        blocks[:, at:at + 2] = halves.astype(np.uint16).view(np.uint8).reshape(n, 2)
    if dtype == T.IQ1_M:
        blocks[:, 55] &= 0xBF  # one bit of the exponent
    if dtype == T.NVFP4:  # a NaN with a sign, which its scales have not, is 0 here and 480 in `gguf`
        scales = blocks[:, :4]
        scales[scales == 0xFF] = 0x7F
    return blocks.reshape(-1)


def write_record(out, name, blocks, values):
    out.write(name.encode().ljust(16, b"\0"))
    out.write(struct.pack("<II", values.size, blocks.size))
    out.write(blocks.tobytes())
    out.write(values.astype("<f4").tobytes())


def dequantize_bits(blocks, n_bits):
    """Q1_0 (1 bit: minus or plus the scale) and Q2_0 (2 bits less 1), which `gguf` lacks."""
    blocks = blocks.reshape(-1, 18)
    scales = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    shifts = np.arange(0, 8, n_bits, dtype=np.uint8)
    bits = (blocks[:, 2:, None] >> shifts & (1 << n_bits) - 1).reshape(len(blocks), -1)
    values = bits.astype(np.float32)
    return scales * (2 * values - 1 if n_bits == 1 else values - 1)


def write_later_types(out, rng, n_blocks):
    blocks = random_blocks(rng, T.NVFP4, n_blocks * 4)
    write_record(out, "NVFP4", blocks, quants.dequantize(blocks, T.NVFP4).reshape(-1))
    for name, n_bits in (("Q1_0", 1), ("Q2_0", 2)):
        blocks = random_blocks(rng, T.Q1_0, n_blocks * 4)  # as large as one of Q2_0
        write_record(out, name, blocks, dequantize_bits(blocks, n_bits).reshape(-1))


def write_golden(path, n_blocks, seed):
    rng = np.random.default_rng(seed)
    with open(path, "wb") as out:
        for dtype in [T.F32, T.BF16, T.MXFP4, *SCALES]:
            elems, _ = GGML_QUANT_SIZES[dtype]
            # a few elements more than one row of blocks of 1 needs, so that lengths differ
            n = n_blocks * (96 if elems == 1 else 256 // elems)
            blocks = random_blocks(rng, dtype, n)
            write_record(out, dtype.name, blocks, quants.dequantize(blocks, dtype).reshape(-1))
        for dtype in QUANTISED:
            values = hard_values(rng, 32 * n_blocks)
            blocks = quants.quantize(values, dtype).view(np.uint8).reshape(-1)
            write_record(out, ">" + dtype.name, blocks, values)
        write_later_types(out, rng, n_blocks)


def hard_values(rng, n):
    """Normal values, whole rows of zeros and of ties, and a wide range of magnitudes."""
    values = rng.standard_normal((n // 32, 32)).astype(np.float32)
    values *= np.exp2(rng.integers(-20, 12, (n // 32, 1))).astype(np.float32)
    values[0] = 0
    values[1] = rng.integers(-254, 255, 32) / 2  # halves: ties once the scale is 1
    values[1][3] = -127
    values[2] = rng.integers(-16, 17, 32) / 2
    values[2][5] = -8
    values[2][6] = 8
    return values.reshape(-1)


def write_tables(path):
    """A grid's entry of 8 values of 2 bits, or 4 of 4 bits, is one u16."""
    with open(path, "w") as out:
        out.write("/* The codebooks of the IQ types, made by tools/golden/quants.py: lists for any use, "
                  "and arrays. */\n")
        arrays = "\n#define LN_GRID_ENTRY(entry) entry,\n"
        for name, dtype in [("iq2_xxs", T.IQ2_XXS), ("iq2_xs", T.IQ2_XS), ("iq2_s", T.IQ2_S),
                            ("iq3_xxs", T.IQ3_XXS), ("iq3_s", T.IQ3_S), ("iq1", T.IQ1_S)]:
            kind = quants._type_traits[dtype]
            kind.init_grid()
            numbers = {value: number for number, value in enumerate(kind.grid_map)}
            bits = 2 if kind.grid_shape[1] == 8 else 4
            entries = [sum(numbers[int(value)] << bits * i for i, value in enumerate(row))
                       for row in kind.grid.reshape(kind.grid_shape)]
            lines = [" ".join(f"X(0x{e:04x})" for e in entries[at:at + 8])
                     for at in range(0, len(entries), 8)]
            grid_list = f"LN_GRID_{name.upper()}"
            out.write(f"\n#define {grid_list}(X) \\\n    " + " \\\n    ".join(lines) + "\n")
            arrays += (f"static const uint16_t grid_{name}[{len(entries)}] = "
                       f"{{{grid_list}(LN_GRID_ENTRY)}};\n")
        out.write(arrays)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["golden", "tables"])
    parser.add_argument("file")
    parser.add_argument("--blocks", type=int, default=8, help="super-blocks of 256 of each type")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.what == "golden":
        write_golden(args.file, args.blocks, args.seed)
    else:
        write_tables(args.file)


if __name__ == "__main__":
    main()
