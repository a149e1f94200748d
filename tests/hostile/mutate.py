"""Mutations of files and JSON that keep most of the structure, drawn from a seeded generator.

Each function returns (operation, result): the operation groups what is accepted."""
import json
import math
import random
import struct

NUMBERS = (0, -1, 1, 3, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**58, 2**63 - 1, 2**63, 2**64, 1e308)
RAW = ("NaN", "Infinity", "1e400", "-", "01", "0x10", "tru", '"\\ud800"', '"\\u0000"', "'a'", "[1,]",
       "{", "")


class Draw(random.Random):
    """Draws alike with every version of Python: by random() alone."""

    def below(self, n):
        return int(self.random() * n)

    def pick(self, items):
        return items[self.below(len(items))]


class Raw:
    """Text that stands in JSON as it is."""

    def __init__(self, text):
        self.text = text


def dump(value):
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        return "{" + ",".join(json.dumps(k) + ":" + dump(v) for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(dump, value)) + "]"
    return json.dumps(value)


def places(value, found, limit=64):
    """All (container, key) of a JSON value; of a long list the first and the last items."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    if len(keys) > limit:
        keys = keys[:limit // 2] + keys[-limit // 2:]
    for key in keys:
        found.append((value, key))
        if isinstance(value[key], (dict, list)):
            places(value[key], found, limit)
    return found


def other_type(draw, value):
    others = [None, True, 7, 1.5, "text", [], {}, [1, 2], {"a": 1}]
    kind = type(value)
    return draw.pick([o for o in others if type(o) is not kind])


def mutate_json(draw, value, rename=True):
    """One change of a copy, as bytes."""
    value = json.loads(json.dumps(value))
    container, key = draw.pick(places(value, []))
    op = draw.pick(("type", "type", "number", "number", "delete", "raw", "text", "long", "list",
                    "deep", "repeat", "key", "cut", "bytes", "tail"))
    old = container[key]
    if op == "type":
        container[key] = other_type(draw, old)
    elif op == "number":
        container[key] = draw.pick(NUMBERS)
    elif op == "delete":
        del container[key]
    elif op == "raw":
        container[key] = Raw(draw.pick(RAW))
    elif op == "text":
        container[key] = draw.pick(("", "\0", "\ud800", "../../etc/passwd", "%s%n", "\U0010ffff", "<s>"))
    elif op == "long":
        container[key] = draw.pick(("a", "é", " ", "[", "(a*)*")) * draw.pick((1000, 100000))
    elif op == "list":
        container[key] = [old] * draw.pick((0, 1, 2, 1000))
    elif op == "deep":
        n = draw.pick((20, 300, 100000))
        container[key] = Raw("[" * n + "]" * n)
    elif op == "repeat" and isinstance(container, dict):
        container[key] = Raw(dump(old) + "," + json.dumps(key) + ":" + dump(other_type(draw, old)))
    elif op == "key" and isinstance(container, dict) and rename:
        container[draw.pick(("", "x" * 5000, "\0", key + "_"))] = container.pop(key)
    data = dump(value).encode("utf-8", "surrogatepass")
    if op == "cut":
        data = data[:draw.below(len(data))]
    elif op == "bytes":
        at = draw.below(len(data))
        data = data[:at] + draw.pick((b"\xff", b"\0", b"\xc0\x80", b"\xed\xa0\x80")) + data[at + 1:]
    elif op == "tail":
        data += draw.pick((b"}", b"\0", b"{}", b"x", b" \n"))
    return "json " + op, data


def mutate_bytes(draw, data):
    """What needs no structure: bytes changed, taken, repeated."""
    op = draw.pick(("cut", "flip", "take", "repeat", "zero"))
    at, n = draw.below(len(data)), 1 + draw.below(16)
    if op == "cut":
        data = data[:at]
    elif op == "flip":
        data = data[:at] + bytes([data[at] ^ (1 << draw.below(8))]) + data[at + 1:]
    elif op == "take":
        data = data[:at] + data[at + n:]
    elif op == "repeat":
        data = data[:at] + data[at:at + n] * (1 + draw.below(50)) + data[at + n:]
    else:
        data = data[:at] + b"\0" * n + data[at + n:]
    return "bytes " + op, data


# ---- safetensors --------------------------------------------------------------------------------

def mutate_safetensors(draw, data):
    n = struct.unpack_from("<Q", data)[0]
    header, body = json.loads(data[8:8 + n]), data[8 + n:]
    names = [name for name in header if name != "__metadata__"]
    name = draw.pick(names)
    entry, op, length = header[name], draw.pick(("json", "shape", "span", "type", "length", "body", "share",
                                                 "name", "bytes")), None
    if op == "json":
        op, text = mutate_json(draw, header)
        return op, struct.pack("<Q", len(text)) + text + body
    if op == "bytes":
        return mutate_bytes(draw, data)
    if op == "shape":
        entry["shape"] = draw.pick(([], [0], [draw.pick(NUMBERS)] * 2, entry["shape"][::-1],
                                    entry["shape"] + [1], [entry["shape"][0] + 1] + entry["shape"][1:]))
    elif op == "span":
        entry["data_offsets"][draw.below(2)] = draw.pick(NUMBERS + (1, 2, 5, len(body), len(body) + 1))
    elif op == "type":
        entry["dtype"] = draw.pick(("F64", "F16", "I64", "BOOL", "F8_E4M3", "F4", "", "f32", "U128"))
    elif op == "length":
        length = draw.pick((0, 1, 7, 100_000_001, 2**31, 2**63 - 1, 2**64 - 1, len(data)))
    elif op == "body":
        body = draw.pick((body[:draw.below(len(body))], body + b"x", b""))
    elif op == "share":
        entry["data_offsets"] = header[draw.pick(names)]["data_offsets"]
    else:
        header[draw.pick((name + "x", "", "a" * 100000, "../x"))] = header.pop(name)
    text = dump(header).encode()
    return "safetensors " + op, struct.pack("<Q", len(text) if length is None else length) + text + body


# ---- GGUF ---------------------------------------------------------------------------------------

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def get(self, code):
        value = struct.unpack_from("<" + code, self.data, self.at)[0]
        self.at += struct.calcsize("<" + code)
        return value

    def text(self):
        n = self.get("Q")
        self.at += n
        return self.data[self.at - n:self.at]

    def value(self, kind):
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            of = self.get("I")
            return of, [self.value(of) for _ in range(self.get("Q"))]
        return self.get(SCALARS[kind])


def parse_gguf(data):
    r = Reader(data)
    r.at = 8
    n_tensors, n_keys = r.get("Q"), r.get("Q")
    keys, tensors = [], []
    for _ in range(n_keys):
        name, kind = r.text(), r.get("I")
        keys.append([name, kind, r.value(kind)])
    for _ in range(n_tensors):
        name = r.text()
        dims = [r.get("Q") for _ in range(r.get("I"))]
        tensors.append([name, dims, r.get("I"), r.get("Q")])
    return keys, tensors, data[(r.at + 31) // 32 * 32:]


def pack(kind, value):
    if kind == STRING:
        return struct.pack("<Q", len(value)) + value
    if kind == ARRAY:
        return struct.pack("<IQ", value[0], len(value[1])) + b"".join(pack(value[0], v) for v in value[1])
    code = SCALARS[kind]
    if code in "fd":
        is_past = code == "f" and abs(value) > 3.4e38 # which pack refuses
        return struct.pack("<" + code, math.copysign(math.inf, value) if is_past else float(value))
    size = struct.calcsize("<" + code)
    return (int(value) % 2**(8 * size)).to_bytes(size, "little")


def build_gguf(keys, tensors, body, version=3, counts=None):
    counts = counts or (len(tensors), len(keys))
    out = b"GGUF" + struct.pack("<IQQ", version, *(c % 2**64 for c in counts))
    for key in keys:
        value = key[2] if isinstance(key[2], bytes) and key[1] != STRING else pack(key[1], key[2])
        out += pack(STRING, key[0]) + struct.pack("<I", key[1]) + value
    for name, dims, kind, offset in tensors:
        out += pack(STRING, name) + struct.pack("<I", len(dims))
        out += b"".join(pack(10, d) for d in dims) + struct.pack("<IQ", kind, offset % 2**64)
    return out + b"\0" * (-len(out) % 32) + body


def mutate_value(draw, key):
    kind, value = key[1], key[2]
    if kind == STRING:
        key[2] = draw.pick((b"", b"\xff\xfe", b"a" * 100000, b"x\0y", b"gpt2", b"llama", b"unknown"))
    elif kind == ARRAY and value[1]:
        items = list(value[1])
        at = draw.below(len(items))
        how = draw.below(5)
        if how == 0:
            items = items[:at]
        elif how == 1:
            items[at] = items[draw.below(len(items))]
        elif how == 2:
            items = items + items[:1 + draw.below(len(items))]
        elif value[0] == STRING:
            items[at] = draw.pick((b"", b"\xff", b"a" * 70000, b"x y z"))
        else:
            items[at] = draw.pick(NUMBERS)
        key[2] = (value[0], items)
    elif kind in SCALARS:
        key[2] = draw.pick(NUMBERS[:-1] + ((float("nan"), -1e30, 1e-30) if SCALARS[kind] in "fd" else ()))


def mutate_gguf(draw, data):
    keys, tensors, body = parse_gguf(data)
    op = draw.pick(("version", "counts", "value", "value", "value", "kind", "nested", "array", "key",
                    "drop key", "twice", "dims", "type", "offset", "name", "drop tensor", "alignment",
                    "body", "bytes"))
    version, counts, key, tensor = 3, None, draw.pick(keys), draw.pick(tensors) if tensors else None
    if op == "bytes":
        return mutate_bytes(draw, data)
    if op == "version":
        version = draw.pick((0, 1, 2, 4, 2**31, 0x03000000))
    elif op == "counts":
        counts = [len(tensors), len(keys)]
        counts[draw.below(2)] = draw.pick((0, 2**31, 2**58, 2**63 - 1, counts[0] + 1, counts[1] - 1))
    elif op == "value":
        mutate_value(draw, key)
    elif op == "kind":
        key[1], key[2] = draw.below(15), pack(key[1], key[2])
    elif op == "nested":
        key[1], key[2] = ARRAY, struct.pack("<IQ", ARRAY, 1) * draw.pick((1, 3, 5000)) + b"\0" * 12
    elif op == "array":
        key[1], key[2] = ARRAY, struct.pack("<IQ", draw.below(14), draw.pick((0, 2**31, 2**61, 2**64 - 1)))
    elif op == "key":
        key[0] = draw.pick((b"", b"\xff", key[0] + b"x", b"k" * 70000))
    elif op == "drop key":
        keys.remove(key)
    elif op == "twice":
        keys.append(key)
    elif op == "alignment":
        keys.append([b"general.alignment", 4, draw.pick((0, 1, 3, 8, 64, 2**31))])
    elif op == "body" or tensor is None:
        body = draw.pick((body[:draw.below(len(body) + 1)], b"", body + b"xyz"))
    elif op == "dims":
        how, n = draw.below(3), draw.pick((0, 1, 2**31, 2**32 + 1, 2**58, 2**63 - 1))
        tensor[1] = [n] + tensor[1][1:] if how == 0 else tensor[1] + [n] if how == 1 else [1] * n if n < 9 else []
    elif op == "type":
        tensor[2] = draw.pick((0, 1, 2, 3, 4, 8, 12, 14, 16, 24, 30, 39, 40, 99, 2**31))
    elif op == "offset":
        tensor[3] = draw.pick((0, 1, 32, 2**31, 2**63 - 32, 2**64 - 32, tensor[3] + 4))
    elif op == "name":
        tensor[0] = draw.pick((b"", tensors[0][0], b"n" * 65, b"\xff", tensor[0] + b"x"))
    elif op == "drop tensor":
        tensors.remove(tensor)
    return "gguf " + op, build_gguf(keys, tensors, body, version, counts)


# ---- protobuf -----------------------------------------------------------------------------------

def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def read_varint(data, at):
    n = shift = 0
    while True:
        n |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return n, at


def split_fields(data):
    """[(tag, payload as it stands)] of a message."""
    fields, at = [], 0
    while at < len(data):
        tag, at = read_varint(data, at)
        kind = tag & 7
        if kind == 2:
            n, at = read_varint(data, at)
            end = at + n
        elif kind == 0:
            end = read_varint(data, at)[1]
        else:
            end = at + (8 if kind == 1 else 4)
        fields.append([tag, data[at:end]])
        at = end
    return fields


def join_fields(fields):
    return b"".join(varint(t) + (varint(len(p)) if t & 7 == 2 else b"") + p for t, p in fields)


def mutate_protobuf(draw, data):
    fields = split_fields(data)
    at = draw.below(len(fields))
    op = draw.pick(("inner", "inner", "drop", "twice", "tag", "length", "swap", "bytes", "varint"))
    if op == "bytes":
        return mutate_bytes(draw, data)
    if op == "inner" and fields[at][0] & 7 == 2 and fields[at][1]:
        fields[at][1] = mutate_bytes(draw, fields[at][1])[1]
    elif op == "drop":
        del fields[at]
    elif op == "twice":
        fields.insert(at, fields[at])
    elif op == "tag":
        fields[at][0] = draw.pick((0, 7, fields[at][0] ^ 8, fields[at][0] ^ 1, 2**29 << 3 | 2))
    elif op == "swap":
        other = draw.below(len(fields))
        fields[at], fields[other] = fields[other], fields[at]
    out = join_fields(fields)
    if op == "length":
        out += varint(10) + varint(draw.pick((1, 2**31, 2**63, 2**64 - 1)))
    elif op == "varint":
        out += b"\x0a" + b"\xff" * draw.pick((9, 10, 11, 100))
    return "protobuf " + op, out
