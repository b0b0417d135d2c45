"""The network that the devices train together, and its step."""

import burn
from burn import nn, optim


class Network(nn.Module):
    """Images float32[batch, 64] of 8 x 8 pixels, 0 to 16 -> float32[batch, 10]."""

    def __init__(self) -> None:
        self.hidden = nn.Linear(64, 64)
        self.head = nn.Linear(64, 10)

    def forward(self, images: burn.Tensor) -> burn.Tensor:
        return self.head(burn.relu(self.hidden(images / 16.0)))


def loss(network: Network, images: burn.Tensor, labels: burn.Tensor) -> burn.Tensor:
    return nn.CrossEntropyLoss()(network(images), labels)


burn.manual_seed(0)
network = Network()
step = burn.train.step(network, loss, optim.SGD(network, lr=0.1, momentum=0.9))
