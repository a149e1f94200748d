#include "server/ollama/keep_alive.h"

#include <stdlib.h>
#include <string.h>

#include "base/locale/number.h"

static const double most_ms = 1e15;

static bool take(double ms, int64_t *keep_ms) {
    if (!(ms <= most_ms))
        ms = most_ms;
    *keep_ms = ms < 0 ? -1 : (int64_t)ms;
    return true;
}

/* The milliseconds of a unit; its length in *n_bytes, 0: there is none. */
static double unit_ms(const char *text, size_t *n_bytes) {
    static const struct {
        const char *name;
        double ms;
    } units[] = {{"ns", 1e-6}, {"us", 1e-3}, {"ms", 1}, {"s", 1e3}, {"m", 6e4}, {"h", 3.6e6}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        *n_bytes = strlen(units[i].name);
        if (strncmp(text, units[i].name, *n_bytes) == 0)
            return units[i].ms;
    }
    *n_bytes = 0;
    return 0;
}

bool ln_ollama_read_keep_alive(const json_t *value, int64_t *keep_ms) {
    const char *text = json_string_value(value);
    if (json_is_number(value))
        return take(json_number_value(value) * 1000, keep_ms);
    if (text == NULL || *text == '\0')
        return false;
    double sum_ms = 0, sign = *text == '-' ? -1 : 1;
    const char *rest = text + (*text == '-');
    do {
        size_t n_digits = strspn(rest, "0123456789."), n_unit = 0;
        double number = ln_strtod(rest, NULL), ms;
        if (n_digits == 0)
            return false;
        rest += n_digits;
        if (*rest == '\0' && sum_ms <= 0) /* seconds without a unit */
            return take(sign * number * 1000, keep_ms);
        ms = unit_ms(rest, &n_unit);
        if (n_unit == 0)
            return false;
        sum_ms += number * ms;
        rest += n_unit;
    } while (*rest != '\0');
    return take(sign * sum_ms, keep_ms);
}
