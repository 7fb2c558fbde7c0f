"""The machine at hand: `doctor`, `bench`, `demo`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from denseam.cli.options import Json, Quiet
from denseam.cli.program import OK, app, print_json, progress_of
from denseam.cli.text import print_table, print_verdicts
from denseam.report.wording import quantity


@app.command()
def doctor(json_: Json = False) -> int:
    """Say what this installation can do: versions, devices, memory, optional parts."""
    from denseam.cli.doctor import examine

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
    mesh: Annotated[
        str | None,
        typer.Option(help="One model on many devices instead: memories=4,batch=2, or all; beside the plan."),
    ] = None,
    json_: Json = False,
) -> int:
    """Measure this engine against the product peak of this machine and a plain PyTorch loop."""
    from denseam.cli.bench import benchmark
    from denseam.studies.study import whole_values

    if mesh is not None:
        return _bench_mesh(whole_values("features", features), mesh, repeats, seconds, json_)
    document = benchmark(whole_values("features", features), repeats, seconds, progress_of(False))
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
    exponent = document["cost_exponent"]
    growth = "" if exponent is None else f"cost grows as N^{exponent:.2f} per step; "
    print(
        f"{growth}twice the runs cost {document['runs_ratio']:.2f} times as much; "
        f"peak memory {document['peak_memory_mb']:.0f} MB"
    )
    return OK


def _bench_mesh(features: Sequence[int], text: str, repeats: int, seconds: float, json_: bool) -> int:
    """Measure steps of one model on meshes, and set beside them what `denseam plan` would say."""
    from denseam.cli.bench import benchmark_mesh

    document = benchmark_mesh(features, text, repeats, seconds, progress_of(False))
    if json_:
        print_json(document)
        return OK
    rates, many = document["rates"], document["devices"]
    known = [f"products {quantity(rates['product_rate'], 'FLOP/s')}"]
    known += [f"memory {quantity(rates['bandwidth'], 'B/s')}"]
    if many > 1:
        known += [f"sums {quantity(rates['link'], 'B/s')}", f"a small sum {1e6 * rates['latency']:.0f} µs"]
    known += [f"a small step {1e6 * rates['step']:.0f} µs"]
    whose = (
        f"{many} devices ({document['device']}); each, while all of them work"
        if many > 1
        else document["device"]
    )
    print_table(
        f"{whose}: {', '.join(known)}",
        ["N", "optimizer", "mesh", "predicted", "measured", "measured/predicted"],
        [
            [
                str(r["features"]),
                r["optimizer"],
                r["mesh"],
                f"{1e3 * r['predicted_seconds']:.3g} ms",
                f"{1e3 * r['measured_seconds']:.3g} ms",
                f"{r['measured_seconds'] / r['predicted_seconds']:.2f}",
            ]
            for r in document["rows"]
        ],
    )
    return OK


@app.command()
def demo(
    out: Annotated[str, typer.Option(help="The folder for results and figures.")] = "demo",
    quiet: Quiet = False,
) -> int:
    """Show transfer with centring, and its failure without: two studies, two verdicts, one figure."""
    from denseam.cli.demo import demo as show

    shown = show(out, progress_of(quiet))
    print_verdicts(shown.verdicts)
    print(f"{shown.summary.runs} runs in {shown.summary.seconds:.0f} s; drawn in", *shown.files)
    return OK
