/* Operators with the semantics of Python, on 64-bit integers. */
#include <math.h>
#include <string.h>

#include "text/jinja/run.h"

static bool is_int(ln_jinja_value value) {
    return value.kind == LN_JINJA_INT || value.kind == LN_JINJA_BOOL;
}
static bool is_number(ln_jinja_value value) {
    return is_int(value) || value.kind == LN_JINJA_FLOAT;
}
static bool is_sequence(ln_jinja_value value) {
    return value.kind == LN_JINJA_STRING || value.kind == LN_JINJA_LIST ||
           value.kind == LN_JINJA_TUPLE;
}
static int64_t as_int(ln_jinja_value value) {
    return value.kind == LN_JINJA_BOOL ? value.as.boolean : value.as.integer;
}
static double as_float(ln_jinja_value value) {
    return value.kind == LN_JINJA_FLOAT ? value.as.real : (double)as_int(value);
}

static ln_status overflow(ln_jinja_run *run) {
    return ln_jinja_raise(run, "OverflowError", "an integer does not fit 64 bits");
}

static ln_status zero_division(ln_jinja_run *run, const char *message) {
    return ln_jinja_raise(run, "ZeroDivisionError", "%s", message);
}

static ln_status unsupported(ln_jinja_run *run, const char *sign, ln_jinja_value left,
                             ln_jinja_value right) {
    return ln_jinja_raise(run, "TypeError", "unsupported operand type(s) for %s: '%s' and '%s'",
                          sign, ln_jinja_type_name(left), ln_jinja_type_name(right));
}

/* ---- numbers ---------------------------------------------------------------------------- */

static ln_status int_power(ln_jinja_run *run, int64_t base, int64_t exponent, ln_jinja_value *out) {
    if (exponent < 0) {
        if (base == 0)
            return zero_division(run, "0.0 cannot be raised to a negative power");
        *out = ln_jinja_float(pow((double)base, (double)exponent));
        return LINNET_OK;
    }
    int64_t result = 1;
    while (exponent > 0) {
        if (exponent & 1 && __builtin_mul_overflow(result, base, &result))
            return overflow(run);
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base))
            return overflow(run);
    }
    *out = ln_jinja_int(result);
    return LINNET_OK;
}

static ln_status int_op(ln_jinja_run *run, ln_jinja_op op, int64_t a, int64_t b,
                        ln_jinja_value *out) {
    int64_t result = 0;
    bool failed = false;
    switch (op) {
    case LN_JINJA_ADD: failed = __builtin_add_overflow(a, b, &result); break;
    case LN_JINJA_SUB: failed = __builtin_sub_overflow(a, b, &result); break;
    case LN_JINJA_MUL: failed = __builtin_mul_overflow(a, b, &result); break;
    case LN_JINJA_DIV:
        if (b == 0)
            return zero_division(run, "division by zero");
        *out = ln_jinja_float((double)((long double)a / (long double)b));
        return LINNET_OK;
    case LN_JINJA_FLOORDIV:
    case LN_JINJA_MOD:
        if (b == 0)
            return zero_division(run, op == LN_JINJA_MOD ? "integer modulo by zero"
                                                         : "integer division or modulo by zero");
        if (b == -1) {
            failed = op == LN_JINJA_FLOORDIV && __builtin_sub_overflow(0, a, &result);
            break;
        }
        result = op == LN_JINJA_MOD ? a % b : a / b;
        if (a % b != 0 && (a % b < 0) != (b < 0))
            result += op == LN_JINJA_MOD ? b : -1;
        break;
    case LN_JINJA_POW: return int_power(run, a, b, out);
    }
    if (failed)
        return overflow(run);
    *out = ln_jinja_int(result);
    return LINNET_OK;
}

static double floor_division(double a, double b, double *remainder) {
    double mod = fmod(a, b);
    double div = (a - mod) / b;
    if (mod != 0) {
        if ((b < 0) != (mod < 0)) {
            mod += b;
            div -= 1;
        }
    } else {
        mod = copysign(0.0, b);
    }
    *remainder = mod;
    if (div == 0)
        return copysign(0.0, a / b);
    double floored = floor(div);
    return div - floored > 0.5 ? floored + 1 : floored;
}

static ln_status float_power(ln_jinja_run *run, double a, double b, ln_jinja_value *out) {
    if (a == 0 && b < 0)
        return zero_division(run, "0.0 cannot be raised to a negative power");
    double result = pow(a, b);
    if (isnan(result) && !isnan(a) && !isnan(b))
        return ln_jinja_raise(run, "ValueError", "complex numbers are not supported");
    if (isinf(result) && !isinf(a) && !isinf(b))
        return ln_jinja_raise(run, "OverflowError", "(34, 'Numerical result out of range')");
    *out = ln_jinja_float(result);
    return LINNET_OK;
}

static ln_status float_op(ln_jinja_run *run, ln_jinja_op op, double a, double b,
                          ln_jinja_value *out) {
    double remainder;
    switch (op) {
    case LN_JINJA_ADD: *out = ln_jinja_float(a + b); break;
    case LN_JINJA_SUB: *out = ln_jinja_float(a - b); break;
    case LN_JINJA_MUL: *out = ln_jinja_float(a * b); break;
    case LN_JINJA_DIV:
        if (b == 0)
            return zero_division(run, "float division by zero");
        *out = ln_jinja_float(a / b);
        break;
    case LN_JINJA_FLOORDIV:
        if (b == 0)
            return zero_division(run, "float floor division by zero");
        *out = ln_jinja_float(floor_division(a, b, &remainder));
        break;
    case LN_JINJA_MOD:
        if (b == 0)
            return zero_division(run, "float modulo");
        floor_division(a, b, &remainder);
        *out = ln_jinja_float(remainder);
        break;
    case LN_JINJA_POW: return float_power(run, a, b, out);
    }
    return LINNET_OK;
}

ln_status ln_jinja_negate(ln_jinja_run *run, ln_jinja_value operand, ln_jinja_value *out) {
    if (is_int(operand))
        return int_op(run, LN_JINJA_SUB, 0, as_int(operand), out);
    if (operand.kind == LN_JINJA_FLOAT) {
        *out = ln_jinja_float(-operand.as.real);
        return LINNET_OK;
    }
    if (operand.kind == LN_JINJA_UNDEFINED)
        return ln_jinja_raise_undefined(run, operand);
    return ln_jinja_raise(run, "TypeError", "bad operand type for unary -: '%s'",
                          ln_jinja_type_name(operand));
}

/* ---- sequences -------------------------------------------------------------------------- */

/* A list that ends where its backing does grows in place, as strings do. */
static ln_status concat_lists(ln_jinja_run *run, ln_jinja_value left, ln_jinja_value right,
                              ln_jinja_value *out) {
    const ln_jinja_list *a = left.as.list, *b = right.as.list;
    ln_jinja_list *list;
    if (a->backing != NULL && a->items == a->backing->items && a->n_items == a->backing->used) {
        LN_TRY(ln_jinja_alloc(run, 1, sizeof *list, &list));
        *list = *a;
        list->grouped = false;
        *out = (ln_jinja_value){.kind = left.kind, .as.list = list};
    } else {
        LN_TRY(ln_jinja_list_new(run, left.kind, a->n_items + b->n_items, out));
        for (size_t i = 0; i < a->n_items; i++)
            LN_TRY(ln_jinja_list_push(run, *out, a->items[i]));
    }
    size_t n = b->n_items; /* b may share the backing */
    for (size_t i = 0; i < n; i++)
        LN_TRY(ln_jinja_list_push(run, *out, b->items[i]));
    return LINNET_OK;
}

static ln_status concat_strings(ln_jinja_run *run, ln_jinja_value left, ln_jinja_value right,
                                ln_jinja_value *out) {
    bool markup = left.as.string->markup || right.as.string->markup;
    if (markup && !left.as.string->markup)
        LN_TRY(ln_jinja_escape(run, left, &left));
    if (markup && !right.as.string->markup)
        LN_TRY(ln_jinja_escape(run, right, &right));
    return ln_jinja_string_concat(run, left.as.string, right.as.string, out);
}

static ln_status add(ln_jinja_run *run, ln_jinja_value left, ln_jinja_value right,
                     ln_jinja_value *out) {
    if (left.kind == LN_JINJA_STRING && right.kind == LN_JINJA_STRING)
        return concat_strings(run, left, right, out);
    if (left.kind == right.kind && (left.kind == LN_JINJA_LIST || left.kind == LN_JINJA_TUPLE))
        return concat_lists(run, left, right, out);
    if (is_sequence(left) && (left.kind != LN_JINJA_STRING || !left.as.string->markup)) {
        const char *name = left.kind == LN_JINJA_STRING ? "str" : ln_jinja_type_name(left);
        return ln_jinja_raise(run, "TypeError", "can only concatenate %s (not \"%s\") to %s", name,
                              ln_jinja_type_name(right), name);
    }
    return unsupported(run, "+", left, right);
}

static ln_status repeat(ln_jinja_run *run, ln_jinja_value sequence, int64_t count,
                        ln_jinja_value *out) {
    size_t times = count > 0 ? (size_t)count : 0;
    if (sequence.kind == LN_JINJA_STRING) {
        ln_jinja_builder builder;
        LN_TRY(ln_jinja_builder_init(run, &builder));
        LN_TRY(ln_jinja_put_repeated(&builder, sequence.as.string, times));
        LN_TRY(ln_jinja_finish(&builder, out));
        out->as.string->markup = sequence.as.string->markup;
        return LINNET_OK;
    }
    const ln_jinja_list *list = sequence.as.list;
    size_t total;
    if (__builtin_mul_overflow(list->n_items, times, &total))
        total = SIZE_MAX / sizeof(ln_jinja_value);
    LN_TRY(ln_jinja_spend(run, total));
    LN_TRY(ln_jinja_list_new(run, sequence.kind, total, out));
    for (size_t i = 0; list->n_items > 0 && i < times; i++)
        for (size_t k = 0; k < list->n_items; k++)
            LN_TRY(ln_jinja_list_push(run, *out, list->items[k]));
    return LINNET_OK;
}

static ln_status multiply(ln_jinja_run *run, ln_jinja_value left, ln_jinja_value right,
                          ln_jinja_value *out) {
    if (is_sequence(left) && is_int(right))
        return repeat(run, left, as_int(right), out);
    if (is_int(left) && is_sequence(right))
        return repeat(run, right, as_int(left), out);
    if (is_sequence(left) || is_sequence(right))
        return ln_jinja_raise(run, "TypeError", "can't multiply sequence by non-int of type '%s'",
                              ln_jinja_type_name(is_sequence(left) ? right : left));
    return unsupported(run, "*", left, right);
}

ln_status ln_jinja_binary(ln_jinja_run *run, ln_jinja_op op, ln_jinja_value left,
                          ln_jinja_value right, ln_jinja_value *out) {
    static const char *const signs[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};
    if (is_number(left) && is_number(right)) {
        if (is_int(left) && is_int(right))
            return int_op(run, op, as_int(left), as_int(right), out);
        return float_op(run, op, as_float(left), as_float(right), out);
    }
    if (op == LN_JINJA_MOD && left.kind == LN_JINJA_STRING)
        return ln_jinja_percent(run, left.as.string, right, out);
    if (left.kind == LN_JINJA_UNDEFINED || right.kind == LN_JINJA_UNDEFINED)
        return ln_jinja_raise_undefined(run, left.kind == LN_JINJA_UNDEFINED ? left : right);
    if (op == LN_JINJA_ADD)
        return add(run, left, right, out);
    if (op == LN_JINJA_MUL)
        return multiply(run, left, right, out);
    return unsupported(run, signs[op], left, right);
}

/* ---- slices ----------------------------------------------------------------------------- */

/* A bound of a slice, clamped as PySlice_AdjustIndices does. */
static ln_status slice_bound(ln_jinja_run *run, ln_jinja_value bound, int64_t length, int64_t step,
                             int64_t fallback, int64_t *out) {
    *out = fallback;
    if (bound.kind == LN_JINJA_MISSING || bound.kind == LN_JINJA_NONE)
        return LINNET_OK;
    if (!is_int(bound))
        return ln_jinja_raise(run, "TypeError",
                              "slice indices must be integers or None or have an __index__ method");
    int64_t index = as_int(bound);
    if (index < 0)
        index = index < -length ? -1 : index + length;
    if (index < 0)
        index = step < 0 ? -1 : 0;
    if (index >= length)
        index = step < 0 ? length - 1 : length;
    *out = index;
    return LINNET_OK;
}

static ln_status slice_string(ln_jinja_run *run, const ln_jinja_string *string, int64_t start,
                              int64_t step, int64_t count, ln_jinja_value *out) {
    bool ascii = string->n_chars == string->n_bytes;
    if (!ascii)
        LN_TRY(ln_jinja_spend_bytes(run, string->n_bytes));
    if (step == 1) {
        size_t begin = ln_jinja_string_offset(string, (size_t)start);
        size_t end =
            ascii ? begin + (size_t)count : ln_jinja_string_offset(string, (size_t)(start + count));
        return ln_jinja_string_part(run, string, begin, end, out);
    }
    size_t *offsets = NULL;
    if (!ascii) {
        LN_TRY(ln_jinja_alloc(run, string->n_chars + 1, sizeof *offsets, &offsets));
        size_t at = 0;
        for (size_t i = 0; i <= string->n_chars; i++) {
            offsets[i] = at;
            size_t n = string->n_bytes - at;
            if (n > 0)
                ln_jinja_decode(ln_jinja_bytes(string) + at, &n);
            at += n;
        }
    }
    ln_jinja_builder builder;
    LN_TRY(ln_jinja_builder_init(run, &builder));
    for (int64_t i = 0; i < count; i++) {
        size_t index = (size_t)(start + i * step);
        LN_TRY(ln_jinja_put_part(&builder, string, ascii ? index : offsets[index],
                                 ascii ? index + 1 : offsets[index + 1]));
    }
    LN_TRY(ln_jinja_finish(&builder, out));
    out->as.string->markup = string->markup;
    return LINNET_OK;
}

static ln_status slice_list(ln_jinja_run *run, ln_jinja_value value, int64_t start, int64_t step,
                            int64_t count, ln_jinja_value *out) {
    const ln_jinja_list *list = value.as.list;
    if (step == 1) { /* a view */
        ln_jinja_list *part;
        LN_TRY(ln_jinja_alloc(run, 1, sizeof *part, &part));
        part->items = count > 0 ? list->items + start : list->items;
        part->n_items = (size_t)count;
        *out = (ln_jinja_value){.kind = value.kind, .as.list = part};
        return LINNET_OK;
    }
    LN_TRY(ln_jinja_list_new(run, value.kind, (size_t)count, out));
    for (int64_t i = 0; i < count; i++)
        LN_TRY(ln_jinja_list_push(run, *out, list->items[start + i * step]));
    return LINNET_OK;
}

static ln_status slice_range(ln_jinja_run *run, const ln_jinja_range *range, int64_t start,
                             int64_t stop, int64_t step, int64_t count, ln_jinja_value *out) {
    out->kind = LN_JINJA_RANGE;
    LN_TRY(ln_jinja_alloc(run, 1, sizeof *out->as.range, &out->as.range));
    int64_t new_step;
    if (__builtin_mul_overflow(range->step, step, &new_step))
        return overflow(run);
    *out->as.range = (ln_jinja_range){.start = range->start + start * range->step,
                                      .stop = range->start + stop * range->step,
                                      .step = new_step,
                                      .length = (size_t)count};
    return LINNET_OK;
}

ln_status ln_jinja_get_slice(ln_jinja_run *run, ln_jinja_value object,
                             const ln_jinja_value bounds[3], ln_jinja_value *out) {
    if (object.kind == LN_JINJA_UNDEFINED)
        return ln_jinja_raise_undefined(run, object);
    if (object.kind == LN_JINJA_DICT)
        return ln_jinja_raise(run, "TypeError", "unhashable type: 'slice'");
    if (!is_sequence(object) && object.kind != LN_JINJA_RANGE)
        return ln_jinja_raise(run, "TypeError", "'%s' object is not subscriptable",
                              ln_jinja_type_name(object));
    int64_t length, step = 1, start, stop;
    LN_TRY(ln_jinja_length(run, object, &length));
    if (bounds[2].kind != LN_JINJA_MISSING && bounds[2].kind != LN_JINJA_NONE) {
        if (!is_int(bounds[2]))
            return slice_bound(run, bounds[2], length, 1, 0, &start);
        step = as_int(bounds[2]);
        if (step == 0)
            return ln_jinja_raise(run, "ValueError", "slice step cannot be zero");
        if (step < -INT64_MAX / 2 || step > INT64_MAX / 2) /* far past any length */
            step = step < 0 ? -INT64_MAX / 2 : INT64_MAX / 2;
    }
    LN_TRY(slice_bound(run, bounds[0], length, step, step < 0 ? length - 1 : 0, &start));
    LN_TRY(slice_bound(run, bounds[1], length, step, step < 0 ? -1 : length, &stop));
    int64_t count = 0;
    if (step > 0 && start < stop)
        count = (stop - start - 1) / step + 1;
    else if (step < 0 && stop < start)
        count = (start - stop - 1) / -step + 1;
    if (count == 0)
        start = 0;
    if (object.kind == LN_JINJA_STRING)
        return slice_string(run, object.as.string, start, step, count, out);
    if (object.kind == LN_JINJA_RANGE)
        return slice_range(run, object.as.range, start, stop, step, count, out);
    return slice_list(run, object, start, step, count, out);
}
