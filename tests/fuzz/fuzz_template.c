/* Any bytes as a chat template: compiled, and rendered over a conversation. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "text/jinja/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const char context_json[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"S \\u00e9\\ud83d\\ude00\"},"
    " {\"role\": \"user\", \"content\": \"<|x|> a,b\\nc\", \"n\": 1.5},"
    " {\"role\": \"assistant\", \"content\": [{\"type\": \"text\", \"text\": \"t\"}],"
    "  \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"x\": [1, null]}}}]}],"
    " \"tools\": null, \"add_generation_prompt\": true, \"bos_token\": \"<s>\", \"x\": 0,"
    " \"l\": [3, 1, 2], \"d\": {\"a\": 1, \"b\": \"two\"}, \"s\": \"Hello, W\\u00f6rld\"}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static const struct tm now = {.tm_year = 126, .tm_mon = 10, .tm_mday = 20};
    ln_jinja_template *template;
    ln_jinja_output output;
    linnet_error err = {0};
    if (ln_jinja_compile((const char *)data, bytes, "fuzz", &template, &err) != LINNET_OK) {
        if (err.message[0] == '\0')
            __builtin_trap(); /* a failure has a sentence */
        return 0;
    }
    json_t *context = json_loads(context_json, 0, NULL);
    if (ln_jinja_render(template, context, &now, &output, &err) == LINNET_OK) {
        size_t at = 0;
        for (size_t i = 0; i < output.n_spans; i++) {
            if (output.spans[i].begin != at || output.spans[i].end <= at)
                __builtin_trap(); /* spans cover the text in order */
            at = output.spans[i].end;
        }
        if (at != output.text.len)
            __builtin_trap();
    } else if (err.message[0] == '\0') {
        __builtin_trap();
    }
    ln_jinja_output_free(&output);
    json_decref(context);
    ln_jinja_free(template);
    return 0;
}
