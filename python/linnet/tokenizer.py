"""The model's tokenizer, with the methods of Hugging Face's that examples use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union

from ._engine import Model
from ._engine import token_ids as _ids
from ._request import messages_of


class Tokenizer:
    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def vocab_size(self) -> int:
        return self._model.info.n_vocab

    @property
    def bos_token_id(self) -> Optional[int]:
        return self._model.info.bos_id if self._model.info.bos_id >= 0 else None

    @property
    def eos_token_ids(self) -> list[int]:
        """All ids that end a text."""
        return self._model.info.stop_ids[:self._model.info.n_stop_ids]

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """The text of control tokens counts as them."""
        return self._model.encode(text, add_special_tokens)

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        return self._model.decode(_ids(token_ids), not skip_special_tokens)

    def apply_chat_template(self, conversation: Sequence[dict], tools: Optional[list[dict]] = None,
                            chat_template: Optional[str] = None, add_generation_prompt: bool = False,
                            tokenize: bool = True, **variables: Any) -> Union[str, list[int]]:
        ids, text = self._model.render_chat(messages_of(conversation), tools, variables or None, add_generation_prompt,
                                            chat_template)
        return ids if tokenize else text
