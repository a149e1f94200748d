#!/usr/bin/env python3
"""Draws the charts of docs/charts from the figures in bench/results.

usage: charts.py [--check] [NAME...]

Each chart becomes two files, NAME-light.svg and NAME-dark.svg; a page chooses between them by
<picture>. --check draws nothing, and fails when a file differs from what would be drawn. Python's
standard library is all that this needs.
"""
import csv
import math
import sys
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results"
CHARTS = ROOT / "docs" / "charts"

WIDTH = 840
MARGIN = 24
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"

THEMES = {
    "light": {
        "page": "#ffffff", "text": "#1f2328", "muted": "#59636e", "rule": "#d1d9e0",
        "linnet": "#0969da", "second": "#7cb7f5", "third": "#b6d8fb", "peer": "#d4820a",
        "grey": "#8c959f", "dark grey": "#57606a", "limit": "#ffffff",
    },
    "dark": {
        "page": "#0d1117", "text": "#e6edf3", "muted": "#9198a1", "rule": "#3d444d",
        "linnet": "#4493f8", "second": "#265a9c", "third": "#1b3a63", "peer": "#d29922",
        "grey": "#6e7681", "dark grey": "#a2abb5", "limit": "#0d1117",
    },
}

# Series: how a chart calls it, its colour, and the rows that it takes (program, weights or None).
VLLM = ("vLLM 0.26", "peer", "vLLM")
LINNET = ("linnet", "linnet", "linnet")
LLAMA = ("llama.cpp", "grey", "llama.cpp")
IK_LLAMA = ("ik_llama.cpp", "dark grey", "ik_llama.cpp")
CEILING = ("reading the weights alone", "limit", "reading the weights")

FOUR_BITS = {"int4": "4-bit, groups of 128", "q4_0": "4-bit, blocks of 32 (q4_0)"}
EXPERT_DECODES = {"experts, decode, 1 sequence": "1 sequence",
                  "experts, decode, 16 sequences": "16 sequences",
                  "experts, decode, 64 sequences": "64 sequences",
                  "experts, decode, 256 sequences": "256 sequences"}


def panel(title, cases, rows="weights", names=None, only=None):
    """A panel shows some cases; its rows are told apart by the column `rows`."""
    return {"title": title, "cases": cases, "rows": rows, "names": names or {}, "only": only}


def bars(title, unit, source, series, panels, columns=2):
    return {"kind": "bars", "title": title, "unit": unit, "source": source, "series": series,
            "panels": panels, "columns": columns}


DECODES = [("1 sequence", "decode, 1 sequence"),
           ("16 sequences after 512 tokens", "decode, 16 sequences after 512"),
           ("64 sequences after 1024 tokens", "decode, 64 sequences after 1024"),
           ("256 sequences after 256 tokens", "decode, 256 sequences after 256")]

CHARTS_OF = {
    "gpu-vllm-ratio": {
        "kind": "ratio", "title": "linnet beside vLLM 0.26 on one H200",
        "unit": "tokens/s of linnet over those of vLLM; Mistral 7B's shape unless it says experts",
        "source": "gpu-vllm.csv", "program": "linnet", "beside": "vLLM",
        "names": {"int4": "4-bit", "bf16": "bf16"},
    },
    "gpu-vllm-decode": bars(
        "Decode, Mistral 7B's shape, one H200", "tokens/s of all sequences together",
        "gpu-vllm.csv", [VLLM, LINNET],
        [panel(title, [case], names=FOUR_BITS) for title, case in DECODES]),
    "gpu-vllm-prompts": bars(
        "Prompts and serving, one H200", "tokens/s; experts: 4 layers of 128 experts, 8 chosen",
        "gpu-vllm.csv", [VLLM, LINNET, ("linnet, batch-invariant off", "second",
                                        "linnet, batch-invariant off")],
        [panel("prompt of 2048 tokens", ["prefill 2048"], names=FOUR_BITS),
         panel("512 requests of 512 + 256 tokens, 256 at once",
               ["512 requests of 512 + 256, 256 at once"]),
         panel("bf16, a prompt of 32768 tokens", ["prefill 32768"]),
         panel("bf16, decode after 32768 tokens", ["decode, 1 sequence after 32768",
                                                   "decode, 8 sequences after 32768"],
               rows="case", names={"decode, 1 sequence after 32768": "1 sequence",
                                   "decode, 8 sequences after 32768": "8 sequences"}),
         panel("bf16, experts, a prompt of 2048 tokens", ["experts, prefill 2048"]),
         panel("bf16, experts, decode", list(EXPERT_DECODES), rows="case",
               names=EXPERT_DECODES)]),
    "gpu-decode-limit": bars(
        "Decode of one sequence beside what the memory allows, one H200", "tokens/s",
        "gpu-llama.cpp.csv", [LLAMA, LINNET, CEILING],
        [panel("Mistral 7B's shape", ["decode, 1 sequence"])], columns=1),
    "gpu-linears": bars(
        "Linears of 2048 rows, one H200", "TOP/s, conversion of the activations included",
        "gpu-linears.csv", [LINNET, ("cuBLASLt", "grey", "cuBLASLt")],
        [panel("gate and up, 4096 to 2 x 14336", ["gate and up"]),
         panel("down, 14336 to 4096", ["down"]),
         panel("q, k and v, 4096 to 6144", ["q, k and v"]),
         panel("output, 4096 to 4096", ["output"])]),
    "gpu-attention": bars(
        "Attention of 32 query heads over 8 KV heads, one H200", "head size 128; rows are types of the KV cache",
        "gpu-attention.csv", [LINNET, ("cuDNN", "grey", "cuDNN")],
        [panel("prompt of 8192, TFLOP/s", ["prompt of 8192, head 128"]),
         panel("64 sequences of 8192, GB/s (memory: 4330)",
               ["64 sequences of 8192, head 128"])]),
    "cpu-models": bars(
        "TinyLlama 1.1B's shape, and a mixture's, on two virtual cores of an EPYC", "tokens/s",
        "cpu-models.csv", [LLAMA, IK_LLAMA, LINNET],
        [panel("prompt of 512 tokens", ["prefill 512"]),
         panel("decode of one sequence", ["decode"],
               only=["Q4_0", "Q8_0", "Q4_K_M", "BF16", "Q4_K_M of a mixture"]),
         panel("decode after 4096 tokens", ["decode after 4096", "decode after 4096, Q4_K_M"],
               rows="case", names={"decode after 4096": "Q4_0",
                                   "decode after 4096, Q4_K_M": "Q4_K_M"}),
         panel("decode of 32 sequences", ["decode, 32 sequences"])]),
    "cpu-start": bars(
        "From start to first token, 1.1B in Q4_0, a prompt of 16 ids", "milliseconds",
        "cpu-start.csv", [LLAMA, IK_LLAMA, LINNET],
        [panel("less is better", ["start to first token"], rows="case",
               names={"start to first token": "Q4_0"})], columns=1),
    "cpu-kernels": bars(
        "Linears of 240 rows, one thread of an EPYC", "GOP/s",
        "cpu-kernels.csv", [("AVX2", "third", "avx2"), ("AVX-512", "second", "avx512"),
                            ("AVX-512 with VNNI and BF16", "linnet", "avx512-bf16")],
        [panel("formats of one scale or two", ["240 rows"],
               only=["Q4_0", "Q4_1", "Q8_0", "Q3_K", "Q4_K", "Q6_K", "BF16", "F32"]),
         panel("codebooks and ternary weights", ["240 rows"],
               only=["IQ1_S", "IQ2_XXS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_XS", "TQ1_0",
                     "TQ2_0"])]),
}


def read(source):
    with open(RESULTS / source, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def show(value):
    """A figure as people read it: 28759 becomes 28,759, small ones keep their digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:g}"


class Svg:
    def __init__(self, theme, title):
        self.colours = THEMES[theme]
        self.title = title
        self.parts = []

    def text(self, x, y, words, size=12, colour="text", anchor="start", weight="normal"):
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{self.colours[colour]}"'
            f' text-anchor="{anchor}" font-weight="{weight}">{escape(words)}</text>')

    def bar(self, x, y, width, height, colour):
        outline = f' stroke="{self.colours["muted"]}"' if colour == "limit" else ""
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" height="{height:.1f}"'
            f' rx="1.5" fill="{self.colours[colour]}"{outline}/>')

    def line(self, x1, y1, x2, y2, colour="rule", dash=""):
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
                          f' stroke="{self.colours[colour]}"{dashes}/>')

    def done(self, height):
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}"'
                f' width="{WIDTH}" height="{height:.0f}" role="img" font-family="{FONT}">\n'
                f'<title>{escape(self.title)}</title>\n'
                f'<rect width="100%" height="100%" fill="{self.colours["page"]}"/>\n')
        return head + "\n".join(self.parts) + "\n</svg>\n"


def heading(svg, chart):
    svg.text(MARGIN, 30, chart["title"], size=17, weight="600")
    svg.text(MARGIN, 49, chart["unit"], colour="muted")
    return 64


def legend(svg, series, y):
    x = MARGIN
    for name, colour, _ in series:
        svg.bar(x, y, 11, 11, colour)
        svg.text(x + 16, y + 10, name)
        x += 34 + 6.7 * len(name)
    return y + 22


def lines_of(chart, part, figures):
    """The rows of a panel: [(label, [(colour, value), ...]), ...], in the order of the file."""
    found = {}
    for row in figures:
        if row["case"] not in part["cases"]:
            continue
        key = row[part["rows"]]
        if part["only"] and key not in part["only"]:
            continue
        for place, (_, colour, program) in enumerate(chart["series"]):
            if row["program"] == program:
                found.setdefault(key, []).append((place, colour, float(row["value"])))
    if part["only"]:
        found = {key: found[key] for key in part["only"]}
    if not found:
        sys.exit(f"{chart['source']} has no figures for {part['cases']}")
    names = part["names"]
    return [(names.get(key, key), sorted(values))
            for key, values in found.items()]


BAR, GAP = 12, 9


def draw_panel(svg, title, rows, x, y, width):
    """Horizontal bars, those of a row beneath one another. Returns the height."""
    longest = max(len(label) for label, _ in rows)
    labels = min(max(6.3 * longest + 12, 60), 0.48 * width)
    room = width - labels - 52
    most = max(value for _, values in rows for _, _, value in values)
    svg.text(x, y + 12, title, weight="600")
    top = y = y + 22
    for label, values in rows:
        height = BAR * len(values)
        svg.text(x + labels - 8, y + height / 2 + 4, label, colour="muted", anchor="end")
        for _, colour, value in values:
            svg.bar(x + labels, y + 1, room * value / most, BAR - 2, colour)
            svg.text(x + labels + room * value / most + 5, y + BAR - 2, show(value), size=11)
            y += BAR
        y += GAP
    svg.line(x + labels, top - 2, x + labels, y - GAP + 2)
    return y - top + 22


def draw_bars(chart, theme):
    svg = Svg(theme, chart["title"])
    figures = read(chart["source"])
    y = legend(svg, chart["series"], heading(svg, chart))
    columns = chart["columns"]
    width = (WIDTH - 2 * MARGIN - 28 * (columns - 1)) / columns
    row_height = 0
    for i, part in enumerate(chart["panels"]):
        if i % columns == 0:
            y += row_height + (16 if i else 8)
            row_height = 0
        x = MARGIN + (i % columns) * (width + 28)
        row_height = max(row_height, draw_panel(svg, part["title"],
                                                lines_of(chart, part, figures), x, y, width))
    return svg.done(y + row_height + 12)


def ratios(chart):
    """[(case, weights, ratio)] of what both programs ran, in the order of the file."""
    ours, theirs = {}, {}
    for row in read(chart["source"]):
        if "/s" in row["unit"]:
            side = {chart["program"]: ours, chart["beside"]: theirs}.get(row["program"])
            if side is not None:
                side[row["case"], row["weights"]] = float(row["value"])
    return [(case, chart["names"].get(weights, weights), ours[case, weights] / value)
            for (case, weights), value in theirs.items() if (case, weights) in ours]


def draw_ratio(chart, theme):
    """Bars to the right of 1 where we are faster, to the left where we are slower; log scale."""
    svg = Svg(theme, chart["title"])
    y = legend(svg, [("linnet is faster", "linnet", ""), ("vLLM is faster", "peer", "")],
               heading(svg, chart)) + 10
    rows = ratios(chart)
    left, right = MARGIN + 300, WIDTH - MARGIN - 46
    low = math.log2(min(min(r for _, _, r in rows), 0.5))
    high = math.log2(max(max(r for _, _, r in rows), 2))

    def place(ratio):
        return left + (right - left) * (math.log2(ratio) - low) / (high - low)

    top, last = y, None
    for case, weights, ratio in rows:
        if case != last:
            y += 5 if last else 0
            svg.text(MARGIN, y + 11, case)
            last = case
        svg.text(left - 12, y + 11, weights, colour="muted", anchor="end")
        ahead = ratio >= 1
        svg.bar(min(place(1), place(ratio)), y + 2, abs(place(ratio) - place(1)), BAR - 1,
                "linnet" if ahead else "peer")
        svg.text(place(ratio) + (5 if ahead else -5), y + 12, f"{ratio:.2f}", size=11,
                 anchor="start" if ahead else "end")
        y += BAR + 5
    bars_end = len(svg.parts)
    for mark in (0.5, 1, 2, 4):
        if low <= math.log2(mark) <= high:
            svg.line(place(mark), top - 4, place(mark), y + 2, "muted" if mark == 1 else "rule",
                     "" if mark == 1 else "2 3")
            svg.text(place(mark), y + 16, f"{mark:g} x", size=11, colour="muted", anchor="middle")
    svg.parts = svg.parts[bars_end:] + svg.parts[:bars_end]
    return svg.done(y + 28)


def main(arguments):
    check = "--check" in arguments
    wanted = [a for a in arguments if not a.startswith("-")] or list(CHARTS_OF)
    stale = []
    for name in wanted:
        chart = CHARTS_OF[name]
        draw = draw_ratio if chart["kind"] == "ratio" else draw_bars
        for theme in THEMES:
            path = CHARTS / f"{name}-{theme}.svg"
            text = draw(chart, theme)
            if not check:
                path.write_text(text, encoding="utf-8")
            elif not path.exists() or path.read_text(encoding="utf-8") != text:
                stale.append(path.relative_to(ROOT))
    for path in stale:
        print(f"{path} is older than its figures: run tools/plot/charts.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
