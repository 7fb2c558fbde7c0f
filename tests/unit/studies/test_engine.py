import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import denseam as dam
from denseam.ground.errors import InputError
from denseam.rules.optimizers import OPTIMIZERS
from denseam.studies import engine
from denseam.studies.engine import ahead, chunks, layouts, programs, train_runs, train_studies
from denseam.studies.engine.programs import Program, Recent
from denseam.studies.engine.times import Times
from denseam.studies.runner import run_studies
from denseam.studies.runs import Interrupted, build, scales_of
from denseam.studies.study import Study
from denseam.training.batches import draw_batches, noisy_batch
from denseam.training.gradient import step
from denseam.training.matrices import Driven
from denseam.training.probes import measure
from denseam.training.progress import Progress
from tests.sampled import sampled

STUDY = Study("relu", "sgd", (16, 24), (0.003, 0.02, 0.1), seeds=2, epochs=3)


class Squareplus(dam.Elementwise):
    """A Lagrangian as a user would write it, with a plain number in it."""

    name: ClassVar[str] = "squareplus"
    a: float = 1.0

    def potential(self, h):
        root = jnp.sqrt(h * h + self.a)
        return (h * h + h * root + self.a * jnp.arcsinh(h / jnp.sqrt(self.a))) / 4


def outcomes(study, **options):
    return {o.spec.key: o for chunk in train_runs(study, study.runs(), **options) for o in chunk}


def alone(study, spec):
    """The same run by the plain training loop."""
    scales = scales_of(study, spec)
    activation = dam.softmax(spec.values["beta"]) if study.lagrangian.name == "softmax" else study.lagrangian
    model = dam.DenseAM.create(
        scales, activation, seed=spec.seed, features=study.features, centred=study.centred,
        bias_init=study.bias_init,
    )  # fmt: skip
    data = study.source().samples(spec.shape, spec.seed, np.float32)
    v = spec.values
    options = {axis: v[axis] for axis in OPTIMIZERS[study.optimizer].defaults}
    if v["decay_time"] is not None:
        options["decay"] = scales.decay(v["decay_time"], study.updates(spec.shape))
    options["schedule"] = dam.Timetable(study.schedule, study.updates(spec.shape), v["warmup"], v["cooldown"])
    if study.nesterov is not None:
        options["nesterov"] = study.nesterov
    optimizer = getattr(dam, study.optimizer)(scales, **options)
    return dam.train(
        model, data, optimizer=optimizer, epochs=study.epochs_at(spec.shape), noise=v["noise"], seed=spec.seed
    )


#: One shape, since each is a program; the study itself has two.
ONE = replace(STUDY, scales=(16,), name="")
CASES = {
    "relu-sgd": STUDY,
    "uncentred": replace(ONE, centred=False),
    "normal biases": replace(ONE, bias_init="normal"),
    "identity": replace(ONE, activation="identity", centred=None),
    "softmax-adam": replace(
        ONE, activation="softmax", optimizer="adam", axes={"beta": (0.5, 2.0)}, centred=None
    ),
    "adam axes": replace(ONE, optimizer="adam", axes={"beta1": (0.5, 0.9), "epsilon": (1e-8, 1e-2)}),
    "sgd axes": replace(
        ONE,
        axes={"momentum": (0.0, 0.5), "noise": (0.2, 0.5), "eta_b_ratio": (0.0, 2.0), "s2_0": (0.5, 1.0)},
        eta0=(0.01,),
    ),
    "nesterov": replace(ONE, axes={"momentum": (0.5, 0.9), "decay": (0.3,)}, nesterov=True),
    "adamw": replace(ONE, optimizer="adamw", axes={"decay": (0.3, 1.0)}),
    "lion": replace(ONE, optimizer="lion", axes={"beta2": (0.9, 0.99)}),
    "sign": replace(ONE, optimizer="sign", axes={"momentum": (0.5, 0.9)}),
    "muon": replace(ONE, optimizer="muon", axes={"decay": (0.3, 1.0), "beta1": (0.5, 0.9)}),
    "warm-ups": replace(ONE, axes={"warmup": (0.0, 0.1, 0.5)}),
    "cosine": replace(ONE, optimizer="adamw", schedule="cosine", axes={"decay_time": (0.3, 3.0)}),
    "wsd": replace(
        ONE, schedule="wsd", axes={"cooldown": (0.1, 0.5), "warmup": (0.0, 0.1), "decay_time": (1.0,)}
    ),
    "a schedule of its own": replace(ONE, schedule=dam.Schedule("late", "", lambda t: float(t > 0.5))),
    "memories-only": replace(ONE, regime=dam.MemoriesOnly(10, 30, 7), scales=(20,)),
    "batch-only": replace(ONE, optimizer="adam", regime=dam.BatchOnly(10, 20, 30), scales=(7,)),
    "epochs": replace(ONE, regime=dam.Epochs(10, 20, 30, 7), scales=(2, 4)),
    "steps": replace(ONE, steps=3, axes={"tau": (0.5, 1.0)}),
    "one step of another size": replace(ONE, axes={"tau": (0.5, 1.0)}),
    "steps-only": replace(ONE, optimizer="adam", regime=dam.StepsOnly(10, 20, 30, 7), scales=(1, 4)),
    "anisotropic": replace(ONE, data="anisotropic"),
    "standard": replace(ONE, optimizer="adam", parameterization="standard"),
    "a number of its own": replace(ONE, activation=Squareplus(2.0)),
    "layer norm": replace(ONE, feature_activation="layer-norm(1.5)"),
    "spherical norm, steps": replace(ONE, optimizer="adam", feature_activation="spherical-norm", steps=3),
}


#: These change numbers and shapes of runs, but nothing that the engine does; what it does for these, others need, too.
ALIKE = {"normal biases", "memories-only", "batch-only", "anisotropic", "standard"}
ALIKE |= {"uncentred", "identity", "adamw", "warm-ups", "one step of another size", "layer norm"}
ALIKE |= {"wsd", "epochs", "steps-only", "sign", "nesterov"}


@pytest.mark.parametrize("case", sampled(CASES, CASES.keys() - ALIKE))
def test_the_engine_trains_as_the_plain_loop_does(case):
    study = CASES[case]
    found = outcomes(study)
    specs = study.runs()
    assert set(found) == {s.key for s in specs}
    for spec in specs[:: max(1, len(specs) // 6)]:
        run, outcome = alone(study, spec), found[spec.key]
        assert outcome.status == run.status
        assert outcome.diverged_at == run.diverged_at
        assert outcome.initial_mse == pytest.approx(run.initial_mse, rel=1e-5)
        assert np.allclose(outcome.loss, run.mse.mean(axis=1), rtol=2e-4)


def test_both_layouts_give_the_same(monkeypatch):
    """The layout of a GPU, run on the CPU: models and seeds as one array."""
    study = replace(
        ONE, axes={"warmup": (0.0, 0.4), "decay_time": (1.0,)}, schedule="cosine", eta0=(0.003, 0.1)
    )
    through = {"seeds": 2, "hide": 0.5, "hide_by": "block", "axes": {"tau": (0.5,), "burn_in": (0.0, 2.0)}}
    studies = (STUDY, study, replace(CASES["steps"], **through, name=""), CASES["spherical norm, steps"])
    one_by_one = {key: outcome for s in studies for key, outcome in outcomes(s).items()}
    monkeypatch.setattr(engine, "platform_of", lambda device: "gpu")
    together = {key: outcome for s in studies for key, outcome in outcomes(s).items()}
    assert set(one_by_one) == set(together)
    for key, a in one_by_one.items():
        b = together[key]
        assert (a.status, a.diverged_at) == (b.status, b.diverged_at)
        assert np.allclose(a.loss, b.loss, rtol=1e-4)
        assert a.heldout_mse == pytest.approx(b.heldout_mse, rel=1e-4)
        assert a.zero_mse == pytest.approx(b.zero_mse, rel=1e-6)


@pytest.mark.parametrize(
    "case",
    [{"scales": (17,)}, {"scales": (18,), "probes": ("F",), "schedule": "cosine", "steps": 2, "hide": 0.5}],
)
def test_a_gpu_compiles_ahead_what_it_will_call(monkeypatch, compiled, case):
    """Each program once: if those compiled ahead were others, there would be two. No other test has this shape."""
    monkeypatch.setattr(engine, "platform_of", lambda device: "gpu")
    compile_ahead, ahead_of_training = ahead.compile_ahead, []

    def spied(*form):
        compile_ahead(*form)
        ahead_of_training.append(form)  # not if it fails

    monkeypatch.setattr(ahead, "compile_ahead", spied)
    study, times = replace(STUDY, epochs=2, name="", **case), Times()
    list(train_runs(study, study.runs(), times=times))
    assert len(ahead_of_training) == 1
    called = ("_draw_groups", "_advance_groups", "_evaluate_groups")
    assert {name: compiled.count(name) for name in called} == dict.fromkeys(called, 1)
    assert times.compiling > 0 < times.training


def test_workers_begin_with_different_shapes_and_with_the_largest():
    study = replace(STUDY, scales=(16,), seeds=3)
    programs = [Program(study, study.shape(scale), "cpu", Progress(), 2) for scale in (16, 32)]
    groups = [[spec for spec in study.runs() if spec.seed == seed] for seed in range(3)]
    items = [(p, [group[:count]]) for p in programs for group, count in zip(groups, (1, 3, 2), strict=True)]
    ordered = [(program.shape.N, len(chunk[0])) for program, chunk in chunks.in_order(items)]
    assert ordered == [(32, 3), (16, 3), (32, 2), (32, 1), (16, 2), (16, 1)]


def test_parts_of_a_group_follow_each_other():
    """They have the same batches, of which only the last few are kept."""
    study = replace(STUDY, scales=(16,), eta0=tuple(np.geomspace(0.001, 0.1, 13)), seeds=3)
    program = Program(study, study.shape(16), "cpu", Progress(), threads=2)
    parts = chunks.in_order([(program, chunk) for chunk in chunks.cut(study.runs(), program, 2)])
    assert [(chunk[0][0].seed, len(chunk[0])) for _, chunk in parts] == [
        (seed, runs) for seed in range(3) for runs in (6, 7)
    ]


def test_parts_of_a_group_are_given_the_same_data(monkeypatch):
    """On a CPU; a GPU has few chunks of a group, and little room."""
    drawn = []
    make = layouts._group
    monkeypatch.setattr(
        layouts, "_group", lambda program, spec: drawn.append(spec.seed) or make(program, spec)
    )
    study = replace(STUDY, scales=(16,), eta0=tuple(np.geomspace(0.001, 0.1, 13)), seeds=2)
    assert len(chunks.cut(study.runs(), Program(study, study.shape(16), "cpu", Progress(), 2), 2)) == 4
    assert len(outcomes(study, workers=2)) == 26
    assert sorted(drawn) == [0, 1]


def test_untrained_models_that_differ_in_their_learning_rate_alone_are_evaluated_once(monkeypatch):
    evaluated = []
    evaluate = Program.evaluate
    monkeypatch.setattr(
        Program,
        "evaluate",
        lambda self, model, batches: evaluated.append(model) or evaluate(self, model, batches),
    )
    study = replace(STUDY, scales=(16,), seeds=1, axes={"s1_0": (0.5, 1.0)})
    results = outcomes(study, workers=1)
    assert len(results) == 6
    assert len(evaluated) == 2 + 6  # before training, and after it
    initial = {o.spec.values["s1_0"]: o.initial_mse for o in results.values()}
    assert len(set(initial.values())) == 2
    for o in results.values():
        assert o.initial_mse == initial[o.spec.values["s1_0"]]
        assert o.initial_mse == pytest.approx(alone(study, o.spec).initial_mse, rel=1e-5)


def test_chunks_of_a_gpu_are_as_long_as_may_be_lost(monkeypatch):
    """Small models advance together; large ones in chunks of some seconds, but never fewer than fill the card."""
    study = replace(STUDY, eta0=tuple(dam.logspace(1e-3, 1, 40)), seeds=1, scales=(16,), name="")
    program = Program(study, study.shape(16), "gpu", Progress())
    one = study.operations(program.shape) / chunks.RATES["gpu"]
    for seconds, sizes in ((41 * one, [40]), (20.5 * one, [20, 20]), (5 * one, [14, 13, 13])):
        monkeypatch.setattr(chunks, "CHUNK_SECONDS", seconds)
        cut = [sum(map(len, chunk)) for chunk in chunks.cut(study.runs(), program, 1)]
        assert sorted(cut, reverse=True) == sizes


def test_a_segment_whose_drawing_fails_is_drawn_again():
    recent = Recent(2)
    with pytest.raises(ZeroDivisionError):
        recent.get("a", lambda: 1 / 0)
    assert recent.get("a", lambda: "drawn") == "drawn"
    assert recent.get("a", lambda: 1 / 0) == "drawn"


def test_drawing_ahead_does_not_wait_for_another_worker():
    """A worker that has what it needs now trains, while another one draws what both need next."""
    recent, begun, go_on = Recent(2), threading.Event(), threading.Event()

    def slowly():
        begun.set()
        assert go_on.wait(10)
        return "drawn"

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(recent.get, "next", slowly)
        assert begun.wait(10)
        ahead = recent.begin("next", lambda: 1 / 0)
        assert not ahead.done()
        go_on.set()
        assert other.result() == ahead.result() == recent.get("next", lambda: 1 / 0) == "drawn"


def test_long_studies_draw_by_a_program_of_their_shape(monkeypatch):
    """It is worth its compilation where its seeds draw many entries, and changes no result."""
    drawn = []
    at_length = programs._ON_CPU_AT_LENGTH

    def draw(*samples):
        drawn.append(samples)
        return at_length.draw(*samples)

    monkeypatch.setattr(programs, "_ON_CPU_AT_LENGTH", at_length._replace(draw=draw))
    shape = ONE.shape(16)
    entries = 2 * ONE.updates(shape) * shape.B * shape.N  # of two seeds
    monkeypatch.setattr(programs, "WORTH_COMPILING", entries)
    blocks = outcomes(ONE)
    assert not drawn
    monkeypatch.setattr(programs, "WORTH_COMPILING", entries - 1)
    whole = outcomes(ONE)
    assert drawn
    assert all(np.array_equal(blocks[k].loss, whole[k].loss) for k in blocks)


def test_a_result_does_not_depend_on_what_else_is_in_the_chunk():
    whole = outcomes(STUDY)
    spec = STUDY.runs()[4]
    single = next(iter(train_runs(STUDY, [spec])))[0]
    assert np.array_equal(whole[spec.key].loss, single.loss)
    few = outcomes(STUDY, workers=1)
    assert all(np.array_equal(whole[k].loss, few[k].loss) for k in whole)


def test_models_of_a_bundle_diverge_each_by_itself(monkeypatch):
    """One that diverges keeps its record, and the others go on; when all have, the bundle stops."""
    monkeypatch.setattr(chunks, "SEGMENT_SECONDS", 1e-9)  # one step at a time
    rates = (0.003, 0.02, 1e4, 3e4, 1e5)
    study = replace(ONE, eta0=rates, seeds=1, name="")
    assert Program(study, study.shape(16), "cpu", Progress()).bundle == 8
    taken, calls = dict.fromkeys(rates, 0), []

    class Steps(Progress):
        def advanced(self, steps, spec):
            taken[spec.values["eta0"]] += steps

    advance = Program.advance
    monkeypatch.setattr(
        Program, "advance", lambda self, *now: calls.append(len(now[0].b)) or advance(self, *now)
    )
    together = outcomes(study, workers=1, progress=Steps())
    steps = study.updates(study.shape(16))
    assert taken == dict.fromkeys(rates, steps)
    assert calls == [8] * steps  # filled up, so that there is one program for all bundles
    assert [o.status for o in together.values()].count("diverged") == 3
    for spec in study.runs():
        alone = outcomes(replace(study, eta0=(spec.values["eta0"],)), workers=1)[spec.key]
        assert np.array_equal(alone.loss, together[spec.key].loss)
        assert (alone.diverged_at, alone.final_mse) == (
            together[spec.key].diverged_at,
            together[spec.key].final_mse,
        )
        assert alone.heldout_mse == together[spec.key].heldout_mse
    calls.clear()
    outcomes(replace(study, eta0=(1e4, 3e4, 1e5)), workers=1)
    assert 0 < len(calls) < steps


@pytest.mark.parametrize(("N", "models"), [(16, 8), (32, 8), (64, 4), (128, 1), (256, 1)])
def test_small_models_advance_in_bundles(N, models):
    study = replace(ONE, scales=(N,), regime=dam.Proportional(kappa=2, rho=5, beta=0.1))
    assert Program(study, study.shape(N), "cpu", Progress()).bundle == models


def test_short_segments_change_nothing(monkeypatch):
    whole = outcomes(STUDY)
    monkeypatch.setattr(chunks, "SEGMENT_SECONDS", 1e-9)  # one step at a time
    cut = outcomes(STUDY)
    assert all(np.allclose(whole[k].loss, cut[k].loss, rtol=1e-5) for k in whole)
    assert all(whole[k].heldout_mse == pytest.approx(cut[k].heldout_mse, rel=1e-5) for k in whole)


@pytest.mark.usefixtures("as_installed")
def test_float64_is_float64_and_gpu_precisions_are_refused_on_the_cpu():
    study = replace(ONE, precision="float64", eta0=(0.02,), name="")
    found = outcomes(study)
    with jax.enable_x64(True):
        for spec in study.runs()[:2]:  # float64 draws other random numbers, so it is compared with itself
            scales = scales_of(study, spec)
            model = dam.DenseAM.create(scales, study.lagrangian, seed=spec.seed, dtype=np.float64)
            data = study.source().samples(spec.shape, spec.seed, np.float64)
            run = dam.train(model, data, optimizer=dam.sgd(scales), epochs=3, seed=spec.seed)
            assert found[spec.key].final_mse == pytest.approx(run.final_mse, rel=1e-10)
    for precision in ("tf32", "bf16"):
        with pytest.raises(InputError, match="needs a GPU"):
            run_studies(replace(STUDY, precision=precision))


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_a_sweep_in_which_everything_diverges_ends(platform, monkeypatch):
    monkeypatch.setattr(engine, "platform_of", lambda device: platform)
    monkeypatch.setattr(chunks, "SEGMENT_SECONDS", 1e-9)  # one step at a time
    study = replace(STUDY, eta0=(1e5, 1e6))
    found = outcomes(study)
    assert {o.status for o in found.values()} == {"diverged"}
    assert all(np.isinf(o.final_mse) and np.isinf(o.heldout_mse) for o in found.values())
    records = run_studies(study).records
    (judged,) = dam.verdict(records)
    assert judged.status == "INCONCLUSIVE"
    assert "every run diverged" in judged.reason


def test_progress_adds_up_to_all_steps():
    class Count(Progress):
        steps = runs = 0

        def advanced(self, steps, spec):
            self.steps += steps

        def finished(self, outcomes):
            self.runs += len(outcomes)

    count = Count()
    outcomes(replace(STUDY, eta0=(0.01, 1e5)), progress=count)
    assert count.runs == 8
    assert count.steps == 8 * 3 * 10


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
@pytest.mark.parametrize("steps", [0, 1])
def test_the_engine_stops_when_asked(platform, steps, monkeypatch):
    """Before the first step, or after it."""
    monkeypatch.setattr(engine, "platform_of", lambda device: platform)
    monkeypatch.setattr(chunks, "SEGMENT_SECONDS", 1e-9)  # one step at a time
    stop, taken = threading.Event(), []

    class Stops(Progress):
        def advanced(self, steps, spec):
            taken.append(steps)
            stop.set()

    if not steps:
        stop.set()
    with pytest.raises(Interrupted):
        list(train_runs(ONE, ONE.runs(), workers=1, stop=stop, progress=Stops()))
    assert bool(taken) == bool(steps)
    assert sum(taken) < 4 * len(ONE.runs())


def test_ctrl_c_while_work_is_handed_out_leaves_nothing_behind(monkeypatch):
    submit, calls = ThreadPoolExecutor.submit, []

    def interrupted(self, *work):
        calls.append(work)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return submit(self, *work)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        outcomes(replace(STUDY, epochs=100_000, name=""), workers=1)
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("denseam")]


def test_an_event_to_stop_by_serves_several_studies():
    stop = threading.Event()
    both = [STUDY, replace(STUDY, centred=False, name="")]
    assert len(run_studies(both, stop=stop).records) == 24
    assert not stop.is_set()


def test_a_chunk_that_does_not_fit_is_halved(monkeypatch):
    real, calls = engine.train_chunk, []

    def small_memory(program, chunk, *others):
        calls.append(sum(map(len, chunk)))
        if calls[-1] > 1:
            raise jax.errors.JaxRuntimeError("out of memory")
        return real(program, chunk, *others)

    monkeypatch.setattr(engine, "train_chunk", small_memory)
    assert len(outcomes(STUDY)) == 12
    assert max(calls) > 1


def test_one_model_that_fails_is_too_large_or_the_error_is_shown(monkeypatch):
    """Which of the two is decided by its size and the memory, not by the words of the error."""

    def fails(*chunk):
        raise jax.errors.JaxRuntimeError("something is wrong")

    monkeypatch.setattr(engine, "train_chunk", fails)
    with pytest.raises(jax.errors.JaxRuntimeError, match="something is wrong"):
        outcomes(STUDY)
    monkeypatch.setattr(engine, "memory", lambda platform: 1e3)
    with pytest.raises(InputError, match="does not fit"):
        outcomes(STUDY)


def test_a_model_that_cannot_fit_is_refused_before_anything_is_trained(monkeypatch):
    """It would not fail: the system would end the process."""
    monkeypatch.setattr(engine, "train_chunk", lambda *chunk: pytest.fail("is trained"))
    with pytest.raises(InputError, match=r"one model of .*N=1000000.* does not fit into the memory"):
        outcomes(replace(ONE, scales=(16, 10**6), name=""))


def test_two_models_that_do_not_fit_together_are_trained_one_after_the_other(monkeypatch):
    """Each fits, but not beside the other chunk that a GPU has at the same time."""
    monkeypatch.setattr(engine, "platform_of", lambda device: "gpu")
    real, inside, lock = engine.train_chunk, [], threading.Lock()

    def small_memory(program, chunk, *others):
        with lock:
            inside.append(chunk)
        try:
            time.sleep(0.02)
            if len(inside) > 1 or sum(map(len, chunk)) > 1:
                raise jax.errors.JaxRuntimeError("out of memory")
            return real(program, chunk, *others)
        finally:
            with lock:
                inside.remove(chunk)

    monkeypatch.setattr(engine, "train_chunk", small_memory)
    assert len(outcomes(STUDY)) == 12


def test_chunks_that_have_ended_are_not_lost_when_another_fails(monkeypatch):
    """While the first is saved, the third fails, and then the second ends."""
    monkeypatch.setattr(engine, "platform_of", lambda device: "gpu")
    first, second, third = (replace(ONE, eta0=(eta0,), seeds=1, name="") for eta0 in (0.01, 0.02, 0.03))
    todo = [(study, study.runs()) for study in (first, second, third)]
    real, failed, ended = engine.train_chunk, threading.Event(), threading.Event()
    saved, reported = [], []

    def train(program, *chunk):
        if program.study is third:
            failed.set()
            raise ValueError("of this chunk alone")
        if program.study is second:
            assert failed.wait(60)
        trained = real(program, *chunk)
        if program.study is second:
            ended.set()
        return trained

    class Heard(Progress):
        def finished(self, outcomes):
            reported.extend(outcome.spec.key for outcome in outcomes)
            assert reported == saved, "reported before it was saved"

    def save():
        for _, outcomes in train_studies(todo, progress=Heard()):
            saved.extend(outcome.spec.key for outcome in outcomes)
            assert ended.wait(60)

    monkeypatch.setattr(engine, "train_chunk", train)
    with pytest.raises(ValueError, match="of this chunk alone"):
        save()
    assert saved == reported == [spec.key for study in (first, second) for spec in study.runs()]


def test_nothing_is_compiled_for_a_training_that_was_stopped(monkeypatch):
    """Else a worker that waits for its program would wait for those of all other shapes, too."""
    monkeypatch.setattr(engine, "platform_of", lambda device: "gpu")
    monkeypatch.setattr(ahead, "cores", lambda: 1)
    stop, compiled = threading.Event(), []

    def stopped_meanwhile(program, chunk):
        compiled.append(program.shape)
        stop.set()

    monkeypatch.setattr(ahead, "compile_ahead", stopped_meanwhile)
    with pytest.raises(Interrupted):
        list(train_runs(STUDY, STUDY.runs(), stop=stop))
    assert len(compiled) == 1


@pytest.mark.parametrize("folder", [True, False])
def test_a_run_of_two_studies_is_trained_once(folder, tmp_path):
    class Count(Progress):
        trained, expected = 0, 0

        def sweep_begins(self, todo, reused):
            self.expected = sum(len(specs) for _, specs in todo)

        def finished(self, outcomes):
            self.trained += len(outcomes)

    count = Count()
    summary = run_studies(
        [ONE, replace(ONE, name="again"), replace(ONE, eta0=(0.02, 0.5), name="more")],
        tmp_path if folder else None,
        progress=count,
    )
    assert count.trained == count.expected == summary.runs == len(summary.records) == 8


def test_a_program_is_compiled_once_for_all_workers():
    """`jax.jit` lets the workers that need the same program wait for the one that compiles it."""
    from denseam.studies.engine.programs import _ON_CPU

    class Heard(Progress):
        def __init__(self):
            self.shapes = []

        def compiling(self, shape):
            self.shapes.append(shape)

    study = replace(STUDY, scales=(13, 14), seeds=4, probes=("F",), name="")
    advance = _ON_CPU.advance
    heard, before = Heard(), advance._cache_size()
    outcomes(study, progress=heard, workers=4)
    assert advance._cache_size() - before == 2
    assert sorted(shape.N for shape in heard.shapes) == [13, 14]
    outcomes(replace(study, eta0=(0.05,), name=""), workers=4)
    assert advance._cache_size() - before == 2


def test_data_from_a_file_is_trained_on(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "d.npy", rng.standard_normal((50, 10)) @ rng.standard_normal((10, 10)) / 3)
    study = Study(
        "relu", "sgd", (20,), (0.01,), dam.MemoriesOnly(10, 30, 7), data=str(tmp_path / "d.npy"), epochs=3
    )
    found = outcomes(study)
    assert {o.status for o in found.values()} == {"finished"}
    assert all(np.isfinite(o.heldout_mse) for o in found.values())
    source = study.source()
    train, held = (
        np.asarray(f(study.regime.shape(20), 1, np.float64)) for f in (source.samples, source.heldout)
    )
    assert (train.shape, held.shape) == ((30, 10), (5, 10))
    assert not {tuple(r) for r in train.tolist()} & {tuple(r) for r in held.tolist()}


measured, stepped = eqx.filter_jit(measure), eqx.filter_jit(step)
PROBED = {
    "relu-sgd": replace(ONE, probes=("all",), probe_steps=(0, 1, 7, 29), name=""),
    "softmax-adam": replace(CASES["softmax-adam"], probes=("all",), probe_steps=(0, 5), name=""),
}


@pytest.mark.parametrize("case", PROBED)
def test_probes_see_each_step_and_leave_training_alone(case):
    """The k-th measurement is that of the plain loop, stopped there; the losses do not change."""
    study = PROBED[case]
    plain, found = outcomes(replace(study, probes=(), probe_steps=None)), outcomes(study)
    unprobed = {(o.spec.scale, o.spec.seed, *o.spec.values.values()): o for o in plain.values()}
    for spec in study.runs()[::5]:
        outcome = found[spec.key]
        np.testing.assert_allclose(
            outcome.loss, unprobed[(spec.scale, spec.seed, *spec.values.values())].loss, rtol=1e-4
        )
        assert outcome.probe_steps == study.probe_steps
        assert tuple(outcome.probes) == study.probes
        model, optimizer = build(study, spec, None, jnp.float32)
        state = optimizer.init(model.parameters)
        P, B = spec.shape.P, spec.shape.B
        data = study.source().samples(spec.shape, spec.seed, np.float32)
        taken = 0
        for t in range(max(study.probe_steps) + 1):
            epoch, within = divmod(t, P // B)
            batches = draw_batches(spec.seed, epoch, P, B)
            X, Y = noisy_batch(data, batches.samples[within], batches.noise[within], spec.values["noise"])
            if t in study.probe_steps:
                batch = Driven(model.drive(X), Y)
                here = np.asarray(measured(model, optimizer, state, batch, study.probes))
                there = np.array([outcome.probes[n][taken] for n in study.probes])
                loose = [n in ("dF_remainder", "dF_outer_spike", "dF_inner_spike") for n in study.probes]
                ok = np.isclose(there, here, rtol=5e-3, atol=1e-6) | (np.array(loose) & (there < 1e-3))
                assert ok.all(), [
                    (n, a, b) for n, a, b, k in zip(study.probes, here, there, ok, strict=True) if not k
                ]
                taken += 1
            model, state, _ = stepped(model, optimizer, state, X, Y)


def test_a_gpu_prepares_one_chunk_while_another_waits_for_its_programs_or_trains(monkeypatch):
    """Both chunks meet before either is trained; with one at a time the first would wait in vain."""
    monkeypatch.setattr(engine, "platform_of", lambda device: "gpu")
    meeting = threading.Barrier(2, timeout=60)
    monkeypatch.setattr(ahead.Coming, "wait", lambda self, *chunk: meeting.wait())
    assert len(list(train_runs(STUDY, STUDY.runs()))) == len(STUDY.scales) == 2


@pytest.mark.parametrize(("room", "most"), [(1.5, 1), (100, 2)])
def test_models_that_need_more_than_half_of_the_memory_are_trained_one_at_a_time(monkeypatch, room, most):
    monkeypatch.setattr(engine, "platform_of", lambda device: "gpu")
    study = replace(STUDY, scales=(24,), name="")
    one = chunks.model_bytes(Program(study, study.shape(24), "gpu", Progress()))
    monkeypatch.setattr("denseam.studies.engine.programs.memory", lambda platform: room * one)
    monkeypatch.setattr(chunks, "evenly", lambda group, count: [[spec] for spec in group])
    monkeypatch.setattr(chunks, "FULL", 1)
    monkeypatch.setattr(chunks, "CHUNK_SECONDS", 0.0)
    real, under_way, at_once, meeting = engine.train_chunk, [], [], threading.Barrier(most, timeout=60)

    def spied(program, *others):
        under_way.append(program)
        at_once.append(len(under_way))
        meeting.wait()
        try:
            return real(program, *others)
        finally:
            under_way.remove(program)

    monkeypatch.setattr(engine, "train_chunk", spied)
    assert len(outcomes(study)) == 6
    assert max(at_once) == most


def test_a_gpu_trains_several_studies_at_once(monkeypatch):
    """The chunks of two studies of one size meet before either is trained."""
    monkeypatch.setattr(engine, "platform_of", lambda device: "gpu")
    meeting = threading.Barrier(2, timeout=60)
    monkeypatch.setattr(ahead.Coming, "wait", lambda self, *chunk: meeting.wait())
    studies = [replace(STUDY, scales=(16,), centred=centred, name="") for centred in (True, False)]
    trained = [
        (study, outcome.spec)
        for study, chunk in train_studies([(s, s.runs()) for s in studies])
        for outcome in chunk
    ]
    assert {study.id: [spec.key for s, spec in trained if s is study] for study in studies} == {
        study.id: [spec.key for spec in study.runs()] for study in studies
    }


def test_probes_are_the_same_in_both_layouts(monkeypatch):
    study = PROBED["relu-sgd"]
    one_by_one = outcomes(study)
    monkeypatch.setattr(engine, "platform_of", lambda device: "gpu")
    for key, b in outcomes(study).items():
        for name, values in one_by_one[key].probes.items():
            if name != "dF_remainder":
                np.testing.assert_allclose(b.probes[name], values, rtol=5e-3, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("beta", [0.25, 0.5], ids=["LAPACK", "LOBPCG"])
def test_programs_of_a_cpu_hand_lapack_one_matrix_at_a_time(monkeypatch, beta):
    """Several are shared out among XLA's threads, and two programs that do so may wait for each other forever."""
    written, advance = [], Program.advance

    def writes(self, *now):
        written.append(self._functions.advance.lower(*now, **self._options).as_text())
        return advance(self, *now)

    monkeypatch.setattr(Program, "advance", writes)
    regime = dam.Proportional(kappa=2, rho=8, beta=beta)
    outcomes(replace(ONE, regime=regime, eta0=(0.003, 0.02), probes=("all",), probe_steps=(0,), name=""))
    calls = re.findall(r"custom_call @lapack_.*: \(tensor<([^>]*)>", written[0])
    assert calls
    assert all(operand.count("x") == 2 for operand in calls), calls  # rows x columns x type


def test_probes_of_a_run_that_diverges_end_where_it_does():
    study = replace(STUDY, eta0=(50.0,), scales=(16,), probes=("F", "dW"), probe_steps=(0, 1, 29), name="")
    for outcome in outcomes(study).values():
        assert outcome.status == "diverged"
        assert np.isfinite(outcome.probes["F"][0])
        assert not np.isfinite(outcome.probes["F"][-1])


SEVERAL = """
import jax, numpy as np
from denseam.rules.optimizers import OPTIMIZERS
from denseam.studies import engine
from denseam.studies.engine import layouts
from denseam.studies.study import Study

study = Study("relu", "adam", (16,), (0.003, 0.02), seeds=4, epochs=2, probes=("F",), probe_steps=(0, 5))
runs = lambda **k: {o.spec.key: o for c in engine.train_runs(study, study.runs(), **k) for o in c}
one = runs(devices=jax.devices()[:1], workers=1)
several = runs(devices=jax.devices(), workers=2)  # one program for each core
used = set()

class Spied(layouts.Together):  # all models of a chunk as one array, as on a GPU
    def run(self):
        used.add(self.place)
        return super().run()

engine.platform_of, layouts.Together = lambda device: "gpu", Spied
together = runs(devices=jax.devices())
assert len(used) == 2, used
for key, outcome in one.items():
    for other in (several[key], together[key]):
        assert np.allclose(other.loss, outcome.loss, rtol=1e-4)
        assert np.allclose(other.probes["F"], outcome.probes["F"], rtol=1e-4)
print("the same on", len(jax.devices()))
"""


def test_several_devices_share_the_work_and_give_the_same():
    """Two virtual devices, in both layouts."""
    import os
    import subprocess
    import sys

    two = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    flags = {"XLA_FLAGS": two, "JAX_PLATFORMS": "cpu"}
    found = subprocess.run(
        [sys.executable, "-c", SEVERAL], capture_output=True, text=True, env=os.environ | flags, timeout=300
    )
    assert found.stdout.strip() == "the same on 2", found.stderr[-2000:]
