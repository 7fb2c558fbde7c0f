"""Encoded images as samples, all of one size."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from denseam.data.raw import Raw, Spool, line_of
from denseam.ground.errors import InputError

#: The name of an image, and what opens it.
Encoded = tuple[str, Callable[[], BinaryIO]]


def read_pictures(files: tuple[Path, ...], origin: str) -> Raw:
    """Return the images in files."""
    array, unit = decoded(lambda: ((file.name, functools.partial(_opened, file)) for file in files))
    return Raw(array, unit, origin, files)


def _opened(file: Path) -> BinaryIO:
    return open(file, "rb")


def decoded(images: Callable[[], Iterable[Encoded]]) -> tuple[npt.NDArray[Any], float]:
    """Return images, which are asked for twice, as an array, and the value of its brightest pixels."""
    try:
        import PIL  # noqa: F401
    except ImportError:
        raise InputError("images need Pillow: pip install 'denseam[images]'") from None

    first, count, common = "", 0, ""
    width = height = 0
    for name, opened in images():  # headers only
        size, mode = _look(name, opened)
        if not count:
            first, (width, height), common = name, size, mode
        if size != (width, height):
            raise InputError(
                f"images must be of one size, got {width}×{height} in {first} "
                f"and {size[0]}×{size[1]} in {name}"
            )
        if (mode == "I;16") != (common == "I;16"):
            raise InputError(f"images must be all 16-bit grey or none, unlike {first} and {name}")
        common, count = "RGB" if mode == "RGB" else common, count + 1
    shape = (count, height, width, 3) if common == "RGB" else (count, height, width)
    deep = common == "I;16"
    with Spool() as spool:
        for name, opened in images():
            spool.write(_pixels(name, opened, common))
        return spool.array(np.uint16 if deep else np.uint8, shape), 65535.0 if deep else 255.0


@contextlib.contextmanager
def _picture(name: str, opened: Callable[[], BinaryIO]) -> Iterator[Any]:
    """Open an image; any error of the decoder becomes one line that names it."""
    from PIL import Image, UnidentifiedImageError

    try:
        with opened() as raw, Image.open(raw) as image:
            yield image
    except InputError:
        raise
    except Exception as error:  # decoders raise almost anything on damaged files
        reason = "not an image" if isinstance(error, UnidentifiedImageError) else line_of(error)
        raise InputError(f"{name} cannot be read ({reason})") from None


def _look(name: str, opened: Callable[[], BinaryIO]) -> tuple[tuple[int, int], str]:
    """Return width and height, and the mode to convert to: 'L', 'I;16' or 'RGB'."""
    with _picture(name, opened) as image:
        if getattr(image, "n_frames", 1) > 1:
            raise InputError(f"{name} must be one image, it holds {image.n_frames} frames")
        # Older versions of Pillow widen 16-bit PNG files to 32.
        if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG"):
            return image.size, "I;16"
        if image.mode in ("I", "F"):
            raise InputError(f"{name} must have 8 or 16 bits a pixel, got 32; save it as .npy")
        palette = np.reshape(image.getpalette() or [], (-1, 3)) if image.mode == "P" else None
        grey = image.mode in ("1", "L", "LA", "La") if palette is None else (palette == palette[:, :1]).all()
        return image.size, "L" if grey else "RGB"


def _pixels(name: str, opened: Callable[[], BinaryIO], mode: str) -> npt.NDArray[Any]:
    with _picture(name, opened) as image:
        if mode == "I;16":
            return np.asarray(image).astype(np.uint16)
        return np.asarray(image.convert(mode), np.uint8)
