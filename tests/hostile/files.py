"""Feeds the program files made from good ones by structure-aware, seeded mutations.

usage: files.py LINNET [--count=N] [--seed=N] [--jobs=N] [--golden=FILE] [--write-golden] [--keep=FOLDER]

Each file must be accepted (status 0) or refused (status 1, an error that is one line): no death, no
hang, no other status, no more than 1 GiB. What is accepted is counted by kind of file and mutation;
--golden compares the counts, which a reviewer has read, with those of this run."""
import argparse
import collections
import json
import multiprocessing
import os
import resource
import select
import shutil
import signal
import sys
import tempfile

from mutate import (Draw, build_gguf, mutate_bytes, mutate_gguf, mutate_json, mutate_protobuf,
                    mutate_safetensors)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GOLDEN, CORPUS = os.path.join(ROOT, "tests/golden"), os.path.join(ROOT, "tests/fuzz/corpus")
TIMEOUT_MS, MOST_KIB = 20000, 1 << 20
TEXT = "Hi, 12 naïve 漢字 <s> \U0001f600\n"
settings = argparse.Namespace()


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def read_all(folder):
    return [read(folder, name) for name in sorted(os.listdir(folder))]


def write(folder, name, data):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(data)
    return path


def link(folder, source, *names):
    for name in names:
        os.symlink(os.path.join(GOLDEN, source, name), os.path.join(folder, name))


def logits(folder, path, *more):
    return ["logits", path, "--ids=5,9", "--threads=1", "--out=" + os.path.join(folder, "out"), *more]


# ---- kinds of files: (draw, scratch folder) -> (operation, arguments) ---------------------------

def gguf_model(draw, folder):
    op, data = mutate_gguf(draw, read(settings.llama))
    return op, logits(folder, write(folder, "model.gguf", data))


def gguf_encoder(draw, folder):
    op, data = mutate_gguf(draw, read(GOLDEN, "embeddings/bert_gguf/model.gguf"))
    return op, ["embed", write(folder, "model.gguf", data), "--ids=2,5,9", "--threads=1"]


def guess_kind(value):
    if isinstance(value, list):
        of = guess_kind(value[0])[0] if value else 4
        return 9, (of, [guess_kind(v)[1] for v in value])
    if isinstance(value, str):
        return 8, value.encode()
    if isinstance(value, bool):
        return 7, value
    return (6, value) if isinstance(value, float) else (5 if value < 0 else 4, value)


def gguf_tokenizer(draw, folder):
    source = json.loads(draw.pick(read_all(os.path.join(CORPUS, "tokenizer_gguf"))))
    keys = [[b"general.architecture", 8, b"llama"]]
    for name, value in source.items():
        kind, packed = guess_kind(value)
        if name == "tokenizer.ggml.scores":
            kind, packed = 9, (6, packed[1])
        if name == "tokenizer.ggml.token_type":
            kind, packed = 9, (5, packed[1])
        keys.append([name.encode(), kind, packed])
    op, data = mutate_gguf(draw, build_gguf(keys, [], b""))
    return op, ["tokenize", write(folder, "vocabulary.gguf", data), "--text=" + TEXT]


def safetensors(draw, folder):
    op, data = mutate_safetensors(draw, read(GOLDEN, "models/llama/model.safetensors"))
    write(folder, "model.safetensors", data)
    link(folder, "models/llama", "config.json")
    return op, logits(folder, folder)


def index(draw, folder):
    source = "models/llama_sharded"
    names = sorted(os.listdir(os.path.join(GOLDEN, source)))
    op, data = mutate_json(draw, json.loads(read(GOLDEN, source, "model.safetensors.index.json")))
    link(folder, source, "config.json", *(n for n in names if n.endswith(".safetensors")))
    write(folder, "model.safetensors.index.json", data)
    return op, logits(folder, folder)


def config(draw, folder):
    model = "models/" + draw.pick(("llama", "qwen2", "gpt2", "gemma2", "qwen3_moe", "mamba"))
    op, data = mutate_json(draw, json.loads(read(GOLDEN, model, "config.json")))
    link(folder, model, "model.safetensors")
    write(folder, "config.json", data)
    return op, logits(folder, folder)


def tokenizer_json(draw, folder):
    sources = read_all(os.path.join(CORPUS, "tokenizer_json"))
    if draw.below(10) == 0:
        sources = [read(GOLDEN, "tokenizers", n, "tokenizer.json") for n in ("gpt2", "wordpiece", "llama3")]
    text = draw.pick(sources)
    try:
        op, data = mutate_json(draw, json.loads(text))
    except ValueError: # a seed that is more than one JSON text
        op, data = mutate_bytes(draw, text)
    write(folder, "tokenizer.json", data)
    return op, ["tokenize", folder, "--text=" + TEXT]


def tokenizer_model(draw, folder):
    op, data = mutate_protobuf(draw, read(GOLDEN, "tokenizers/spm_bpe/tokenizer.model"))
    write(folder, "tokenizer.model", data)
    return op, ["tokenize", folder, "--text=" + TEXT]


def adapter(draw, folder):
    weights, settings_text = (read(GOLDEN, "adapter", n)
                              for n in ("adapter_model.safetensors", "adapter_config.json"))
    if draw.below(2):
        op, weights = mutate_safetensors(draw, weights)
    else:
        op, settings_text = mutate_json(draw, json.loads(settings_text))
    write(folder, "adapter_model.safetensors", weights)
    write(folder, "adapter_config.json", settings_text)
    return op, logits(folder, os.path.join(GOLDEN, "models/llama"), "--lora=" + folder)


CALLS = ("range(10**9)", "'x' * 10**9", "[1] * 10**8", "messages[10**20]", "1 // 0", "x.y.z", "'%s' % 1",
         "'a'.join(range(10**7))", "messages | tojson * 10**6", "-(2**63)", "namespace(a=1).b", "loop")


def template(draw, folder):
    sources = [s for s in read_all(os.path.join(CORPUS, "template")) if len(s) > 1000]
    text, op = draw.pick(sources), draw.pick(("bytes", "call", "nest", "loop", "tag"))
    at = text.find(b"{%", draw.below(len(text)))
    at = max(at, 0)
    if op == "bytes":
        op, text = mutate_bytes(draw, text)
    elif op == "call":
        text = text[:at] + ("{{ %s }}" % draw.pick(CALLS)).encode() + text[at:]
    elif op == "nest":
        n = draw.pick((10, 300, 20000))
        text = text[:at] + b"{{" + b"(" * n + b"1" + b")" * n + b"}}" + text[at:]
    elif op == "loop":
        n = draw.pick((2, 4, 8))
        text = (b"{% for a in range(1000) %}" * n) + b"x" + b"{% endfor %}" * n
    else:
        end = text.find(b"%}", at)
        text = text[:at] + text[end + 2:]
    context = write(folder, "context.json", json.dumps({
        "messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": True,
        "bos_token": "<s>", "eos_token": "</s>"}).encode())
    return op, ["template", write(folder, "chat.jinja", text), "--context=" + context]


def grammar(draw, folder):
    names = sorted(n for n in os.listdir(os.path.join(CORPUS, "grammar"))
                   if n.startswith(("gbnf", "lark", "schema", "tag")) and n != "schema_empty_key") # came later
    name = draw.pick(names)
    text = read(CORPUS, "grammar", name)
    start = min((i for i in (text.find(b"{"), text.find(b"root"), text.find(b"start")) if i >= 0), default=0)
    text = text[start:]
    try:
        op, text = mutate_json(draw, json.loads(text))
    except ValueError:
        op, text = mutate_bytes(draw, text)
        if draw.below(4) == 0:
            op, text = "bytes braces", text + draw.pick((b"{1000000000}", b"((((" * 20000, b"|" * 1000, b" root*"))
    how = {"s": "--json-schema=", "t": "--structural-tag="}.get(name[0], "--grammar=")
    lines = write(folder, "lines", b'{"a":1}\nabc\n\n')
    return name.split("_")[0] + " " + op, ["grammar", how + write(folder, "g.txt", text), "--check-lines=" + lines]


KINDS = ([gguf_model] * 5 + [gguf_encoder] * 3 + [gguf_tokenizer] * 4 + [safetensors] * 5 + [config] * 7 +
         [index] + [tokenizer_json] * 7 + [tokenizer_model] * 2 + [adapter] * 3 + [template] * 3 + [grammar] * 5)


# ---- running ------------------------------------------------------------------------------------

def run(arguments, log):
    """(status of wait, KiB, whether it was in time)"""
    quiet = os.open(os.devnull, os.O_RDWR)
    with open(log, "wb") as heard:
        pid = os.posix_spawn(settings.linnet, [settings.linnet, *arguments], os.environ, file_actions=[
            (os.POSIX_SPAWN_DUP2, quiet, 0), (os.POSIX_SPAWN_DUP2, quiet, 1),
            (os.POSIX_SPAWN_DUP2, heard.fileno(), 2)])
    os.close(quiet)
    fd = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    in_time = bool(poll.poll(TIMEOUT_MS))
    if not in_time:
        os.kill(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    os.close(fd)
    return status, usage.ru_maxrss, in_time


def judge(kind, status, kib, in_time, said):
    if not in_time:
        return "hang"
    if os.WIFSIGNALED(status):
        return "death by signal %d" % os.WTERMSIG(status)
    code = os.WEXITSTATUS(status)
    if kib > MOST_KIB:
        return "%d MiB of memory" % (kib >> 10)
    if code == 0 or (kind is grammar and code == 2 and said):
        return None
    if code != 1:
        return "status %d" % code
    if kind is grammar and not said:
        return None # a line that cannot be
    return None if said.startswith(b"linnet") and said.count(b"\n") <= 3 else "no error of one line"


def one(number):
    draw = Draw("%d/%d" % (settings.seed, number))
    kind = KINDS[number % len(KINDS)]
    folder = tempfile.mkdtemp(dir=settings.scratch)
    model = os.path.join(folder, "m")
    os.mkdir(model)
    op, arguments = kind(draw, model)
    status, kib, in_time = run(arguments, os.path.join(folder, "log"))
    said = read(folder, "log")
    complaint = judge(kind, status, kib, in_time, said)
    if complaint and settings.keep:
        shutil.copytree(folder, os.path.join(settings.keep, str(number)), symlinks=True, dirs_exist_ok=True)
    shutil.rmtree(folder)
    return number, kind.__name__ + ": " + op, os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0, complaint, \
        said[:200], arguments


def compare(lines, path, is_written):
    if is_written:
        with open(path, "w") as file:
            file.write("".join(lines))
        return True
    with open(path) as file:
        expected = file.readlines()
    for line in sorted(set(lines) ^ set(expected)):
        print("accepted, %s: %s" % ("not as reviewed" if line in lines else "but reviewed", line.strip()))
    return lines == expected


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("linnet")
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--golden")
    parser.add_argument("--write-golden", action="store_true")
    parser.add_argument("--keep")
    parser.parse_args(namespace=settings)
    settings.linnet = os.path.abspath(settings.linnet)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as scratch:
        settings.scratch, settings.llama = scratch, os.path.join(scratch, "llama.gguf")
        if run(["convert", os.path.join(GOLDEN, "models/llama"), settings.llama, "--no-tokenizer",
                "--threads=1"], os.path.join(scratch, "log"))[0] != 0:
            sys.exit("cannot convert the model to begin with")
        seen, accepted, n_wrong = collections.Counter(), collections.Counter(), 0
        with multiprocessing.get_context("fork").Pool(settings.jobs) as pool:
            for number, group, is_accepted, complaint, said, arguments in pool.imap_unordered(
                    one, range(settings.count), chunksize=16):
                seen[group] += 1
                accepted[group] += is_accepted
                if complaint:
                    n_wrong += 1
                    print("file %d (%s): %s: %r %s" % (number, group, complaint, said, arguments), flush=True)
    lines = ["%s: %d of %d\n" % (g, accepted[g], seen[g]) for g in sorted(seen)]
    print("%d files: %d accepted, %d refused, %d wrong (deaths, hangs, statuses, errors, memory)" %
          (settings.count, sum(accepted.values()), settings.count - sum(accepted.values()), n_wrong))
    is_equal = settings.golden is None or compare(lines, settings.golden, settings.write_golden)
    sys.exit(0 if n_wrong == 0 and is_equal else 1)


if __name__ == "__main__":
    main()
