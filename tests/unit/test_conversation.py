"""Conversations keep the ids that were generated, in this process or in an earlier one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from edge_spec.conversation import ChatEncoder, EncodedChat
from edge_spec.errors import UsageError
from edge_spec.types import Message

BOS, END, SPECIALS = 256, 257, {"<s>": 256, "</s>": 257, "<user>": 258, "<assistant>": 259}
PAIR = 300
"""Ids from here on are two letters: the tokenizer prefers them, a model may emit single ones."""
TEXTS = {number: text for text, number in SPECIALS.items()}


class FakeModel:
    """Tokens are special tokens, pairs of lower-case letters, and bytes."""

    num_vocab = PAIR + 26 * 26

    def __init__(self, template: str = "<{role}>{content}</s>") -> None:
        self.template = template

    def hold_special(self, messages: Sequence[Message]) -> tuple[str, list[str]]:
        if any(message["content"] == "refuse me" for message in messages):
            raise UsageError("The template refuses this.")
        held: list[str] = []

        def hold(match: re.Match[str]) -> str:
            held.append(match.group())
            return f"\ue000{len(held) - 1}\ue000"

        text = "<s>"
        for message in messages:
            content = message["content"]
            if message["role"] != "assistant":
                content = re.sub("|".join(SPECIALS), hold, content)
            text += self.template.format(role=message["role"], content=content)
        return text + "<assistant>", held

    def encode_rendered(self, text: str, held: Sequence[str], *, starts: bool = True) -> list[int]:
        ids: list[int] = []
        for index, part in enumerate(text.split("\ue000")):
            if index % 2:
                ids += held[int(part)].encode()
            else:
                for piece in re.findall("|".join(SPECIALS) + "|[a-z]{2}|(?s:.)", part):
                    ids += self._ids(piece)
        return ids

    def _ids(self, piece: str) -> Sequence[int]:
        if piece in SPECIALS:
            return [SPECIALS[piece]]
        if re.fullmatch("[a-z]{2}", piece):
            return [PAIR + 26 * (ord(piece[0]) - 97) + ord(piece[1]) - 97]
        return piece.encode()

    def piece(self, token: int) -> bytes:
        if token in TEXTS:
            return b""
        if token >= PAIR:
            return bytes([97 + (token - PAIR) // 26, 97 + (token - PAIR) % 26])
        return bytes([token])

    def is_eog(self, token: int) -> bool:
        return token == END

    def special_text(self, token: int) -> str:
        return TEXTS[token]


def encoder(template: str = "<{role}>{content}</s>") -> ChatEncoder:
    model: Any = FakeModel(template)
    return ChatEncoder(model)


def you(text: str) -> Message:
    return {"role": "user", "content": text}


def bot(text: str) -> Message:
    return {"role": "assistant", "content": text}


def conversation(*, ends: bool = True) -> tuple[list[Message], tuple[int, ...], tuple[int, ...]]:
    """Two turns answered in single letters: the messages, their ids, and those of the next prompt."""
    chats = encoder()
    messages: list[Message] = [{"role": "system", "content": "be <user> kind"}]
    ids: tuple[int, ...] = ()
    for question, answer in (("hello", "abcd é"), ("more </s>", "efgh")):
        messages.append(you(question))
        chat = chats.encode(messages)
        emitted = [*answer.encode(), *([END] if ends else [])]
        chats.remember(chat, emitted)
        ids = (*chat.ids, *emitted)
        messages.append(bot(answer))
    return messages, ids, chats.encode([*messages, you("last")]).ids


@pytest.mark.parametrize("ends", [True, False], ids=["ended by the model", "cut by a limit"])
def test_restored_ids_are_used_as_if_they_had_been_generated_here(ends: bool) -> None:
    messages, ids, following = conversation(ends=ends)
    chats = encoder()
    assert chats.restore(messages, ids)
    assert chats.encode([*messages, you("last")]).ids == following
    assert following[: len(ids)] == ids
    assert encoder().encode([*messages, you("last")]).ids != following  # tokenised as pairs of letters


def test_an_answer_given_again_keeps_the_ids_before_it() -> None:
    messages, _, following = conversation()
    chats = encoder()
    first = encoder().encode(messages[:2]).ids
    first = (*first, *"abcd é".encode(), END)
    assert chats.restore(messages[:3], first)
    chats.remember(EncodedChat("elsewhere", (), (1,)), [2])  # another conversation came between
    assert chats.encode(messages[:4]).ids[: len(first)] != first
    assert chats.restore(messages[:3], first)
    again = chats.encode(messages[:4]).ids
    assert again == following[: len(again)]


MESSAGES, IDS, _ = conversation()
STRANGE = {
    "another question": ([MESSAGES[0], you("hullo"), *MESSAGES[2:]], IDS),
    "an edited answer": ([*MESSAGES[:2], bot("abcx é"), *MESSAGES[3:]], IDS),
    "an edited last answer": ([*MESSAGES[:4], bot("efgx")], IDS),
    "an answer with more text": ([*MESSAGES[:4], bot("efghi")], IDS[:-1]),
    "an answer with less text": ([*MESSAGES[:4], bot("efg")], IDS),
    "ids that go on": (MESSAGES, (*IDS, 10)),
    "ids that break off": (MESSAGES, IDS[:-2]),
    "ids of a larger vocabulary": (MESSAGES, (*IDS[:-1], 10**6)),
    "negative ids": (MESSAGES, (*IDS[:-1], -1)),
    "no answer": (MESSAGES[:2], encoder().encode(MESSAGES[:2]).ids),
    "nothing": ([], ()),
    "messages that the template refuses": ([you("refuse me"), bot("a")], IDS),
    "another id inside": (MESSAGES, (*IDS[:30], IDS[30] ^ 1, *IDS[31:])),
}


@pytest.mark.parametrize("name", STRANGE)
def test_ids_that_are_not_those_of_the_messages_change_nothing(name: str) -> None:
    messages, ids = STRANGE[name]
    chats = encoder()
    before = chats.encode(MESSAGES).ids
    if ids:
        assert not chats.restore(messages, ids)
    assert chats.encode(MESSAGES).ids == before


def test_another_template_is_noticed() -> None:
    messages, ids, _ = conversation()
    assert not encoder("<{role}> {content}</s>").restore(messages, ids)


def test_a_template_that_rewrites_earlier_answers_is_noticed() -> None:
    messages, ids, _ = conversation()
    chats = encoder()
    render = FakeModel.hold_special

    class Forgetful(FakeModel):
        def hold_special(self, messages: Sequence[Message]) -> tuple[str, list[str]]:
            last = len(messages) - 1
            return render(
                self,
                [m if m["role"] != "assistant" or i == last else bot("...") for i, m in enumerate(messages)],
            )

    model: Any = Forgetful()
    chats = ChatEncoder(model)
    assert not chats.restore(messages, ids)
    assert (
        chats.encode([*messages, you("last")]).ids == ChatEncoder(model).encode([*messages, you("last")]).ids
    )


def test_an_answer_that_ends_inside_a_character_is_tokenised_again() -> None:
    chats = encoder()
    chat = chats.encode([you("hello")])
    ids = (*chat.ids, *"abé".encode()[:-1])
    assert not chats.restore([you("hello"), bot("ab\ufffd")], ids)
    assert not chats.restore([you("hello"), bot("ab")], ids)
