/* Filters over numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/locale/number.h"
#include "text/jinja/run.h"

#define FILTER(name)                                                                               \
    static ln_status name(ln_jinja_run *run, ln_jinja_value self, ln_jinja_args *args,             \
                          ln_jinja_value *out)

FILTER(filter_abs) {
    (void)args;
    if (self.kind == LN_JINJA_FLOAT) {
        *out = ln_jinja_float(fabs(self.as.real));
        return LINNET_OK;
    }
    if (self.kind == LN_JINJA_BOOL)
        self = ln_jinja_int(self.as.boolean);
    if (self.kind != LN_JINJA_INT)
        return ln_jinja_raise(run, "TypeError", "bad operand type for abs(): '%s'",
                              ln_jinja_type_name(self));
    *out = self;
    return self.as.integer < 0 ? ln_jinja_negate(run, self, out) : LINNET_OK;
}

/* int(real); *fallback is set where Python raises ValueError. */
static ln_status truncate_float(ln_jinja_run *run, double real, bool *fallback,
                                ln_jinja_value *out) {
    *fallback = isnan(real);
    if (*fallback)
        return LINNET_OK;
    if (isinf(real))
        return ln_jinja_raise(run, "OverflowError", "cannot convert float infinity to integer");
    if (!(fabs(real) < 0x1p63))
        return ln_jinja_raise(run, "OverflowError", "an integer does not fit 64 bits");
    *out = ln_jinja_int((int64_t)real);
    return LINNET_OK;
}

FILTER(filter_int) {
    int64_t base, integer;
    bool overflow, fallback = true;
    double real;
    LN_TRY(ln_jinja_arg_int(run, args, 1, 10, &base));
    switch (self.kind) {
    case LN_JINJA_UNDEFINED: return ln_jinja_raise_undefined(run, self);
    case LN_JINJA_BOOL: self = ln_jinja_int(self.as.boolean); __attribute__((fallthrough));
    case LN_JINJA_INT: *out = self; return LINNET_OK;
    case LN_JINJA_FLOAT: LN_TRY(truncate_float(run, self.as.real, &fallback, out)); break;
    case LN_JINJA_STRING:
        if (base >= 0 && base <= 36 && base != 1 &&
            ln_jinja_parse_int(self.as.string, (int)base, &integer, &overflow)) {
            if (overflow)
                return ln_jinja_raise(run, "OverflowError", "an integer does not fit 64 bits");
            *out = ln_jinja_int(integer);
            return LINNET_OK;
        }
        if (ln_jinja_parse_float(self.as.string, &real) && isfinite(real))
            LN_TRY(truncate_float(run, real, &fallback, out));
        break;
    default: break;
    }
    if (fallback)
        *out = ln_jinja_has_arg(args, 0) ? ln_jinja_arg(args, 0) : ln_jinja_int(0);
    return LINNET_OK;
}

FILTER(filter_float) {
    double real;
    switch (self.kind) {
    case LN_JINJA_UNDEFINED: return ln_jinja_raise_undefined(run, self);
    case LN_JINJA_BOOL: *out = ln_jinja_float(self.as.boolean); return LINNET_OK;
    case LN_JINJA_INT: *out = ln_jinja_float((double)self.as.integer); return LINNET_OK;
    case LN_JINJA_FLOAT: *out = self; return LINNET_OK;
    case LN_JINJA_STRING:
        if (ln_jinja_parse_float(self.as.string, &real)) {
            *out = ln_jinja_float(real);
            return LINNET_OK;
        }
        break;
    default: break;
    }
    *out = ln_jinja_has_arg(args, 0) ? ln_jinja_arg(args, 0) : ln_jinja_float(0);
    return LINNET_OK;
}

/* Python's round: correctly rounded decimal digits, ties to even. */
static double round_digits(double value, int64_t digits) {
    char text[800];
    if (!isfinite(value) || digits > 330)
        return value;
    if (digits < -330)
        return copysign(0.0, value);
    if (digits >= 0) {
        ln_snprintf(text, sizeof text, "%.*f", (int)digits, value);
        return ln_strtod(text, NULL);
    }
    double unit = pow(10.0, (double)-digits);
    return nearbyint(value / unit) * unit;
}

static ln_status round_int(ln_jinja_run *run, int64_t value, int64_t digits, ln_jinja_value *out) {
    *out = ln_jinja_int(value);
    if (digits >= 0)
        return LINNET_OK;
    if (digits < -18) {
        *out = ln_jinja_int(0);
        return LINNET_OK;
    }
    int64_t unit = 1;
    for (; digits < 0; digits++)
        unit *= 10;
    int64_t rest = value % unit;
    rest += rest < 0 ? unit : 0;
    bool up = rest > unit / 2 || (rest == unit / 2 && ((value - rest) / unit) % 2 != 0);
    ln_jinja_value down = ln_jinja_int(value - rest);
    *out = down;
    return up ? ln_jinja_binary(run, LN_JINJA_ADD, down, ln_jinja_int(unit), out) : LINNET_OK;
}

FILTER(filter_round) {
    int64_t digits;
    ln_jinja_value method = ln_jinja_arg(args, 1);
    bool common = method.kind == LN_JINJA_MISSING || ln_jinja_is_string(method, "common");
    bool ceils = ln_jinja_is_string(method, "ceil");
    LN_TRY(ln_jinja_arg_int(run, args, 0, 0, &digits));
    if (!common && !ceils && !ln_jinja_is_string(method, "floor"))
        return ln_jinja_raise(run, "FilterArgumentError", "method must be common, ceil or floor");
    if (self.kind == LN_JINJA_BOOL)
        self = ln_jinja_int(self.as.boolean);
    if (self.kind != LN_JINJA_INT && self.kind != LN_JINJA_FLOAT)
        return ln_jinja_raise(run, "TypeError", "type %s doesn't define __round__ method",
                              ln_jinja_type_name(self));
    if (common && self.kind == LN_JINJA_INT)
        return round_int(run, self.as.integer, digits, out);
    double value = self.kind == LN_JINJA_INT ? (double)self.as.integer : self.as.real;
    if (common) {
        *out = ln_jinja_float(round_digits(value, digits));
        return LINNET_OK;
    }
    double scale = pow(10.0, (double)digits);
    double scaled = value * scale;
    if (!isfinite(scaled))
        return ln_jinja_raise(run, "OverflowError", "cannot convert float infinity to integer");
    *out = ln_jinja_float((ceils ? ceil(scaled) : floor(scaled)) / scale);
    return LINNET_OK;
}

FILTER(filter_filesizeformat) {
    static const char *const units[][8] = {
        {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"},
        {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"},
    };
    bool binary = ln_jinja_arg_truthy(args, 0);
    double base = binary ? 1024 : 1000;
    char text[400];
    ln_jinja_value value;
    ln_jinja_value refused = ln_jinja_none();
    ln_jinja_args fallback = {.positional = &refused, .n_positional = 1};
    LN_TRY(filter_float(run, self, &fallback, &value));
    if (value.kind != LN_JINJA_FLOAT && self.kind == LN_JINJA_STRING)
        return ln_jinja_raise(run, "ValueError", "could not convert string to float: %s",
                              ln_jinja_quote(run, self));
    if (value.kind != LN_JINJA_FLOAT)
        return ln_jinja_raise(run, "TypeError",
                              "float() argument must be a string or a real number, not '%s'",
                              ln_jinja_type_name(self));
    double bytes = value.as.real;
    if (bytes == 1) {
        snprintf(text, sizeof text, "1 Byte");
    } else if (bytes < base) {
        snprintf(text, sizeof text, "%.0f Bytes", trunc(bytes));
    } else {
        size_t i = 0;
        double unit = base * base;
        for (; i < 7 && bytes >= unit; i++)
            unit *= base;
        ln_snprintf(text, sizeof text, "%.1f %s", base * bytes / unit, units[binary][i]);
    }
    return ln_jinja_string_c(run, text, out);
}

static const ln_jinja_builtin filters[] = {
    {"int", filter_int, "default base ", 0},
    {"float", filter_float, "default ", 0},
    {"abs", filter_abs, "", 0},
    {"round", filter_round, "precision method ", 0},
    {"filesizeformat", filter_filesizeformat, "binary ", 0},
};

const ln_jinja_builtin *ln_jinja_find_number_filter(const ln_jinja_string *name) {
    return ln_jinja_find(filters, sizeof filters / sizeof *filters, name);
}
