"""The network of the page segment.html, which separates a person from the background, and scenes that it is trained on.

    python examples/web/segment.py                       # some minutes: writes segment.onnx
    burn-compile examples/web/segment.onnx --emit wasm --target wgpu:webgpu -o examples/web/segmenter
    python examples/web/segment.py scene.y4m             # a video of a drawn person, as a camera for tests

The scenes are drawn: a head and shoulders in front of stripes and blocks, in random colours, with noise. So the network shows how
a page runs a model on each frame of a video. It has not seen photographs."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import burn
from burn import nn, optim

HERE = Path(__file__).parent
HEIGHT, WIDTH = 96, 128


class Network(nn.Module):
    """Image float32[batch, 3, 96, 128], colours from 0 to 1 -> mask float32[batch, 1, 96, 128], the probability of a person."""

    def __init__(self) -> None:
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.half = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.quarter = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.wide = nn.Conv2d(32, 32, 3, padding=4, dilation=4)
        self.wider = nn.Conv2d(32, 32, 3, padding=8, dilation=8)
        self.up_half = nn.Conv2d(32 + 16, 16, 3, padding=1)
        self.up = nn.Conv2d(16 + 8, 8, 3, padding=1)
        self.head = nn.Conv2d(8, 1, 1)
        self.twice = nn.Upsample(scale_factor=2)

    def logits(self, image: burn.Tensor) -> burn.Tensor:
        first = burn.relu(self.first(image - 0.5))
        half = burn.relu(self.half(first))
        quarter = burn.relu(self.quarter(half))
        quarter = quarter + burn.relu(self.wide(quarter))
        quarter = quarter + burn.relu(self.wider(quarter))
        half = burn.relu(self.up_half(burn.concatenate([self.twice(quarter), half], axis=1)))
        return self.head(burn.relu(self.up(burn.concatenate([self.twice(half), first], axis=1))))

    def forward(self, image: burn.Tensor) -> dict[str, burn.Tensor]:
        return {"mask": burn.sigmoid(self.logits(image))}


def loss(network: Network, image: burn.Tensor, mask: burn.Tensor) -> burn.Tensor:
    return nn.BCEWithLogitsLoss()(network.logits(image), mask)


# ---- scenes ----------------------------------------------------------------------------------------------------------


def background(rng: np.random.Generator) -> np.ndarray:
    """float32[3, 96, 128]: stripes of two colours, and blocks in front of them."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float32)
    angle, period = rng.uniform(0, np.pi), rng.uniform(12, 90)
    stripes = np.sin((np.cos(angle) * x + np.sin(angle) * y) * 2 * np.pi / period) * 0.5 + 0.5
    colours = rng.uniform(0, 1, (2, 3, 1, 1)).astype(np.float32)
    made = colours[0] * stripes + colours[1] * (1 - stripes)
    for _ in range(rng.integers(0, 5)):
        top, left = rng.integers(0, HEIGHT - 8), rng.integers(0, WIDTH - 8)
        high, wide = rng.integers(8, 50, 2)
        made[:, top : top + high, left : left + wide] = rng.uniform(0, 1, (3, 1, 1))
    return made


def person(centre: float, top: float, size: float) -> tuple[np.ndarray, np.ndarray]:
    """Masks bool[96, 128] of a head and of shoulders. size: the head's height in pixels."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float32)
    head = ((x - centre) / (0.4 * size)) ** 2 + ((y - top - size / 2) / (0.5 * size)) ** 2 < 1
    below = y - top - 0.95 * size
    width = np.minimum(1.15 * size, 0.3 * size + 1.2 * np.sqrt(np.maximum(below, 0) * size / 2))
    return head, (below > 0) & (np.abs(x - centre) < width)


def drawn(
    behind: np.ndarray, colours: np.ndarray, centre: float, top: float, size: float
) -> tuple[np.ndarray, np.ndarray]:
    """A person in front of a background: the image, and the mask float32[1, 96, 128]. colours: [2, 3], of head and shoulders."""
    head, shoulders = person(centre, top, size)
    made = np.where(shoulders, colours[1][:, None, None], behind)
    made = np.where(head, colours[0][:, None, None], made)
    return made.astype(np.float32), (head | shoulders)[None].astype(np.float32)


def clothes(rng: np.random.Generator) -> np.ndarray:
    """Colours [2, 3] of a head, from dark to light skin, and of shoulders."""
    skin = np.array([0.36, 0.22, 0.15]) + rng.uniform(0, 1) * np.array([0.58, 0.5, 0.46])
    return np.stack([np.clip(skin + 0.05 * rng.standard_normal(3), 0, 1), rng.uniform(0, 1, 3)])


def scenes(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Images float32[count, 3, 96, 128] and masks float32[count, 1, 96, 128]."""
    found = []
    for _ in range(count):
        where = (rng.uniform(25, WIDTH - 25), rng.uniform(5, 45), rng.uniform(22, 42))
        image, mask = drawn(background(rng), clothes(rng), *where)
        light = np.linspace(*rng.uniform(0.8, 1.2, 2), WIDTH, dtype=np.float32)
        noise = rng.standard_normal(image.shape).astype(np.float32) * rng.uniform(0, 0.03)
        found.append((np.clip(image * light + noise, 0, 1), mask))
    images, masks = zip(*found, strict=True)
    return np.stack(images), np.stack(masks)


def frames(count: int, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """A person who moves from side to side: images and masks, as `scenes` has them."""
    rng = np.random.default_rng(seed)
    behind, colours = background(rng), np.array([[0.86, 0.66, 0.53], [0.16, 0.3, 0.6]])
    phases = 2 * np.pi * np.arange(count) / count
    found = [drawn(behind, colours, WIDTH / 2 + 30 * np.sin(at), 18 + 3 * np.cos(2 * at), 34) for at in phases]
    images, masks = zip(*found, strict=True)
    return np.stack(images), np.stack(masks)


def write_video(path: Path, images: np.ndarray, rate: int = 30, scale: int = 4) -> None:
    """YUV4MPEG2 with all colours of each pixel (4:2:0), which Chromium takes as a camera. scale: a pixel's width in the video."""
    red, green, blue = np.kron(images, np.ones((1, 1, scale, scale), np.float32)).transpose(1, 0, 2, 3) * 255
    luma = 16 + 0.257 * red + 0.504 * green + 0.098 * blue
    chroma = (128 - 0.148 * red - 0.291 * green + 0.439 * blue, 128 + 0.439 * red - 0.368 * green - 0.071 * blue)
    planes = [luma, *(plane[:, ::2, ::2] for plane in chroma)]
    with path.open("wb") as file:
        file.write(f"YUV4MPEG2 W{luma.shape[2]} H{luma.shape[1]} F{rate}:1 Ip A1:1 C420jpeg\n".encode())
        for frame in zip(*planes, strict=True):
            file.write(b"FRAME\n" + b"".join(np.rint(plane).astype(np.uint8).tobytes() for plane in frame))


# ---- training --------------------------------------------------------------------------------------------------------


def train(steps: int = 700, batch: int = 8) -> Network:
    burn.manual_seed(0)
    network, rng = Network(), np.random.default_rng(0)
    step = burn.train.step(network, loss, optim.AdamW(network, lr=optim.one_cycle(4e-3, total=steps)))
    for number in range(steps):
        value = float(step(*scenes(rng, batch)))
        if number % 50 == 49:
            print(f"step {number + 1}: loss {value:.3f}")
    return network


def main() -> None:
    if sys.argv[1:]:
        write_video(Path(sys.argv[1]), frames(90)[0])
        return
    image = np.zeros((1, 3, HEIGHT, WIDTH), np.float32)
    burn.export(train(), HERE / "segment.onnx", {"image": image})


if __name__ == "__main__":
    main()
