/* A program around the library may have set a locale in which numbers have a comma: templates and
 * grammars know a point alone. The test makes such a locale, as machines need have none. */
#include "test.h"

#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../text/template_support.h"
#include "base/locale/number.h"
#include "grammar_test.h"

static char folder[64], locale_folder[80], locale_file[96];

/* LC_NUMERIC as glibc's localedef writes it: a head, offsets, and what lies there. */
static void write_locale(void) {
    enum { N_ITEMS = 6, MAGIC = 0x20031115 };
    struct {
        uint32_t magic, n_items, offsets[N_ITEMS];
        char point[4], separator[4], grouping[4];
        uint32_t wide_point, wide_separator;
        char codeset[8];
    } file = {.magic = (uint32_t)MAGIC ^ LC_NUMERIC,
              .n_items = N_ITEMS,
              .offsets = {32, 36, 40, 44, 48, 52},
              .point = ",",
              .separator = ".",
              .grouping = "\3\3",
              .wide_point = ',',
              .wide_separator = '.',
              .codeset = "UTF-8"};
    FILE *out = fopen(locale_file, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(&file, sizeof file, 1, out), 1);
    fclose(out);
}

static int set_comma(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/linnet-locale.XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(locale_folder, sizeof locale_folder, "%s/comma", folder);
    snprintf(locale_file, sizeof locale_file, "%s/LC_NUMERIC", locale_folder);
    assert_int_equal(mkdir(locale_folder, 0700), 0);
    write_locale();
    setenv("LOCPATH", folder, 1);
    const char *set = setlocale(LC_NUMERIC, "comma");
    unlink(locale_file);
    rmdir(locale_folder);
    rmdir(folder);
#ifdef __GLIBC__
    assert_non_null(set);
#endif
    return 0;
}

/* Other C libraries have no such files, and none of them has locales with a comma. */
static void skip_without_comma(void) {
    char text[8];
    snprintf(text, sizeof text, "%.1f", 1.5);
    if (strcmp(text, "1,5") != 0)
        skip();
}

static void numbers_have_a_point(void **state) {
    (void)state;
    skip_without_comma();
    char text[16], *end;
    assert_int_equal(ln_snprintf(text, sizeof text, "%.2f %s", 0.25, "x"), 6);
    assert_string_equal(text, "0.25 x");
    assert_true(ln_strtod("2.5,", &end) == 2.5);
    assert_string_equal(end, ",");
    assert_true(strtod("2,5", NULL) == 2.5); /* the program's own numbers stay */
}

static void templates_read_and_write_points(void **state) {
    (void)state;
    skip_without_comma();
    static const char source[] =
        "{{ 1.5 }} {{ x }} {{ 2.26 | round(1) }} {{ '%.2f' | format(0.5) }} {{ '2.5' | float }} "
        "{{ '{:.1f}'.format(1.25) }} {{ 1500 | filesizeformat }} {{ [0.1] | tojson }}";
    json_t *context = parse_context("{\"x\": 0.25}");
    ln_jinja_output output;
    ln_error err = {0};
    bool compiled;
    if (render_template(source, strlen(source), context, &output, &compiled, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    assert_string_equal(output.text.data, "1.5 0.25 2.3 0.50 2.5 1.2 1.5 kB [0.1]");
    ln_jinja_output_free(&output);
    json_decref(context);
}

static void schemas_have_bounds_with_points(void **state) {
    (void)state;
    skip_without_comma();
    static const struct {
        const char *text;
        bool is_allowed;
    } cases[] = {{"0.5", true}, {"1.24", true}, {"0.4", false}, {"1.26", false}, {"1,1", false}};
    ln_grammar *grammar =
        compile(LINNET_GRAMMAR_JSON_SCHEMA,
                "{\"type\": \"number\", \"minimum\": 0.5, \"maximum\": 1.25}", NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n_accepted;
        bool complete;
        ln_error err = {0};
        assert_int_equal(ln_grammar_match(grammar, cases[i].text, strlen(cases[i].text),
                                          &n_accepted, &complete, &err),
                         LINNET_OK);
        if ((complete && n_accepted == strlen(cases[i].text)) != cases[i].is_allowed)
            fail_msg("%s", cases[i].text);
    }
    ln_grammar_release(grammar);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_have_a_point),
        cmocka_unit_test(templates_read_and_write_points),
        cmocka_unit_test(schemas_have_bounds_with_points),
    };
    return cmocka_run_group_tests(tests, set_comma, NULL);
}
