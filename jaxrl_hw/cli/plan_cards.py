"""`plan --gpu NAME,NAME`: cards that are not here, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich import box
from rich.table import Table

from jaxrl_hw.config.units import format_count
from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware import profiles
from jaxrl_hw.loggers import formats
from jaxrl_hw.loggers.terminal import make_table
from jaxrl_hw.planning.plan import Plan


class Card(NamedTuple):
    """A kind of device and a run's plan for it, or why there is none."""

    profile: profiles.Profile
    plan: Plan | None
    problem: str = ""


def plan_cards(names: Sequence[str], plan: Callable[[str], Plan]) -> list[Card]:
    """A plan for each card.

    plan: makes one for a name.

    Raises:
      UserError: an unknown name, or the run fits none of them.
    """
    cards = []
    for profile in [profiles.named(name) for name in names]:
        try:
            cards.append(Card(profile, plan(profile.name)))
        except UserError as error:
            if profile.name == profiles.named(names[-1]).name and not any(c.plan for c in cards):
                raise
            cards.append(Card(profile, None, str(error)))
    return cards


def cards_table(cards: Sequence[Card]) -> Table:
    """The cards as a table of 80 columns: what a run gets on each of them."""
    heads = ("card", ">envs", ">memory GB", ">steps/s", ">time", "dtype", "preset", ">goal")
    table = make_table(
        *heads, box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, no_wrap=range(8)
    )
    for profile, plan, _ in cards:
        if plan is None:
            table.add_row(profile.name, "-", "too small", *["-"] * 5)
            continue
        left, config = plan.duration, plan.config
        tf32 = profile.tf32 and config.precision == "float32"
        table.add_row(
            profile.name,
            f"{config.num_envs:,}",
            f"{plan.sizing.expected_bytes / 1e9:.1f} / {profile.memory / 1e9:.1f}",
            "unknown" if left is None else f"{left.rate:,.0f}",
            "unknown" if left is None else formats.duration(left.total_s),
            "TF32" if tf32 else config.precision,
            config.preset,
            format_count(config.timesteps) if config.timesteps else f"{config.iterations:,} it",
        )
    return table


def cards_notes(cards: Sequence[Card]) -> list[str]:
    """What the table's figures rest on, and why a card has none."""
    known = [card.plan for card in cards if card.plan is not None]
    sources: dict[str, list[str]] = {}
    for profile, plan, _ in cards:
        if plan is not None:
            sources.setdefault(plan.footprint.source, []).append(profile.name)
    notes = [f"memory of {', '.join(names)}: {source}" for source, names in sources.items()]
    notes.append("memory: all of a card's counts as free")
    if any(card.profile.tf32 for card in cards):
        notes.append("TF32: float32, but matrix products of the networks are rounded to TF32")
    if any(plan.duration is None for plan in known):
        notes.append("speed: unknown until plan --probe, or a run, has measured it on the card")
    if any(plan.duration is not None for plan in known):
        notes.append("speed: of runs on that kind of card before; the time is that to the goal")
    for profile, plan, _ in cards:
        if plan is not None and plan.duration is not None and plan.config.time_limit:
            notes.append(f"{profile.name}: {plan.duration}")
    if other := [
        card for card in cards if card.plan and card.plan.config.preset != card.profile.preset
    ]:
        named = ", ".join(f"{card.profile.name} {card.profile.preset}" for card in other)
        notes.append(f"presets that suit these cards: {named}; --preset auto takes them")
    return notes + [f"{card.profile.name}: {card.problem}" for card in cards if card.problem]
