#include "cli/plot.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 720, MARGIN = 24, TOP = 64, NAMES = 200, ROW = 44, BAR = 22, PLOT_HEIGHT = 300 };

/* ---- text ------------------------------------------------------------------------------- */

static void put_escaped(FILE *file, const char *text) {
    for (; *text != '\0'; text++) {
        const char *entity = *text == '&'   ? "&amp;"
                             : *text == '<' ? "&lt;"
                             : *text == '>' ? "&gt;"
                             : *text == '"' ? "&quot;"
                                            : NULL;
        if (entity != NULL)
            fputs(entity, file);
        else if ((unsigned char)*text >= ' ') /* XML has no other control characters */
            fputc(*text, file);
    }
}

static void put_text(FILE *file, double x, double y, const char *class, const char *anchor,
                     const char *text) {
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\" text-anchor=\"%s\">", x, y, class,
            anchor);
    put_escaped(file, text);
    fputs("</text>\n", file);
}

/* Three digits that count, without an exponent where people need none. */
static const char *format_number(double value, char *text, size_t n_bytes) {
    double size = fabs(value);
    int decimals = size >= 100 || size <= 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
    if (size > 0 && (size < 1e-3 || size >= 1e7))
        snprintf(text, n_bytes, "%.3g", value);
    else
        snprintf(text, n_bytes, "%.*f", decimals, value);
    return text;
}

/* ---- the file --------------------------------------------------------------------------- */

static FILE *begin(const char *path, int height, const char *title, const char *note,
                   ln_error *err) {
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        ln_fail(err, LINNET_ERR_IO, "cannot write %s: %s", path, strerror(errno));
        return NULL;
    }
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "role=\"img\" font-family=\"system-ui, 'DejaVu Sans', sans-serif\">\n<title>",
            WIDTH, height, WIDTH);
    put_escaped(file, title);
    fputs("</title>\n<style>\n"
          "svg { background: #ffffff; }\n"
          ".title { font-size: 17px; font-weight: 600; fill: #1f2328; }\n"
          ".name, .value { font-size: 13px; fill: #1f2328; }\n"
          ".note { font-size: 12px; fill: #59636e; }\n"
          ".rule { stroke: #d1d9e0; }\n"
          ".limit { fill: none; stroke: #59636e; }\n"
          ".fill0 { fill: #0969da; } .fill1 { fill: #d4820a; } .fill2 { fill: #8c959f; }\n"
          ".line0, .line1, .line2, .line3 { fill: none; stroke-width: 2; }\n"
          ".line0 { stroke: #0969da; } .line1 { stroke: #7cb7f5; stroke-width: 1; }\n"
          ".line2 { stroke: #d4820a; } .line3 { stroke: #eec37f; stroke-width: 1; }\n"
          "@media (prefers-color-scheme: dark) {\n"
          "svg { background: #0d1117; }\n"
          ".title, .name, .value { fill: #e6edf3; }\n"
          ".note { fill: #9198a1; }\n"
          ".rule { stroke: #3d444d; }\n"
          ".limit { stroke: #9198a1; }\n"
          ".fill0 { fill: #4493f8; }\n"
          ".line0 { stroke: #4493f8; } .line1 { stroke: #265a9c; }\n"
          ".line2 { stroke: #d29922; } .line3 { stroke: #6b5016; }\n"
          "}\n</style>\n",
          file);
    put_text(file, MARGIN, 32, "title", "start", title);
    put_text(file, MARGIN, 52, "note", "start", note);
    return file;
}

static ln_status end(FILE *file, const char *path, ln_error *err) {
    fputs("</svg>\n", file);
    int failed = ferror(file);
    if (fclose(file) != 0 || failed)
        return ln_fail(err, LINNET_ERR_IO, "cannot write %s", path);
    return LINNET_OK;
}

/* ---- bars ------------------------------------------------------------------------------- */

ln_status ln_plot_bars(const char *path, const char *title, const char *note,
                       const ln_plot_bar *bars, size_t n_bars, ln_error *err) {
    char number[32], limit[32], text[96];
    const double left = MARGIN + NAMES, full = WIDTH - 2 * MARGIN - NAMES;
    FILE *file = begin(path, TOP + ROW * (int)n_bars + MARGIN + 16, title, note, err);
    if (file == NULL)
        return LINNET_ERR_IO;
    for (size_t i = 0; i < n_bars; i++) {
        double most = bars[i].limit > bars[i].value ? bars[i].limit : bars[i].value;
        double top = TOP + 12 + ROW * (double)i;
        double length = most > 0 ? full * bars[i].value / most : 0;
        put_text(file, left - 12, top + BAR - 6, "name", "end", bars[i].name);
        fprintf(file,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" class=\"fill0\"/>\n",
                left, top, length, BAR);
        if (bars[i].limit > 0)
            fprintf(file,
                    "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" class=\"limit\"/>\n",
                    left, top, full, BAR);
        format_number(bars[i].value, number, sizeof number);
        if (bars[i].limit > 0)
            snprintf(text, sizeof text, "%s of %s (%.0f %%)", number,
                     format_number(bars[i].limit, limit, sizeof limit),
                     100 * bars[i].value / bars[i].limit);
        else
            snprintf(text, sizeof text, "%s", number);
        put_text(file, left, top + BAR + 14, "note", "start", text);
    }
    return end(file, path, err);
}

/* ---- lines ------------------------------------------------------------------------------ */

typedef struct scale {
    double low, high, step;
} scale;

/* About four steps of 1, 2 or 5 times a power of ten, around all that the lines have. */
static scale choose_scale(double low, double high) {
    double span = high > low ? high - low : fabs(high) > 0 ? fabs(high) : 1;
    double power = pow(10, floor(log10(span / 4))), part = span / 4 / power;
    double step = power * (part > 5 ? 10 : part > 2 ? 5 : part > 1 ? 2 : 1);
    scale s = {floor(low / step) * step, ceil(high / step) * step, step};
    if (s.high <= s.low)
        s.high = s.low + step;
    return s;
}

static void find_range(const double *values, size_t n, double *low, double *high) {
    for (size_t i = 0; i < n; i++) {
        *low = values[i] < *low ? values[i] : *low;
        *high = values[i] > *high ? values[i] : *high;
    }
}

static double place(const scale *s, double value, double from, double to) {
    return from + (value - s->low) / (s->high - s->low) * (to - from);
}

/* Steps from one end of a scale to the other; 0 where its ends are no numbers. */
static unsigned count_steps(const scale *s) {
    enum { MOST = 100 };
    double n = (s->high - s->low) / s->step;
    return n > 0 && n < MOST ? (unsigned)(n + 0.5) : 0;
}

static void put_axes(FILE *file, const scale *x, const scale *y, double left, double bottom) {
    char text[32];
    double right = WIDTH - MARGIN;
    for (unsigned i = 0, n = count_steps(y); i <= n; i++) {
        double at = y->low + i * y->step;
        double row = place(y, at, bottom, TOP);
        fprintf(file, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" class=\"rule\"/>\n",
                left, right, row, row);
        put_text(file, left - 8, row + 4, "note", "end", format_number(at, text, sizeof text));
    }
    for (unsigned i = 0, n = count_steps(x); i <= n; i++) {
        double at = x->low + i * x->step;
        put_text(file, place(x, at, left, right), bottom + 18, "note", "middle",
                 format_number(at, text, sizeof text));
    }
}

ln_status ln_plot_lines(const char *path, const char *title, const char *note,
                        const double *positions, size_t n_points, const ln_plot_line *lines,
                        size_t n_lines, ln_error *err) {
    const double left = MARGIN + 56, right = WIDTH - MARGIN, bottom = TOP + PLOT_HEIGHT;
    double low = HUGE_VAL, high = -HUGE_VAL, at = left;
    if (n_points == 0 || n_lines > LN_PLOT_MAX_LINES)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "there is nothing to plot");
    FILE *file = begin(path, TOP + PLOT_HEIGHT + 72, title, note, err);
    if (file == NULL)
        return LINNET_ERR_IO;
    for (size_t i = 0; i < n_lines; i++)
        find_range(lines[i].values, n_points, &low, &high);
    const scale x = choose_scale(0, positions[n_points - 1]), y = choose_scale(low, high);
    put_axes(file, &x, &y, left, bottom);
    for (size_t i = n_lines; i-- > 0;) { /* the first lies on top */
        fprintf(file, "<polyline class=\"line%zu\" points=\"", i);
        for (size_t j = 0; j < n_points; j++)
            fprintf(file, "%s%.1f,%.1f", j > 0 ? " " : "", place(&x, positions[j], left, right),
                    place(&y, lines[i].values[j], bottom, TOP));
        fputs("\"/>\n", file);
    }
    for (size_t i = 0; i < n_lines; i++) { /* the names, from left to right */
        fprintf(file, "<path class=\"line%zu\" d=\"M%.1f %.1f h18\"/>\n", i, at, bottom + 46);
        put_text(file, at + 24, bottom + 50, "name", "start", lines[i].name);
        at += 48 + 7.5 * (double)strlen(lines[i].name);
    }
    return end(file, path, err);
}
