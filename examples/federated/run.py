"""Federated averaging on loopback: devices train on digits of their own, and a server averages their parameters.

    python run.py lib/libnet.so             # with flwr: a server, and a process for each device
    python run.py lib/libnet.so --plain     # without: devices in this process, and an average in numpy

README.md says how the library is made.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np
from device import Device

DEVICES = 3
ADDRESS = "127.0.0.1:8089"


def plain(library: str, rounds: int) -> float:
    """The accuracy after so many rounds of FedAvg (arXiv:1602.05629): an epoch on each device, and the average by rows."""
    devices = [Device(library, number, DEVICES) for number in range(DEVICES)]
    for device in devices:
        device.parameters = devices[0].parameters
    for done in range(1, rounds + 1):
        counts = [device.train() for device in devices]
        found = [device.parameters for device in devices]
        weights = [count / sum(counts) for count in counts]
        average = [
            np.sum([w * p for w, p in zip(weights, tensors, strict=True)], axis=0)
            for tensors in zip(*found, strict=True)
        ]
        for device in devices:
            device.parameters = average
        print(f"round {done}: {devices[0].accuracy():.2f}")
    return devices[0].accuracy()


def federated(library: str, rounds: int) -> float:
    """The same with flwr's server and a client process for each device."""
    from flwr.server import ServerConfig, start_server
    from flwr.server.strategy import FedAvg

    script = Path(__file__).with_name("device.py")
    started = [
        subprocess.Popen(
            [sys.executable, script, library, ADDRESS, str(number), str(DEVICES)], stderr=subprocess.DEVNULL
        )
        for number in range(DEVICES)
    ]
    try:
        strategy = FedAvg(
            min_fit_clients=DEVICES,
            min_evaluate_clients=DEVICES,
            min_available_clients=DEVICES,
            evaluate_metrics_aggregation_fn=lambda found: {
                "accuracy": float(np.mean([m["accuracy"] for _, m in found]))
            },
        )
        history = start_server(
            server_address=ADDRESS, config=ServerConfig(num_rounds=rounds, round_timeout=60), strategy=strategy
        )
    finally:
        for process in started:
            process.terminate()
            process.wait()
    for done, accuracy in history.metrics_distributed["accuracy"]:
        print(f"round {done}: {accuracy:.2f}")
    return float(history.metrics_distributed["accuracy"][-1][1])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--plain", action="store_true")
    given = parser.parse_args()
    (plain if given.plain else federated)(str(Path(given.library).resolve()), given.rounds)
