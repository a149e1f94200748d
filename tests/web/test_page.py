"""Plays a user of the web page. usage: see run.sh"""
import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request
from pathlib import Path

from answers import EVERYTHING, HOSTILE, LARGE
from browser import CONTROL, SHIFT, Browser
from scripted import ScriptedServer

IDLE = "!document.querySelector('.message.running') && document.querySelector('.message.assistant')"
TESTS = []


def test(function):
    TESTS.append(function)
    return function


class World:
    """linnet, the scripted server before it, a browser; what tests share."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.linnets = []
        self.port = self.start_linnet()
        self.scripted = ScriptedServer(self.port)
        self.url = f"http://127.0.0.1:{self.scripted.port}/"
        self.axe = Path(arguments.axe).read_text()
        self.pictures = Path(arguments.folder)
        self.profile = tempfile.TemporaryDirectory()
        self.downloads = tempfile.TemporaryDirectory()
        self.browser = Browser(arguments.chromium, self.profile.name)
        self.browser.send("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": self.downloads.name})
        self.pages = []

    def start_linnet(self, *options):
        process = subprocess.Popen([self.arguments.linnet, "serve", "--port=0", "--threads=1", "--max-seqs=4", "--no-log",
                                    *options], stdout=subprocess.PIPE, text=True)
        self.linnets.append(process)
        return int(re.search(r":(\d+)\s*$", process.stdout.readline()).group(1))

    def open(self, path="", keeps=False, **size):
        """A new page. Unless it `keeps` them, what pages before it stored is gone."""
        if not keeps:
            self.browser.send("Storage.clearDataForOrigin", {"origin": self.url.rstrip("/"), "storageTypes": "all"},
                              session=self.any_session())
        page = self.browser.open(self.url + path, **size)
        self.pages.append(page)
        return page

    def any_session(self):
        if not self.pages:
            self.pages.append(self.browser.open(self.url))
        return self.pages[-1].session

    def close(self):
        self.browser.close()
        self.scripted.close()
        for process in self.linnets:
            process.terminate()
            process.wait(20)
        self.profile.cleanup()
        self.downloads.cleanup()


def ask(page, text):
    page.js("document.querySelector('#prompt').focus()")
    page.type(text)
    page.press("Enter")
    page.wait(f"({IDLE}) && [...document.querySelectorAll('.message.user .body')].at(-1).textContent === {json.dumps(text)}")


def last_answer(page):
    return page.js("[...document.querySelectorAll('.message.assistant .body')].at(-1).textContent")


def check_quiet(page):
    """Nothing failed, and nothing was asked of others."""
    troubles = page.troubles()
    assert not troubles, troubles
    host = page.js("location.origin")
    elsewhere = [url for url in page.requests() if not url.startswith((host, "blob:", "about:"))]
    assert not elsewhere, elsewhere


def check_axe(world, page, what):
    page.js(world.axe + "; 0")
    result = page.js("axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations.map((v) => "
                     "[v.impact, v.id, v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + ' ' + (n.any[0]?.message ?? ''))]))", 60)
    assert not result, f"{what}: {json.dumps(result, indent=1)}"
    world.n_axe = getattr(world, "n_axe", 0) + 1


def check_width(page):
    over = page.js("document.scrollingElement.scrollWidth - innerWidth")
    assert over <= 0, f"{over} pixels wider than the screen"


# ---- chats ----------------------------------------------------------------------------------


@test
def chats_by_mouse(world):
    page = world.open()
    page.wait("document.querySelector('#model').value === 'linnet-demo'")
    assert page.js("document.querySelector('#send').disabled")
    page.click("#prompt")
    page.type("What is 12 + 30?")
    page.click("#send")
    page.wait(IDLE)
    assert "42" in last_answer(page), last_answer(page)
    assert re.search(r"\d+ tokens .*first after \d", page.text(".message.assistant .stats")), page.text(".stats")
    assert page.focused() == "prompt"
    page.reload()
    assert "42" in last_answer(page)
    page.click("#new-chat")
    assert page.count(".message") == 0
    page.click(".suggestion:nth-child(2)")
    page.wait(IDLE)
    assert page.count("#conversations .item") == 2
    check_quiet(page)


@test
def shows_text_as_it_comes_and_stops(world):
    page = world.open()
    script = {"content": "word " * 400, "chunk": 5, "delay": 0.02}
    world.scripted.script = [script]
    page.click("#prompt")
    page.type("go")
    page.press("Enter")
    page.wait("document.querySelector('.message.running .body').textContent.length > 50")
    first = len(last_answer(page))
    page.wait(f"document.querySelector('.message.running .body').textContent.length > {first}")
    page.wait("/tokens\\/s/.test(document.querySelector('.message.running .stats')?.textContent)")
    page.click("#stop")
    page.wait(IDLE)
    assert page.text(".note") == "Stopped."
    assert 50 < len(last_answer(page)) < 1900
    end = time.monotonic() + 5
    while not script.get("was_cut") and time.monotonic() < end:
        time.sleep(0.05)
    assert script.get("was_cut"), "the server was not told"
    world.scripted.script = [{"content": "word " * 400, "chunk": 5, "delay": 0.02}]
    page.click("#prompt")
    page.type("again")
    page.press("Enter")
    page.wait("document.querySelector('.message.running .body')?.textContent.length > 20")
    page.press("Escape")
    page.wait(IDLE)
    check_quiet(page)


@test
def edits_and_regenerates(world):
    page = world.open()
    world.scripted.script = [{"content": f"answer {i}"} for i in range(1, 5)]
    world.scripted.bodies.clear()
    ask(page, "first question")
    page.click(".message.assistant .regenerate")
    page.wait(f"({IDLE}) && document.querySelector('.versions')?.textContent === '2/2'")
    assert last_answer(page) == "answer 2"
    page.click(".versions button:first-child")
    page.wait("document.querySelector('.message.assistant .body').textContent === 'answer 1'")
    ask(page, "second question")
    assert [m["content"] for m in world.scripted.bodies[-1]["messages"]] == ["first question", "answer 1", "second question"]
    page.press("ArrowUp")  # in the empty field: the last question
    page.wait("document.activeElement.matches('.edit-form textarea')")
    page.press("End", CONTROL)
    page.type(", changed")
    page.press("Enter")
    page.wait(f"({IDLE}) && document.querySelectorAll('.message.user .body')[1]?.textContent === 'second question, changed'")
    assert last_answer(page) == "answer 4"
    assert [m["content"] for m in world.scripted.bodies[-1]["messages"]][-1] == "second question, changed"
    page.reload()
    assert last_answer(page) == "answer 4"
    page.hover(".message.user:nth-of-type(3)")
    page.click(".message.user:nth-of-type(3) .versions button:first-child")
    page.wait("[...document.querySelectorAll('.message.assistant .body')].at(-1).textContent === 'answer 3'")
    check_quiet(page)


@test
def keeps_renames_exports_deletes(world):
    page = world.open()
    world.scripted.script = [{"content": "**kept**"}, {"content": "other"}]
    ask(page, "Keep this")
    page.click("#new-chat")
    ask(page, "And that")
    page.hover(".item:not(.current)")
    page.click(".item:not(.current) .more")
    page.press("Enter")  # the first entry: rename
    page.wait("document.activeElement.matches('.rename')")
    page.type("A <b>name</b>")
    page.press("Enter")
    page.wait("[...document.querySelectorAll('.item .open')].some((e) => e.textContent === 'A <b>name</b>')")
    page.click(".item:nth-of-type(3) .open" if page.count(".item:nth-of-type(3) .open") else ".item:not(.current) .open")
    page.wait("document.querySelector('.message.assistant .body strong')?.textContent === 'kept'")
    page.click(".item.current .more")
    page.press("ArrowDown")
    page.press("Enter")  # export as JSON
    file = Path(world.downloads.name) / "A-b-name-b.json"
    end = time.monotonic() + 10
    while not file.exists() and time.monotonic() < end:
        time.sleep(0.05)
    exported = json.loads(file.read_text())
    assert exported["conversations"][0]["title"] == "A <b>name</b>"
    page.click(".item.current .more")
    page.press("End")
    page.press("Enter")  # delete
    page.wait("document.querySelectorAll('.item').length === 1")
    page.click("#toast button")
    page.wait("document.querySelectorAll('.item').length === 2")
    page.click(".item.current .more")
    page.press("ArrowUp")
    page.press("Enter")
    page.wait("document.querySelectorAll('.item').length === 1")
    page.reload()
    assert page.count(".item") == 1
    document = page.send("DOM.getDocument")["root"]["nodeId"]
    field = page.send("DOM.querySelector", {"nodeId": document, "selector": "#import-file"})["nodeId"]
    page.send("DOM.setFileInputFiles", {"files": [str(file)], "nodeId": field})
    page.wait("document.querySelectorAll('.item').length === 2")
    page.wait("document.querySelector('.message.assistant .body strong')?.textContent === 'kept'")
    page.click("#filter")
    page.type("kept")
    page.wait("document.querySelectorAll('.item').length === 1")
    check_quiet(page)


# ---- what a request has ---------------------------------------------------------------------


@test
def sends_its_settings(world):
    page = world.open()
    world.scripted.script = [{"content": "fine"}, {"content": "fine"}]
    world.scripted.bodies.clear()
    page.wait("document.querySelector('#model').value === 'linnet-demo'")
    ask(page, "plain")
    assert world.scripted.bodies[0]["model"] == "linnet-demo"
    assert set(world.scripted.bodies[0]) == {"model", "messages", "stream", "stream_options"}, world.scripted.bodies[0]
    page.click("#open-settings")
    for field, text in (("system", "Be brief."), ("temperature", "0.5"), ("top_k", "20"), ("seed", "7"), ("max_tokens", "50"),
                        ("stop", "END")):
        page.click(f"#set-{field}")
        page.type(text)
    page.click("#set-tools")
    page.type("[{]")
    page.wait("document.querySelector('#note-tools').className === 'error'")
    page.press("Escape")
    page.wait("!document.querySelector('dialog[open]')")
    ask(page, "set")
    body = world.scripted.bodies[1]
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert (body["temperature"], body["top_k"], body["seed"], body["max_tokens"], body["stop"]) == (0.5, 20, 7, 50, ["END"])
    assert "tools" not in body
    page.reload()
    page.click("#open-settings")
    assert page.js("document.querySelector('#set-temperature').value") == "0.5"
    page.click("#settings .buttons .button:first-child")  # reset
    page.wait("document.querySelector('#set-temperature').value === ''")
    page.press("Escape")
    page.js("document.querySelector('#model').replaceChildren(new Option('…', ''))")  # as before they are known
    world.scripted.script = [{"content": "fine"}]
    ask(page, "at once")
    assert "model" not in world.scripted.bodies[2]
    check_quiet(page)


@test
def calls_tools_of_the_model(world):
    page = world.open()
    page.click("#open-settings")
    page.click("#set-tools")
    page.type('{"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, '
              '"required": ["city"], "additionalProperties": false}}')
    page.js("document.querySelector('#set-tool_choice').value = 'required'")
    page.js("document.querySelector('#set-tool_choice').dispatchEvent(new Event('change'))")
    page.press("Escape")
    ask(page, "How is the weather?")  # the demo model's own answer, held by the grammar
    assert page.text(".call summary span") == "Calls weather"
    assert not page.js("document.querySelector('.call').open")
    page.click(".call summary")
    assert "city" in json.loads(page.text(".call pre"))
    world.scripted.script = [{"content": "Sunny, then."}]
    world.scripted.bodies.clear()
    page.click(".results textarea")
    page.type('{"sky": "clear"}')
    page.click(".results button")
    page.wait(f"({IDLE}) && document.querySelectorAll('.message.assistant').length === 2")
    messages = world.scripted.bodies[0]["messages"]
    calls = messages[1]["tool_calls"]
    assert [(m["role"], m["tool_call_id"]) for m in messages[2:]] == [("tool", call["id"]) for call in calls], messages
    assert messages[2]["content"] == '{"sky": "clear"}'
    check_quiet(page)


@test
def shows_tokens_and_their_probabilities(world):
    page = world.open()
    page.click("#open-settings")
    page.click("#set-temperature")
    page.type("0")
    page.click("#set-logprobs")
    page.press("Escape")
    ask(page, "What is 4 + 5?")
    request = urllib.request.Request(f"http://127.0.0.1:{world.port}/v1/chat/completions", json.dumps({
        "messages": [{"role": "user", "content": "What is 4 + 5?"}], "temperature": 0, "logprobs": True, "top_logprobs": 5}).encode())
    wanted = json.load(urllib.request.urlopen(request))["choices"][0]["logprobs"]["content"]
    page.click(".show-tokens")
    tokens = page.js("[...document.querySelectorAll('.token')].map((t) => t.textContent)")
    assert tokens == [entry["token"] for entry in wanted], tokens
    page.hover(".token:nth-child(2)")
    page.wait("!document.querySelector('#token-tip').hidden")
    shown = page.js("[...document.querySelectorAll('#token-tip th')].map((t) => t.textContent)")
    assert shown == [top["token"].replace(" ", "␣").replace("\n", "↵") for top in wanted[1]["top_logprobs"]], shown
    page.js("document.querySelector('.token').focus()")
    page.press("ArrowRight")
    page.press("ArrowRight")
    assert page.js("document.activeElement.dataset.i") == "2"
    page.shoot(world.pictures / "tokens.png")
    check_axe(world, page, "tokens")
    page.click(".show-tokens")
    page.wait("!document.querySelector('.tokens')")
    check_quiet(page)


# ---- what a model says ----------------------------------------------------------------------

ALLOWED = set("P STRONG EM DEL CODE PRE BR A UL OL LI H3 H4 H5 H6 HR BLOCKQUOTE FIGURE FIGCAPTION SPAN BUTTON SVG PATH DIV TABLE "
              "THEAD TBODY TR TH TD MATH SEMANTICS ANNOTATION MROW MI MO MN MTEXT MSUP MSUB MSUBSUP MUNDER MOVER MUNDEROVER MFRAC "
              "MSQRT MROOT MSPACE MTABLE MTR MTD MSTYLE".split())


@test
def holds_hostile_answers(world):
    page = world.open()
    page.js("window.hits = 0; window.alert = () => { window.hits += 1; }")
    for text in HOSTILE:
        world.scripted.script = [{"content": text, "reasoning": text, "chunk": 7}]
        ask(page, "?")
        page.js("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        tags = set(page.js("[...document.querySelectorAll('.message.assistant .body *')].map((e) => e.tagName.toUpperCase())"))
        assert tags <= ALLOWED, (text, tags - ALLOWED)
        links = page.js("[...document.querySelectorAll('.message.assistant a')].map((a) => a.href)")
        assert all(link.startswith(("http://", "https://", "mailto:")) for link in links), links
        handlers = page.js("[...document.querySelectorAll('.message.assistant *')].some((e) => [...e.attributes].some((a) => "
                           "a.name.startsWith('on') || a.name === 'srcdoc' || (a.name === 'style' && !e.matches('mo'))))")
        assert not handlers, text
    world.scripted.script = [{"calls": [("<img src=x onerror=alert(1)>", '{"a": "</pre><script>alert(1)</script>"')]}]
    ask(page, "call")
    page.js("document.querySelectorAll('.message.assistant a').forEach((a) => { a.removeAttribute('target'); })")
    assert page.js("window.hits") == 0
    check_quiet(page)


@test
def holds_large_answers(world):
    page = world.open()
    world.scripted.script = [{"content": LARGE, "chunk": 400}]
    begin, before = time.monotonic(), page.processor_seconds()
    page.click("#prompt")
    page.type("much")
    page.press("Enter")
    page.wait(IDLE, timeout=90)
    spent = page.processor_seconds() - before
    print(f"  {len(LARGE)} characters: {time.monotonic() - begin:.1f} s, {spent:.1f} s of processor")
    assert spent < 6
    for text in ("[" * 20000, "*a " * 20000, "`" * 5001 + "a", "> " * 3000 + "x", "$" * 9999, "\\frac{" * 3000, "|-" * 9000 + "\n" + "|-" * 9000,
                 "$" + "{" * 3000 + "$", "- " * 4000, "![" * 9000, "_a" * 20000, "# " + " " * 90000 + "x", "-" + " " * 3900 + "x"):
        page.click("#new-chat")
        world.scripted.script = [{"content": text, "chunk": len(text)}]
        before = page.processor_seconds()
        ask(page, "next")
        spent = page.processor_seconds() - before
        if spent > 0.5:
            print(f"  {len(text)} of {text[:12]!r}: {spent:.1f} s of processor")
        assert spent < 3, text[:20]
    check_quiet(page)


@test
def renders_markdown(world):
    page = world.open()
    world.scripted.script = [{"content": EVERYTHING, "reasoning": "Let me *think*.", "chunk": 11}]
    ask(page, "Show everything")
    body = ".message.assistant .body"
    counts = {"h3": 1, "h4": 2, "table": 1, "td.right": 2, "pre": 1, "ol > li > ul > li": 2, ".task": 2, "blockquote": 1, "del": 1,
              "strong": 2, "em": 2, "p a": 1, "math": 6, "mtable": 3, ".unknown": 0, ".code-keyword": 7}
    found = {selector: page.count(f"{body} {selector}") for selector in counts}
    assert found == counts, {k: (found[k], counts[k]) for k in counts if found[k] != counts[k]}
    assert page.text(f"{body} del") == "gone"
    assert "$5 and $6" in page.text(body)
    assert not page.js("document.querySelector('.fold').open")
    page.click(".fold summary")
    assert page.text(".fold em") == "think"
    page.click(".code figcaption button")
    page.wait("document.querySelector('#announcer').textContent === 'Copied'")
    page.shoot(world.pictures / "markdown.png")
    check_axe(world, page, "Markdown")
    check_quiet(page)


# ---- what goes wrong ------------------------------------------------------------------------


@test
def says_what_went_wrong(world):
    page = world.open()
    world.scripted.script = [{"status": 429, "content": "the queue is full", "retry": 3}, {"content": "at last"}]
    ask(page, "crowded")
    assert "The queue is full. Try again in 3 s." in page.text(".failure p"), page.text(".failure p")
    check_axe(world, page, "an error")
    page.shoot(world.pictures / "error.png")
    page.click(".failure .button")
    page.wait(f"({IDLE}) && document.querySelector('.message.assistant .body').textContent === 'at last'")
    assert page.count(".failure") == 0 and page.count(".versions") == 0
    world.scripted.script = [{"content": "half of", "breaks": True}]
    ask(page, "broken")
    assert "ended early" in page.text(".failure p")
    assert last_answer(page) == "half of"
    world.scripted.is_down = True
    ask(page, "away")
    page.wait("!document.querySelector('#banner').hidden")
    page.shoot(world.pictures / "offline.png")
    world.scripted.is_down = False
    page.wait("document.querySelector('#banner').hidden", timeout=15)
    world.scripted.script = [{"content": "back"}]
    page.click(".message:last-child .failure .button")
    page.wait(f"({IDLE}) && [...document.querySelectorAll('.message.assistant .body')].at(-1).textContent === 'back'")


@test
def asks_for_the_key(world):
    port = world.start_linnet("--api-key=secret")
    page = world.browser.open(f"http://127.0.0.1:{port}/")
    page.wait("document.querySelector('#key-dialog').open")
    check_axe(world, page, "the key")
    page.type("wrong")
    page.press("Enter")
    page.wait("document.querySelector('#key-note')?.className === 'error'")
    page.click("#key")
    page.type("secret")
    page.press("Enter")
    page.wait("document.querySelector('#model').value === 'linnet-demo'")
    ask(page, "What is 12 + 30?")
    assert "42" in last_answer(page)
    assert page.js("JSON.stringify(localStorage)").find("secret") < 0
    page.send("Page.navigate", {"url": f"http://127.0.0.1:{port}/status"})
    page.wait("document.querySelector('#state')?.textContent === 'ready'")


# ---- ways to use it -------------------------------------------------------------------------


@test
def needs_no_mouse(world):
    page = world.open()
    world.scripted.script = [{"content": "```c\nint x;\n```"}, {"content": "second"}]
    for _ in range(40):  # around to the page's first link
        page.press("Tab")
        if page.focused() == "skip":
            break
    assert page.focused() == "skip", page.focused()
    page.press("Enter")
    page.wait("document.activeElement.id === 'prompt'")
    page.type("line one")
    page.press("Enter", SHIFT)
    page.type("line two")
    page.press("Enter")
    page.wait(IDLE)
    assert page.text(".message.user .body") == "line one\nline two"
    reached = set()
    for _ in range(45):  # once around
        page.press("Tab")
        reached.add(page.js("(e => e.getAttribute('aria-label') || e.id || e.textContent)(document.activeElement)"))
    for label in ("Regenerate", "Copy the code", "Copy the message", "Edit", "model", "Settings", "Server status", "Theme: system",
                  "filter", "import", "new-chat", "Chats", "Actions for line one", "prompt"):
        assert any(label == one or one.startswith(label) for one in reached if one), (label, reached)
    page.js("document.querySelector('.item .more').focus()")
    page.press("Enter")
    assert page.js("document.activeElement.getAttribute('role')") == "menuitem"
    check_axe(world, page, "the menu")
    page.press("Escape")
    assert page.focused() == "icon-button more"
    page.js("document.querySelector('#open-settings').focus()")
    page.press("Enter")
    page.wait("document.querySelector('#settings').open")
    page.press("Escape")
    page.wait("!document.querySelector('#settings').open")
    assert page.focused() == "open-settings"
    page.js("document.querySelector('.regenerate').focus()")
    page.press("Enter")
    page.wait(f"({IDLE}) && document.querySelector('.message.assistant .body').textContent === 'second'")
    assert "second" in page.text("#announcer")
    check_quiet(page)


@test
def fits_phones(world):
    page = world.open(width=390, height=844, touch=True)
    assert page.js("document.querySelector('#sidebar').inert")
    check_axe(world, page, "empty, phone")
    world.scripted.script = [{"content": EVERYTHING + "\n\n" + "word" * 200 + "\n\n```\n" + "x" * 400 + "\n```", "chunk": 50}]
    ask(page, "Show everything")
    check_width(page)
    inner = page.js("document.querySelector('#scroll').scrollWidth - document.querySelector('#scroll').clientWidth")
    assert inner <= 0, inner
    page.js("document.querySelector('.message.assistant').scrollIntoView()")
    page.shoot(world.pictures / "phone.png")
    page.click("#open-sidebar")
    page.wait("!document.querySelector('#sidebar').inert && document.querySelector('#main').inert")
    time.sleep(0.3)
    page.shoot(world.pictures / "phone-chats.png")
    check_axe(world, page, "chats, phone")
    page.press("Escape")
    page.wait("document.querySelector('#sidebar').inert")
    page.click("#open-settings")
    check_width(page)
    check_axe(world, page, "settings, phone")
    page.press("Escape")
    page.go(world.url + "status")
    page.wait("document.querySelector('.card')")
    check_width(page)
    check_axe(world, page, "status, phone")
    check_quiet(page)


@test
def is_light_and_dark(world):
    for dark in (False, True):
        page = world.open(dark=dark)
        check_axe(world, page, f"empty, dark {dark}")
        world.scripted.script = [{"content": EVERYTHING, "reasoning": "Thoughts.", "calls": [("weather", '{"city": "Bonn"}')]}]
        ask(page, "Show everything")
        page.js("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        check_axe(world, page, f"an answer, dark {dark}")
        page.shoot(world.pictures / f"answer-{'dark' if dark else 'light'}.png")
        page.click("#open-settings")
        check_axe(world, page, f"settings, dark {dark}")
        page.press("Escape")
    background = "getComputedStyle(document.body).backgroundColor"
    before = page.js(background)
    page.click("#theme")
    page.wait(f"{background} !== {json.dumps(before)}")
    page.reload()
    assert page.js(background) != before
    check_quiet(page)


@test
def shows_the_servers_status(world):
    page = world.open("status")
    page.wait("document.querySelector('#state').textContent === 'ready'")
    body = json.dumps({"messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 60, "ignore_eos": True, "n": 4})
    for _ in range(2):
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{world.port}/v1/chat/completions", body.encode())).read()
    text = urllib.request.urlopen(f"http://127.0.0.1:{world.port}/metrics").read().decode()
    total = int(float(re.search(r"generation_tokens_total\{[^}]*\} (\S+)", text).group(1)))
    page.wait(f"document.querySelector('#totals td').textContent === {json.dumps(f'{total:,}')}")
    page.wait("document.querySelectorAll('.chart path.line').length >= 3")
    label = page.js("document.querySelector('.chart svg').getAttribute('aria-label')")
    most = float(re.search(r"Output: now .*?most ([\d.,k]+)", label).group(1).replace(",", "").replace("k", "e3"))
    assert most > 100, label  # 480 tokens came within two looks
    page.hover(".chart svg")
    page.wait("document.querySelector('.chart .cursor')")
    page.click(".chart summary")
    page.wait("document.querySelectorAll('.chart tbody tr').length >= 2")
    check_axe(world, page, "status")
    page.click("#windows button:nth-child(2)")
    page.wait("/5 min/.test(document.querySelector('.chart svg').textContent)")
    page.click(".chart summary")
    page.resize(1200, 1000, dark=True)
    check_axe(world, page, "status, dark")
    page.shoot(world.pictures / "status-dark.png")
    page.click("#chat-link")
    page.wait("document.querySelector('#prompt')")
    check_quiet(page)


def main():
    parser = argparse.ArgumentParser()
    for name in ("linnet", "chromium", "axe", "folder"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    failures = 0
    world = World(arguments)
    try:
        for function in TESTS:
            if arguments.names and function.__name__ not in arguments.names:
                continue
            begin = time.monotonic()
            world.scripted.script = []
            world.scripted.is_down = False
            try:
                function(world)
                print(f"ok   {function.__name__} ({time.monotonic() - begin:.1f} s)", flush=True)
            except Exception:
                failures += 1
                print(f"FAIL {function.__name__}\n{traceback.format_exc()}", flush=True)
    finally:
        world.close()
    print(f"{failures} failures; axe-core found nothing in {getattr(world, 'n_axe', 0)} states")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
