"""A device: digits that stay on it, and the compiled training of `network.py`. It needs numpy and no burn.

python device.py lib/libnet.so 127.0.0.1:8080 0 3      # device 0 of 3, a client of flwr's server
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

DIGITS = Path(__file__).parents[1] / "digits" / "holdout.npz"
TRAINED = 260
"""Rows that the devices divide; the others measure the network."""
BATCH = 16


class Device:
    """Trains the network on its own rows. number: which of `count` devices it is; each has other digits."""

    def __init__(self, library: str, number: int, count: int) -> None:
        self._net = ctypes.CDLL(library)
        self._net.net_error.restype = self._net.net_about.restype = ctypes.c_char_p
        self._model = ctypes.c_void_p()
        self._check(self._net.net_create(ctypes.byref(self._model), None))
        state = json.loads(self._net.net_about())["state"]
        self._tensors = [(t["name"], t["dims"]) for t in state if t["name"].startswith("model.")]
        with np.load(DIGITS) as found:
            images, labels = found["images"].reshape(-1, 64).astype(np.float32), found["labels"].astype(np.int64)
        self._held = images[TRAINED:], labels[TRAINED:]
        order = np.argsort(labels[:TRAINED], kind="stable")  # a device sees a few of the digits, not all of them
        own = np.array_split(order, count)[number]
        self._rows = images[own], labels[own]
        self._generator = np.random.default_rng(number)

    @property
    def parameters(self) -> list[np.ndarray]:
        made = [np.empty(dims, np.float32) for _, dims in self._tensors]
        for (name, _), array in zip(self._tensors, made, strict=True):
            self._check(self._net.net_read(self._model, name.encode(), _at(array), ctypes.c_int64(array.nbytes)))
        return made

    @parameters.setter
    def parameters(self, arrays: list[np.ndarray]) -> None:
        for (name, _), array in zip(self._tensors, arrays, strict=True):
            given = np.ascontiguousarray(array, np.float32)
            self._check(self._net.net_write(self._model, name.encode(), _at(given), ctypes.c_int64(given.nbytes)))

    def train(self) -> int:
        """One epoch; the number of rows."""
        images, labels = self._rows
        order = self._generator.permutation(len(labels))
        loss = np.zeros((), np.float32)
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            x, y = images[rows], labels[rows]
            self._check(self._net.net_step(self._model, ctypes.c_int64(len(rows)), _at(x), _at(y), _at(loss)))
        return len(order)

    def accuracy(self) -> float:
        """The share of digits that no device has trained on and that the network reads as their labels say."""
        images, labels = self._held
        logits = np.empty((len(labels), 10), np.float32)
        self._check(self._net.net_predict(self._model, ctypes.c_int64(len(labels)), _at(images), _at(logits)))
        return float((logits.argmax(1) == labels).mean())

    def _check(self, code: int) -> None:
        if code:
            raise RuntimeError(self._net.net_error().decode())


def _at(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def main(library: str, server: str, number: int, count: int) -> None:
    import flwr.client

    device = Device(library, number, count)

    class Client(flwr.client.NumPyClient):
        def get_parameters(self, config: Any) -> list[np.ndarray]:
            return device.parameters

        def fit(self, parameters: list[np.ndarray], config: Any) -> tuple[list[np.ndarray], int, dict[str, Any]]:
            device.parameters = parameters
            rows = device.train()
            return device.parameters, rows, {}

        def evaluate(self, parameters: list[np.ndarray], config: Any) -> tuple[float, int, dict[str, Any]]:
            device.parameters = parameters
            accuracy = device.accuracy()
            return 1.0 - accuracy, 1, {"accuracy": accuracy}

    flwr.client.start_client(server_address=server, client=Client().to_client(), insecure=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
