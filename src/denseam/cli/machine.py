"""The machine at hand: `doctor`, `bench`, `demo`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from denseam.cli.options import Json, Quiet
from denseam.cli.program import OK, app, listener_of, print_json
from denseam.cli.text import print_table, print_verdicts


@app.command()
def doctor(json_: Json = False) -> int:
    """Say what this installation can do: versions, devices, memory, optional parts."""
    from denseam.doctor import examine

    document = examine()
    if json_:
        print_json(document)
        return OK
    for part, facts in document.items():
        print(part)
        for name, fact in facts.items():
            print(f"  {name:<18} {fact}")
    return OK


@app.command()
def bench(
    features: Annotated[str, typer.Option(help="The N to measure, as in 64,128,256.")] = "64,128,256",
    repeats: Annotated[int, typer.Option(help="Repetitions; medians are reported.")] = 5,
    seconds: Annotated[float, typer.Option(help="Seconds of work per measurement.")] = 4.0,
    json_: Json = False,
) -> int:
    """Measure this engine against the product peak of this machine and a plain PyTorch loop."""
    from denseam.bench import benchmark
    from denseam.study import whole_values

    def say(text: str) -> None:
        print(f"denseam: {text}", file=sys.stderr)

    document = benchmark(whole_values("features", features), repeats, seconds, say)
    if json_:
        print_json(document)
        return OK
    print_table(
        f"peak {document['peak_gflops']:.0f} GFLOP/s on {document['device']}; {document['models']} models",
        ["N", "optimizer", "ms per step of all", "of peak", "times a PyTorch loop"],
        [
            [
                str(r["features"]),
                r["optimizer"],
                f"{r['ms_per_step']:.3g}",
                f"{100 * r['peak_fraction']:.0f} %",
                "torch not installed"
                if r["speedup_vs_torch_loop"] is None
                else f"{r['speedup_vs_torch_loop']:.1f}",
            ]
            for r in document["rows"]
        ],
    )
    print(
        f"cost grows as N^{document['cost_exponent']:.2f} per step; twice the runs cost "
        f"{document['runs_ratio']:.2f} times as much; peak memory {document['peak_memory_mb']:.0f} MB"
    )
    return OK


@app.command()
def demo(
    out: Annotated[str, typer.Option(help="The folder for results and figures.")] = "demo",
    quiet: Quiet = False,
) -> int:
    """Show transfer with centring, and its failure without: two studies, two verdicts, one figure."""
    from denseam.demo import demo as show

    shown = show(out, listener_of(quiet))
    print_verdicts(shown.verdicts)
    print(f"{shown.summary.runs} runs in {shown.summary.seconds:.0f} s; drawn in", *shown.files)
    return OK
