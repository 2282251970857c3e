"""Networks: how timm's models are made and loaded, and the device that one runs on; no component."""
