"""A headless Chromium, driven over WebDriver (https://www.w3.org/TR/webdriver2/), for tests of pages."""

import base64
import json
import pathlib
import re
import subprocess
import time
import urllib.error
import urllib.request

PATIENCE = 60
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage", "--hide-scrollbars", "--force-device-scale-factor=1"]
KEYS = {"TAB": "\ue004", "ENTER": "\ue007", "ESCAPE": "\ue00c", "SPACE": "\ue00d", "DOWN": "\ue015",
        "SHIFT": "\ue008"}


class Chromium:
    """A browser with one window, until close(). `profile` is an empty folder; `insecure`: any
    certificate of a server is good."""

    def __init__(self, profile, insecure=False, flags=()):
        self.profile = profile
        # pylint: disable=consider-using-with
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        for line in self.driver.stdout:
            if found := re.search(r"started successfully on port (\d+)", line):
                break
        self.url = f"http://127.0.0.1:{found[1]}"
        # What stays on this machine goes to no proxy.
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            self.url += f"/session/{self.begin(insecure, flags)}"
        except AssertionError:
            self.end()
            raise

    def begin(self, insecure, flags):
        """The id of a session. On a machine that is busy the browser may begin too late."""
        capabilities = {"alwaysMatch": {
            "browserName": "chrome", "acceptInsecureCerts": insecure,
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"args": [*FLAGS, "--no-proxy-server",
                                            f"--user-data-dir={self.profile}", *flags]}}}
        for left in (2, 1, 0):
            try:
                return self.send("POST", "/session", {"capabilities": capabilities})["sessionId"]
            except AssertionError as failed:
                if left == 0 or "session not created" not in str(failed):
                    raise

    def close(self):
        try:
            self.send("DELETE", "")
        finally:
            self.end()

    def end(self):
        self.driver.terminate()
        self.driver.wait(timeout=PATIENCE)
        self.driver.stdout.close()

    def send(self, method, path, body=None):
        request = urllib.request.Request(
            self.url + path, method=method, headers={"Content-Type": "application/json"},
            data=json.dumps(body or {}).encode() if method == "POST" else None)
        try:
            with self.opener.open(request, timeout=4 * PATIENCE) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            fault = json.load(error)["value"]
            raise AssertionError(f"{fault['error']}: {fault['message']}") from None

    def open(self, url):
        self.send("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """The value that a function body returns."""
        return self.send("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait_for(self, condition, what):
        """The first true value of a function body."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if value := self.run(condition):
                return value
        raise AssertionError(f"not in time: {what}\n{self.run('return document.body.innerText')}")

    def element(self, selector):
        return self.send("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self.send("POST", f"/element/{self.element(selector)}/click")

    def type(self, selector, text):
        element = self.element(selector)
        self.send("POST", f"/element/{element}/clear")
        self.send("POST", f"/element/{element}/value", {"text": text})

    def choose_file(self, selector, path):
        self.send("POST", f"/element/{self.element(selector)}/value", {"text": str(path)})

    def press(self, *keys):
        """Presses keys, by name or as text, one after the other, wherever the focus is."""
        actions = []
        for key in keys:
            for character in ([KEYS[key]] if key in KEYS else key):
                actions += [{"type": "keyDown", "value": character}, {"type": "keyUp", "value": character}]
        self.send("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def focused(self):
        """The id, or the text, of the element with the focus."""
        return self.run("const e = document.activeElement; return e.id || e.name || e.textContent")

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def resize(self, width, height):
        self.devtools("Emulation.setDeviceMetricsOverride",
                      {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def prefer(self, scheme):
        self.devtools("Emulation.setEmulatedMedia",
                      {"features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def devtools(self, command, parameters):
        return self.send("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def screenshot(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self.send("GET", "/screenshot")))

    def complaints(self):
        """What the browser wrote to its console since: errors, and violations of the policy."""
        return [entry["message"] for entry in self.send("POST", "/se/log", {"type": "browser"})
                if entry["level"] in ("SEVERE", "WARNING")]
