"""What each tracker has kept, read with its own package: run → settings, curves as {step: value}, results."""

import json
import struct
from typing import NamedTuple


class Kept(NamedTuple):
    """What a tracker has kept of one run."""

    group: str
    name: str
    settings: dict
    curves: dict
    status: str
    results: dict


def tensorboard_runs(out):
    """With TensorBoard's own accumulator; settings are in the data of its plugin for hyperparameters."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    for folder in sorted({file.parent for file in (out / "tensorboard").rglob("events.*")}):
        events = EventAccumulator(str(folder)).Reload()
        tags = events.Tags()["scalars"]
        curves = {tag: {e.step: e.value for e in events.Scalars(tag)} for tag in tags}
        data = {
            tag: HParamsPluginData.FromString(content)
            for tag, content in events.PluginTagToContent("hparams").items()
        }
        (start,) = (d.session_start_info for d in data.values() if d.HasField("session_start_info"))
        settings = {key: getattr(v, v.WhichOneof("kind")) for key, v in start.hparams.items()}
        results = {tag: curves.pop(tag)[0] for tag in list(curves) if tag.endswith("_mse")}
        yield Kept(folder.parent.name, folder.name, settings, curves, settings.pop("status"), results)


def wandb_runs(out):
    """With the messages of W&B's own protocol, from the files that `wandb sync` would send."""
    from wandb.proto.wandb_internal_pb2 import Record

    for file in sorted(out.glob("wandb/offline-run-*/run-*.wandb")):
        settings, curves, results, run = {}, {}, {}, None
        for content in _log_records(file.read_bytes()):
            record = Record.FromString(content)
            if record.HasField("run"):
                run = record.run
                settings = {item.key: json.loads(item.value_json) for item in run.config.update}
            values = {
                item.key or ".".join(item.nested_key): json.loads(item.value_json)
                for item in record.history.item
            }
            for key, value in values.items():
                if not key.startswith("_"):
                    curves.setdefault(key, {})[values["_step"]] = value
            results |= {
                item.key or ".".join(item.nested_key): json.loads(item.value_json)
                for item in record.summary.update
            }
        yield Kept(run.run_group, run.display_name, settings, curves, results.pop("status"), results)


def _log_records(content):
    """The records of a LevelDB log with W&B's header: blocks of 32 KiB, in which a record may be cut."""
    assert content[:4] == b":W&B"
    at, block, parts = 7, 1 << 15, b""
    while at + 7 <= len(content):
        left = block - at % block
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", content[at : at + 7])
        parts += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole record, or the last part of one
            yield parts
            parts = b""


def mlflow_runs(out):
    """With MLflow's own client, from its database."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{out / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("denseam").experiment_id
    for run in client.search_runs([experiment]):
        curves = {
            key: {m.step: m.value for m in client.get_metric_history(run.info.run_id, key)}
            for key in run.data.metrics
        }
        results = {tag: curves.pop(tag)[0] for tag in list(curves) if tag.endswith("_mse")}
        tags = run.data.tags
        yield Kept(tags["study"], run.info.run_name, run.data.params, curves, tags["status"], results)


READERS = {"tensorboard": tensorboard_runs, "wandb": wandb_runs, "mlflow": mlflow_runs}
