"""Command-line options made from the fields of descriptions, and help pages that group them."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from denseam.ground.errors import COUNTS_BELOW, refuse, shown
from denseam.rules.fields import Kind, Parameter, Part, parameters
from denseam.rules.optimizers import OPTIMIZERS
from denseam.studies.cluster import Cluster
from denseam.studies.columns import ROLES
from denseam.studies.description import DOCUMENT

_METAVARS = {
    Kind.NUMBER: "NUMBER",
    Kind.WHOLE: "COUNT",
    Kind.CHOICE: "NAME",
    Kind.TEXT: "TEXT",
    Kind.WORDS: "NAMES",
    Kind.NUMBERS: "VALUES",
    Kind.WHOLES: "INTEGERS",
    Kind.SEEDS: "COUNT",
    Kind.OBJECT: "NAME",
}


class Option(click.Option):
    """An option that the help page lists under a heading; that of a parameter is the parameter's part."""

    def __init__(
        self, *arguments: Any, heading: str = "", described: Parameter | None = None, **facts: Any
    ) -> None:
        super().__init__(*arguments, **facts)
        self.heading = heading if described is None else described.part.value
        self.described = described

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return what a shell offers for the value: the names that are allowed, or files."""
        choices = self.described.choices if self.described is not None else ()
        if choices:
            return [CompletionItem(name) for name in choices if name.startswith(incomplete)]
        return super().shell_complete(ctx, incomplete) or paths(ctx, self, incomplete)


def paths(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let a shell complete a word as it completes the name of a file."""
    return [CompletionItem(incomplete, type="file")]


def option_of(heading: Part | str, *names: str, **facts: Any) -> Callable[[Any], Any]:
    """Give a command an option under a heading of its help page."""
    title = heading.value if isinstance(heading, Part) else heading
    return click.option(*names, cls=Option, heading=title, **facts)


class Exemplified(click.Command):
    """A command whose help page ends with examples of what to type."""

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **facts: Any) -> None:
        super().__init__(*arguments, **facts)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, each on a line of its own."""
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{example}\n")


class Command(Exemplified):
    """A command whose help page has a heading for each group of options."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, unless a number is larger than any that makes sense, or is not finite."""
        refuse(
            f"{name.rstrip('_').replace('_', '-')} must be "
            f"{'below 2^31' if isinstance(value, int) else 'finite'}, got {shown(value)}"
            for name, value in ctx.params.items()
            if (isinstance(value, int) and not abs(value) < COUNTS_BELOW)
            or (isinstance(value, float) and not math.isfinite(value))
        )
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, those of the command itself first."""
        groups: dict[str, list[tuple[str, str]]] = {
            name: [] for name in ("options", *(p.value for p in Part))
        }
        options = self.get_params(ctx)
        for option in options:
            record = option.get_help_record(ctx) if isinstance(option, click.Option) else None
            if record is not None:
                heading = option.heading if isinstance(option, Option) else "options"
                groups.setdefault(heading, []).append(record)
        for heading, records in groups.items():
            if records:
                with formatter.section(heading.capitalize()):
                    formatter.write_dl(records)
        kinds = {o.described.kind for o in options if isinstance(o, Option) and o.described is not None}
        if Kind.NUMBERS in kinds:
            formatter.write_paragraph()
            formatter.write_text(
                f"{_METAVARS[Kind.NUMBERS]} are {Kind.NUMBERS.value}; low:high:count is log-spaced."
            )


def takes(described: Iterable[Parameter], name: str = "settings") -> Callable[[Any], Any]:
    """Give a command the options of these parameters.

    The function gets the options that were typed as one dictionary, with the keys of a document. They are not
    checked here but by their description, with the same messages as for a file or for Python.
    """
    wanted = tuple(described)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def collect(**arguments: Any) -> Any:
            typed = [(p, arguments.pop(p.document)) for p in wanted]
            chosen = {p.document: p.parse(v) if isinstance(v, str) else v for p, v in typed if v is not None}
            return function(**{name: chosen}, **arguments)

        for p in reversed(wanted):
            names = f"{p.option}/--{p.off}" if p.off else p.option
            facts = {"is_flag": True} if p.kind is Kind.FLAG else {"metavar": _METAVARS[p.kind]}
            collect = click.option(
                names, p.document, cls=Option, described=p, default=None, help=help_of(p), **facts
            )(collect)
        return collect

    return decorate


def help_of(p: Parameter) -> str:
    """Return the help text: the meaning of the option, what it belongs to, and its default."""
    default = p.default_shown()
    belongs = f" Only for {p.belongs[0]} {', '.join(p.belongs[1:])}." if p.belongs else ""
    return f"{p.help}{belongs}{f' [default: {default}]' if default and p.default is not False else ''}"


def study_options(*parts: Part, but: Collection[str] = (), **changes: dict[str, Any]) -> list[Parameter]:
    """Return the parameters of parts of a study (all by default), except those in `but`, with changes."""
    return [
        dataclasses.replace(p, **changes.get(key, {}))
        for key, p in DOCUMENT.items()
        if (not parts or p.part in parts) and key not in but
    ]


#: The learning rate of a check, by default that of its optimizer.
_DEFAULT_RATES = ", ".join(f"{name} {rule.eta0:g}" for name, rule in OPTIMIZERS.items())


def checked_options(**changes: dict[str, Any]) -> list[Parameter]:
    """Return the parameters of a study that is checked, with the defaults of a check, and changes."""
    defaults: dict[str, dict[str, Any]] = {
        "eta0": {"default_text": _DEFAULT_RATES, "help": "Learning rate η0."},
        "scales": {"default_text": "64,128,256,512; others for softmax and in other regimes"},
        "seeds": {"default": 4},
        "features": {"default_text": "16"},
        "memories": {"default_text": "32"},
        "samples": {"default_text": "64"},
        "batch": {"default_text": "16"},
    }
    return study_options(
        *(Part.MODEL, Part.DATA, Part.TRAINING, Part.GROWTH, Part.SWEEP),
        but=("epochs", "probes", "probe_steps", "name", "precision"),
        **defaults | changes,
    )


def cluster_options() -> list[Parameter]:
    """Return the parameters that say where a study runs."""
    return [p for p in parameters(Cluster).values() if p.kind is not Kind.OBJECT]


#: What the argument of a command may be that reads runs from anywhere.
RESULTS_HELP = (
    "RESULTS is a folder of results, or the sweep of any other tool as a table (.csv, .tsv, .parquet, "
    ".jsonl) with one row for each run. Columns with the usual names are recognised; an infinite or empty "
    "loss means that the run diverged."
)


def table_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that name the columns of a table; it gets them as one dictionary."""
    roles = [role for role in ROLES if role not in ("axis", "study")]  # --axis is an option of its own

    @functools.wraps(function)
    def collect(**arguments: Any) -> Any:
        typed = {role: arguments.pop(f"{role}_column") for role in roles}
        return function(columns={role: name for role, name in typed.items() if name is not None}, **arguments)

    for role in reversed(roles):
        text = f"Column of {ROLES[role].meaning}, if RESULTS is a table."
        names = (f"--{role}", f"{role}_column")
        collect = option_of("columns of a table", *names, metavar="COLUMN", help=text)(collect)
    return collect


json_option = click.option("--json", "json_", is_flag=True, help="Print one JSON document and nothing else.")
quiet_option = click.option("--quiet", "-q", is_flag=True, help="Do not report progress.")
log_option = click.option(
    "--log", multiple=True, metavar="NAME",
    help="Log settings and losses to wandb, tensorboard or mlflow; may be repeated.",
)  # fmt: skip
