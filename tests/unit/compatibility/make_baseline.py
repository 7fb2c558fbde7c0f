"""Make the baseline beside this file, with the code of a commit that is to be compared with later ones.

    git clone . /tmp/base && cd /tmp/base && git checkout COMMIT
    PYTHONPATH=/tmp/base/src python tests/unit/compatibility/make_baseline.py tests/unit/compatibility/COMMIT

Sweeps, searches and checkpoints are made by that code, and what it says of them is kept as JSON. The shards of
a folder are joined into one by that code too, since each of them takes 30 kB for its columns alone.
This uses names inside of the library as they were then; the test uses public ones only.
"""

import contextlib
import gzip
import io
import json
import os
import shutil
import sys
import threading
import time
from pathlib import Path

import numpy as np

import denseam as dam
from denseam import store as stores
from denseam.cli import main

PROPORTIONAL = ("--scales", "8,16,32", "--seeds", "3")

#: Name → arguments of `denseam sweep`.
CASES = {
    "relu-sgd": ("--activation", "relu", "--optimizer", "sgd", *PROPORTIONAL, "--eta0", "0.01:3:6", "--epochs", "4"),
    "softmax-memories": (
        "--activation", "softmax", "--optimizer", "adam", "--regime", "memories-only", "--features", "12",
        "--samples", "50", "--batch", "16", "--scales", "10,24,56", "--seeds", "3", "--eta0", "0.01:1:5",
        "--epochs", "5",
    ),
    "relu2-standard": (
        "--activation", "relu", "--power", "2", "--optimizer", "sgd", "--uncentered", "--bias-init", "normal",
        "--parameterization", "standard", "--precision", "float32", *PROPORTIONAL, "--eta0", "0.0003:0.3:5",
        "--epochs", "4",
    ),
    "two-studies": ("studies.toml", "--seeds", "3"),
    "probed": (
        "--activation", "relu", "--optimizer", "adam", *PROPORTIONAL, "--eta0", "0.1,0.3", "--epochs", "4",
        "--probes", "all", "--probe-steps", "0,1,8",
    ),
    "digits-shrunk": (
        "--activation", "relu", "--optimizer", "adam", "--data", "digits", "--shrink", "orthonormal",
        "--unit-variance", *PROPORTIONAL, "--eta0", "0.01:1:5", "--epochs", "4",
    ),
    "by-hand": (
        "--activation", "relu", "--optimizer", "adam", "--parameterization", "s2=K^-1", "--kappa", "1.5", "--rho",
        "3", "--beta", "0.25", *PROPORTIONAL, "--eta0", "0.003:1:5", "--epochs", "6",
    ),
    "vectors-float64": (
        "--activation", "identity", "--optimizer", "sgd", "--data", "vectors.npy", "--shrink", "pca", "--heldout",
        "0.2", "--precision", "float64", "--axis", "momentum=0,0.5", *PROPORTIONAL, "--eta0", "0.03:1:4", "--epochs",
        "3", "--name", "vectors in double",
    ),
    "tanh-anisotropic-json": (
        "--activation", "tanh", "--optimizer", "sgd", "--data", "anisotropic", "--noise", "0.25", "--scales",
        "8,16,32", "--seeds", "2", "--eta0", "0.1,0.3,1", "--epochs", "2",
    ),
}  # fmt: skip

STUDIES = """\
# Two studies, each with another axis than eta0.
optimizer = "adam"
scales = [8, 16, 32]
epochs = 3

[[study]]
name = "second moments"
activation = "relu"
eta0 = "0.03:1:4"
axes = { beta2 = [0.9, 0.99] }

[[study]]
activation = "softmax"
eta0 = [0.03, 0.1, 0.3]
bias_init = "zero"
axes = { eta_b_ratio = "0.5,1,2", beta = 2 }
"""

TUNE = (
    "tune", "vectors.npy", "--epochs", "12", "--optimizer", "adam", "--unit-variance", "--features", "32",
    "--scales", "8,16,32", "--kappa", "1.5", "--rho", "4", "--beta", "0.25",
)  # fmt: skip
REFUSED = (
    "tune", "vectors.npy", "--epochs", "2", "--optimizer", "sgd", "--uncentered", "--bias-init", "normal",
    "--features", "32", "--scales", "8,16,32", "--rho", "4", "--beta", "0.25",
)  # fmt: skip


def call(*arguments):
    """What the program says: its exit code and its JSON document."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main(list(arguments))
    return code, out.getvalue()


def said(*arguments):
    """One entry of a list of outputs."""
    code, out = call(*arguments, "--json")
    return {"argv": list(arguments), "code": code, "output": json.loads(out) if out.strip() else None}


def join(folder, json_shard=False):
    """One shard, instead of one for each chunk of runs."""
    store = dam.Store(folder)
    old = sorted(store.shards.iterdir())
    rows = list(store.read())
    for path in old:
        path.unlink()
    find = stores.importlib.util.find_spec
    try:
        if json_shard:  # as where pyarrow is not installed
            stores.importlib.util.find_spec = lambda _: None
        store.write(rows)
    finally:
        stores.importlib.util.find_spec = find
    return len(rows)


def dump(name, document):
    """Write a document, an entry to a line."""

    def plain(value):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    if isinstance(document, list):
        text = "[\n" + ",\n".join(map(plain, document)) + "\n]"
    else:
        text = "{\n" + ",\n".join(f"{plain(k)}:{plain(v)}" for k, v in document.items()) + "\n}"
    Path(name).write_text(text + "\n")


def sweeps():
    Path("studies.toml").write_text(STUDIES)
    cases, verdicts = [], []
    Path("exports").mkdir()
    for name, argv in CASES.items():
        began, folder = time.perf_counter(), f"sweeps/{name}"
        code, out = call("sweep", *argv, "--out", folder, "--json", "--quiet")
        made = json.loads(out)
        rows = join(folder, json_shard=name.endswith("json"))
        assert rows == made["runs"], (rows, made)
        cases.append(
            {"name": name, "argv": ["sweep", *argv], "code": code, "runs": rows, "diverged": made["diverged"]}
        )
        verdicts.append(said("verdict", folder))
        with gzip.GzipFile(f"exports/{name}.csv.gz", "wb", mtime=0) as file:
            file.write(call("export", folder)[1].encode())
        print(name, rows, made["diverged"], f"{time.perf_counter() - began:.1f} s", file=sys.stderr)
    verdicts += [
        said("verdict", "sweeps/relu-sgd", "--target", "128"),
        said("verdict", "sweeps/by-hand", "--target", "1024"),
        said("verdict", "sweeps/relu-sgd", "--horizon"),
        said("verdict", "sweeps/two-studies", "--axis", "eta0"),
        said("verdict", "sweeps/vectors-float64", "--axis", "momentum"),
    ]
    with gzip.GzipFile("exports/probed.probes.csv.gz", "wb", mtime=0) as file:
        file.write(call("export", "sweeps/probed", "--probes")[1].encode())
    dump("cases.json", cases)
    dump("verdicts.json", verdicts)


def vectors():
    """240 vectors of 64 features whose variances fall as a power."""
    rng = np.random.default_rng(0)
    spectrum = (1 + np.arange(64)) ** -0.25
    x = rng.standard_normal((240, 64)) * spectrum @ np.linalg.qr(rng.standard_normal((64, 64)))[0]
    np.save("vectors.npy", x.astype(np.float16))


def tuning():
    for argv, folder in ((TUNE, "tuned"), (REFUSED, "refused")):
        print(folder, call(*argv, "--out", folder, "--json", "--quiet")[0], file=sys.stderr)
    join("tuned/runs")
    shutil.rmtree("refused/runs")
    call("train", "vectors.npy", "--tuned", "tuned", "--json", "--quiet")
    # Training that was stopped after five epochs, as by Ctrl-C.
    stop = threading.Event()

    class Stopper(dam.target.TrainListener):
        def epoch(self, epoch, loss, expected):
            if epoch == 4:  # heard of before the next segment ends
                stop.set()

    with contextlib.suppress(KeyboardInterrupt):
        dam.train_target(dam.read_recipe("tuned"), "tuned/stopped", listener=Stopper(), stop=stop)
    assert sorted(os.listdir("tuned/stopped")) == ["state.safetensors"]
    for picture in [*Path().glob("**/*.png"), *Path().glob("**/*.svg")]:
        picture.unlink()
    recipe = dam.read_recipe("tuned")
    study, spec = recipe.run()
    memory = dam.Memory.load("tuned/target/memory.safetensors")
    x = np.load("vectors.npy")[:4].astype(np.float32)
    dump(
        "recipe.json",
        {
            "eta0": recipe.eta0, "constants": dict(recipe.constants), "target": recipe.target,
            "shape": {n: getattr(spec.shape, n) for n in "NKPB"}, "run": spec.key, "study": study.id,
            "epochs": study.epochs, "expected": recipe.expected.to_json(), "noise": memory.noise,
        },
    )  # fmt: skip
    encoded = memory.encode(x)
    np.savez("tuned.npz", x=x, encoded=encoded, f=np.asarray(memory.model.update(encoded)),
             decoded=memory.decode(encoded))  # fmt: skip


def models():
    Path("models").mkdir()
    rng, kept = np.random.default_rng(1), {}
    made = {"relu": dam.relu(2), "softmax": dam.softmax(1.5), "identity": dam.identity()}
    for name, activation in made.items():
        rule = dam.prescription(activation, "adam" if name == "softmax" else "sgd", "proportional")
        model = dam.DenseAM.create(
            rule.at(dam.Shape(12, 20), eta0=0.3),
            activation,
            seed=3,
            bias_init="normal" if name == "relu" else "zero",
        )
        model.save(f"models/{name}.safetensors")
        x = rng.standard_normal((3, 12)).astype(np.float32)
        kept |= {
            f"{name}.x": x,
            f"{name}.f": np.asarray(model.update(x)),
            f"{name}.E": np.asarray(model.energy(x)),
        }
    np.savez("models/outputs.npz", **kept)


def commands():
    rules = [
        said("prescribe", "--activation", activation, "--optimizer", optimizer, "--regime", regime, "--features",
             "100", "--memories", "300", "--eta0", "0.2", *power)
        for activation, power in (
            ("identity", ()), ("relu", ()), ("relu", ("--power", "2")), ("tanh", ()), ("softmax", ())
        )
        for optimizer in ("sgd", "adam")
        for regime in ("proportional", "memories-only")
    ]  # fmt: skip
    dump("prescribe.json", rules)
    tiny = ("check", "--activation", "relu", "--optimizer", "sgd", "--scales", "16,32,64", "--seeds", "2", "--updates",
            "4", "--quiet")  # fmt: skip
    exact = [
        said("theory", "--kappa", "2", "--rho-b", "0.5"),
        said("theory", "--kappa", "0.5", "--rho-b", "1.5", "--noise", "0.5", "--eta0", "0.2", "--s1-0", "2"),
        said("plan", "vectors.npy", *TUNE[2:]),
        said("plan", "digits", "--memories", "512"),
        said("plan", "--features", "4096", "--devices", "8", "--device", "h200"),
        said("plan", "--features", "4096", "--memories", "65536", "--devices", "4", "--device", "a100",
             "--optimizer", "sgd"),
        said("figure", "list"),
        said("check", "sweeps/probed"),
    ]  # fmt: skip
    # What is computed anew, to the precision of float32.
    shutil.copytree("tuned", "/tmp/compatibility-again")
    again = "/tmp/compatibility-again"
    near = [
        said(*tiny),
        said("recall", "tuned/target/memory.safetensors", "vectors.npy", "--heldout", "--noise", "0.25,0.5",
             "--steps", "3"),
    ]  # fmt: skip
    moved = {
        "tune": said(*TUNE, "--out", again, "--quiet"),
        "train": said("train", "vectors.npy", "--tuned", again, "--quiet"),
        "resume": said("train", "vectors.npy", "--tuned", again, "--out", f"{again}/stopped", "--quiet"),
    }
    shutil.rmtree(again)
    for entry in moved.values():  # the folder is another one each time
        entry["argv"] = [a.replace(again, "FOLDER") for a in entry["argv"]]
    code, _ = call("train", "vectors.npy", "--tuned", "refused", "--quiet")
    moved["train refused"] = {"argv": ["train", "vectors.npy", "--tuned", "FOLDER", "--quiet"], "code": code,
                              "output": None}  # fmt: skip
    dump("commands.json", {"exact": exact, "near": near, "folders": moved})


def gallery(records):
    """Judge the records of the gallery; `records` is a copy of docs/gallery."""
    began = time.perf_counter()
    found = said("figure", "run", "all", "--size", "paper", "--out", records, "--draw-only", "--quiet")[
        "output"
    ]
    keys = ("figure", "paper_label", "outcome", "condition", "measured", "claim")
    assert not found["missing"]
    rows = [{k: v[k] for k in keys} for v in found["verdicts"]]
    dump("gallery.json", rows)
    print(f"gallery: {len(rows)} claims, {time.perf_counter() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    records = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None
    os.makedirs(sys.argv[1], exist_ok=True)
    os.chdir(sys.argv[1])
    print(dam.__file__, file=sys.stderr)
    for entry in set(os.listdir()) - ({"gallery.json"} if records is None else set()):
        shutil.rmtree(entry) if os.path.isdir(entry) else os.remove(entry)
    import denseam.target

    vectors()
    sweeps()
    tuning()
    models()
    commands()
    if records:
        gallery(records)
