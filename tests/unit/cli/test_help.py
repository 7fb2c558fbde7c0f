"""The help pages: examples that can be typed, whole summaries, options under headings."""

import shlex

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from denseam.cli import app, main
from denseam.cli.options import Option

WIDTH = 100


def commands(name, command):
    yield name, command
    for word, inner in getattr(command, "commands", {}).items():
        yield from commands(f"{name} {word}", inner)


ALL = dict(commands("denseam", app))


def page(name, width=WIDTH):
    return CliRunner().invoke(app, [*name.split()[1:], "--help"], terminal_width=width).output


@pytest.mark.parametrize("name", ALL)
def test_every_help_page_has_examples_of_its_own_command(name):
    command = ALL[name]
    assert command.examples
    lines = page(name).partition("Examples:\n")[2].splitlines()
    for example in command.examples:
        assert f"  {example}" in lines, "whole, on one line"
        assert len(example) <= WIDTH - 2
        assert example.startswith(name)
        assert parses(shlex.split(example)[1:])


def parses(words):
    """Whether the program understands a command line, up to where it would begin its work."""
    context = app.make_context("denseam", list(words))
    command = app
    while isinstance(command, click.Group):
        name, command, words = command.resolve_command(context, list(words))
        context = command.make_context(name, list(words), parent=context)
    for option in command.params:
        value = context.params.get(option.name)
        if isinstance(option, Option) and option.described is not None and isinstance(value, str):
            option.described.parse(value)
    return True


def test_an_example_that_cannot_be_typed_is_seen():
    for words in (["verdict", "runs", "--nothing"], ["tune"], ["figure", "ran", "all"], ["check", "--eta0"]):
        with pytest.raises(click.ClickException):
            parses(words)


@pytest.mark.parametrize("width", [80, WIDTH])
@pytest.mark.parametrize("name", [name for name, command in ALL.items() if hasattr(command, "commands")])
def test_summaries_are_whole(name, width):
    # A word with a hyphen may be broken there.
    text = " ".join(page(name, width).split()).replace("- ", "-")
    assert "..." not in text.partition("Commands:")[2]
    for command in ALL[name].commands.values():
        assert command.get_short_help_str(limit=1000).replace("- ", "-") in text


def headings(name):
    """Heading → the options that the help page lists under it."""
    found, heading = {}, ""
    for line in page(name).splitlines():
        if line.endswith(":") and not line.startswith(" "):
            heading = line[:-1]
        elif line.startswith("  -"):
            found.setdefault(heading, []).append(line.split()[0].rstrip(","))
    return found


def test_options_are_listed_under_what_they_are_about():
    assert {"Model", "Data", "Training", "What grows", "Where it runs", "Options"} <= set(
        headings("denseam tune")
    )
    assert "--loss" in headings("denseam verdict")["Columns of a table"]
    assert "--mesh" in headings("denseam train")["Where it runs"]
    assert "--mask" in headings("denseam recall")["Data"]
    assert "--base-features" in headings("denseam prescribe")["Sizes at which eta0 was tuned"]
    for name, command in ALL.items():
        listed = [option for group in headings(name).values() for option in group]
        assert len(listed) == len(set(listed))
        assert len(headings(name).get("Options", ())) <= 13, name
        assert len(listed) == sum(isinstance(p, click.Option) for p in command.params) + 1, name  # and --help


# --- completion by a shell -------------------------------------------------------------------------


def completed(*words):
    """The answers for the last of these words, as `denseam` gives them to a shell: kind, value."""
    items = ShellComplete(app, {}, "denseam", "_DENSEAM_COMPLETE").get_completions(
        list(words[:-1]), words[-1]
    )
    return [(item.type, item.value) for item in items]


def test_a_shell_completes_commands_options_names_and_files():
    assert completed("ver") == [("plain", "verdict")]
    assert ("plain", "--activation") in completed("sweep", "--act")
    assert completed("sweep", "--bias-init", "n") == [("plain", "normal")]
    assert completed("figure", "run", "linear-s") == [("plain", "linear-sgd")]
    for words in (["verdict", "ru"], ["tune", "x."], ["tune", "x.npy", "--out", "ru"], ["recall", "m", "x."]):
        assert completed(*words) == [("file", words[-1])]


def test_the_script_of_a_shell_is_printed(monkeypatch, capsys):
    """As in `eval "$(_DENSEAM_COMPLETE=bash_source denseam)"`."""
    monkeypatch.setenv("_DENSEAM_COMPLETE", "zsh_source")
    assert main([]) == 0
    assert "#compdef denseam" in capsys.readouterr().out
