"""One loaded GGUF: weights, vocabulary and chat template."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import jinja2
import llama_cpp
import psutil
from llama_cpp.llama_chat_format import Jinja2ChatFormatter

from edge_spec.config import ModelSettings
from edge_spec.errors import EngineError, ModelFileError, UsageError
from edge_spec.limits import usable_cores
from edge_spec.llama import abi
from edge_spec.types import Message

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""The template llama.cpp falls back to for a model that carries none."""

_SPECIAL = llama_cpp.LLAMA_TOKEN_ATTR_CONTROL | llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED


_LOAD_MODES = {
    "auto": llama_cpp.LLAMA_LOAD_MODE_AUTO,
    "mmap": llama_cpp.LLAMA_LOAD_MODE_MMAP,
    "none": llama_cpp.LLAMA_LOAD_MODE_NONE,
}


def default_threads() -> int:
    """Physical cores that this process may use; hyper-threads slow llama.cpp down."""
    physical = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    return min(physical, usable_cores())


class Model:
    """A GGUF's weights on their devices, with its vocabulary.

    Raises ModelFileError when llama.cpp will not load the file; its reason is in the message
    and its full log in `abi.log.path`.
    """

    def __init__(self, settings: ModelSettings, on_progress: Callable[[float], None] | None = None):
        abi.start()
        self.settings = settings
        self.path = settings.path
        params = abi.fill(
            llama_cpp.llama_model_default_params(),
            n_gpu_layers=settings.gpu_layers,
            load_mode=_LOAD_MODES[settings.load_mode],
            # Weights go into AMX buffers, whose kernels may crash, only through these.
            use_extra_bufts=not abi.has_amx(),
        )
        if settings.device is not None:
            # NULL-terminated; must live until the load is done.
            handles = (ctypes.c_void_p * 2)(abi.device_handle(settings.device), None)
            abi.fill(params, devices=ctypes.cast(handles, ctypes.c_void_p))
        report = on_progress or (lambda _fraction: None)
        raised: list[BaseException] = []

        @llama_cpp.llama_progress_callback  # type: ignore[untyped-decorator]  # a ctypes CFUNCTYPE
        def progress(fraction: float, _user_data: object) -> bool:
            try:
                report(fraction)
            except BaseException as error:  # ctypes would print it and go on
                raised.append(error)
            return not raised

        abi.fill(params, progress_callback=progress)
        abi.log.forget_errors()
        self._model = llama_cpp.llama_model_load_from_file(os.fsencode(self.path), params)
        if raised:
            self.close()
            raise raised[0]
        if not self._model:
            abi.log.flush()
            reason = abi.log.last_error() or "no reason given"
            raise ModelFileError(f"llama.cpp cannot load {self.path}: {reason}; its log is {abi.log.path}.")
        if llama_cpp.llama_model_has_encoder(self._model) or not llama_cpp.llama_model_has_decoder(
            self._model
        ):
            self.close()
            raise ModelFileError(
                f"{self.path} is an encoder model and cannot generate text; use a decoder-only GGUF."
            )
        self.num_vocab = int(llama_cpp.llama_vocab_n_tokens(self._vocab))
        self._pieces: dict[int, bytes] = {}
        self._template: Jinja2ChatFormatter | None = None
        self._special_text: re.Pattern[str] | None = None

    @property
    def pointer(self) -> Any:
        """The llama_model pointer; EngineError after `close`."""
        if not self._model:
            raise EngineError(f"{self.path.name} was closed; load the pair again.")
        return self._model

    @property
    def _vocab(self) -> Any:
        """The llama_vocab pointer; EngineError after `close`."""
        return llama_cpp.llama_model_get_vocab(self.pointer)

    def close(self) -> None:
        """Free the weights; contexts made from them must be closed first."""
        if self._model:
            llama_cpp.llama_model_free(self._model)
            self._model = None

    # -- vocabulary

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Token ids of `text`; `add_special` adds BOS where the model wants one,
        `parse_special` reads the text of special tokens as those tokens."""
        data = text.encode("utf-8", "replace")
        capacity = len(data) + 16
        while True:
            buffer = (llama_cpp.llama_token * capacity)()
            count = llama_cpp.llama_tokenize(
                self._vocab, data, len(data), buffer, capacity, add_special, parse_special
            )
            if count >= 0:
                return list(buffer[:count])
            if -count <= capacity:
                raise EngineError(f"llama.cpp cannot tokenise this text with {self.path.name}'s vocabulary.")
            capacity = -count

    def piece(self, token: int) -> bytes:
        """The bytes that `token` stands for; empty for control tokens."""
        known = self._pieces.get(token)
        if known is None:
            known = self._pieces[token] = self._read_piece(token, special=False)
        return known

    def _read_piece(self, token: int, *, special: bool) -> bytes:
        if not 0 <= token < self.num_vocab:
            raise EngineError(f"Token {token} is outside {self.path.name}'s {self.num_vocab} tokens.")
        size = 64
        while True:
            buffer = ctypes.create_string_buffer(size)
            count = llama_cpp.llama_token_to_piece(self._vocab, token, buffer, size, 0, special)
            if count >= 0:
                return buffer.raw[:count]
            size = -count

    def is_eog(self, token: int) -> bool:
        """Whether `token` ends a generation."""
        return bool(llama_cpp.llama_vocab_is_eog(self._vocab, token))

    # -- chat

    def render(self, messages: Sequence[Message]) -> str:
        """The prompt text of a conversation by the model's own template, in a sandbox.

        Raises UsageError when the template refuses the messages.
        """
        if self._template is None:
            raw = llama_cpp.llama_model_chat_template(self.pointer, None)
            try:
                self._template = Jinja2ChatFormatter(
                    raw.decode("utf-8", "replace") if raw else CHATML,
                    eos_token=self._special_piece(llama_cpp.llama_vocab_eos(self._vocab)),
                    bos_token=self._special_piece(llama_cpp.llama_vocab_bos(self._vocab)),
                )
            except jinja2.TemplateError as error:
                raise UsageError(
                    f"The chat template of {self.path.name} does not parse ({error}); use --raw."
                ) from error
        try:
            return str(self._template(messages=[dict(message) for message in messages]).prompt)  # type: ignore[misc]
        except (jinja2.TemplateError, ValueError, TypeError) as error:
            raise UsageError(
                f"The chat template of {self.path.name} refuses these messages: {error}."
            ) from error

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a conversation: the template's special tokens are parsed, while text of
        special tokens that stands in a system or user message stays plain text.

        An assistant's text is left as it is, since templates look for marks in it. Raises
        UsageError.
        """
        return self.encode_rendered(*self.hold_special(messages))

    def hold_special(self, messages: Sequence[Message]) -> tuple[str, list[str]]:
        """The rendered conversation with each span that must stay plain text as a numbered
        place, and those spans."""
        held: list[str] = []

        def hold(match: re.Match[str]) -> str:
            held.append(match.group())
            return f"{_HOLD}{len(held) - 1}{_HOLD}"

        pattern = self._special_pattern()
        safe = []
        for message in messages:
            role, content = message.get("role"), message.get("content")
            if not isinstance(role, str) or not isinstance(content, str):
                raise UsageError('Every message needs a "role" and a "content" that are text.')
            content = content.replace(_HOLD, "\N{REPLACEMENT CHARACTER}")
            safe.append(
                {**message, "content": content if role == "assistant" else pattern.sub(hold, content)}
            )
        return self.render(safe), held

    def encode_rendered(self, text: str, held: Sequence[str], *, starts: bool = True) -> list[int]:
        """Token ids of what `hold_special` returned, or of its end when not `starts`."""
        ids: list[int] = []
        add_special = starts and not self._renders_bos(text)
        for index, part in enumerate(text.split(_HOLD)):
            if index % 2 == 0:
                if part:
                    ids += self.tokenize(part, add_special=add_special and not ids, parse_special=True)
            elif part.isdecimal() and int(part) < len(held):
                ids += self.tokenize(held[int(part)], add_special=False, parse_special=False)
            else:
                raise UsageError(
                    f"The chat template of {self.path.name} cuts messages apart in a way that is not "
                    "understood; use --raw."
                )
        return ids

    def special_text(self, token: int) -> str:
        """The text of `token` as a template writes it, control tokens included."""
        return self._special_piece(token)

    def _renders_bos(self, text: str) -> bool:
        bos = self._special_piece(llama_cpp.llama_vocab_bos(self._vocab))
        return bool(bos) and text.startswith(bos)

    def _special_piece(self, token: int) -> str:
        return "" if token < 0 else self._read_piece(token, special=True).decode("utf-8", "replace")

    def _special_pattern(self) -> re.Pattern[str]:
        if self._special_text is None:
            texts = [
                self._special_piece(token)
                for token in range(self.num_vocab)
                if llama_cpp.llama_vocab_get_attr(self._vocab, token) & _SPECIAL
            ]
            longest_first = sorted({re.escape(t) for t in texts if len(t) > 1}, key=len, reverse=True)
            self._special_text = re.compile("|".join(longest_first) or r"(?!)")
        return self._special_text


_HOLD = "\ue000"
"""A private-use character that marks spans while a template is rendered."""
