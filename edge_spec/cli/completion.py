"""`edge-spec completion SHELL`: the shell's completion script, made by click."""

from __future__ import annotations

import click


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a script that completes commands in a shell.

    \b
    bash:  eval "$(edge-spec completion bash)"
    zsh:   eval "$(edge-spec completion zsh)"
    fish:  edge-spec completion fish | source
    """
    from click.shell_completion import get_completion_class

    cls = get_completion_class(shell)
    assert cls is not None
    click.echo(cls(ctx.find_root().command, {}, "edge-spec", "_EDGE_SPEC_COMPLETE").source())
