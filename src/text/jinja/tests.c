/* Tests: what stands after `is`. */

#include "text/jinja/run.h"

#define TEST(name)                                                                                 \
    static ln_status name(ln_jinja_run *run, ln_jinja_value self, ln_jinja_args *args,             \
                          ln_jinja_value *out)

/* A test that only looks at the value. */
#define KIND_TEST(name, condition)                                                                 \
    TEST(name) {                                                                                   \
        (void)run, (void)args;                                                                     \
        *out = ln_jinja_bool(condition);                                                           \
        return LINNET_OK;                                                                          \
    }

KIND_TEST(test_defined, self.kind != LN_JINJA_UNDEFINED)
KIND_TEST(test_undefined, self.kind == LN_JINJA_UNDEFINED)
KIND_TEST(test_none, self.kind == LN_JINJA_NONE)
KIND_TEST(test_boolean, self.kind == LN_JINJA_BOOL)
KIND_TEST(test_true, self.kind == LN_JINJA_BOOL && self.as.boolean)
KIND_TEST(test_false, self.kind == LN_JINJA_BOOL && !self.as.boolean)
KIND_TEST(test_integer, self.kind == LN_JINJA_INT)
KIND_TEST(test_float, self.kind == LN_JINJA_FLOAT)
KIND_TEST(test_number,
          self.kind == LN_JINJA_INT || self.kind == LN_JINJA_FLOAT || self.kind == LN_JINJA_BOOL)
KIND_TEST(test_string, self.kind == LN_JINJA_STRING)
KIND_TEST(test_mapping, self.kind == LN_JINJA_DICT)
KIND_TEST(test_sequence, self.kind == LN_JINJA_UNDEFINED || self.kind == LN_JINJA_STRING ||
                             self.kind == LN_JINJA_LIST || self.kind == LN_JINJA_TUPLE ||
                             self.kind == LN_JINJA_DICT || self.kind == LN_JINJA_RANGE)
KIND_TEST(test_iterable, ln_jinja_is_iterable(self))
KIND_TEST(test_callable, self.kind == LN_JINJA_FUNCTION || self.kind == LN_JINJA_METHOD ||
                             self.kind == LN_JINJA_MACRO || self.kind == LN_JINJA_LOOP ||
                             self.kind == LN_JINJA_JOINER || self.kind == LN_JINJA_UNDEFINED)
KIND_TEST(test_escaped, self.kind == LN_JINJA_STRING && self.as.string->markup)
KIND_TEST(test_sameas, ln_jinja_same(self, ln_jinja_arg(args, 0)))

/* value % divisor == remainder */
static ln_status divides(ln_jinja_run *run, ln_jinja_value value, ln_jinja_value divisor,
                         int64_t remainder, ln_jinja_value *out) {
    ln_jinja_value rest;
    bool equal;
    LN_TRY(ln_jinja_binary(run, LN_JINJA_MOD, value, divisor, &rest));
    LN_TRY(ln_jinja_equal(run, rest, ln_jinja_int(remainder), &equal));
    *out = ln_jinja_bool(equal);
    return LINNET_OK;
}

TEST(test_odd) {
    (void)args;
    return divides(run, self, ln_jinja_int(2), 1, out);
}
TEST(test_even) {
    (void)args;
    return divides(run, self, ln_jinja_int(2), 0, out);
}
TEST(test_divisibleby) {
    return divides(run, self, ln_jinja_arg(args, 0), 0, out);
}

static ln_status test_case(ln_jinja_run *run, ln_jinja_value self, bool upper,
                           ln_jinja_value *out) {
    ln_jinja_string *text;
    LN_TRY(ln_jinja_str(run, self, &text));
    LN_TRY(ln_jinja_spend(run, text->n_bytes / 2));
    *out = ln_jinja_bool(ln_jinja_is_case(text, upper));
    return LINNET_OK;
}

TEST(test_lower) {
    (void)args;
    return test_case(run, self, false, out);
}
TEST(test_upper) {
    (void)args;
    return test_case(run, self, true, out);
}

TEST(test_in) {
    bool found;
    LN_TRY(ln_jinja_contains(run, ln_jinja_arg(args, 0), self, &found));
    *out = ln_jinja_bool(found);
    return LINNET_OK;
}

TEST(test_eq) {
    bool equal;
    LN_TRY(ln_jinja_equal(run, self, ln_jinja_arg(args, 0), &equal));
    *out = ln_jinja_bool(equal);
    return LINNET_OK;
}
TEST(test_ne) {
    LN_TRY(test_eq(run, self, args, out));
    out->as.boolean = !out->as.boolean;
    return LINNET_OK;
}

static ln_status test_order(ln_jinja_run *run, ln_jinja_order order, ln_jinja_value self,
                            const ln_jinja_args *args, ln_jinja_value *out) {
    bool holds;
    LN_TRY(ln_jinja_compare(run, order, self, ln_jinja_arg(args, 0), &holds));
    *out = ln_jinja_bool(holds);
    return LINNET_OK;
}
TEST(test_lt) {
    return test_order(run, LN_JINJA_LT, self, args, out);
}
TEST(test_le) {
    return test_order(run, LN_JINJA_LE, self, args, out);
}
TEST(test_gt) {
    return test_order(run, LN_JINJA_GT, self, args, out);
}
TEST(test_ge) {
    return test_order(run, LN_JINJA_GE, self, args, out);
}

TEST(test_filter) {
    (void)run, (void)args;
    *out =
        ln_jinja_bool(self.kind == LN_JINJA_STRING && ln_jinja_find_filter(self.as.string) != NULL);
    return LINNET_OK;
}
TEST(test_test) {
    (void)run, (void)args;
    *out =
        ln_jinja_bool(self.kind == LN_JINJA_STRING && ln_jinja_find_test(self.as.string) != NULL);
    return LINNET_OK;
}

static const ln_jinja_builtin tests[] = {
#include "text/jinja/tests.inc"
};

const ln_jinja_builtin *ln_jinja_find_test(const ln_jinja_string *name) {
    return ln_jinja_find(tests, sizeof tests / sizeof *tests, name);
}
