"""A folder or a table as one plain document: its parts, and a sentence for every missing part."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from denseam import __version__
from denseam.ground.errors import InputError
from denseam.report import extras
from denseam.report.studies import study_document
from denseam.studies.foreign import records_of
from denseam.studies.store import Store
from denseam.workflow import recipe, target
from denseam.workflow.search import RUNS

_RECALL_PICTURE = "recall.png"


def contents(
    results: Path,
    *,
    axis: str | None = None,
    target: int | None = None,
    columns: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the contents of a folder of results, or of a table of runs.

    Files that cannot be read are named under `skipped`. A folder without any results is refused.
    """
    if columns or not results.is_dir():
        return _table(results, axis, target, columns)
    return _Folder(results).document(axis, target)


def _table(
    path: Path, axis: str | None, target: int | None, columns: Mapping[str, str] | None
) -> dict[str, Any]:
    studies = records_of(path, axis=axis, columns=columns).studies()
    total = sum(map(len, studies.values()))
    return {
        "title": path.name,
        "folder": str(path),
        "version": __version__,
        "studies": [
            study_document(name, study, None, axis=axis, target=target, share=len(study) / total)
            for name, study in sorted(studies.items())
        ],
        "note": "",
        "tuned": None,
        **{part: [] for part in ("claims", "trainings", "recalls", "pictures", "absent", "skipped")},
    }


class _Folder:
    """A folder that is being read."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.skipped: list[str] = []
        self.room = extras.PICTURE_BYTES
        self.places = [root, *sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))]

    def document(self, axis: str | None, aim: int | None) -> dict[str, Any]:
        stores = [p for p in (self.root, self.root / RUNS) if (p / "shards").is_dir()]
        search = self._search(self.root)
        trainings = [t for place in self.places for t in self._training(place, search)]
        recalls = [r for place in self.places for r in self._recall(place)]
        pictures = self._pictures(self.root) if not any(r["place"] == "." for r in recalls) else []
        if not (stores or search or trainings or recalls or self.skipped):
            self._refuse()
        studies, note = self._studies(stores, search, axis, aim)
        return {
            "title": self.root.resolve().name or str(self.root),
            "folder": str(self.root),
            "version": __version__,
            "studies": studies,
            "note": note,
            "claims": self._claims(),
            "tuned": extras.tuned_document(search) if search else None,
            "trainings": trainings,
            "recalls": recalls,
            "pictures": pictures,
            "absent": self._absent(stores, studies, search, trainings, recalls),
            "skipped": self.skipped,
        }

    def _refuse(self) -> None:
        """Report that there are no results here, and which folders have some."""
        others = ", ".join([p.name for p in self.places[1:] if _has_results(p)][:8])
        hint = f"give one of its folders: {others}" if others else "begin with denseam sweep or denseam tune"
        raise InputError(
            f"{self.root}: contains nothing to report on (no runs in 'shards', no {recipe.FILE}, "
            f"no {target.LOG}, no {extras.RECALLED}); {hint}"
        )

    def _named(self, path: Path) -> str:
        return str(path.relative_to(self.root))

    def _reading(self, path: Path, read: Callable[[], Any]) -> Any:
        """Return the result of `read`; if it fails, name the file under `skipped` and return None."""
        try:
            return read()
        except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
            reason = " ".join(str(error).split())[:160] or type(error).__name__
            self.skipped.append(f"{self._named(path)}: {reason}")
            return None

    # --- parts -------------------------------------------------------------------------------------

    def _search(self, place: Path) -> dict[str, Any] | None:
        path = place / recipe.FILE
        return self._reading(path, lambda: extras.read_search(path)) if path.is_file() else None

    def _studies(
        self, stores: list[Path], search: dict[str, Any] | None, axis: str | None, aim: int | None
    ) -> tuple[list[dict[str, Any]], str]:
        read = {place: Store(place).read() for place in stores}
        for records in read.values():
            self.skipped += [*records.skipped, *records.contradictions]
        note = ""
        if search is not None:
            every = sum(map(len, read.values()))
            kept = {place: extras.judged_runs(records, search) for place, records in read.items()}
            judged = sum(map(len, kept.values()))
            if judged:
                read = kept
                note = f"{judged} of {every} runs are shown: those of the verdict." if judged < every else ""
        total = sum(map(len, read.values()))
        documents = [
            study_document(name, study, str(place), axis=axis, target=aim, share=len(study) / total)
            for place, records in read.items()
            for name, study in sorted(records.studies().items())
        ]
        return documents, note

    def _claims(self) -> list[dict[str, str]]:
        """Return the findings on the claims of figures in this folder."""
        paths = [p for p in sorted(self.root.glob("*.json")) if p.name not in (recipe.FILE, target.LOG)]
        read = (self._reading(path, functools.partial(extras.claims, path)) for path in paths)
        return [claim for claims in read if claims for claim in claims]

    def _training(self, place: Path, search: dict[str, Any] | None) -> list[dict[str, Any]]:
        if not ((place / target.LOG).is_file() or (place / target.STATE).is_file()):
            return []
        if search is None and (place.parent / recipe.FILE).is_file():
            search = self._beside(place.parent / recipe.FILE)
        read = self._reading(place / target.LOG, lambda: extras.training_document(place, search))
        return [{"place": self._named(place), **read}] if read else []

    @staticmethod
    def _beside(path: Path) -> dict[str, Any] | None:
        """Return a search in the folder above; it is not shown itself, so damage there does not matter."""
        try:
            return extras.read_search(path)
        except (OSError, ValueError):
            return None

    def _recall(self, place: Path) -> list[dict[str, Any]]:
        path = place / extras.RECALLED
        if not (path.is_file() or (place / _RECALL_PICTURE).is_file()):
            return []
        levels = self._reading(path, lambda: extras.recall_document(path)) if path.is_file() else None
        return [{"place": self._named(place), "levels": levels or [], "pictures": self._pictures(place)}]

    def _pictures(self, place: Path) -> list[dict[str, str]]:
        shown: list[dict[str, str]] = []
        large: list[str] = []

        def read() -> None:
            for path, uri, size in extras.pictures(place, self.room):
                if uri is None:
                    large.append(self._named(path))
                else:
                    shown.append({"name": self._named(path), "src": uri})
                self.room -= size

        self._reading(place, read)
        if large:
            more = f" and {len(large) - 1} more pictures" if len(large) > 1 else ""
            self.skipped.append(f"{large[0]}{more}: too large for this page")
        return shown

    # --- missing parts -------------------------------------------------------------------------

    def _absent(
        self, stores: list[Path], studies: list[Any], search: Any, trainings: list[Any], recalls: list[Any]
    ) -> list[dict[str, str]]:
        """Return the missing parts, each with the command that makes it."""
        folder = shlex.quote(str(self.root))
        place = next((t["place"] for t in trainings if t.get("model")), "target")
        memory, recalled = (shlex.quote(str(self.root / p)) for p in (f"{place}/{target.MODEL}", "recalled"))
        absent: dict[str, str] = {}
        if not stores:
            new = "--activation relu --optimizer adam --scales 32,64,128 --eta0 1e-3:1:9"
            what = "Runs at several sizes, for transfer curves, collapse and verdict."
            absent[what] = f"sweep {new} --out {folder}"
        elif not studies:
            what = "Finished runs: a sweep was started here, but none of its runs can be read."
            absent[what] = f"sweep … --out {folder}"
        elif not any(s["probes"] for s in studies):
            what = "Probes: nothing was measured while the models trained."
            absent[what] = f"sweep … --probes all --out {folder}"
        if search is None:
            absent["A search for the learning rate of a large model."] = f"tune DATA --out {folder}"
        if not trainings:
            absent["A trained memory."] = f"train DATA --tuned {folder}"
        if not recalls:
            absent["What a memory recalls."] = f"recall {memory} INPUT --out {recalled}"
        return [{"what": what, "command": f"denseam {command}"} for what, command in absent.items()]


def _has_results(place: Path) -> bool:
    known = (recipe.FILE, target.LOG, target.STATE, extras.RECALLED, _RECALL_PICTURE)
    return any((place / part).is_dir() for part in ("shards", f"{RUNS}/shards")) or any(
        (place / name).is_file() for name in known
    )
