"""Data sets of the package `datasets`: the folders that it writes, and its objects, kept in a file.

A folder of `save_to_disk` holds Arrow streams, which pyarrow reads without that package. Nothing
is unpickled.
"""

from __future__ import annotations

import functools
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from denseam.data.pictures import Encoded, decoded
from denseam.data.raw import Raw, Spool, check, line_of, npy_pieces, pixel, quoted
from denseam.data.tables import choose, is_list, stack, type_of, whole_columns
from denseam.ground.errors import TEXT, InputError, listed_of, named, path_of, read_entries, table_of
from denseam.ground.files import json_table, text_of, write_parts

#: What `save_to_disk` writes last into the folder of a data set, and into that of several splits.
STATE, SPLITS = "state.json", "dataset_dict.json"
_STATE = {"_data_files": listed_of(table_of({"filename": TEXT}))}
_ROWS = 1000  # of an object, at a time

#: Gives the batches of rows of a data set, each time from the beginning.
Batches = Callable[[], Iterable[Any]]


def is_dataset(folder: Path) -> bool:
    """Return whether `save_to_disk` wrote a folder."""
    return any((folder / name).is_file() for name in (STATE, SPLITS))


def read_dataset(folder: Path, key: str | None, origin: str) -> Raw:
    """Return the samples in a folder that `save_to_disk` wrote."""
    import pyarrow as pa

    if (folder / SPLITS).is_file():
        splits = sorted(path.name for path in folder.iterdir() if (path / STATE).is_file())
        if not splits:
            raise InputError("holds no splits")
        raise InputError(f"holds the splits {quoted(splits)}; say which, as in {folder / splits[0]}")
    files = _files(folder)
    try:
        array, unit = _samples(lambda: _streamed(files), key, folder)
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"is damaged or not of the package datasets ({line_of(error)})") from None
    return Raw(array, unit, origin, files, _by_values=True)


def _files(folder: Path) -> tuple[Path, ...]:
    """Return the files of a data set; they lie in its folder."""
    with named(STATE):
        state = read_entries(json_table(text_of(folder / STATE)), _STATE)
        names = [entry["filename"] for entry in state["_data_files"]]
        for name in names:
            if Path(name).name != name:
                raise InputError(f"must name files of its folder, got {name!r}")
    return tuple(folder / name for name in names)


def _streamed(files: Iterable[Path]) -> Iterator[Any]:
    import pyarrow as pa

    for file in files:
        with pa.memory_map(os.fspath(file)) as source, pa.ipc.open_stream(source) as stream:
            yield from stream


def keep(dataset: Any, path: str | os.PathLike[str], column: str | None = None) -> str:
    """Keep the samples of a data set in a `.npy` file, and return its name, which every study takes as data.

    Parameters
    ----------
    dataset
        A `Dataset` or `IterableDataset` of the package `datasets`, maybe shuffled, filtered or streamed.
    path
        The file. It is written completely or not at all, and replaces one of the same name.
    column
        The column that holds the samples: lists of numbers, lists of lists, or images. It can be left out if
        there is only one, or if every feature is a column of numbers.
    """
    import pyarrow as pa

    target = path_of("path", path)
    if target.suffix != ".npy":
        raise InputError(f"path must end in .npy, got {str(target)!r}")
    with named("dataset"):
        rows = _rows_of(dataset)
        try:
            array, _ = _samples(rows, column, "dataset")
        except pa.ArrowException as error:
            raise InputError(f"cannot be read ({line_of(error)})") from None
        if array.dtype == np.uint16:
            raise InputError("images must have 8 bits a pixel, got 16; divide them by 65535")
    write_parts(target, lambda file: file.writelines(npy_pieces(array)))
    return os.fspath(target)


def is_object(value: object) -> bool:
    """Return whether a value comes from the package `datasets`, which has then been imported."""
    package = sys.modules.get("datasets")
    kinds = ("Dataset", "IterableDataset", "DatasetDict", "IterableDatasetDict")
    return package is not None and isinstance(value, tuple(getattr(package, kind) for kind in kinds))


def _rows_of(dataset: Any) -> Batches:
    """Return what gives the rows of an object of the package `datasets`."""
    if not is_object(dataset):
        raise InputError(f"must be a Dataset of the package datasets, got {type(dataset).__name__}")
    if isinstance(dataset, Mapping):
        first = next(iter(dataset))
        raise InputError(f"holds the splits {quoted(dataset)}; say which, as in dataset[{first!r}]")
    arrow = dataset.with_format("arrow")
    return lambda: (batch for table in arrow.iter(_ROWS) for batch in table.to_batches())


# --- columns ---------------------------------------------------------------------------------------


def _samples(rows: Batches, key: str | None, where: object) -> tuple[npt.NDArray[Any], float]:
    """Return the samples in some rows, and the value that counts as 1."""
    first = next((batch for batch in rows() if batch.num_rows), None)
    if first is None or first.num_columns == 0:
        raise InputError("must hold at least one sample and one feature")
    fields = {field.name: _storage(field.type) for field in first.schema}
    pictures = [name for name, kind in fields.items() if _is_picture(kind)]
    if key is None and pictures:
        samples = pictures + [name for name, kind in fields.items() if is_list(kind)]
        if len(samples) > 1:
            raise InputError(f"holds {quoted(samples)}; say which, as in {where}:{samples[0]}")
        key = pictures[0]
    if key is not None and key in pictures:
        return decoded(functools.partial(_encoded, rows, key))
    return _numbers(rows, fields, choose(fields, where, key), where)


def _numbers(
    rows: Batches, fields: Mapping[str, Any], chosen: list[str], where: object
) -> tuple[npt.NDArray[Any], float]:
    dtype, vectors = type_of(fields, chosen, where), is_list(fields[chosen[0]])
    count, lengths = 0, ()
    with Spool() as spool:
        for batch in filter(len, rows()):
            columns = [_plain(column) for column in whole_columns(batch, chosen)]
            if vectors:
                block = stack(columns[0], chosen[0], count, lengths)
            else:
                block = np.stack([column.to_numpy(zero_copy_only=False) for column in columns], 1)
            spool.write(block.astype(dtype, copy=False))
            count, lengths = count + len(block), block.shape[1:]
        shape = (count, *lengths)
        check(dtype, shape)
        return spool.array(dtype, shape), pixel(dtype, shape)


def _encoded(rows: Batches, name: str) -> Iterator[Encoded]:
    """Yield the images of a column: their bytes, which are inside of the data set."""
    count = 0
    for batch in rows():
        (column,) = whole_columns(batch, [name])
        for content in column.field("bytes"):
            if not content.is_valid:
                raise InputError(
                    f"row {count} of {name!r} only names an image; save_to_disk keeps images in its folder"
                )
            yield f"row {count}", functools.partial(io.BytesIO, content.as_py())
            count += 1


def _is_picture(kind: Any) -> bool:
    """Return whether a column holds images: the bytes of a file, and its name."""
    from pyarrow import types

    return bool(types.is_struct(kind)) and {field.name for field in kind} == {"bytes", "path"}


def _storage(kind: Any) -> Any:
    """Return the type that is stored; the package has types of its own for arrays."""
    return getattr(kind, "storage_type", kind)


def _plain(column: Any) -> Any:
    return getattr(column, "storage", column)
