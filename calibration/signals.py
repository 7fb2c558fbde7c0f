"""Families of sounds and series: windows of a signal, their spectra, and records over time."""

import struct
import wave

import numpy as np
from scipy.io import netcdf_file

from .features import standardised, windows
from .registry import FEATURES, family, package_files, system_files


@family("speech", kind="vectors", needs=("apt:asterisk-core-sounds-en-wav",))
def speech(rng: np.random.Generator) -> np.ndarray:
    """Logarithm of the power in 256 frequency bands: frames of 64 ms of spoken announcements."""
    frames = []
    for path in system_files(
        "usr/share/asterisk/sounds/en_US_f_Allison/**/*.wav", "asterisk-core-sounds-en-wav"
    ):
        with wave.open(str(path)) as sound:
            signal = np.frombuffer(sound.readframes(sound.getnframes()), np.int16) / 32768
        frames.append(windows(signal, 2 * FEATURES, 2 * FEATURES))
    loud = [frame for frame in np.concatenate(frames) if frame.std() > 0.01]
    power = np.abs(np.fft.rfft(np.stack(loud) * np.hanning(2 * FEATURES)))[:, 1:] ** 2
    return np.log10(power + 1e-6)


def soundfont_samples(content: bytes) -> list[np.ndarray]:
    """Return the recordings of a SoundFont 2 file: 16-bit samples between the bounds in its headers."""
    waves = content.index(b"smpl")
    (size,) = struct.unpack_from("<I", content, waves + 4)
    signal = np.frombuffer(content, "<i2", size // 2, waves + 8)
    headers = content.index(b"shdr")
    (size,) = struct.unpack_from("<I", content, headers + 4)
    bounds = [struct.unpack_from("<20x2I", content, headers + 8 + start) for start in range(0, size, 46)]
    return [signal[begin:end] for begin, end in bounds]


@family("instruments", kind="vectors", needs=("apt:timgm6mb-soundfont",), held_aside=True)
def instruments(rng: np.random.Generator) -> np.ndarray:
    """Waveforms of musical instruments: 256 samples with power 1, at most 20 windows of a recording."""
    (path,) = system_files("usr/share/sounds/sf2/TimGM6mb.sf2", "timgm6mb-soundfont")
    pieces = [
        rng.permutation(windows(recording / 32768, FEATURES, FEATURES))[:20]
        for recording in soundfont_samples(path.read_bytes())
    ]
    waveforms = np.concatenate(pieces)
    power = (waveforms**2).mean(axis=1, keepdims=True)
    audible = power[:, 0] > 1e-5
    return waveforms[audible] / np.sqrt(power[audible])


@family("pulse", kind="vectors", needs=("pip:heartpy",))
def pulse(rng: np.random.Generator) -> np.ndarray:
    """Pulse of one person, measured with light: overlapping windows of 256 readings."""
    (path,) = package_files("heartpy", "data/data3.csv", "heartpy")
    signal = np.loadtxt(path, delimiter=",", skiprows=1, usecols=1)
    return standardised(windows(signal, FEATURES, 16).reshape(-1, 1)).reshape(-1, FEATURES)


@family("winds", kind="vectors", needs=("apt:ferret-datasets",))
def winds(rng: np.random.Generator) -> np.ndarray:
    """East and north components of the wind in 128 months, at each point of a grid of the Earth."""
    (path,) = system_files("usr/share/ferret-vis/data/monthly_navy_winds.cdf", "ferret-datasets")
    with netcdf_file(path, mmap=False) as grid:
        east, north = (np.array(grid.variables[name][:128], np.float32) for name in ("UWND", "VWND"))
    series = np.concatenate([east, north]).reshape(FEATURES, -1).T
    return series[(np.abs(series) < 100).all(axis=1)]  # m/s; missing readings are huge


@family("climate", kind="vectors", needs=("apt:ferret-datasets",))
def climate(rng: np.random.Generator) -> np.ndarray:
    """Monthly means of the ocean's heat budget (temperatures, fluxes, clouds) at each point of a grid."""
    (path,) = system_files("usr/share/ferret-vis/data/esku_heat_budget.cdf", "ferret-datasets")
    with netcdf_file(path, mmap=False) as grid:
        fields = [
            np.array(field[:], np.float32) for field in grid.variables.values() if len(field.shape) == 3
        ]
    table = np.concatenate(fields).reshape(12 * len(fields), -1).T
    table = standardised(table[(np.abs(table) < 1e10).all(axis=1)].astype(np.float64))
    return table[:, np.sort(rng.choice(table.shape[1], FEATURES, replace=False))]
