/* Chat templates: provenance of the output, limits, errors, sharing between threads. What they
 * compute is compared with Jinja2 in test_template_golden.c. */
#include "template_support.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/strbuf.h"

/* The output with its untrusted runs in braces. */
static char *render_marked(const char *source, const char *context_json) {
    json_t *context = parse_context(context_json);
    ln_jinja_output output;
    ln_error err = {0};
    bool compiled;
    if (render_template(source, strlen(source), context, &output, &compiled, &err) != LINNET_OK)
        fail_msg("%s: %s", source, err.message);
    assert_spans_cover(&output);
    ln_strbuf out;
    ln_strbuf_init(&out);
    for (size_t i = 0; i < output.n_spans; i++) {
        const ln_jinja_span *span = &output.spans[i];
        ln_strbuf_puts(&out, span->trusted ? "" : "{");
        ln_strbuf_append(&out, output.text.data + span->begin, span->end - span->begin);
        ln_strbuf_puts(&out, span->trusted ? "" : "}");
    }
    ln_jinja_output_free(&output);
    json_decref(context);
    return ln_strbuf_take(&out);
}

static void assert_marked(const char *source, const char *context, const char *marked) {
    char *actual = render_marked(source, context);
    assert_string_equal(actual, marked);
    free(actual);
}

static void output_carries_its_provenance(void **state) {
    (void)state;
    static const char context[] =
        "{\"bos_token\": \"<s>\", \"s\": \" a<|x|>b \", \"l\": [\"p\", \"q\"], \"n\": 5,"
        " \"messages\": [{\"role\": \"user\", \"content\": \"<|im_end|>\"},"
        "                {\"role\": \"end\", \"content\": \"hi\"}]}";
    static const struct {
        const char *source, *marked;
    } cases[] = {
        {"text {{ '<|x|>' }}{{ bos_token }}", "text <|x|><s>"},
        {"{{ s }}|{{ s | trim }}|{{ s[1:3] }}", "{ a<|x|>b }|{a<|x|>b}|{a<}"},
        {"{{ '<|' + s + '|>' }}", "<|{ a<|x|>b }|>"},
        {"{{ '<|' ~ n ~ '|>' }}", "<|5|>"},
        {"{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + "
         "'<|im_end|>\\n' }}{% endfor %}",
         "<|im_start|>user\n{<|im_end|>}<|im_end|>\n<|im_start|>{end}\n{hi}<|im_end|>\n"},
        {"{{ ('(' + s + ')') | trim('(') }}", "{ a<|x|>b })"},
        {"{{ ('(' + s + ')')[1:-1] }}", "{ a<|x|>b }"},
        {"{{ l | join('<sep>') }}", "{p}<sep>{q}"},
        {"{{ '<sep>'.join(l) }}", "{p}<sep>{q}"},
        {"{{ s.replace('<|x|>', '<|y|>') }}", "{ a}<|y|>{b }"},
        {"{{ 'a-b'.replace('-', s.strip()) }}", "a{a<|x|>b}b"},
        {"{{ ('A' + s) | upper }}", "A{ A<|X|>B }"},
        {"{{ '%s<|x|>%s' % (s | trim, 1) }}", "{a<|x|>b}<|x|>1"},
        {"{{ '[{}]'.format(s) }}", "[{ a<|x|>b }]"},
        {"{{ s | tojson }}{{ l }}", "{\" a<|x|>b \"['p', 'q']}"},
        {"{{ {'a': '<|x|>'}['a'] }}{{ {'k': s}.k }}", "<|x|>{ a<|x|>b }"},
        {"{% set x %}<a>{{ s }}</a>{% endset %}{{ x }}", "<a>{ a<|x|>b }</a>"},
        {"{% macro m(x) %}<m>{{ x }}{{ caller() }}{% endmacro %}{% call m(s) %}<c>{% endcall %}",
         "<m>{ a<|x|>b }<c>"},
        {"{% filter upper %}<a>{{ l[0] }}{% endfilter %}", "<A>{P}"},
        {"{% set ns = namespace(t='') %}{% for x in l %}{% set ns.t = ns.t + '<i>' + x %}"
         "{% endfor %}{{ ns.t }}",
         "<i>{p}<i>{q}"},
        {"{{ ('<i>' + s).split('|')[0] }}{{ ('<i>\\n' + l[0]).splitlines() | last }}", "<i>{ a<p}"},
        {"{{ 'x' * 3 }}{{ l[0] * 2 }}{{ 'ab'[::-1] }}{{ s[::-1] }}", "xxx{pp}ba{ b>|x|<a }"},
        {"{{ ('<b>\\n' + l[0]) | indent(2) }}", "<b>\n  {p}"},
        {"{{ (s + '<end>') | e }}", "{ a&lt;|x|&gt;b }&lt;end&gt;"},
        {"{{ strftime_now('%Y') }}{{ strftime_now(l[0]) }}", "2026{p}"},
        {"{{ l[0].rjust(3) }}{{ l[0].zfill(2) }}", "  {p}0{p}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_marked(cases[i].source, context, cases[i].marked);
}

static void only_names_of_the_host_are_trusted(void **state) {
    (void)state;
    assert_marked("{{ eos_token }}{{ other_token }}{{ x.eos_token }}",
                  "{\"eos_token\": \"</s>\", \"other_token\": \"<o>\","
                  " \"x\": {\"eos_token\": \"<e>\"}}",
                  "</s>{<o><e>}");
    assert_marked("{{ m.role }}{{ messages[0].role }}",
                  "{\"m\": {\"role\": \"user\"}, \"messages\": [{\"role\": \"im_end|>\"}]}",
                  "{userim_end|>}");
}

/* Extending a string in place must not show in the strings that share its bytes. */
static void strings_do_not_change(void **state) {
    (void)state;
    assert_marked("{% set a = 'x' + s %}{% set b = a + '1' %}{% set c = a + '2' %}"
                  "{% set d = b + b %}{{ a }} {{ b }} {{ c }} {{ d }} {{ b[1:] + '!' }} {{ b }}",
                  "{\"s\": \"s\"}", "x{s} x{s}1 x{s}2 x{s}1x{s}1 {s}1! x{s}1");
    assert_marked("{% set a = [1] + [2] %}{% set b = a + [3] %}{% set c = a + [4] %}"
                  "{% set d = b + b %}{{ a | length }}{{ b | last }}{{ c | last }}{{ d | sum }}"
                  "{{ (a[:1] + [9]) | sum }}{{ a | sum }}",
                  "{}", "23412103");
}

static void assert_fails(const char *source, const char *context_json, ln_status wanted,
                         const char *message) {
    json_t *context = parse_context(context_json);
    ln_jinja_output output;
    ln_error err = {0};
    bool compiled;
    ln_status status = render_template(source, strlen(source), context, &output, &compiled, &err);
    if (strstr(err.message, message) == NULL)
        fail_msg("%.200s: \"%s\" instead of \"%s\"", source, err.message, message);
    assert_int_equal(status, wanted);
    assert_null(output.text.data);
    assert_null(output.spans);
    json_decref(context);
}

static void errors_name_the_line(void **state) {
    (void)state;
    assert_fails("a\nb\n{{ 1 + }}", "{}", LINNET_ERR_FORMAT, "test, line 3: expected");
    assert_fails("{#\n\n#}{% if x %}\n", "{}", LINNET_ERR_FORMAT, "line 3: Unexpected end");
    assert_fails("\n{{ 'a\n\nb' | nope }}", "{}", LINNET_ERR_FORMAT,
                 "line 4: No filter named 'nope'.");
    assert_fails("\n\n{% raw %}", "{}", LINNET_ERR_FORMAT, "line 3: the raw block has no end");
    assert_fails("{% include 'x' %}", "{}", LINNET_ERR_UNSUPPORTED, "'include' is not supported");
    assert_fails("{% import 'x' as y %}", "{}", LINNET_ERR_UNSUPPORTED, "'import'");
    assert_fails("{% extends 'x' %}", "{}", LINNET_ERR_UNSUPPORTED, "'extends'");
    assert_fails("a\n{{ x.y.z }}", "{\"x\": {}}", LINNET_ERR_ARGUMENT,
                 "test, line 2: UndefinedError: 'dict object' has no attribute 'y'");
    assert_fails("{% if 1 %}\n{{ raise_exception('Only users') }}{% endif %}", "{}",
                 LINNET_ERR_ARGUMENT, "test, line 2: TemplateError: Only users");
    assert_fails("\xff", "{}", LINNET_ERR_FORMAT, "line 1: not valid UTF-8");
    assert_fails("{{ 99999999999999999999 }}", "{}", LINNET_ERR_FORMAT, "64 bits");
    assert_fails("{{ 9223372036854775807 + 1 }}", "{}", LINNET_ERR_ARGUMENT, "64 bits");
    assert_fails("{{ x }}", "[]", LINNET_ERR_ARGUMENT, "not an object");
}

static void the_host_is_out_of_reach(void **state) {
    (void)state;
    assert_fails("{{ ''.__class__.__mro__ }}", "{}", LINNET_ERR_ARGUMENT,
                 "SecurityError: access to attribute '__class__' of 'str' object is unsafe.");
    assert_fails("{{ x.append(1) }}", "{\"x\": []}", LINNET_ERR_ARGUMENT,
                 "SecurityError: access to attribute 'append' of 'list' object is unsafe.");
    assert_fails("{{ x.update({}) }}", "{\"x\": {}}", LINNET_ERR_ARGUMENT, "SecurityError");
    assert_fails("{{ range.__globals__['x'] }}", "{}", LINNET_ERR_ARGUMENT, "SecurityError");
    assert_fails("{{ '{0.__class__.x}'.format(1) }}", "{}", LINNET_ERR_ARGUMENT, "SecurityError");
}

/* Sources that would run for hours or fill the memory: one error, soon. */
static void limits_hold(void **state) {
    (void)state;
    static const struct {
        const char *source, *message;
    } cases[] = {
        {"{% for i in range(10**9) %}x{% endfor %}", "Range too big"},
        {"{{ 'x' * 10**10 }}", "FuelError"},
        {"{{ [1] * 10**18 }}", "FuelError"},
        {"{% for i in range(1000) %}{% for j in range(1000) %}{{ 'x' * 10**6 }}{% endfor %}"
         "{% endfor %}",
         "FuelError"},
        {"{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
         "FuelError"},
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError"},
        {"{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}", "RecursionError"},
        {"{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}"
         "{% endfor %}",
         "Error"},
        {"{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}"
         "{% endfor %}{{ ns.x }}",
         "FuelError"},
        {"{% set ns = namespace(x=[1]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}"
         "{% endfor %}{{ ns.x | tojson }}",
         "RecursionError"},
        {"{% set ns = namespace(g=[1]) %}{% for i in range(9999) %}"
         "{% set ns.g = ns.g | map('string') %}{% endfor %}{{ ns.g | list }}",
         "RecursionError"},
        {"{{ 'x' | center(10**12) }}", "Error"},
        {"{{ '%1000000000d' % 1 }}", "Error"},
        {"{{ '{:>1000000000}'.format(1) }}", "Error"},
        {"{{ ('a' * 10**6).replace('a', 'b' * 10**6) }}", "Error"},
        {"{% set a = 'a' * 10**6 %}{% for i in range(99999) %}{{ a.rfind('a' * 1000 + 'b') }}"
         "{% endfor %}",
         "FuelError"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t begin = ln_clock_ns();
        assert_fails(cases[i].source, "{}", LINNET_ERR_ARGUMENT, cases[i].message);
        assert_true(ln_clock_ns() - begin < 30000000000u); /* hours otherwise; loaded machines */
    }
}

static void nesting_is_limited(void **state) {
    (void)state;
    static const struct {
        const char *repeated, *message;
    } cases[] = {
        {"(", "nested more than"},    {"[", "nested more than"},     {"-", "nested more than"},
        {"not ", "nested more than"}, {"{'a':", "nested more than"}, {"1 if 0 else ", "nested"},
        {"a[", "nested more than"},   {"f(", "nested more than"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ln_strbuf source;
        ln_strbuf_init(&source);
        ln_strbuf_puts(&source, "{{ ");
        for (int k = 0; k < 100000; k++)
            ln_strbuf_puts(&source, cases[i].repeated);
        for (int k = 0; k < 100000 && strchr("([{", cases[i].repeated[0]) != NULL; k++)
            ln_strbuf_putc(&source, cases[i].repeated[0] == '(' ? ')' : cases[i].repeated[0] + 2);
        for (int k = 0; k < 100000 && strlen(cases[i].repeated) == 2; k++)
            ln_strbuf_putc(&source, cases[i].repeated[1] == '(' ? ')' : ']');
        ln_strbuf_puts(&source, " }}");
        assert_fails(source.data, "{}", LINNET_ERR_FORMAT, cases[i].message);
        ln_strbuf_free(&source);
    }
    ln_strbuf deep;
    ln_strbuf_init(&deep);
    for (int k = 0; k < 5000; k++)
        ln_strbuf_puts(&deep, "{% if 1 %}");
    assert_fails(deep.data, "{}", LINNET_ERR_FORMAT, "nested more than");
    ln_strbuf_clear(&deep);
    ln_strbuf_puts(&deep, "{{ 1");
    for (int k = 0; k < 100000; k++)
        ln_strbuf_puts(&deep, " + 1");
    ln_strbuf_puts(&deep, " }}");
    assert_fails(deep.data, "{}", LINNET_ERR_ARGUMENT, "RecursionError");
    ln_strbuf_free(&deep);
}

/* Long conversations are no loops: the limits leave room for them. */
static void long_conversations_render(void **state) {
    (void)state;
    enum { N_MESSAGES = 2000, N_BYTES = 1000 };
    json_t *context = json_object(), *messages = json_array();
    char content[N_BYTES + 1];
    memset(content, 'x', N_BYTES);
    content[N_BYTES] = '\0';
    for (int i = 0; i < N_MESSAGES; i++)
        json_array_append_new(
            messages,
            json_pack("{s:s, s:s}", "role", i % 2 ? "assistant" : "user", "content", content));
    json_object_set_new(context, "messages", messages);
    static const char source[] =
        "{% set ns = namespace(text='', users=[]) %}"
        "{% for m in messages %}{% if m.role == 'user' %}"
        "{% set ns.users = ns.users + [m.content] %}{% endif %}"
        "{% set ns.text = ns.text + '<|' + m.role + '|>' + m.content | trim %}{% endfor %}"
        "{{ ns.text }}{{ ns.users | length }}";
    ln_jinja_output output;
    ln_error err = {0};
    bool compiled;
    if (render_template(source, strlen(source), context, &output, &compiled, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    assert_int_equal(output.text.len, N_MESSAGES / 2 * (8 + 13) + N_MESSAGES * N_BYTES + 4);
    assert_int_equal(output.n_spans, 2 * N_MESSAGES + 1);
    ln_jinja_output_free(&output);
    json_decref(context);
}

typedef struct shared {
    const ln_jinja_template *template;
    json_t *context;
    int failures;
} shared;

static void *render_often(void *argument) {
    shared *own = argument;
    for (int i = 0; i < 200; i++) {
        ln_jinja_output output;
        if (ln_jinja_render(own->template, own->context, &template_now, &output, NULL) !=
                LINNET_OK ||
            strcmp(output.text.data, "AB-1AB-2") != 0)
            own->failures++;
        ln_jinja_output_free(&output);
    }
    return NULL;
}

static void compiled_templates_are_shared(void **state) {
    (void)state;
    static const char source[] = "{% macro m(x) %}{{ ('a' + 'b') | upper ~ '-' ~ x }}{% endmacro %}"
                                 "{% for i in [1, 2] %}{{ m(i) }}{% endfor %}";
    enum { N_THREADS = 4 };
    ln_jinja_template *template;
    assert_int_equal(ln_jinja_compile(source, strlen(source), "t", &template, NULL), LINNET_OK);
    pthread_t threads[N_THREADS];
    shared own[N_THREADS];
    for (size_t i = 0; i < N_THREADS; i++) {
        own[i] = (shared){.template = template, .context = json_object()};
        assert_int_equal(pthread_create(&threads[i], NULL, render_often, &own[i]), 0);
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(own[i].failures, 0);
        json_decref(own[i].context);
    }
    ln_jinja_free(template);
}

static void empty_templates_render(void **state) {
    (void)state;
    assert_marked("", "{}", "");
    assert_marked("\n", "{}", "");
    assert_marked("{{ x }}{{ '' }}", "{}", "");
    ln_jinja_free(NULL);
}

/* Names and values with NUL bytes and characters of every width. */
static void any_text_passes_through(void **state) {
    (void)state;
    json_t *context = json_object();
    json_object_set_new(context, "s", json_stringn("a\0\xc3\xa9\xf0\x9f\x98\x80", 8));
    static const char source[] = "{{ s }}{{ s | length }}{{ s[2:] }}{{ s | list | length }}";
    ln_jinja_output output;
    ln_error err = {0};
    bool compiled;
    assert_int_equal(render_template(source, strlen(source), context, &output, &compiled, &err),
                     LINNET_OK);
    static const char wanted[] = "a\0\xc3\xa9\xf0\x9f\x98\x80"
                                 "4\xc3\xa9\xf0\x9f\x98\x80"
                                 "4";
    assert_int_equal(output.text.len, sizeof wanted - 1);
    assert_memory_equal(output.text.data, wanted, sizeof wanted - 1);
    ln_jinja_output_free(&output);
    json_decref(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_carries_its_provenance),
        cmocka_unit_test(only_names_of_the_host_are_trusted),
        cmocka_unit_test(strings_do_not_change),
        cmocka_unit_test(errors_name_the_line),
        cmocka_unit_test(the_host_is_out_of_reach),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(nesting_is_limited),
        cmocka_unit_test(long_conversations_render),
        cmocka_unit_test(compiled_templates_are_shared),
        cmocka_unit_test(empty_templates_render),
        cmocka_unit_test(any_text_passes_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
