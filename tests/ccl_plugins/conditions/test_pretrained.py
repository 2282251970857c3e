"""Weights that timm loads by itself, from a cache of the Hugging Face hub that is already filled."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import huggingface_hub
import pytest
import timm
import torch
from huggingface_hub import constants
from safetensors.torch import save_file
from support.condition_splits import Split, fit
from torchvision.transforms.functional import to_pil_image

from ccl_plugins.backbones import Timm
from ccl_plugins.conditions import CLIP, Encoder

SMALL = {"embed_dim": 64, "depth": 1, "num_heads": 2}


class Images(Split):
    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.images = torch.randint(0, 256, (3, 3, 20, 24), generator=generator, dtype=torch.uint8)
        super().__init__(label=torch.arange(3))

    def __getitem__(self, i):
        return self.images[i], 0


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Put a model's weights where a download would; asking the network is an error."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)

    def fill(model):
        folder = (
            tmp_path / "hub" / f"models--{model.pretrained_cfg['hf_hub_id'].replace('/', '--')}"
        )
        (folder / "refs").mkdir(parents=True)
        (folder / "refs" / "main").write_text("abc")
        (folder / "snapshots" / "abc").mkdir(parents=True)
        name = model.pretrained_cfg.get("hf_hub_filename") or "model.safetensors"
        save_file(model.state_dict(), folder / "snapshots" / "abc" / name)

    return fill


@pytest.mark.parametrize("name", ["resnet10t", "resnet10t.c3_in1k"])
def test_an_encoder_has_the_weights_that_timm_has_for_it(hub, tmp_path, name):
    torch.manual_seed(0)
    hub(model := timm.create_model("resnet10t"))
    weights = tmp_path / "weights.safetensors"
    save_file(model.state_dict(), weights)
    usual = {"image_size": 32, "cache": tmp_path / "cache"}
    found = fit(Encoder(name, **usual), Images())
    given = Encoder(name, pretrained=False, checkpoint_path=weights, **usual)
    torch.testing.assert_close(found, fit(given, Images()))


def test_a_clip_tower_has_the_weights_that_timm_has_for_it(hub, tmp_path):
    torch.manual_seed(0)
    clip = CLIP(options=SMALL, cache=tmp_path / "cache")
    model = timm.create_model(clip.name, **SMALL).eval()
    hub(model)
    prepare = timm.data.create_transform(
        **timm.data.resolve_data_config({}, model=model), is_training=False
    )
    images = torch.stack([prepare(to_pil_image(image)) for image in Images().images])
    with torch.inference_mode():
        expected = model(images)
    assert expected.shape == (3, 512)
    torch.testing.assert_close(fit(clip, Images()), expected.clone())


@pytest.fixture
def no_network(hub, monkeypatch):
    """No server answers, and waiting for one is an error."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # the port that discards
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail(f"waits {seconds} s"))
    return hub


@pytest.mark.parametrize(
    ("make", "ways"),
    [
        (lambda: Timm("resnet10t", pretrained=True), "checkpoint_path=FILE"),
        (lambda: Timm("hf-hub:timm/resnet10t.c3_in1k"), "checkpoint_path=FILE"),
        (lambda: fit(Encoder("resnet10t"), Images()), "file=FILE, features"),
        (lambda: fit(CLIP(options=SMALL), Images()), "file=FILE, features"),
    ],
)
def test_offline_the_first_failure_ends_the_download_with_the_ways_out(no_network, make, ways):
    with pytest.raises(
        FileNotFoundError, match=rf"^the weights of '.*/hub, .*{ways}.* HF_HUB_OFFLINE=1"
    ):
        make()
    assert not constants.HF_HUB_OFFLINE


def test_a_model_that_may_be_downloaded_is_said(no_network, caplog):
    with pytest.raises(FileNotFoundError):
        Timm("hf-hub:timm/resnet10t.c3_in1k")
    (said,) = {record.getMessage() for record in caplog.records if "Hub" in record.getMessage()}
    assert said.startswith("hf-hub:timm/resnet10t.c3_in1k is a model of the Hugging Face Hub")


def test_offline_weights_in_the_cache_are_read(no_network):
    no_network(model := timm.create_model("resnet10t"))
    loaded = Timm("resnet10t", pretrained=True).model.state_dict()
    assert all(torch.equal(loaded[k], v) for k, v in model.state_dict().items() if k in loaded)


def test_a_hub_that_answers_is_asked(no_network, monkeypatch):
    """Whatever it answers, as an error for the address of its front page."""

    class Server(BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.send_error(404)

        log_message = print

    make, offline = timm.create_model, []

    def create_model(name, pretrained, **options):
        offline.append(constants.HF_HUB_OFFLINE)
        return make(name, **options)

    monkeypatch.setattr(timm, "create_model", create_model)
    with HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        Timm("resnet10t", pretrained=True)
        server.shutdown()
    assert offline == [False]


def test_a_hub_that_is_switched_off_is_not_asked(no_network, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub, "get_session", lambda: pytest.fail("is asked"))
    with pytest.raises(FileNotFoundError, match="HF_HUB_OFFLINE=1"):
        Timm("resnet10t", pretrained=True)
