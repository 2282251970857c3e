"""A real Chromium without a window, and what it loads and complains of."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")


class Browser:
    """A page in Chromium.

    Args:
        driver: Selenium's driver.
    """

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, file: Path | str, *, width: int = 1280, scheme: str = "light") -> None:
        """Show a file, or an address, at a width in pixels, as a system with light or dark colors does."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
        )
        self.driver.get(file if isinstance(file, str) else file.resolve().as_uri())

    def js(self, code: str) -> Any:
        """The value of a script in the page."""
        return self.driver.execute_script(code)

    def complaints(self) -> list[str]:
        """What the console said since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """The addresses that were asked for since the last call, but those that hold their data."""
        messages = [json.loads(e["message"])["message"] for e in self.driver.get_log("performance")]
        urls = [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in urls if not url.startswith("data:")]

    def screenshot(self, file: Path) -> None:
        """Write a picture of the whole page."""
        import base64

        height = min(self.js("return document.documentElement.scrollHeight"), 16000)
        width = self.js("return innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        found = self.driver.execute_cdp_cmd(
            "Page.captureScreenshot",
            {"format": "png", "captureBeyondViewport": True, "clip": clip},
        )
        file.write_bytes(base64.b64decode(found["data"]))


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser, which is closed at the end."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
