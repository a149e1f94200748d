/* What the tests of chat templates share: rendering to a line that says what came out. */
#ifndef LN_TESTS_TEMPLATE_SUPPORT_H
#define LN_TESTS_TEMPLATE_SUPPORT_H

#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "text/jinja/template.h"

/* Friday, 2026-11-20 09:30:05: the clock of the reference answers. */
static const struct tm template_now = {.tm_year = 126,
                                       .tm_mon = 10,
                                       .tm_mday = 20,
                                       .tm_hour = 9,
                                       .tm_min = 30,
                                       .tm_sec = 5,
                                       .tm_wday = 5,
                                       .tm_yday = 323};

/* Compiles and renders; the status of whichever failed. */
static inline ln_status render_template(const char *source, size_t n_bytes, json_t *context,
                                        ln_jinja_output *output, bool *compiled, ln_error *err) {
    ln_jinja_template *template = NULL;
    *output = (ln_jinja_output){0};
    ln_status status = ln_jinja_compile(source, n_bytes, "test", &template, err);
    *compiled = status == LINNET_OK;
    if (status == LINNET_OK)
        status = ln_jinja_render(template, context, &template_now, output, err);
    ln_jinja_free(template);
    return status;
}

static inline json_t *parse_context(const char *json) {
    json_error_t error;
    json_t *context = json_loads(json, 0, &error);
    if (context == NULL)
        fail_msg("%s: %s", json, error.text);
    return context;
}

/* The spans cover the text in order, without gaps, and alternate. */
static inline void assert_spans_cover(const ln_jinja_output *output) {
    size_t at = 0;
    for (size_t i = 0; i < output->n_spans; i++) {
        assert_int_equal(output->spans[i].begin, at);
        assert_true(output->spans[i].end > at);
        if (i > 0)
            assert_int_not_equal(output->spans[i].trusted, output->spans[i - 1].trusted);
        at = output->spans[i].end;
    }
    assert_int_equal(at, output->text.len);
}

#endif
