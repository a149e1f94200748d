"""Names of models become paths. The cache is the Hugging Face hub's, which `linnet pull` fills, too (docs/hub.md)."""

from __future__ import annotations

import os
import re
from typing import Optional

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


def _choose(folder: str, quant: str) -> str:
    """The folder itself, or the one of its GGUF files that is asked for."""
    files = sorted((f for f in os.listdir(folder) if f.endswith(".gguf") and "mmproj" not in f.lower()), key=len)
    if not files or (not quant and os.path.exists(os.path.join(folder, "config.json"))):
        return folder
    for wanted in [quant] if quant else _WANTED:
        for file in files:
            if re.search(rf"(?<![A-Za-z0-9]){re.escape(wanted)}(?![A-Za-z0-9_])", file, re.IGNORECASE):
                return os.path.join(folder, file)
    if quant:
        raise FileNotFoundError(f"{folder} has no GGUF file of {quant}")
    return os.path.join(folder, files[0])


def find_model(name: str, revision: Optional[str] = None) -> str:
    """A path as it is. ORG/NAME or ORG/NAME:QUANT: a model of the cache, else what the package huggingface_hub
    downloads, where it is installed."""
    if os.path.exists(name) or name.count("/") != 1 or name.startswith((".", "/", "~")):
        return os.path.expanduser(name)
    repo, _, quant = name.partition(":")
    folder = find_cached(repo, revision or "main")
    if folder is None:
        folder = _download(repo, quant, revision)
    return _choose(folder, quant)


def _download(repo: str, quant: str, revision: Optional[str]) -> str:
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise FileNotFoundError(
            f"{repo} is neither a path nor in the cache {_cache_folder()}; `linnet pull {repo}` brings it there, and "
            "with `pip install huggingface_hub` this package does") from None
    files = [f"*{quant}*.gguf"] if quant else ["*.json", "*.safetensors", "*.model", "*.jinja", "*.txt"]
    return snapshot_download(repo, revision=revision, allow_patterns=files)
