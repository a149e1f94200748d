/* Charts as SVG files, which need nothing else and follow the reader's choice of dark or light. */
#ifndef LN_CLI_PLOT_H
#define LN_CLI_PLOT_H

#include <stddef.h>

#include "base/error.h"

typedef struct ln_plot_bar {
    const char *name;
    double value, limit; /* each bar has a scale of its own, up to its limit; 0: none is known */
} ln_plot_bar;

/* Bars from left to right, below one another. Errors: IO. */
ln_status ln_plot_bars(const char *path, const char *title, const char *note,
                       const ln_plot_bar *bars, size_t n_bars, ln_error *err);

enum { LN_PLOT_MAX_LINES = 4 };

typedef struct ln_plot_line {
    const char *name;
    const double *values; /* [n_points] */
} ln_plot_line;

/* Lines over points that they share, positions[n_points] ascending. Errors: IO. */
ln_status ln_plot_lines(const char *path, const char *title, const char *note,
                        const double *positions, size_t n_points, const ln_plot_line *lines,
                        size_t n_lines, ln_error *err);

#endif
