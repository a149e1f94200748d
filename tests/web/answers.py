"""What scripted models say."""

EVERYTHING = r"""# A tour

Some **bold**, *italic*, ***both***, ~~gone~~, `code`, and a [link](https://example.org/a_(b)). Prices: $5 and $6.
Inline $e^{i\pi}+1=0$ and \(x_1^2\).

## Lists

1. First
   - nested one
   - nested two
2. Second

- [ ] open
- [x] done

> A quote with `code`
> and two lines.

| Name | Speed | Share |
|:-----|------:|:-----:|
| linnet | 12.5 | 40 % |
| other `a|b` | 7 | 60 % |

## Code and formulas

```python
def fib(n: int) -> int:
    a, b = 0, 1  # the first two
    for _ in range(n):
        a, b = b, a + b
    return a if n else None
```

$$
\int_{-\infty}^{\infty} e^{-x^2}\,dx = \sqrt{\pi}, \qquad \sum_{n=1}^{\infty} \frac{1}{n^2} = \frac{\pi^2}{6}
$$

\[
A = \begin{pmatrix} a & b \\ c & d \end{pmatrix}
\]

\[
f(x) = \begin{cases} x^2 & \text{if } x > 0 \\ 0 & \text{otherwise} \end{cases}
\]

$$\begin{aligned} (a+b)^2 &= a^2 + 2ab + b^2 \\ &\geq 4ab \end{aligned}$$
"""

HOSTILE = [
    "<script>alert(1)</script><img src=x onerror=alert(1)><svg onload=alert(1)><iframe srcdoc='<script>alert(1)</script>'>",
    "[a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](data:text/html,<script>alert(1)</script>) [d](vbscript:x)",
    "[e](\tjavascript:alert(1)) [f](java\nscript:alert(1)) [g](<javascript:alert(1)>) <javascript:alert(1)> [h](//evil.example)",
    "![p](http://127.0.0.1:1/leak?q=1) ![p](javascript:alert(1)) ![](data:image/svg+xml,<svg onload=alert(1)>)",
    '[x](http://127.0.0.1:1/"onmouseover="alert(1)) [y](https://a.example "t\\" onclick=alert(1)")',
    "```html\"><script>alert(1)</script>\n</code></pre><script>alert(1)</script>\n```",
    "``` <img src=x onerror=alert(1)>\nx\n```\n\n~~~\"onload=alert(1)\nx",
    "| <img src=x onerror=alert(1)> | b |\n|---|---|\n| [x](javascript:alert(1)) | <script>alert(1)</script> |",
    r"$\text{<script>alert(1)</script>}$ $\href{javascript:alert(1)}{x}$ $\class{x}{\unicode{60}}$ $<img src=x onerror=alert(1)>$",
    r"$$\begin{<script>}\end{</script>} \constructor \__proto__ \hasOwnProperty \toString{x}$$",
    "<a href='javascript:alert(1)'>x</a> &lt;script&gt;alert(1)&lt;/script&gt; &#60;script&#62;",
    "# <img src=x onerror=alert(1)>\n> <style>*{display:none}</style>\n- <base href='http://evil.example/'>\n1. <form action=x><button>",
    "```__proto__\nx\n```\n\n```constructor\nvar x = 'a';\n```\n\n```toString\nx\n```",
    "\u202e\u0000\ufeff<script>alert(1)</script>\u2028alert(1)",
    "https://evil.example/<script>alert(1)</script> https://a.example/\"onclick=alert(1) http://[::1 https://%zz",
]

LARGE = "".join(f"## Part {i}\n\nA paragraph with **words**, `code` and $x_{i}^2$ that goes on for a while. " + "word " * 60 +
                f"\n\n- one\n- two\n  - three\n\n```c\nint f{i}(void) {{ return {i}; }}\n```\n\n| a | b |\n|---|---|\n| {i} | 2 |\n\n"
                for i in range(350))
