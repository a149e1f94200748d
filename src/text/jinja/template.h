/* Chat templates: an interpreter for the Jinja subset that checkpoints carry, with Hugging Face's
 * settings (trim_blocks, lstrip_blocks, loop controls, tojson, strftime_now). Sandboxed: no
 * attribute of the host is reachable, and fuel and output are limited. */
#ifndef LN_TEXT_JINJA_TEMPLATE_H
#define LN_TEXT_JINJA_TEMPLATE_H

#include <jansson.h>
#include <time.h>

#include "base/error.h"
#include "base/strbuf.h"

typedef struct ln_jinja_template ln_jinja_template;

/* Compiles `source`; `name` stands in errors ("chat template", a file name). Errors name the
 * line. Safe to share between threads once compiled. */
ln_status ln_jinja_compile(const char *source, size_t n_bytes, const char *name,
                           ln_jinja_template **compiled, ln_error *err);
void ln_jinja_free(ln_jinja_template *compiled);

/* A run of rendered text: from the template itself (trusted: control tokens count), or from a
 * value of the context (text stays text). Trusted are the template's text and string literals,
 * numbers, the context's bos_token, eos_token, unk_token, pad_token, sep_token, cls_token and
 * mask_token, and the role of a message when it is a common one ("user", "tool"), since templates
 * spell control tokens with it. Every piece keeps its provenance through slices, joins,
 * replacements and case; JSON and Python notation of values is untrusted. */
typedef struct ln_jinja_span {
    size_t begin, end; /* bytes of the output */
    bool trusted;
} ln_jinja_span;

typedef struct ln_jinja_output {
    ln_strbuf text;
    ln_jinja_span *spans; /* [n_spans], in order, without gaps; owned */
    size_t n_spans, span_capacity;
} ln_jinja_output;
void ln_jinja_output_free(ln_jinja_output *output);

/* Renders over `context`, a JSON object whose members are the template's variables. `now` is
 * what strftime_now formats (local time fields). A template's raise_exception, an undefined
 * operation, or exhausted fuel (operations), memory, depth or output limit is
 * LINNET_ERR_ARGUMENT with "NAME, line N: CLASS: message", the class as Jinja names it. The
 * context is only read. */
ln_status ln_jinja_render(const ln_jinja_template *compiled, json_t *context, const struct tm *now,
                          ln_jinja_output *output, ln_error *err);

#endif
