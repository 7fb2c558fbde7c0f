"""Options of the command line, made from the fields of descriptions, and help pages that group them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable
from typing import Any

import click

from denseam.rules.fields import Kind, Parameter, Part, parameters
from denseam.studies.cluster import Cluster
from denseam.studies.description import DOCUMENT

_METAVARS = {
    Kind.NUMBER: "NUMBER",
    Kind.WHOLE: "COUNT",
    Kind.CHOICE: "NAME",
    Kind.TEXT: "TEXT",
    Kind.WORDS: "NAMES",
    Kind.NUMBERS: "VALUES",
    Kind.WHOLES: "SIZES",
    Kind.SEEDS: "COUNT",
    Kind.OBJECT: "NAME",
}


class Option(click.Option):
    """An option that is made from a parameter, and stands under its part on the help page."""

    def __init__(self, *arguments: Any, described: Parameter, **facts: Any) -> None:
        super().__init__(*arguments, **facts)
        self.described = described


class Command(click.Command):
    """A command whose help page has a heading for each group of options."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, those of the command itself first."""
        groups: dict[str, list[tuple[str, str]]] = {
            name: [] for name in ("options", *(p.value for p in Part))
        }
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                groups[parameter.described.part.value if isinstance(parameter, Option) else "options"].append(
                    record
                )
        for heading, records in groups.items():
            if records:
                with formatter.section(heading.capitalize()):
                    formatter.write_dl(records)
        if any(_METAVARS[Kind.NUMBERS] in record for record, _ in groups[Part.TRAINING.value]):
            formatter.write_paragraph()
            formatter.write_text(
                f"{_METAVARS[Kind.NUMBERS]} is {Kind.NUMBERS.value}; low:high:count is log-spaced."
            )


def takes(described: Iterable[Parameter], name: str = "given") -> Callable[[Any], Any]:
    """Give a command the options of these parameters.

    The function gets those that were typed as one dictionary, by the keys of a document. They are not checked
    here: the description they are for does that, with the same sentences as for a file or for Python.
    """
    wanted = tuple(described)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def collect(**arguments: Any) -> Any:
            typed = {p.document: arguments.pop(p.document) for p in wanted}
            given = {
                p.document: p.parse(typed[p.document])
                if isinstance(typed[p.document], str)
                else typed[p.document]
                for p in wanted
                if typed[p.document] is not None
            }
            return function(**{name: given}, **arguments)

        for p in reversed(wanted):
            flag = p.kind is Kind.FLAG
            names = f"{p.option}/--{p.off}" if p.off else p.option
            facts: dict[str, Any] = {"is_flag": True} if flag else {"metavar": _METAVARS[p.kind]}
            collect = click.option(
                names, p.document, cls=Option, described=p, default=None, help=help_of(p), **facts
            )(collect)
        return collect

    return decorate


def help_of(p: Parameter) -> str:
    """Return the line of the help page: what it is, what it belongs to, and the default."""
    default = p.default_shown()
    belongs = f" For {p.belongs[0]} {p.belongs[1]}." if p.belongs else ""
    return f"{p.help}{belongs}{f' [default: {default}]' if default and p.default is not False else ''}"


def study_options(*parts: Part, but: Collection[str] = (), **changes: dict[str, Any]) -> list[Parameter]:
    """Return the parameters of a study's parts (of all of it by default), without some, with changes."""
    return [
        dataclasses.replace(p, **changes.get(key, {}))
        for key, p in DOCUMENT.items()
        if (not parts or p.part in parts) and key not in but
    ]


def cluster_options() -> list[Parameter]:
    """Return the parameters of where a study runs."""
    return [p for p in parameters(Cluster).values() if p.kind is not Kind.OBJECT]


json_option = click.option("--json", "json_", is_flag=True, help="Print one JSON document and nothing else.")
quiet_option = click.option("--quiet", "-q", is_flag=True, help="Report no progress.")
