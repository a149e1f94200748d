"""Headless Chromium, driven over a pipe by the DevTools protocol; Python's standard library is all it needs."""
import base64
import json
import os
import subprocess
import time

KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), "ArrowUp": (38, ""), "ArrowDown": (40, ""),
        "ArrowLeft": (37, ""), "ArrowRight": (39, ""), "Home": (36, ""), "End": (35, ""), "Backspace": (8, ""),
        " ": (32, " ")}
SHIFT, CONTROL = 8, 2


class Browser:
    """One browser with a profile of its own, which ends with close()."""

    def __init__(self, chromium, profile):
        to_browser, self.to = os.pipe()
        self.back, from_browser = os.pipe()

        def place():  # where --remote-debugging-pipe expects its ends
            os.dup2(to_browser, 20)
            os.dup2(from_browser, 21)
            os.dup2(20, 3)
            os.dup2(21, 4)

        self.process = subprocess.Popen(
            [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-background-networking", "--disable-component-update",
             "--disable-sync", "--hide-scrollbars", "--force-color-profile=srgb", "--remote-debugging-pipe",
             f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=place, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.rest = b""
        self.next_id = 0
        self.events = []

    def send(self, method, params=None, session=None, timeout=30):
        self.next_id += 1
        message = {"id": self.next_id, "method": method, "params": params or {}}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            answer = self.read(end)
            if answer and answer.get("id") == self.next_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
        raise TimeoutError(method)

    def read(self, end):
        import select
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.back], [], [], max(0, end - time.monotonic()))
            if not ready:
                return None
            part = os.read(self.back, 1 << 20)
            if not part:
                raise RuntimeError("the browser ended")
            self.rest += part
        line, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(line)
        if "id" not in message:
            self.events.append(message)
        return message

    def open(self, url, width=1200, height=800, dark=False, touch=False, scale=1):
        target = self.send("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.send("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = Page(self, target, session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.send(f"{domain}.enable")
        page.resize(width, height, dark, touch, scale)
        page.go(url)
        return page

    def close(self):
        try:
            self.send("Browser.close", timeout=5)
            self.process.wait(10)
        except (RuntimeError, TimeoutError, BrokenPipeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()


class Page:
    def __init__(self, browser, target, session):
        self.browser, self.target, self.session = browser, target, session

    def send(self, method, params=None, timeout=30):
        return self.browser.send(method, params, self.session, timeout)

    def resize(self, width, height, dark=False, touch=False, scale=1):
        self.send("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": scale, "mobile": touch})
        self.send("Emulation.setTouchEmulationEnabled", {"enabled": touch})
        self.send("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"}]})

    def go(self, url):
        self.send("Page.navigate", {"url": url})
        self.wait("document.documentElement.dataset.ready === 'yes'", what=f"{url} to be ready")

    def reload(self):
        self.send("Page.reload")
        time.sleep(0.2)
        self.wait("document.documentElement.dataset.ready === 'yes'", what="the page to be ready again")

    def js(self, expression, timeout=30):
        """The value of an expression, which may be a promise."""
        result = self.send("Runtime.evaluate", {"expression": expression, "returnByValue": True,
                                                "awaitPromise": True}, timeout)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, expression, timeout=20, what=None):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            try:
                value = self.js(expression)
                if value or value == {}:  # an element is {} by value
                    return value
            except RuntimeError:
                pass  # between two pages
            time.sleep(0.05)
        raise AssertionError(f"waited {timeout} s in vain for {what or expression}")

    def text(self, selector):
        return self.js(f"document.querySelector({json.dumps(selector)})?.textContent ?? null")

    def count(self, selector):
        return self.js(f"document.querySelectorAll({json.dumps(selector)}).length")

    # ---- the user ---------------------------------------------------------------------------

    def place_of(self, selector):
        box = self.wait(f"""(() => {{
            const e = document.querySelector({json.dumps(selector)});
            if (!e || !e.checkVisibility()) return null;
            e.scrollIntoView({{block: 'center'}});
            const b = e.getBoundingClientRect();
            return b.width > 0 && [b.left + b.width / 2, b.top + b.height / 2];
        }})()""", what=f"{selector} to be there")
        return box

    def hover(self, selector):
        x, y = self.place_of(selector)
        self.send("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})

    def click(self, selector):
        """A real click at the middle of the element, which must not lie under another one."""
        x, y = self.place_of(selector)
        top = self.js(f"""(() => {{
            const e = document.querySelector({json.dumps(selector)}), top = document.elementFromPoint({x}, {y});
            return e.contains(top) || top?.closest('label')?.contains(e) ? '' : top?.outerHTML?.slice(0, 200) ?? 'nothing';
        }})()""")
        assert top == "", f"{selector} lies under {top}"
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, "clickCount": 1,
                                                   "button": "none" if kind == "mouseMoved" else "left"})

    def press(self, key, modifiers=0):
        code, text = KEYS[key]
        event = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": code,
                 "modifiers": modifiers}
        self.send("Input.dispatchKeyEvent", {"type": "keyDown" if text else "rawKeyDown", "text": text, **event})
        self.send("Input.dispatchKeyEvent", {"type": "keyUp", **event})

    def type(self, text):
        self.send("Input.insertText", {"text": text})

    def focused(self):
        return self.js("(e => e.id || e.className || e.tagName)(document.activeElement)")

    # ---- what it looks like -----------------------------------------------------------------

    def shoot(self, path):
        time.sleep(0.25)
        data = self.send("Page.captureScreenshot", {"format": "png"})["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def processor_seconds(self):
        """What the page's main thread has computed, whatever else the machine does."""
        self.send("Performance.enable", {"timeDomain": "threadTicks"})
        metrics = self.send("Performance.getMetrics")["metrics"]
        return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")

    def troubles(self):
        """What the console complained about, and requests to elsewhere than the own server."""
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            method, params = event["method"], event["params"]
            if method == "Runtime.exceptionThrown":
                found.append(json.dumps(params["exceptionDetails"])[:600])
            elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        return found

    def requests(self):
        return [event["params"]["request"]["url"] for event in self.browser.events
                if event.get("sessionId") == self.session and event["method"] == "Network.requestWillBeSent"]

    def close(self):
        self.browser.send("Target.closeTarget", {"targetId": self.target})
