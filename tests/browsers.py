"""A browser without a window, and how tests look at its pages."""

import os
import shutil
from contextlib import contextmanager
from importlib.resources import files

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
ANSWERED = "return document.getElementById('status').textContent.startsWith('answered')"
DRAWN = "return document.documentElement.dataset.drawn === 'true'"
WIDE = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"


def started():
    """Yield a browser; without one the test skips, or fails in continuous integration."""
    found, driver = (
        next(filter(None, map(shutil.which, BROWSERS)), None),
        shutil.which("chromedriver"),
    )
    if found is None or driver is None:
        missing = "no Chromium" if found is None else "no chromedriver"
        reason = f"{missing} on this machine: apt-get install chromium chromium-driver"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = found
    for word in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{word}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(driver)
    session = webdriver.Chrome(options=options, service=service)
    session.set_window_size(1280, 900)
    yield session
    session.quit()


def wait(browser, script, *arguments):
    """Wait until a script returns something true, and return it."""
    from selenium.webdriver.support.wait import WebDriverWait

    return WebDriverWait(browser, 60, 0.05).until(lambda b: b.execute_script(script, *arguments))


def find(browser, selector):
    """Return the elements of a selector."""
    return browser.find_elements("css selector", selector)


def complaints(browser):
    """Return what the browser complained of."""
    return [entry for entry in browser.get_log("browser") if entry["level"] != "INFO"]


@contextmanager
def screen(browser, width, height=900, *, dark=False):
    """Have a screen of another size for a while."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def faults(browser):
    """Return what axe-core takes for serious or critical, with the first element of each.

    Drawings are left out, whose thousands of shapes take half a minute; they have their own tests.
    """
    browser.set_script_timeout(200)
    browser.execute_script((files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8"))
    options = "{exclude: ['svg']}, {resultTypes: ['violations']}"
    found = browser.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        f"axe.run({options}).then((r) => done(r.violations))"
    )
    return [
        (each["id"], each["nodes"][0]["html"][:160], each["nodes"][0]["failureSummary"])
        for each in found
        if each["impact"] in ("serious", "critical")
    ]
