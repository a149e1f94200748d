"""Names of models become paths."""

from __future__ import annotations

import os
from typing import Optional


def _cache_folder() -> str:
    given = os.environ.get("HF_HUB_CACHE")
    home = os.environ.get("HF_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "huggingface")
    return given or os.path.join(home, "hub")


def find_cached(name: str, revision: str = "main") -> Optional[str]:
    """The folder of a model that the Hugging Face hub's cache has, whoever has put it there."""
    folder = os.path.join(_cache_folder(), "models--" + name.replace("/", "--"))
    try:
        with open(os.path.join(folder, "refs", revision), encoding="utf-8") as file:
            commit = file.read().strip()
    except OSError:
        commit = revision
    snapshot = os.path.join(folder, "snapshots", commit)
    return snapshot if os.path.isdir(snapshot) else None


def find_model(name: str, revision: Optional[str] = None) -> str:
    """A path as it is; else a model of the hub's cache; else what the package huggingface_hub downloads, where it is
    installed."""
    if os.path.exists(name) or name.count("/") != 1 or name.startswith((".", "/", "~")):
        return os.path.expanduser(name)
    cached = find_cached(name, revision or "main")
    if cached is not None:
        return cached
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise FileNotFoundError(
            f"{name} is neither a path nor in the cache {_cache_folder()}; `pip install huggingface_hub` lets linnet "
            "download it") from None
    return snapshot_download(name, revision=revision,
                             allow_patterns=["*.json", "*.safetensors", "*.model", "*.jinja", "*.txt"])
