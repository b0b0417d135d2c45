"""How a model of the zoo is run: batch, precision, inference or training, through which of burn's ways in."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

READY = "ready"
THROUGH = ("burn.compile", "torch.compile")
"""How burn gets a model; for training steps the first is `burn.train.step`."""
DTYPES = ("float16", "bfloat16")
TRAINING = "training"
MODES = ("default", "reduce-overhead", "max-autotune")
JAX = "jax"


def kind_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """The setting of a row: training, batch, dtype, through, engines. Rows without engines were made beside reduce-overhead."""
    engines = tuple(row.get("engines", Setting.modes))
    return row["training"], row["batch"], row["dtype"], row["through"], engines


@dataclass(frozen=True)
class Setting:
    """batch and dtype of the inputs. training: steps instead of inference. through: one of THROUGH. modes: of torch.compile.
    jax: beside them, the model as a function of JAX (`burn.to_jax`), compiled by XLA; of inference alone. models: how many of
    the drawn models are run, spread over the lists; 0 for all. lists: those whose models are run; () for all."""

    batch: int = 32
    dtype: str = "float16"
    training: bool = False
    through: str = THROUGH[0]
    modes: tuple[str, ...] = ("reduce-overhead",)
    jax: bool = False
    models: int = 0
    lists: tuple[str, ...] = ()

    @staticmethod
    def parse(text: str) -> Setting:
        """From "32,float16", "32,bfloat16,training", "1,float16,torch.compile", "32,float16,max-autotune,jax"; with a number of
        models "32,bfloat16:10", of some lists "1,float16@decode,decoder". Raises ValueError."""
        text, _, models = text.partition(":")
        fields, _, lists = text.partition("@")
        batch, *words = fields.split(",")
        dtype = next((word for word in words if word in DTYPES), DTYPES[0])
        through = next((word for word in words if word in THROUGH), THROUGH[0])
        modes = tuple(word for word in words if word in MODES)
        if unknown := set(words) - {*DTYPES, *THROUGH, *MODES, TRAINING, JAX}:
            raise ValueError(f"unknown: {', '.join(sorted(unknown))}")
        if {TRAINING, JAX} <= set(words):
            raise ValueError("steps are not timed in JAX")
        return Setting(
            int(batch),
            dtype,
            TRAINING in words,
            through,
            modes or Setting.modes,
            JAX in words,
            int(models or 0),
            tuple(filter(None, lists.split(","))),
        )

    @staticmethod
    def argument(text: str) -> Setting:
        """`parse` for argparse."""
        try:
            return Setting.parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"'{text}': {error}") from None

    def text(self) -> str:
        """The text that `parse` reads, without lists and the number of models."""
        words = [str(self.batch), self.dtype, *[TRAINING] * self.training, self.through, *self.modes, *[JAX] * self.jax]
        return ",".join(words)

    def row(self) -> dict[str, Any]:
        """The part of a row that says how it was made."""
        engines = [*self.modes, *[JAX] * self.jax]
        return {
            "batch": self.batch, "dtype": self.dtype, "training": self.training, "through": self.through, "engines": engines
        }  # fmt: skip

    @property
    def weight(self) -> int:
        """Its share of a GPU's processes: a step takes more memory than a forward pass."""
        return 3 if self.training else 1

    def chosen(self, entries: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
        """The models of this setting: steps of decoding are not trained."""
        possible = [
            entry
            for entry in entries
            if entry["list"] in (self.lists or (entry["list"],)) and not (self.training and entry["list"] == "decode")
        ]
        if not self.models or self.models >= len(possible):
            return possible
        return [possible[i * len(possible) // self.models] for i in range(self.models)]
