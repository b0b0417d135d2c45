"""A made voice for the speech detector: vowels on a gliding pitch, with pauses, that the model takes for speech."""

from __future__ import annotations

import numpy as np

RATE = 16000
VOWELS = np.array([(730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480)])  # formants in Hz
FORMANTS = ((1.0, 60.0), (0.6, 90.0), (0.3, 120.0))  # strength, half width in Hz
SYLLABLES = 4  # a second


def speech(samples: int, seed: int = 0) -> np.ndarray:
    """`samples` float32 values at 16 kHz, within [-1, 1]."""
    time = np.arange(samples) / RATE
    random = np.random.default_rng(seed)
    pitch = 120 + 25 * np.sin(2 * np.pi * 0.7 * time) + 8 * np.sin(2 * np.pi * 5 * time)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    syllable = np.floor(time * SYLLABLES).astype(int)
    glide = np.ones(RATE * 3 // 100) / (RATE * 3 // 100)
    spoken = VOWELS[random.integers(0, len(VOWELS), syllable.max() + 1)][syllable]
    formants = [np.convolve(spoken[:, index], glide, "same") for index in range(len(FORMANTS))]
    voice = np.zeros(samples)
    for harmonic in range(1, 32):
        frequency = harmonic * pitch
        for (strength, width), formant in zip(FORMANTS, formants, strict=True):
            voice += strength / (1 + ((frequency - formant) / width) ** 2) * np.sin(harmonic * phase)
    loudness = np.clip(1.5 * np.sin(np.pi * ((time * SYLLABLES) % 1)), 0, 1)
    pauses = np.sin(2 * np.pi * 0.3 * time) > -0.2
    return (0.15 * voice * loudness * pauses + 0.002 * random.standard_normal(samples)).astype(np.float32)
