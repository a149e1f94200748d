"""Takes the pictures of docs/web-page.md, with what the demo model says.

usage: pictures.py LINNET CHROMIUM OUTPUT_FOLDER; PIL, where it is there, makes them smaller
"""
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from json import dumps
from pathlib import Path

from browser import Browser
from test_page import IDLE

linnet, chromium, out = sys.argv[1], sys.argv[2], Path(sys.argv[3])


def shoot(page, name):
    path = out / f"{name}.png"
    page.shoot(path)
    try:
        from PIL import Image
        Image.open(path).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)
    except ImportError:
        pass
    print(f"{path}: {path.stat().st_size} bytes")


def ask(page, text, n):
    page.js("document.querySelector('#prompt').focus()")
    page.type(text)
    page.press("Enter")
    page.wait(f"({IDLE}) && document.querySelectorAll('.message.assistant').length === {n}")


def load(port, end):
    def client(i):
        time.sleep(3 * i)
        for j in range(1000):
            if time.monotonic() > end:
                return
            body = {"messages": [{"role": "user", "content": f"Tell me story {i}."}], "seed": 100 * i + j, "max_tokens": 400,
                    "ignore_eos": True}
            try:
                urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", dumps(body).encode())).read()
            except OSError:  # the server ended
                return

    for i in range(8):
        threading.Thread(target=client, args=(i,), daemon=True).start()


def main():
    server = subprocess.Popen([linnet, "serve", "--port=0", "--threads=1", "--max-seqs=6", "--no-log"], stdout=subprocess.PIPE, text=True)
    port = int(re.search(r":(\d+)\s*$", server.stdout.readline()).group(1))
    profile = tempfile.TemporaryDirectory()
    browser = Browser(chromium, profile.name)
    url = f"http://127.0.0.1:{port}/"
    try:
        page = browser.open(url, 1080, 660)
        page.js("localStorage.setItem('linnet.settings', JSON.stringify({temperature: '0.7', seed: '5', logprobs: true}))")
        page.reload()
        ask(page, "Tell me a story about a small bird.", 1)
        page.click("#new-chat")
        ask(page, "What is 12 + 30?", 1)
        ask(page, "Tell me about owls.", 2)
        page.js("[...document.querySelectorAll('.show-tokens')].at(-1).click()")
        page.js("document.querySelector('.token:is(.level-1, .level-2, .level-3, .level-4)').classList.add('tip-here')")
        page.hover(".tip-here")
        for dark in (False, True):
            name = "dark" if dark else "light"
            page.resize(1080, 660, dark=dark)
            page.hover(".tip-here")
            shoot(page, f"chat-{name}")
        page.js("document.querySelectorAll('.item:not(.current) .open')[0].click()")
        for dark in (False, True):
            page.resize(375, 660, dark=dark, touch=True)
            page.js("document.activeElement.blur(); document.querySelector('#scroll').scrollTop = 0")
            shoot(page, f"phone-{'dark' if dark else 'light'}")
        status = browser.open(url + "status", 1080, 660)
        load(port, time.monotonic() + 60)
        time.sleep(50)
        for dark in (False, True):
            status.resize(1080, 660, dark=dark)
            shoot(status, f"status-{'dark' if dark else 'light'}")
    finally:
        browser.close()
        server.terminate()
        server.wait()


main()
