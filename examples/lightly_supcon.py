"""SupCon with a queue of labeled keys, in a plain lightly loop: MoCo v2's example with labels.

lightly's memory bank stores keys alone, so each label stays with its key in a FeatureQueue.  The settings
do not follow a paper.
"""

import copy

import torch
from lightly.models.modules import MoCoProjectionHead
from lightly.models.utils import deactivate_requires_grad, update_momentum
from torch import nn

from ccl_plugins.methods import FeatureQueue
from ccl_plugins.objectives import SupCon

torch.manual_seed(0)
labels = torch.arange(512) % 8
images = torch.rand(8, 3, 8, 8)[labels] + torch.randn(512, 3, 8, 8)


class MoCo(nn.Module):
    """As in lightly's example."""

    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone
        self.projection_head = MoCoProjectionHead(64, 64, 32)
        self.backbone_momentum = copy.deepcopy(self.backbone)
        self.projection_head_momentum = copy.deepcopy(self.projection_head)
        deactivate_requires_grad(self.backbone_momentum)
        deactivate_requires_grad(self.projection_head_momentum)

    def forward(self, x):
        """Queries."""
        return self.projection_head(self.backbone(x))

    def forward_momentum(self, x):
        """Keys."""
        return self.projection_head_momentum(self.backbone_momentum(x)).detach()


model = MoCo(nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 64), nn.ReLU()))
criterion = SupCon(temperature=0.1)
queue = FeatureQueue(256, 32)  # a module: model.to(device) goes with queue.to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.06)

for epoch in range(5):
    total_loss = 0.0
    for batch in torch.randperm(512).split(32):
        x_query, x_key = (images[batch] + 0.2 * torch.randn(32, 3, 8, 8) for _ in range(2))
        update_momentum(model.backbone, model.backbone_momentum, m=0.99)
        update_momentum(model.projection_head, model.projection_head_momentum, m=0.99)
        query = model(x_query)
        key = model.forward_momentum(x_key)
        pairs = queue.pairs(query, key, condition=labels[batch], index=batch)
        loss = criterion.loss(pairs)
        loss.backward()
        queue.enqueue(pairs)  # after the backward pass, which reads the queue
        optimizer.step()
        optimizer.zero_grad()
        total_loss += loss.item() / 16
    print(f"epoch {epoch}: loss {total_loss:.3f}")

# Untrained, with lr=0: 0.60.
nearest = (nn.functional.normalize(model(images), dim=1) @ queue.keys.T).argmax(1)
agree = queue.conditions["condition"][nearest] == labels
print(f"nearest key in the queue has the image's label: {agree.float().mean():.2f}")
