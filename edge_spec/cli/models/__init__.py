"""`edge-spec models ...`: get, list and make model files; one file a command."""

from __future__ import annotations

import click

from edge_spec.cli.lazy import LazyGroup

COMMANDS = {
    "pull": "Fetch models or pairs: of the catalogue, of the hub, or files.",
    "list": "The models on this machine, and the pairs; --all shows what can be had.",
    "pairs": "Which models on this machine pair, best first.",
    "verify": "Are the bytes still the ones that were pulled?",
    "rm": "Remove models from the store.",
    "forge": "Make a faster draft out of a model that is here.",
    "quantize": "Write a model with weights of another type.",
}
"""The commands and their one-line help; module `edge_spec.cli.models.NAME` holds each as `command`."""


@click.command("models", cls=LazyGroup, package=__name__, summaries=COMMANDS)
def command() -> None:
    """Get, list and make model files.

    Models lie in the platform's data folder, or where EDGE_SPEC_MODELS says. They are fetched by
    name, of the catalogue or of the Hugging Face hub; every byte is checked against its sha256.
    """
