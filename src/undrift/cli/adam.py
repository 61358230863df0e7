"""`undrift adam`: the commands about Adam's convergence theorems."""

from __future__ import annotations

import typer

from undrift.cli import adam_check, adam_map, adam_plan

adam = typer.Typer(
    help="Adam's convergence theorems: which settings they cover, and at what price.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
adam.command("check")(adam_check.check)
adam.command("plan")(adam_plan.plan)
adam.command("map")(adam_map.draw)
