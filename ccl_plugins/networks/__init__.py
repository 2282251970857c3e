"""Networks: models of timm made, loaded and run on images, and the device for them; no component."""
