"""A study as a document: from and to plain values, TOML files, and the words of a command line.

A document is flat: the fields of the study, of its regime and of its preparation, and every hyperparameter,
by the keys of `denseam.studies.description.DOCUMENT`. JSON and TOML have the same keys; an option of the
command line is the key with dashes.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from denseam.data.preparation import Preparation
from denseam.ground.errors import InputError, collecting, named, refuse, shown, together
from denseam.model import lagrangians
from denseam.model.lagrangians import Lagrangian, Softmax
from denseam.rules import Parameterization, Regime
from denseam.rules.fields import Kind, Parameter, logspace, parameters
from denseam.rules.regimes import regime_from
from denseam.studies.cluster import file_table
from denseam.studies.description import AXES, DOCUMENT, Description
from denseam.studies.study import Study, lagrangian_of, unknown

#: The opposite of a flag → the flag, as in uncentered = true.
OPPOSITES = {p.off: key for key, p in DOCUMENT.items() if p.off}
#: Keys of tables that hold several of the flat keys.
TABLES = ("axes", "regime", "preparation")


def from_document(document: Mapping[str, Any], defaults: Mapping[str, Regime] | None = None) -> Study:
    """Build a study from plain values; keys that are missing or None take their defaults.

    Parameters
    ----------
    document
        The flat keys of `DOCUMENT`; `axes`, `regime` and `preparation` may also be tables or objects.
    defaults
        For each regime by name, the sizes that the document leaves out.
    """
    values = flat(document)
    missing = [f"{key} is needed" for key in _REQUIRED if key not in values]
    refuse([*missing, *problems_of(values)])
    regime, preparation, activation, features, rule = together(
        lambda: _regime(values, defaults),
        lambda: preparation_from(values),
        lambda: _activation(values["activation"]),
        lambda: _activation(values.get("feature_activation")),
        lambda: _parameterization(values),
    )
    own = parameters(Description)
    fields = {key: value for key, value in values.items() if key in own}
    fields |= {"regime": regime, "preparation": preparation, "activation": activation}
    if features is not None:
        fields["feature_activation"] = features
    if rule is not None:
        fields["parameterization"] = rule
    axes = {a: values[p.document] for a, p in AXES.items() if p.document in values}
    return Study(**{**fields, "eta0": axes.pop("eta0"), "axes": axes})


def problems_of(values: Mapping[str, Any]) -> list[str]:
    """Return a message for each unknown key and each invalid value of a flat document, taken by itself."""
    problems = entry_problems(values)
    if "activation" in values:
        with collecting(problems):
            lagrangian_of(_activation(values["activation"]), values.get("power"))
    if "feature_activation" in values:
        with collecting(problems):
            lagrangian_of(_activation(values["feature_activation"]), None, "feature_activation")
    return problems


def entry_problems(values: Mapping[str, Any]) -> list[str]:
    """Return a message for each entry that no study has, whatever activations this process knows."""
    problems = [unknown("key", key, DOCUMENT) for key in values if key not in (*DOCUMENT, *TABLES)]
    for key, value in values.items():
        if key in DOCUMENT and not (key == "regime" and isinstance(value, Regime)):
            with collecting(problems):
                DOCUMENT[key].read(value)
    return problems


#: Keys without which there is no study; those of a regime are needed in that regime.
_REQUIRED = tuple(p.document for p in (*parameters(Description).values(), AXES["eta0"]) if p.required)


def flat(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document without nesting, unset keys and opposites of flags."""
    values = _set_keys(document)
    for off, key in OPPOSITES.items():
        if not isinstance(is_off := values.pop(off, False), bool):
            raise InputError(f"{off} must be {Kind.FLAG.value}, got {is_off!r}")
        if is_off:
            values.setdefault(key, False)
    # Documents of earlier versions nest the regime and the preparation.
    for table in ("regime", "preparation"):
        if isinstance(values.get(table), Mapping):
            nested = dict(values.pop(table))
            if table == "regime":
                if "name" not in nested:
                    raise InputError("regime must have a name")
                nested["regime"] = nested.pop("name")
            values = _set_keys(nested) | values
    return values | _axes(values.pop("axes", {}), values)


def _set_keys(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value is not None}


def _axes(axes: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table of axes by the keys of documents."""
    if not isinstance(axes, Mapping):
        raise InputError(f"axes must be a table of name = values, got {axes!r}")
    problems = [unknown("axis", axis, AXES) for axis in axes if axis not in AXES]
    if "eta0" in axes and "eta0" in values:
        problems.append("eta0 is given twice: by itself and in axes")
    refuse(problems)
    return {AXES[axis].document: axis_values for axis, axis_values in axes.items()}


def _regime(values: Mapping[str, Any], defaults: Mapping[str, Regime] | None) -> Regime:
    regime = values.get("regime")
    return regime if isinstance(regime, Regime) else regime_from(values, defaults)


def preparation_from(values: Mapping[str, Any]) -> Preparation:
    """Return the preparation that plain values describe; they may hold other keys too."""
    preparation = values.get("preparation")
    if isinstance(preparation, Preparation):
        return preparation
    if preparation is not None:
        raise InputError(f"preparation must be a table, or Preparation(…), got {shown(preparation)}")
    return Preparation(**{key: values[key] for key in parameters(Preparation) if key in values})


def _activation(activation: Any) -> Any:
    """Return an activation of a document: its text, or the Lagrangian that a table describes."""
    return lagrangians.from_json(dict(activation)) if isinstance(activation, Mapping) else activation


def _parameterization(values: Mapping[str, Any]) -> str | Parameterization | None:
    rule: Any = values.get("parameterization")
    return Parameterization.from_json(rule) if isinstance(rule, Mapping) else rule


def to_document(study: Study) -> dict[str, Any]:
    """Return the plain document of a study, without defaults; `from_document` reads it."""
    document: dict[str, Any] = {}
    regime, preparation = study.regime, study.preparation
    parts: dict[Any, Any] = {Description: study, Preparation: preparation, type(regime): regime}
    for kind, part in parts.items():
        for name, p in parameters(kind).items():
            if p.required or getattr(part, name) != p.default:
                document[p.document] = getattr(part, name)
    document |= _activation_document(study.lagrangian)
    document |= {AXES[axis].document: list(values) for axis, values in study.axes.items()}
    document |= {"eta0": list(study.eta0), "scales": list(study.scales), "regime": regime.name}
    seeds = list(study.seeds)  # type: ignore[arg-type]  # a tuple by now
    document["seeds"] = len(seeds) if seeds == list(range(len(seeds))) else seeds
    if "schedule" in document:
        document["schedule"] = study.learning_schedule.name
    if isinstance(study.feature_activation, Lagrangian):
        document["feature_activation"] = lagrangians.to_json(study.feature_activation)
    if isinstance(study.parameterization, Parameterization):
        document["parameterization"] = study.parameterization.to_json()
    defaults = {
        "centred": study.lagrangian.name != "identity",
        "name": study.default_name(),
        "regime": "proportional",
        "noise": [AXES["noise"].default],
    }
    for key, default in defaults.items():
        if document.get(key) == default:
            del document[key]
    values = {key: document[key] for key in DOCUMENT if key in document}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def _activation_document(lagrangian: Lagrangian) -> dict[str, Any]:
    """Return the keys of an activation: its name, or all of its fields if the name is not enough."""
    described = lagrangians.to_json(lagrangian)
    name, power = described.pop("name"), described.pop("power", None)
    if isinstance(lagrangian, Softmax):  # its β is a hyperparameter like any other
        beta = described["beta"]
        return {"activation": name} | ({} if beta == AXES["beta"].default else {"softmax_beta": [beta]})
    if described or (power is not None and name != "relu"):
        text = lagrangians.to_text(lagrangian)
        return {"activation": lagrangians.to_json(lagrangian) if text is None else str(text)}
    return {"activation": name} | ({"power": power} if power not in (None, 1.0) else {})


def from_file(path: str | Path, overrides: Mapping[str, Any] | None = None) -> list[Study]:
    """Read a TOML file: keys for all studies at the top, and any number of ``[[study]]`` tables."""
    document = file_table(path)
    document.pop("executor", None)  # read by `studies/cluster.py`
    tables = document.pop("study", [{}])
    if not isinstance(tables, list) or not all(isinstance(table, Mapping) for table in tables):
        raise InputError(f"study file {path}: 'study' must be [[study]] tables")
    options = {key: value for key, value in (overrides or {}).items() if value is not None}

    def build(table: Mapping[str, Any]) -> Study:
        with named(f"study file {path}"):
            return from_document({**document, **table, **options})

    return together(*(lambda table=table: build(table) for table in tables))


# --- the words of a command line -------------------------------------------------------------------


def sweep_line(document: Mapping[str, Any], folder: str) -> str | None:
    """Return the `denseam sweep` command of a document; None if a value has no text (use Python)."""
    words = words_of(document, DOCUMENT)
    return None if words is None else shlex.join(["denseam", "sweep", *words, "--out", folder])


def words_of(document: Mapping[str, Any], described: Mapping[str, Parameter]) -> list[str] | None:
    """Return the options of plain values; None if a value has no text."""
    if any(isinstance(value, Mapping) for value in document.values()):
        return None
    values = {key: described[key].read(value) for key, value in document.items()}
    return [word for key, value in values.items() for word in option_words(described[key], value)]


def option_words(described: Parameter, value: Any) -> list[str]:
    """Return an option with its value."""
    if described.kind is Kind.FLAG:
        if value:
            return [described.option]
        return [f"--{described.off}"] if described.off else []
    text = _text(described.kind, value)
    return [f"{described.option}={text}"] if text.startswith("-") else [described.option, text]


def _text(kind: Kind, value: Any) -> str:
    if kind is Kind.NUMBERS:
        return _grid_text(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(str, value))
    return _short(value) if isinstance(value, float) else str(value)


def _grid_text(values: Sequence[float]) -> str:
    """Return low:high:count if that gives exactly these values, else the values."""
    if len(values) > 2 and values[0] > 0:
        for low, high in itertools.product(_roundings(values[0]), _roundings(values[-1])):
            if logspace(low, high, len(values)) == tuple(values):
                return f"{_short(low)}:{_short(high)}:{len(values)}"
    return ",".join(map(_short, values))


def _short(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _roundings(value: float) -> list[float]:
    return list(dict.fromkeys(float(f"{value:.{digits}g}") for digits in (1, 2, 3, 6, 12, 17)))
