"""A browser without a window, driven by the WebDriver protocol, and a static server for the pages it visits."""

from __future__ import annotations

import base64
import functools
import json
import re
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

_TRIES = 5
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the specification's key of references


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Isolated(_Quiet):
    def end_headers(self) -> None:
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()


@contextmanager
def served(folder: Path, isolated: bool = False) -> Iterator[str]:
    """The address of a static server. isolated: its pages may share memory with their workers."""
    handler = functools.partial(_Isolated if isolated else _Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


_WEBGPU = (
    "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader",
    "--enable-features=Vulkan",
    "--use-vulkan=swiftshader",
)
"""WebGPU on SwiftShader, Chromium's Vulkan for CPUs."""


def _camera(video: Path) -> list[str]:
    """A camera that plays a file (YUV4MPEG2), which pages may use."""
    capture = f"--use-file-for-fake-video-capture={video}"
    return ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream", capture]


class Browser:
    """One page."""

    def __init__(self, driver: str, gpu: bool, camera: Path | None) -> None:
        arguments = [
            "--headless=new",
            "--no-sandbox",
            *(_WEBGPU if gpu else ["--disable-gpu"]),
            *(_camera(camera) if camera else []),
            "--disable-dev-shm-usage",
            "--window-size=900,700",
        ]
        wanted = {"goog:chromeOptions": {"args": arguments, "binary": shutil.which("chromium")}}
        made = _call(f"{driver}/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"{driver}/session/{made['sessionId']}"

    def close(self) -> None:
        _call(self._session, method="DELETE")

    def visit(self, address: str) -> None:
        _call(f"{self._session}/url", {"url": address})

    def run(self, script: str) -> Any:
        return _call(f"{self._session}/execute/sync", {"script": script, "args": []})

    def awaits(self, script: str, *given: object, seconds: int = 60) -> Any:
        """The result of the body of an asynchronous function with the parameter `given`. An error's name and message raise
        RuntimeError."""
        body = (
            "const done = arguments[arguments.length - 1], given = arguments[0];"
            f"(async () => {{ {script} }})().then((made) => done([made ?? null]),"
            "(error) => done({ error: `${error?.name}: ${error?.message}` }));"
        )
        _call(f"{self._session}/timeouts", {"script": 1000 * seconds})
        told = _call(f"{self._session}/execute/async", {"script": body, "args": [list(given)]})
        if isinstance(told, dict):
            raise RuntimeError(told["error"])
        return told[0]

    def hide(self) -> str:
        """Opens another tab in front of the page. The handle of the page, for `show`."""
        handle = _call(f"{self._session}/window", method="GET")
        made = _call(f"{self._session}/window/new", {"type": "tab"})
        self.show(made["handle"])
        return handle

    def show(self, handle: str) -> None:
        _call(f"{self._session}/window", {"handle": handle})

    def waits_for(self, script: str, seconds: int = 10) -> None:
        """Until a script's result is true; so many seconds at most."""
        asked = f"const done = arguments[0]; const ask = () => ({script}) ? done(true) : setTimeout(ask, 20); ask()"
        _call(f"{self._session}/timeouts", {"script": 1000 * seconds})
        _call(f"{self._session}/execute/async", {"script": asked, "args": []})

    def click(self, selector: str) -> None:
        found = _call(f"{self._session}/element", {"using": "css selector", "value": selector})
        _call(f"{self._session}/element/{found[_ELEMENT]}/click", {})

    def pick(self, selector: str, path: Path) -> None:
        """Chooses a file."""
        found = _call(f"{self._session}/element", {"using": "css selector", "value": selector})
        _call(f"{self._session}/element/{found[_ELEMENT]}/value", {"text": str(path)})

    def draw(self, selector: str, strokes: Sequence[Sequence[tuple[float, float]]]) -> None:
        """Presses the pointer and moves it; positions are fractions of an element's box."""
        box = self.run(f"return document.querySelector({selector!r}).getBoundingClientRect().toJSON()")

        def move(position: tuple[float, float]) -> dict[str, Any]:
            x, y = box["x"] + position[0] * box["width"], box["y"] + position[1] * box["height"]
            return {"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)}

        actions: list[dict[str, Any]] = []
        for first, *rest in strokes:
            press, lift = ({"type": kind, "button": 0} for kind in ("pointerDown", "pointerUp"))
            actions += [move(first), press, *map(move, rest), lift]
        pointer = {"type": "pointer", "id": "pen", "parameters": {"pointerType": "mouse"}, "actions": actions}
        _call(f"{self._session}/actions", {"actions": [pointer]})

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(_call(f"{self._session}/screenshot", method="GET")))


@contextmanager
def browser(gpu: bool = False, camera: Path | None = None) -> Iterator[Browser]:
    """gpu: with WebGPU. camera: the video that its camera shows. Skips the test where Chromium or its driver is not here."""
    for name in ("chromium", "chromedriver"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not here")
    driver, port = _driver()
    with driver:
        try:
            page = Browser(f"http://127.0.0.1:{port}", gpu, camera)
            try:
                yield page
            finally:
                page.close()
        finally:
            driver.terminate()


def _driver() -> tuple[subprocess.Popen[str], int]:
    """A driver that listens, and its port. It listens at the same port of IPv4 and of IPv6, and ends if another process has one
    of them: then another port is tried."""
    for _ in range(_TRIES):
        driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        assert driver.stdout is not None
        for line in driver.stdout:
            if found := re.search(r"successfully on port (\d+)", line):
                return driver, int(found[1])
        driver.stdout.close()
        driver.wait()
    raise RuntimeError(f"chromedriver ended {_TRIES} times before it listened; its messages are above")


def _call(address: str, body: object = None, method: str = "POST") -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=180) as answer:
        return json.load(answer)["value"]
