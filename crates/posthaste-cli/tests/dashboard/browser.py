# A headless Chromium, spoken to in its own protocol. What goes wrong in a page ends the test:
# an exception, a dialog, a refusal of the content policy, or a request to anybody else.
import base64, json, pathlib, re, shutil, subprocess, sys, tempfile, time, urllib.parse, urllib.request
import websocket

PATIENCE = 60
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage", "--remote-debugging-port=0", "--remote-allow-origins=*"]


class Browser:
    def __init__(self, origin):
        self.origin = origin
        self.home = tempfile.mkdtemp(prefix="posthaste-browser-")
        self.process = subprocess.Popen(["chromium", *FLAGS, f"--user-data-dir={self.home}", "about:blank"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.port = self.started()
        except BaseException:
            self.close()
            raise

    def started(self):
        told = pathlib.Path(self.home, "DevToolsActivePort")
        ends = time.time() + PATIENCE
        while not (told.exists() and "\n" in told.read_text()):
            assert time.time() < ends, "Chromium does not start"
            time.sleep(0.05)
        return told.read_text().split()[0]

    def tab(self, isolated=True):
        listing = json.load(urllib.request.urlopen(f"http://127.0.0.1:{self.port}/json/version"))
        root = Wire(listing["webSocketDebuggerUrl"])
        context = {"browserContextId": root.call("Target.createBrowserContext")["browserContextId"]} if isolated else {}
        target = root.call("Target.createTarget", url="about:blank", **context)["targetId"]
        return Tab(self, Wire(f"ws://127.0.0.1:{self.port}/devtools/page/{target}"), root)

    def close(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Wire:
    def __init__(self, url):
        self.socket = websocket.create_connection(url, timeout=PATIENCE)
        self.last = 0
        self.heard = []

    def call(self, method, **params):
        self.last += 1
        self.socket.send(json.dumps({"id": self.last, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == self.last:
                assert "error" not in message, f"{method}: {message['error']}"
                return message["result"]
            self.heard.append(message)


class Tab:
    def __init__(self, browser, wire, root):
        self.browser, self.wire, self.root = browser, wire, root
        self.forgiven = []
        for domain in ["Page", "Runtime", "Network", "Log"]:
            wire.call(f"{domain}.enable")
        self.size(1440, 900)

    def size(self, width, height, theme="light"):
        self.wire.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                       deviceScaleFactor=1, mobile=width < 600)
        self.wire.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])

    def open(self, path):
        """Opens a page of ours, and waits until it is there."""
        url = path if path.startswith("about:") else self.browser.origin + path
        self.leave("Page.navigate", url=url)

    def reload(self):
        self.leave("Page.reload")

    def leave(self, method, **params):
        """Until another page is there, whatever is asked would be answered by the one before."""
        self.run("window.left = true")
        told = self.wire.call(method, **params)
        # Within a page there is nothing to wait for.
        if method == "Page.reload" or "loaderId" in told:
            self.until("!window.left && document.readyState === 'complete'", "the page")

    def run(self, script):
        told = self.wire.call("Runtime.evaluate", expression=script, returnByValue=True,
                              awaitPromise=True, userGesture=True)
        assert "exceptionDetails" not in told, f"{script}: {json.dumps(told['exceptionDetails'])[:600]}"
        return told["result"].get("value")

    def until(self, script, what=None):
        ends = time.time() + PATIENCE
        while True:
            try:
                found = self.run(script)
            except AssertionError as error:
                # Between two pages there is nothing to ask.
                found = None
                if time.time() > ends:
                    raise
            if found:
                return found
            assert time.time() < ends, f"waited for {what or script}; the page says:\n{self.text()[:3000]}"
            time.sleep(0.05)

    def text(self):
        return self.run("document.body.innerText") or ""

    def sees(self, text):
        self.until(f"document.body.innerText.includes({json.dumps(text)})", f"“{text}”")

    def misses(self, text):
        assert text not in self.text(), f"the page says “{text}”"

    def click(self, selector, text=None, tries=5):
        """Clicks with the mouse on the first that is seen, with this text."""
        found = self.until(f"""(() => {{
            const node = [...document.querySelectorAll({json.dumps(selector)})]
                .find((it) => it.checkVisibility() && !it.disabled && ({json.dumps(text)} == null || it.textContent.trim().startsWith({json.dumps(text)})));
            if (!node) return null;
            node.scrollIntoView({{ block: "center" }});
            window.clicked = false;
            node.addEventListener("click", () => {{ window.clicked = true; }}, {{ capture: true, once: true }});
            const box = node.getBoundingClientRect();
            return {{ x: box.x + box.width / 2, y: box.y + box.height / 2 }};
        }})()""", f"{selector} {text or ''}")
        for kind in ["mousePressed", "mouseReleased"]:
            self.wire.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **found)
        # A living page may have moved it, or made it anew, under the mouse: a person would click again.
        if tries > 1 and self.run("window.clicked === false"):
            self.click(selector, text, tries - 1)

    def type(self, selector, text):
        self.until(f"document.querySelector({json.dumps(selector)})?.checkVisibility()", selector)
        self.run(f"(() => {{ const it = document.querySelector({json.dumps(selector)}); it.focus(); it.select?.(); }})()")
        self.wire.call("Input.insertText", text=text)

    def press(self, key):
        codes = {"Enter": 13, "Escape": 27, "Tab": 9}
        extra = {"windowsVirtualKeyCode": codes[key]} if key in codes else {}
        text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
        self.wire.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **extra)
        self.wire.call("Input.dispatchKeyEvent", type="keyUp", key=key, **extra)

    def lose_answer(self, path):
        """The next POST to this path is done, and its answer gets lost on its way."""
        self.run("""{
            const real = window.fetch;
            let lost = false;
            window.fetch = async (path, options) => {
                const answer = await real(path, options);
                if (lost || options?.method !== "POST" || !path.endsWith("PATH")) return answer;
                lost = true;
                window.fetch = real;
                throw new TypeError("lost");
            };
        }""".replace("PATH", path))

    def picture(self, path, whole=True):
        shot = self.wire.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))

    def harmless(self):
        """Nothing in a page has done what it should not."""
        self.run("1")
        for message in self.wire.heard:
            kind, told = message.get("method"), message.get("params", {})
            text = json.dumps(told)[:1500]
            assert kind != "Page.javascriptDialogOpening", f"a dialog: {text}"
            assert kind != "Runtime.exceptionThrown", f"an exception: {text}"
            if kind == "Log.entryAdded" and told["entry"]["level"] == "error":
                entry = told["entry"]
                assert any(it in json.dumps(entry) for it in self.forgiven), f"an error: {text}"
            if kind == "Network.requestWillBeSent":
                url = told["request"]["url"]
                assert url.startswith((self.browser.origin + "/", "about:", "data:")), f"a request to {url}"
        assert self.run("typeof window.canary") == "undefined", "hostile script has run"
