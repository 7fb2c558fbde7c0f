"""What is printed for people."""

from __future__ import annotations

from typing import Any

from denseam.report.wording import number


def print_table(title: str, head: list[str], rows: list[list[str]]) -> None:
    """Print a title and a table."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    print(title)
    for row in (head, ["─" * w for w in widths], *rows):
        print("  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)))


def regret_text(value: float | None) -> str:
    """Return a regret in per cent."""
    return "" if value is None else "diverges" if value == float("inf") else f"{100 * value:.2f} %"


def print_verdicts(verdicts: list[Any]) -> None:
    """Print a table and a few sentences for each verdict."""
    for v in verdicts:
        print_table(
            f"{v.name}: {v.status}",
            [v.scale_letter, f"best {v.axis}", "best loss", "regret", "edge of stability"],
            [
                [
                    str(scale),
                    number(v.optimum[scale]),
                    number(v.best_loss[scale]),
                    "(base)" if scale == min(v.optimum) else regret_text(v.regret.get(scale)),
                    "beyond the grid" if v.edge[scale] is None else number(v.edge[scale]),
                ]
                for scale in sorted(v.optimum)
            ],
        )
        lines = [v.reason, *v.flags, v.next_step]
        if v.collapse is not None:
            lines.append(
                f"Loss curves of the scales differ {v.collapse:.2g} times as much as those of seeds."
            )
        print(*(line for line in lines if line), sep="\n", end="\n\n")
