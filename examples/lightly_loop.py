"""Fair-CCLK in a plain lightly loop: only the criterion differs from lightly's SimCLR example.

The settings do not follow a paper.
"""

import torch
from lightly.models.modules import SimCLRProjectionHead
from torch import nn

from ccl_plugins.kernels import RBF
from ccl_plugins.objectives import FairCCLK

torch.manual_seed(0)
images = torch.rand(64, 3, 16, 16)
color = images.mean((2, 3))  # the sensitive variable: each image's mean color

backbone = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 64), nn.ReLU())
model = nn.Sequential(backbone, SimCLRProjectionHead(64, 64, 32))
criterion = FairCCLK(kernel=RBF(scale=0.1), temperature=0.1)  # was: NTXentLoss(temperature=0.1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

for step in range(10):
    view0, view1 = (images + 0.1 * torch.randn_like(images) for _ in range(2))
    loss = criterion(model(view0), model(view1), condition=color)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step}: loss {loss.item():.3f}")
