"""A Wasserstein GAN (arXiv:1701.07875) with a penalty on the critic's slope (arXiv:1704.00028): points on a ring of eight heaps.

python examples/training/wgan.py            # some seconds

Two models, two optimizers, two compiled steps. The penalty is a derivative inside of a loss that is differentiated.
"""

from __future__ import annotations

import numpy as np

import burn
from burn import nn, optim

HEAPS, WIDTH, NOISE = 8, 0.1, 4
CENTRES = np.stack([np.cos(np.arange(HEAPS) * 2 * np.pi / HEAPS), np.sin(np.arange(HEAPS) * 2 * np.pi / HEAPS)], 1)


def layers(inputs: int, outputs: int, width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, outputs)
    )


def real_points(count: int, drawn: np.random.Generator) -> np.ndarray:
    heaps = CENTRES[drawn.integers(0, HEAPS, count)]
    return (heaps + WIDTH * drawn.standard_normal((count, 2))).astype(np.float32)


class Gan:
    """Both models, and a step for each."""

    def __init__(self, width: int = 64, lr: float = 1e-3, penalty: float = 1.0, device: str = "cpu") -> None:
        self.penalty = penalty
        self.generator, self.critic = layers(NOISE, 2, width).to(device), layers(2, 1, width).to(device)
        self.moves_generator = optim.Adam(self.generator, lr=lr, betas=(0.5, 0.9))
        self.moves_critic = optim.Adam(self.critic, lr=lr, betas=(0.5, 0.9))
        self.teach_critic = burn.jit(self._teach_critic)
        self.teach_generator = burn.jit(self._teach_generator)

    def _teach_critic(self, real: burn.Tensor) -> burn.Tensor:
        """Tells real points from made ones; returns how far apart it finds them."""
        made = self.generator(burn.random.normal((real.shape[0], NOISE)))
        share = burn.random.uniform((real.shape[0], 1))
        between = real * share + made * (1 - share)

        def loss(critic: nn.Module) -> tuple[burn.Tensor, burn.Tensor]:
            slopes = burn.grad(lambda x: critic(x).sum())(between)
            penalty = (((slopes**2).sum(-1) + 1e-12).sqrt() - 1).square().mean()
            distance = critic(real).mean() - critic(made).mean()
            return self.penalty * penalty - distance, distance

        (_, distance), gradients = burn.value_and_grad(loss, has_aux=True)(self.critic)
        self.moves_critic.update(gradients)
        return distance

    def _teach_generator(self, noise: burn.Tensor) -> burn.Tensor:
        value, gradients = burn.value_and_grad(lambda g: -self.critic(g(noise)).mean())(self.generator)
        self.moves_generator.update(gradients)
        return value


def main(steps: int = 2000, batch: int = 256, critic_steps: int = 5, device: str = "cpu") -> tuple[int, float]:
    """Trains, and returns how many heaps the generator makes, and the share of its points that are in one."""
    burn.manual_seed(0)
    drawn = np.random.default_rng(0)
    gan = Gan(device=device)
    heaps, share = 0, 0.0
    for step in range(1, steps + 1):
        for _ in range(critic_steps):
            distance = gan.teach_critic(real_points(batch, drawn))
        gan.teach_generator(drawn.standard_normal((batch, NOISE)).astype(np.float32))
        if step % max(1, steps // 6) == 0:
            noise = burn.tensor(drawn.standard_normal((1000, NOISE)).astype(np.float32), device=device)
            made = gan.generator(noise).numpy()
            far = np.linalg.norm(made[:, None] - CENTRES, axis=-1)
            near = far.min(1) < 3 * WIDTH
            heaps, share = len(np.unique(far.argmin(1)[near])), float(near.mean())
            print(f"step {step}: distance {float(distance):.3f}, {heaps} heaps, {share:.0%} of the points in one")
    return heaps, share


if __name__ == "__main__":
    main()
