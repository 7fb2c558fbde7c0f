"""Cases of bad input for every command, option, key of a study file and format of files; the same ones each time.

A case is a command line, the files that it reads, and whether it must be refused. Values that are plainly wrong for
their kind must be; of all others it is only asked that the program ends soon, with a documented exit code, without a
traceback, and with strict JSON where JSON was asked for.
"""

import csv
import dataclasses
import functools
import io
import json
import random
import string
from pathlib import Path

import click
import numpy as np

from denseam.cli.program import app
from denseam.rules import prescription
from denseam.rules.fields import Kind, parameters
from denseam.studies.cluster import Cluster
from denseam.studies.description import DOCUMENT
from denseam.studies.documents import OPPOSITES
from denseam.studies.store import Store, csv_text
from denseam.workflow.storing import Storing

#: What is fuzzed.
AREAS = (
    "study file", "options", "schedules", "data", "patterns", "checkpoint", "hub folders", "rule files", "shards",
    "tuned.json", "tables", "findings",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Case:
    """A command line; `files` are written first, by their names."""

    area: str
    arguments: tuple[str, ...]
    files: dict[str, bytes] = dataclasses.field(default_factory=dict)
    refused: bool = False
    #: If it is not refused, it must say that files were skipped, or the same as for the original.
    original: tuple[str, ...] | None = None


# --- values ----------------------------------------------------------------------------------------

#: Text that is never a number.
NO_NUMBER = [
    "nan",
    "inf",
    "-inf",
    "1e999",
    "0x10",
    "true",
    "None",
    "½",
    "1;2",
    "--",
    "1 2",
    "a" * 2000,
    "=1+1",
    "\udc80",
    "1e",
    "1:2:x",
]
NEGATIVE = ["-1", "-0.5", "-1e308"]
#: Text that may be right or wrong, but must not do harm.
ODD = ["", " ", "0", "1", "1e308", "1e-320", "5e-324", "1" + "0" * 30, "9" * 400, "1_000", "٣", ",", "1,,2", ":", "1:2:3:4", "1e-3:1:1000000000",
       "1:1e308:3", "0.1,nan", "3,1,2", "1,1", "1e18", "é", "名", "%s%n", "{}", "$HOME", "-", "-h", "@x"]  # fmt: skip
NUMERIC = {Kind.NUMBER, Kind.WHOLE, Kind.NUMBERS, Kind.WHOLES, Kind.SEEDS}

#: TOML literals that are never right for a kind.
NO_LITERAL = ['{}', '{a = 1}', '[[1]]', '[{}]', '1979-05-27', '07:32:00', '[true]', '[[]]', '["a", 1]']  # fmt: skip
LITERALS = {
    **{kind: ['""', '"no"', '"nan"', "nan", "inf", "-inf", "true", "false", "[nan]", "[inf]", "-1", "[-1]", "[]", '"1:2"', '[""]', '["1"]', *NO_LITERAL] for kind in NUMERIC},
    Kind.FLAG: ['"no"', '"true"', "1", "0", "nan", "[]", '""', *NO_LITERAL],
    Kind.CHOICE: ['""', '"other"', "1", "true", "nan", "[]", *NO_LITERAL],
    Kind.TEXT: ["1", "true", "false", "nan", "[]", *NO_LITERAL],
    Kind.WORDS: ["1", "true", "nan", "[1]", "{}", '"no such thing"', "1979-05-27", "[[]]"],
    Kind.OBJECT: ["1", "true", "nan", "[]", "[1]", '"no such thing"', "1979-05-27", '{name = 1}', '{name = "relu", power = "x"}', '{name = "relu", other = 1}', '""'],
}  # fmt: skip
#: Literals that may be right, but must not do harm.
ODD_LITERALS = ["0", "1", "1e308", "1e-320", "[1e308]", "9223372036854775807", "1" + "0" * 30, "9" * 5000, '"\\u0000"', '"' + "x" * 5000 + '"', "[1, 1]", "[2, 1]", '"1e-3:1:1000000000"', '"1:1:1"',
                "1000000000000000000", "0.5", "[0.1, 0.2]", '"=1"', '"../x"', "[1]", "2", "3"]  # fmt: skip
STUDY = {
    "activation": '"relu"',
    "optimizer": '"sgd"',
    "scales": "[8, 16]",
    "eta0": "[0.01, 0.03]",
    "epochs": "1",
    "seeds": "2",
}


def toml(values, *after):
    return "\n".join([*(f"{k} = {v}" for k, v in values.items()), *after, ""]).encode(
        "utf-8", "surrogatepass"
    )


def study_files(rng):
    """Every key of a study file with every literal, alone, in tables and among others."""
    for key, p in {**DOCUMENT, **{off: DOCUMENT[key] for off, key in OPPOSITES.items()}}.items():
        others = {k: v for k, v in STUDY.items() if k != key}
        for literal in LITERALS[p.kind]:
            if (key == "probe_steps" and literal in ("[]", '""')) or (
                p.low < 0 and literal in ("-1", "[-1]")
            ):
                continue
            if key == "probes" and literal == "{}":
                continue
            yield Case(
                "study file",
                ("sweep", "study.toml", "--out", "out"),
                {"study.toml": toml({**others, key: literal})},
                refused=True,
            )
        for literal in ODD_LITERALS:
            yield Case(
                "study file",
                ("sweep", "study.toml", "--out", "out"),
                {"study.toml": toml({**others, key: literal})},
            )
        literal = rng.choice(LITERALS[p.kind])
        yield Case(
            "study file",
            ("sweep", "study.toml", "--out", "out"),
            {
                "study.toml": toml(
                    others,
                    "[[study]]",
                    f"{key} = {rng.choice(ODD_LITERALS)}",
                    "[[study]]",
                    f"{key} = {literal}",
                )
            },
            refused=key not in ("probe_steps", "probes"),
        )
        yield Case(
            "study file",
            ("sweep", "study.toml", "--out", "out"),
            {"study.toml": toml(others, "[axes]", f"{key} = {literal}")},
        )
        if key not in ("name",):
            yield Case(
                "study file",
                ("sweep", "study.toml", "--out", "out"),
                {"study.toml": toml({**others, key[:-1] + "_": "1"})},
                refused=True,
            )
    for name, p in parameters(Cluster).items():
        for literal in [*LITERALS[p.kind], *rng.sample(ODD_LITERALS, 6)]:
            yield Case("study file", ("sweep", "study.toml", "--out", "out"), {"study.toml": toml(STUDY, "[executor]", f"{name} = {literal}")},
                       refused=literal in LITERALS[p.kind] and not (p.kind is Kind.OBJECT and literal in ("[]", '""')))  # fmt: skip
    whole = toml(STUDY, "[axes]", "s2_0 = [0.5, 1.0]", "[executor]", 'kind = "local"')
    for damaged in (
        b"[" * 5000 + b"]" * 5000,
        b"a = " + b"[" * 5000 + b"]" * 5000,
        b"a = " + b"{a=" * 3000,
        b"",
        b"\xff\xfe",
        b"\x00" * 100,
        b"study = 1",
        b"[study]",
        b"[[study]]" * 2,
        b"axes = 1",
        b"[[axes]]",
        b"regime = {}",
        b"regime = {name = 1}",
        b"preparation = {}",
        b"preparation = 1",
        b"executor = 1",
        b"[[executor]]",
        b"study = [1]",
        b"a.b.c = 1",
        b"\xef\xbb\xbf" + whole,
    ):
        yield Case(
            "study file",
            ("sweep", "study.toml", "--out", "out"),
            {"study.toml": damaged},
            refused=damaged[:3] != b"\xef\xbb\xbf",
        )
        yield Case(
            "study file", ("sweep", "study.toml", "--out", "out"), {"study.toml": toml(STUDY) + damaged}
        )
    for _ in range(150):
        yield Case("study file", ("sweep", "study.toml", "--out", "out"), {"study.toml": damage(rng, whole)})


# --- options ---------------------------------------------------------------------------------------


def commands(group=app, path=()):
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


#: A right command line for each command, to which one wrong option is added.
RIGHT = {
    "prescribe": "--activation relu --optimizer adam --features 64 --memories 128", "theory": "",
    "sweep": "--activation relu --optimizer sgd --scales 8,16 --eta0 0.01,0.03 --epochs 1 --out out",
    "verdict": "GIVEN/runs", "check": "--activation relu --optimizer sgd --scales 16,32 --seeds 2 --out out",
    "find": "--activation relu --optimizer sgd --scales 8,12,16 --seeds 2 --updates 1 --no-sweep --out out", "export": "GIVEN/runs",
    "plan": "GIVEN/x.npy --features 16", "tune": "GIVEN/x.npy --features 16 --epochs 4 --out out",
    "train": "GIVEN/x.npy --features 16 --eta0 0.01 --epochs 1 --out out", "recall": "GIVEN/memory.safetensors GIVEN/x.npy --samples 2 --steps 1",
    "memorize": "GIVEN/x.npy --cues 2 --out out",
    "consistency": "GIVEN/memory.safetensors GIVEN/memory.safetensors GIVEN/x.npy --samples 2 --steps 1",
    "figure list": "", "figure run": "many-memories --size tiny --out out", "figure missing": "many-memories --size tiny --out out",
    "report": "GIVEN/runs --out out.html", "bench": "", "demo": "", "doctor": "",
}  # fmt: skip
#: Commands that measure or train for minutes when everything is right.
LONG = {"bench", "demo"}
#: Commands that judge every figure, which takes seconds.
SLOW = {"figure list"}


def options(rng):
    """Every option of every command, with values of every kind."""
    described = {p.option: p for p in (*DOCUMENT.values(), *parameters(Cluster).values())}
    of_patterns = {p.option: p for p in parameters(Storing).values()}
    for path, command in commands():
        name = " ".join(path)
        right = [*path, *RIGHT[name].split()]
        for option in command.params:
            flag = option.opts[0]
            if isinstance(option, click.Argument):
                for value in (*NO_NUMBER, *ODD, *NEGATIVE):
                    yield Case(
                        "options",
                        (
                            *path,
                            value,
                            *(w for w in right[len(path) :] if w.startswith("--") or "/" not in w),
                        ),
                    )
                continue
            if option.is_flag:
                yield (
                    Case("options", (*right, flag, flag))
                    if name not in LONG and flag != "--json"
                    else Case("options", (*right, flag + "=1"), refused=True)
                )
                continue
            named = described if name != "memorize" else of_patterns
            p = named.get(flag) if option.type.name == "text" else None
            numeric = option.type.name in ("integer", "float") or (
                p is not None and p.kind in NUMERIC and p.name not in ("workers",)
            )
            values = [*NO_NUMBER, *NEGATIVE, *ODD]
            # Options of a study are the same for every command.
            every = name == "sweep" or (p is None and name not in SLOW)
            for value in values if every else rng.sample(values, 6):
                if name in LONG and not (numeric and value in NO_NUMBER):
                    continue
                wrong = numeric and value in NO_NUMBER
                # A float of click's may be nan or inf as far as click is concerned; the command must refuse it.
                yield Case("options", (*right, f"{flag}={value}"), refused=wrong)
    yield from (
        Case("options", (word,), refused=True)
        for word in ("", "swep", "--no-such", "-x", "\udc80", "sweep\x00")
    )


def schedules(rng):
    """Schedules, their shares and decay, of each command that trains, in pairs."""
    shares = ["0", "0.5", "1", "1.5", "0.1,0.9", "0.1:1:3", "1e-320", "1e30", *NEGATIVE[:2], *NO_NUMBER[:4]]
    numbers = ("warmup", "cooldown", "decay-time", "decay")
    for name in ("sweep", "tune", "train", "plan", "check", "find"):
        right = [name, *RIGHT[name].split()]
        for schedule in ("constant", "cosine", "linear", "wsd", "", "no such", "cosine,wsd", "WSD"):
            known = schedule in ("constant", "cosine", "linear", "wsd")
            yield Case("schedules", (*right, f"--schedule={schedule}"), refused=not known)
            for _ in range(8):
                first, second = rng.sample(numbers, 2)
                a, b = rng.choice(shares), rng.choice(shares)
                optimizer = rng.choice(["sgd", "adam", "adamw", "muon"])
                words = [word for word in right if word not in ("--optimizer", "sgd")]
                given = (
                    f"--schedule={schedule}",
                    f"--{first}={a}",
                    f"--{second}={b}",
                    f"--optimizer={optimizer}",
                )
                wrong = not known or any(v.startswith("-") or v in NO_NUMBER for v in (a, b))
                yield Case("schedules", (*words, *given), refused=wrong)


# --- files -----------------------------------------------------------------------------------------


def damage(rng, content):
    """Return the bytes with one kind of damage."""
    content = bytearray(content)
    size = len(content)
    match rng.randrange(7) if size > 8 else 6:
        case 0:
            del content[rng.randrange(size) :]
        case 1:
            for _ in range(rng.choice([1, 1, 2, 8])):
                content[rng.randrange(size)] ^= 1 << rng.randrange(8)
        case 2:
            at = rng.randrange(size)
            content[at : at + rng.randrange(1, 64)] = bytes(rng.randrange(1, 64))
        case 3:
            at = rng.randrange(size)
            content[at:at] = content[at : at + rng.randrange(1, 64)]
        case 4:
            at = rng.randrange(min(size, 64))
            content[at : at + 4] = rng.randbytes(4)
        case 5:
            at = rng.randrange(size)
            content[at : at + 8] = (2**62).to_bytes(8, "little")
        case 6:
            content = bytearray(rng.randbytes(rng.randrange(300)))
    return bytes(content)


def other_json(rng, document):
    """Return a JSON document with one of its values replaced by one of another type, or removed."""
    document = json.loads(json.dumps(document))
    node, path = document, []
    while isinstance(node, dict | list) and node:
        key = rng.choice(list(node) if isinstance(node, dict) else range(len(node)))
        path.append((node, key))
        if not isinstance(node[key], dict | list) or rng.random() < 0.2:
            break
        node = node[key]
    holder, key = path[-1]
    if rng.random() < 0.15:
        del holder[key]
    else:
        wrong = [
            None,
            True,
            "",
            "x",
            "../../../etc",
            -1,
            0,
            1e308,
            float("nan"),
            10**30,
            [],
            {},
            [[]],
            {"a": 1},
            [None],
            "nan",
            2.5,
        ]
        holder[key] = rng.choice([w for w in wrong if type(w) is not type(holder[key])])
    return json.dumps(document).encode()


def other_cell(rng, text):
    """Return a CSV text with one of its cells replaced."""
    names, *rows = csv.reader(io.StringIO(text))
    rng.choice(rows)[rng.randrange(len(names))] = rng.choice([*NO_NUMBER[:-2], *NEGATIVE, *ODD])
    content = io.StringIO()
    csv.writer(content, lineterminator="\n").writerows([names, *rows])
    return content.getvalue().encode("utf-8", "surrogatepass")


def names_of(folder):
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in sorted(Path(folder).rglob("*")) if p.is_file()
    }


@functools.cache
def data_files(given):
    """The same samples in every format that is read, by file name."""
    import gzip

    import pyarrow as pa
    import pyarrow.parquet as pq
    from PIL import Image

    X = np.load(Path(given) / "x.npy")
    bytes_ = ((X - X.min()) / np.ptp(X) * 255).astype(np.uint8)
    files = {"x.npy": (Path(given) / "x.npy").read_bytes()}
    content = io.BytesIO()
    np.savez(content, x=X)
    files["x.npz"] = content.getvalue()
    content = io.BytesIO()
    np.savez_compressed(content, x=X)
    files["z.npz"] = content.getvalue()
    content = io.BytesIO()
    pq.write_table(pa.table({f"f{i}": X[:, i] for i in range(X.shape[1])}), content)
    files["x.parquet"] = content.getvalue()
    idx = bytes([0, 0, 8, 3]) + b"".join(n.to_bytes(4, "big") for n in (len(X), 4, 4)) + bytes_.tobytes()
    files["x-idx3-ubyte"] = idx
    files["x-idx3-ubyte.gz"] = gzip.compress(idx, mtime=0)
    for i in range(12):
        content = io.BytesIO()
        Image.fromarray(np.tile(bytes_[i].reshape(4, 4), (2, 2))).save(content, "png")
        files[f"images/{i}.png"] = content.getvalue()
    return files


def table_files(given):
    """A sweep as a table of another tool, in every format that is judged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(1)
    rows = [{"width": w, "lr": lr, "seed": s, "loss": float((np.log10(lr) + 2) ** 2 + 0.1 * rng.random() + 0.1)}
            for w in (64, 128, 256) for lr in (1e-3, 3e-3, 1e-2, 3e-2, 1e-1) for s in range(3)]  # fmt: skip
    csv = "width,lr,seed,loss\n" + "".join(",".join(map(str, row.values())) + "\n" for row in rows)
    content = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), content)
    return {"t.csv": csv.encode(), "t.tsv": csv.replace(",", "\t").encode(), "t.json": json.dumps(rows).encode(),
            "t.jsonl": "\n".join(map(json.dumps, rows)).encode(), "t.parquet": content.getvalue()}  # fmt: skip


def npy(array):
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def pattern_files(rng, given):
    """Patterns that cannot be stored, or may be; and data files, damaged."""
    X = np.load(Path(given) / "x.npy").astype(float)
    hole = X.copy()
    hole[3, 5] = np.nan
    wrong = {
        "not a number": hole, "infinite": np.where(X.max() - 1 < X, np.inf, X), "equal": X[[0, 1, 0]],
        "constant": np.ones((20, 8)), "one feature": X[:, :1], "none": X[:0], "no features": X[:, :0], "a vector": X[0],
        "complex": X + 1j, "text": X.astype(str), "far too large": 1e200 * X, "far too small": 1e-200 * X,
    }  # fmt: skip
    odd = {"too large for its squares": 1e30 * X, "one": X[:1], "two": X[:2], "large": 1e6 * X, "small": 1e-6 * X, "shifted": X + 1e4, "bytes": (40 * X).astype(np.int8), "halves": X.astype(np.float16)}  # fmt: skip
    manners = [(), ("--activation", "relu"), ("--noise", "0.3"), ("--unit-variance",), ("--hide", "0.9"),
               ("--activation", "relu", "--power", "7"), ("--softmax-beta", "1e-6"), ("--tolerance", "0.9")]  # fmt: skip
    for name, array in {**wrong, **odd}.items():
        for manner in manners:
            line = ("memorize", "p.npy", "--out", "m", "--cues", "5", "--json", *manner)
            yield Case("patterns", line, {"p.npy": npy(array)}, refused=name in wrong)
    for name, content in data_files(str(given)).items():
        if not name.startswith("images/"):
            for _ in range(15):
                line = ("memorize", name, "--out", "m", "--cues", "5", "--json")
                yield Case("patterns", line, {name: damage(rng, content)})


def hub_folders(rng, given):
    """A folder for a hub, of which one file is damaged or one entry changed."""
    files = names_of(Path(given) / "hub")
    line = ("recall", "hub", str(Path(given) / "x.npy"), "--samples", "2", "--steps", "1", "--json")
    right = ("recall", str(Path(given) / "hub"), *line[2:])
    for _ in range(150):
        name = rng.choice(["config.json", "model.safetensors"])
        changed = damage(rng, files[name])
        if name == "config.json" and rng.random() < 0.6:
            changed = other_json(rng, json.loads(files[name]))
        # A changed entry of the configuration may be another model; changed tensors have another checksum.
        original = right if name == "model.safetensors" else None
        case = {f"hub/{n}": changed if n == name else content for n, content in files.items()}
        yield Case("hub folders", line, case, original=original)
    for name in ("config.json", "model.safetensors"):
        kept = {f"hub/{n}": content for n, content in files.items() if n != name}
        yield Case("hub folders", line, kept, refused=True)


def rule_files(rng, given):
    """The rule that `find` writes, damaged or with another value."""
    rule = prescription("relu", "sgd").to_json()
    line = ("sweep", *RIGHT["sweep"].split(), "--parameterization", "rule.json")
    yield Case("rule files", line, {"rule.json": json.dumps(rule).encode()})
    for _ in range(120):
        yield Case("rule files", line, {"rule.json": other_json(rng, rule)})
    for _ in range(60):
        yield Case("rule files", line, {"rule.json": damage(rng, json.dumps(rule).encode())})
    for content in (b"", b"{}", b"[]", b"null", b"1", b"\x00" * 50, b"\xff\xfe"):
        yield Case("rule files", line, {"rule.json": content}, refused=True)


def damaged_files(rng, given):
    """Every format of files, damaged; what is protected by a checksum must be noticed."""
    given = Path(given)
    for name, content in data_files(str(given)).items():
        if name.startswith("images/") and name not in ("images/0.png", "images/3.png"):
            continue
        whole = (
            {n: c for n, c in data_files(str(given)).items() if n.startswith("images/")}
            if name.startswith("images/")
            else {}
        )
        for _ in range(40):
            yield Case(
                "data",
                ("plan", "images" if whole else name, "--features", "4" if whole else "16"),
                {**whole, name: damage(rng, content)},
            )
    memory = (given / "memory.safetensors").read_bytes()
    recalled = (
        "recall",
        "memory.safetensors",
        str(given / "x.npy"),
        "--samples",
        "2",
        "--steps",
        "1",
        "--json",
    )
    for _ in range(150):
        yield Case(
            "checkpoint",
            recalled,
            {"memory.safetensors": damage(rng, memory)},
            original=("recall", str(given / "memory.safetensors"), *recalled[2:]),
        )
    state = (given / "trained" / "state.safetensors").read_bytes()
    again = (
        "train",
        str(given / "x.npy"),
        "--features",
        "16",
        "--eta0",
        "0.01",
        "--optimizer",
        "sgd",
        "--epochs",
        "3",
        "--out",
        "t",
        "--quiet",
    )
    for _ in range(80):
        yield Case("checkpoint", again, {"t/state.safetensors": damage(rng, state)})
    swept = names_of(given / "runs")
    for _ in range(200):
        name = rng.choice(sorted(swept))
        command = rng.choice(
            [
                ("verdict", "runs", "--json"),
                ("export", "runs"),
                ("report", "runs", "--out", "r.html"),
                ("check", "runs", "--json"),
            ]
        )
        yield Case(
            "shards", command, {f"runs/{n}": damage(rng, c) if n == name else c for n, c in swept.items()}
        )
    shards = [n for n in swept if n.endswith(".parquet")]
    for change in wrong_shards(rng, [swept[n] for n in shards]):
        for command in (
            ("verdict", "runs", "--json"),
            ("export", "runs"),
            ("report", "runs", "--out", "r.html"),
        ):
            yield Case("shards", command, {f"runs/{n}": c for n, c in {**swept, **change}.items()})
    document = json.loads((given / "tuned" / "tuned.json").read_text())
    train = ("train", str(given / "x.npy"), "--tuned", "tuned", "--accept", "--out", "t", "--quiet")
    for _ in range(300):
        yield Case("tuned.json", train, {"tuned/tuned.json": other_json(rng, document)})
    for key in ("eta0",):
        for value in (True, "0.1", None, [], {}, float("nan"), -1, 0):
            recipe = document["recipe"] | {key: value}
            yield Case(
                "tuned.json",
                train,
                {"tuned/tuned.json": json.dumps(document | {"recipe": recipe}).encode()},
                refused=True,
            )
    for key, value in (
        ("centred", "../../../etc"),
        ("centred", 1),
        ("epochs", "3"),
        ("scales", "a"),
        ("data", 1),
        ("noise", False),
        ("optimizer", 1),
        ("kappa", ""),
    ):
        recipe = document["recipe"] | {"study": document["recipe"]["study"] | {key: value}}
        yield Case(
            "tuned.json",
            train,
            {"tuned/tuned.json": json.dumps(document | {"recipe": recipe}).encode()},
            refused=key != "data",
        )
    for _ in range(60):
        yield Case("tuned.json", train, {"tuned/tuned.json": damage(rng, json.dumps(document).encode())})
    for name, content in table_files(given).items():
        for _ in range(60):
            command = rng.choice([("verdict", name, "--json"), ("report", name, "--out", "r.html")])
            yield Case("tables", command, {name: damage(rng, content)})
    rows = json.loads(table_files(given)["t.json"])
    for _ in range(150):
        yield Case("tables", ("verdict", "t.json", "--json"), {"t.json": other_json(rng, rows)})
    own = csv_text(Store(given / "runs").read())
    for _ in range(60):
        yield Case("tables", ("verdict", "own.csv", "--json"), {"own.csv": damage(rng, own.encode())})
    for _ in range(150):
        yield Case("tables", ("verdict", "own.csv", "--json"), {"own.csv": other_cell(rng, own)})
    findings = {
        "many-memories.json": {
            "schema": 2,
            "size": "tiny",
            "name": "many-memories",
            "paper_label": "x",
            "claims": [],
        }
    }
    for name, content in findings.items():
        for _ in range(30):
            yield Case(
                "findings",
                ("figure", "run", "many-memories", "--size", "tiny", "--draw-only", "--out", "f"),
                {f"f/{name}": other_json(rng, content)},
            )


def wrong_shards(rng, contents):
    """Give shards with a right name and digest, but wrong content."""
    import hashlib

    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(pa.BufferReader(contents[0]))
    for column in table.column_names:
        n = table.column_names.index(column)
        changed = [table.drop_columns([column])]
        for wrong in (
            pa.array(["x"] * len(table)),
            pa.array([None] * len(table), pa.float64()),
            pa.array([float("nan")] * len(table)),
            pa.array([[1.0]] * len(table)),
        ):
            changed.append(table.set_column(n, column, wrong))
        for other in changed:
            content = io.BytesIO()
            pq.write_table(other, content, compression="zstd")
            digest = hashlib.blake2b(content.getvalue(), digest_size=8).hexdigest()
            yield {f"shards/{'0' * 16}-{digest}.parquet": content.getvalue()}


def cases(given):
    """Every case, in the same order each time."""
    rng = random.Random("fuzz")
    every = [*study_files(rng), *options(rng), *damaged_files(rng, given)]
    for newer in (schedules(rng), pattern_files(rng, given), hub_folders(rng, given), rule_files(rng, given)):
        every += newer
    letters = string.printable
    for _ in range(100):
        word = "".join(rng.choices(letters, k=rng.randrange(1, 12)))
        every.append(Case("options", ("sweep", *RIGHT["sweep"].split(), *word.split())))
    return every
