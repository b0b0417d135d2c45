"""`burn`: every command as a subcommand. A command's module is imported when it is the one that runs."""

from __future__ import annotations

from importlib import import_module

import click

COMMANDS = {
    "import": ("burn.cli.import_", "Write a model as Python source and weights, or load weights into one."),
    "export": ("burn.cli.export", "Write a model in Python as an ONNX or StableHLO file."),
    "quantize": ("burn.cli.quantize", "Quantise an ONNX model to 8 bits, or its weights to 4."),
    "compile": ("burn.cli.compile", "Compile a model into a command or a library that needs no Python."),
    "run": ("burn.cli.run", "Run a model, compare it with ONNX Runtime, see where its time goes."),
    "inspect": ("burn.cli.inspect", "Say what is in a model."),
    "train": ("burn.cli.train", "Train an experiment."),
    "bench": ("burn.cli.bench", "Time burn and its peers."),
    "cache": ("burn.cli.cache", "List, clear, export and import compiled programs and GPU kernels."),
    "tune-machine": ("burn.cli.tune_machine", "Measure the costs of this machine's CPU, by which burn chooses code."),
    "opt": ("burn.cli.opt", "Run passes over burn's IR as text."),
}


class Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return import_module(COMMANDS[cmd_name][0]).main if cmd_name in COMMANDS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="burn-mlir", prog_name="burn")
def main() -> None:
    """A graph compiler and model importer on MLIR."""


if __name__ == "__main__":
    main()
