"""Families of text: vectors of documents and words, by several methods."""

import ast
import gzip
import re
import subprocess
import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import svds
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.preprocessing import normalize

from .features import most_varied
from .registry import FEATURES, MissingSource, family, system_files


def leading(matrix: sparse.csr_matrix, power: float) -> np.ndarray:
    """Return the 256 leading left singular vectors, each times its singular value to a power."""
    vectors, values, _ = svds(matrix.astype(np.float64), FEATURES, v0=np.ones(min(matrix.shape)))
    order = np.argsort(-values)
    return vectors[:, order] * values[order] ** power


def manual_text(path: Path) -> str:
    """Return the words of a manual page, without the markup of its lines."""
    lines = gzip.decompress(path.read_bytes()).decode("utf-8", "replace").splitlines()
    text = " ".join(re.sub(r"^\.\w+ ?", "", line) for line in lines if not line.startswith((".\\", "'\\")))
    return re.sub(r"\\f.|\\[-&]|\\\(..|\\", "", text)


@family("packages", kind="vectors", needs=("apt:apt",))
def packages(rng: np.random.Generator) -> np.ndarray:
    """Descriptions and tags of Debian packages: TF-IDF, then latent semantic analysis, rows of length 1."""
    try:
        listing = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise MissingSource("apt-cache cannot list packages: needs Debian's apt") from error
    entry = re.compile(r"^Description: (.+)$(?:(?!^$)[\s\S])*?^Tag: ((?:.|\n )+)$", re.MULTILINE)
    texts = sorted({f"{description} {tags}" for description, tags in entry.findall(listing.stdout)})
    if len(texts) < 10 * FEATURES:
        raise MissingSource("apt-cache lists few packages: apt-get update")
    texts = [texts[index] for index in rng.choice(len(texts), 12000, replace=False)]
    return normalize(leading(TfidfVectorizer(min_df=3, stop_words="english").fit_transform(texts), 1.0))


@family("manuals", kind="vectors", needs=("apt:manpages-de",))
def manuals(rng: np.random.Generator) -> np.ndarray:
    """Pieces of 2,000 characters of German manual pages: square roots of hashed counts of letter trigrams."""
    pages = [manual_text(path) for path in system_files("usr/share/man/de/man*/*.gz", "manpages-de")]
    pieces = [page[start : start + 2000] for page in pages for start in range(0, len(page) - 1999, 2000)]
    hashed = HashingVectorizer(
        analyzer="char_wb", ngram_range=(3, 3), n_features=FEATURES, alternate_sign=False, norm=None
    ).transform(pieces)
    return np.sqrt(hashed.toarray())


@family("words", kind="vectors", needs=("apt:manpages", "apt:manpages-dev"))
def words(rng: np.random.Generator) -> np.ndarray:
    """English words of manual pages: positive mutual information of words at most 4 apart, then an SVD."""
    pages = map(manual_text, system_files("usr/share/man/man[2-7]/*.[2-7].gz", "manpages manpages-dev"))
    texts = [re.findall(r"[a-z]+", page.lower()) for page in pages if "Linux man-pages" in page]
    occurrences = Counter(word for text in texts for word in text if len(word) > 2)
    number = {word: index for index, (word, _) in enumerate(occurrences.most_common(5000))}
    left, right = [], []
    for text in texts:
        codes = np.array([number[word] for word in text if word in number])
        for distance in range(1, 5):
            left.append(codes[:-distance])
            right.append(codes[distance:])
    rows, columns = np.concatenate(left + right), np.concatenate(right + left)
    counts = sparse.coo_matrix((np.ones(len(rows)), (rows, columns)), (len(number),) * 2).tocsr().tocoo()
    totals = np.bincount(rows, minlength=len(number))
    information = np.log(counts.data * totals.sum() / (totals[counts.row] * totals[counts.col]))
    positive = sparse.csr_matrix((np.maximum(information, 0), (counts.row, counts.col)), counts.shape)
    return leading(positive, 0.5)


@family("glosses", kind="vectors", needs=("apt:wordnet-base",), held_aside=True)
def glosses(rng: np.random.Generator) -> np.ndarray:
    """Definitions of WordNet: TF-IDF, then a random projection."""
    lines = [
        line
        for path in system_files("usr/share/wordnet/data.*", "wordnet-base")
        for line in path.read_text("latin-1").splitlines()
        if "|" in line and len(line.split("|")[1]) > 80
    ]
    texts = [lines[index].split("|")[1] for index in rng.choice(len(lines), 12000, replace=False)]
    weights = TfidfVectorizer(min_df=3, stop_words="english").fit_transform(texts)
    weights = weights[weights.getnnz(axis=1) >= 5]
    return weights @ rng.standard_normal((weights.shape[1], FEATURES))


def functions_of(path: Path) -> Iterator[ast.FunctionDef]:
    """Yield the functions of a Python file; nothing of a file that is not valid Python."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def constructs(node: ast.AST) -> Iterator[str]:
    """Yield the pairs of a syntax node and its child."""
    for parent in ast.walk(node):
        for child in ast.iter_child_nodes(parent):
            yield f"{type(parent).__name__}>{type(child).__name__}"


@family("code", kind="vectors", needs=())
def code(rng: np.random.Generator) -> np.ndarray:
    """Functions of Python's standard library: logarithms of the counts of syntax nodes with a child."""
    library = Path(sysconfig.get_path("stdlib"))
    paths = [path for path in sorted(library.rglob("*.py")) if "site-packages" not in path.parts]
    functions = [list(constructs(node)) for path in paths for node in functions_of(path)]
    functions = [pairs for pairs in functions if len(pairs) >= 50]
    counts = CountVectorizer(analyzer=lambda pairs: pairs).fit_transform(functions).toarray()
    return most_varied(np.log1p(counts))


@family("spellings", kind="vectors", needs=("apt:wamerican",))
def spellings(rng: np.random.Generator) -> np.ndarray:
    """English words of 6 to 14 letters: an indicator of each letter at each place, the 256 most varied."""
    (path,) = system_files("usr/share/dict/american-english", "wamerican")
    chosen = [word.ljust(14) for word in re.findall(r"^[a-z]{6,14}$", path.read_text(), re.MULTILINE)]
    letters = np.frombuffer("".join(chosen).encode(), np.uint8).reshape(-1, 14)
    indicators = letters[:, :, None] == np.arange(ord("a"), ord("z") + 1)
    return most_varied(indicators.reshape(len(letters), -1).astype(np.float32))
