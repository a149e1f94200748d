"""Names of models become paths. The cache is the Hugging Face hub's, which `linnet pull` fills, too (docs/hub.md)."""

from __future__ import annotations

import os
import re
from typing import Optional, Union

_WANTED = ("Q4_K_M", "Q4_K_S", "Q4_0", "Q8_0")  # of GGUF files, when the name does not say


def _cache_folder() -> str:
    given = os.environ.get("HF_HUB_CACHE")
    home = os.environ.get("HF_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "huggingface")
    return given or os.path.join(home, "hub")


def find_cached(name: str, revision: str = "main") -> Optional[str]:
    """The folder of a model that the cache has, whoever has put it there."""
    folder = os.path.join(_cache_folder(), "models--" + name.replace("/", "--"))
    try:
        with open(os.path.join(folder, "refs", revision), encoding="utf-8") as file:
            commit = file.read().strip()
    except OSError:
        commit = revision
    snapshot = os.path.join(folder, "snapshots", commit)
    return snapshot if os.path.isdir(snapshot) else None


def _gguf_files(folder: str) -> list[str]:
    """Language models below the folder, the shortest name first; of split ones the first parts."""
    paths = [os.path.relpath(os.path.join(place, name), folder) for place, _, names in os.walk(folder)
             for name in names if name.endswith(".gguf") and not re.search("mmproj|imatrix", name, re.IGNORECASE)]
    return sorted((path for path in paths if not re.search(r"-(?!00001)\d{5}-of-\d{5}\.gguf$", path)),
                  key=lambda path: (len(path), path))


def _choose(folder: str, quant: str) -> Optional[str]:
    """The folder itself, or the one of its GGUF files that is asked for; None: it is not there."""
    files = _gguf_files(folder)
    if not quant and (not files or any(name.endswith(".safetensors") for name in os.listdir(folder))):
        return folder
    for wanted in [quant] if quant else _WANTED:
        for file in files:
            if _is_of(file, wanted):
                return os.path.join(folder, file)
    return None if quant else os.path.join(folder, files[0])


def find_model(name: Union[str, os.PathLike[str]], revision: Optional[str] = None) -> str:
    """A path as it is. ORG/NAME[:QUANT][@REVISION]: a model of the cache, else what the package huggingface_hub
    downloads, where it is installed."""
    name = os.fspath(name)
    if os.path.exists(name) or name.count("/") < 1 or name.startswith((".", "/", "~")):
        return os.path.expanduser(name)
    bare, _, after = name.partition("@")
    if bare.count("/") != 1:
        return name
    revision = revision or after or None
    repo, _, quant = bare.partition(":")
    folder = find_cached(repo, revision or "main")
    path = _choose(folder, quant) if folder is not None else None
    if path is None:
        path = _choose(_download(repo, quant, revision), quant)
    if path is None:
        raise FileNotFoundError(f"{repo} has no GGUF file of {quant}")
    return path


def _is_of(file: str, quant: str) -> bool:
    """Whether the quantisation is a word of the file's name."""
    return re.search(rf"(?<![A-Za-z0-9_]){re.escape(quant)}(?![A-Za-z0-9_])", file, re.IGNORECASE) is not None


def _wanted_files(files: list[str], quant: str) -> list[str]:
    """Of a repository's files those of the model: a folder of safetensors, or a GGUF file with all of its parts."""
    models = sorted((file for file in files if file.endswith(".gguf") and
                     not re.search("mmproj|imatrix", file, re.IGNORECASE)), key=lambda file: (len(file), file))
    if not quant and (not models or any(file.endswith(".safetensors") for file in files)):
        return [file for file in files if file.endswith((".json", ".safetensors", ".model", ".jinja", ".txt"))]
    for wanted in [quant] if quant else [*_WANTED, ""]:
        found = [file for file in models if wanted == "" or _is_of(file, wanted)]
        if found:
            stem = re.sub(r"-\d{5}-of-\d{5}\.gguf$", "", found[0])
            return [file for file in found if file == found[0] or re.fullmatch(
                re.escape(stem) + r"-\d{5}-of-\d{5}\.gguf", file)]
    return []


def _download(repo: str, quant: str, revision: Optional[str]) -> str:
    try:
        from huggingface_hub import list_repo_files, snapshot_download
    except ImportError:
        name = (f"{repo}:{quant}" if quant else repo) + (f"@{revision}" if revision else "")
        raise FileNotFoundError(
            f"{name} is neither a path nor in the cache {_cache_folder()}; `linnet pull {name}` brings it there, and "
            "with `pip install huggingface_hub` this package does") from None
    files = _wanted_files(list_repo_files(repo, revision=revision), quant)
    if not files:
        raise FileNotFoundError(f"{repo} has no GGUF file of {quant}")
    # names are patterns there; brackets would be classes of characters
    return snapshot_download(repo, revision=revision,
                             allow_patterns=[re.sub(r"([*?[])", r"[\1]", file) for file in files])
