/* Compiling and rendering: the public face of the interpreter, its context and its limits. */
#include "text/jinja/template.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/clock.h"
#include "text/jinja/run.h"

struct ln_jinja_template {
    ln_jinja_program program;
};

/* ---- compiling -------------------------------------------------------------------------- */

static ln_status check_utf8(const char *source, size_t n_bytes, const char *name, ln_error *err) {
    unsigned line = 1;
    for (size_t at = 0; at < n_bytes;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)source + at,
                                              (utf8proc_ssize_t)(n_bytes - at), &c);
        if (n <= 0)
            return ln_fail(err, LINNET_ERR_FORMAT, "%s, line %u: not valid UTF-8", name, line);
        line += c == '\n';
        at += (size_t)n;
    }
    return LINNET_OK;
}

static ln_status compile(ln_jinja_program *program, const char *source, size_t n_bytes,
                         ln_error *err) {
    ln_jinja_token *tokens = NULL;
    size_t n_tokens;
    LN_TRY(check_utf8(source, n_bytes, program->name, err));
    LN_TRY(ln_jinja_lex(&program->arena, source, n_bytes, program->name, &tokens, &n_tokens, err));
    ln_status status = ln_jinja_parse(program, tokens, n_tokens, err);
    free(tokens);
    return status;
}

ln_status ln_jinja_compile(const char *source, size_t n_bytes, const char *name,
                           ln_jinja_template **compiled, ln_error *err) {
    *compiled = NULL;
    if (n_bytes > LN_JINJA_MAX_SOURCE_BYTES)
        return ln_fail(err, LINNET_ERR_LIMIT, "%s: %zu bytes; a template has at most %d", name,
                       n_bytes, LN_JINJA_MAX_SOURCE_BYTES);
    ln_jinja_template *result = calloc(1, sizeof *result);
    if (result == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "%s: out of memory", name);
    ln_jinja_program *program = &result->program;
    ln_arena_init(&program->arena);
    program->name = ln_arena_copy(&program->arena, name, strlen(name));
    ln_status status = program->name == NULL
                           ? ln_fail(err, LINNET_ERR_NOMEM, "%s: out of memory", name)
                           : compile(program, source, n_bytes, err);
    if (status != LINNET_OK) {
        ln_jinja_free(result);
        return status;
    }
    *compiled = result;
    return LINNET_OK;
}

void ln_jinja_free(ln_jinja_template *compiled) {
    if (compiled == NULL)
        return;
    ln_arena_free(&compiled->program.arena);
    free(compiled);
}

void ln_jinja_output_free(ln_jinja_output *output) {
    ln_strbuf_free(&output->text);
    free(output->spans);
    *output = (ln_jinja_output){0};
}

/* ---- failures and limits ---------------------------------------------------------------- */

ln_status ln_jinja_raise(ln_jinja_run *run, const char *class_name, const char *format, ...) {
    char message[960];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return ln_fail(run->err, LINNET_ERR_ARGUMENT, "%s, line %u: %s: %s", run->program->name,
                   run->line, class_name, message);
}

ln_status ln_jinja_alloc(ln_jinja_run *run, size_t count, size_t item_bytes, void *out) {
    size_t bytes;
    void *memory = NULL;
    bool fits = !__builtin_mul_overflow(count, item_bytes, &bytes) &&
                bytes <= LN_JINJA_MAX_ARENA_BYTES &&
                run->arena.reserved_bytes <= LN_JINJA_MAX_ARENA_BYTES - bytes;
    if (!fits)
        return ln_jinja_raise(run, "MemoryError", "the values need more than %zu MiB",
                              LN_JINJA_MAX_ARENA_BYTES >> 20);
    memory = ln_arena_alloc(&run->arena, count, item_bytes);
    if (memory == NULL)
        return ln_fail(run->err, LINNET_ERR_NOMEM, "%s, line %u: out of memory", run->program->name,
                       run->line);
    memcpy(out, &memory, sizeof memory);
    return LINNET_OK;
}

ln_status ln_jinja_spend(ln_jinja_run *run, size_t operations) {
    if (operations > (size_t)LN_JINJA_MAX_FUEL || run->fuel < (int64_t)operations) {
        run->fuel = 0;
        return ln_jinja_raise(run, "FuelError", "more than %" PRId64 " operations",
                              LN_JINJA_MAX_FUEL);
    }
    run->fuel -= (int64_t)operations;
    return LINNET_OK;
}

ln_status ln_jinja_enter(ln_jinja_run *run) {
    if (run->depth >= LN_JINJA_MAX_DEPTH)
        return ln_jinja_raise(run, "RecursionError", "maximum recursion depth exceeded");
    run->depth++;
    return ln_jinja_spend(run, 1);
}

const char *ln_jinja_quote(ln_jinja_run *run, ln_jinja_value value) {
    ln_jinja_builder b;
    ln_error *err = run->err; /* the caller raises; a failure here is not the one to tell */
    run->err = NULL;
    bool done = ln_jinja_builder_init(run, &b) == LINNET_OK &&
                ln_jinja_put_repr(&b, value) == LINNET_OK &&
                ln_jinja_put(&b, "", 1, true) == LINNET_OK;
    run->err = err;
    return done ? b.buffer->data : "(too large to show)";
}

/* ---- the context ------------------------------------------------------------------------ */

static ln_status convert(ln_jinja_run *run, json_t *json, ln_jinja_value *out);

static ln_status borrow(ln_jinja_run *run, const char *bytes, size_t n_bytes, bool trusted,
                        ln_jinja_value *out) {
    LN_TRY(ln_jinja_alloc(run, 0, 1, &(void *){NULL})); /* the limit */
    ln_jinja_string *string = ln_jinja_string_borrow(&run->arena, bytes, n_bytes, trusted);
    if (string == NULL)
        return ln_fail(run->err, LINNET_ERR_NOMEM, "%s: out of memory", run->program->name);
    *out = ln_jinja_of_string(string);
    return LINNET_OK;
}

static ln_status convert_object(ln_jinja_run *run, json_t *json, ln_jinja_value *out) {
    LN_TRY(ln_jinja_dict_new(run, out));
    for (void *iter = json_object_iter(json); iter != NULL;
         iter = json_object_iter_next(json, iter)) {
        ln_jinja_value key, item;
        LN_TRY(
            borrow(run, json_object_iter_key(iter), json_object_iter_key_len(iter), false, &key));
        LN_TRY(convert(run, json_object_iter_value(iter), &item));
        LN_TRY(ln_jinja_dict_set(run, out->as.dict, key, item));
    }
    return LINNET_OK;
}

static ln_status convert_array(ln_jinja_run *run, json_t *json, ln_jinja_value *out) {
    size_t n = json_array_size(json);
    LN_TRY(ln_jinja_list_new(run, LN_JINJA_LIST, n, out));
    for (size_t i = 0; i < n; i++) {
        ln_jinja_value item;
        LN_TRY(convert(run, json_array_get(json, i), &item));
        LN_TRY(ln_jinja_list_push(run, *out, item));
    }
    return LINNET_OK;
}

static ln_status convert(ln_jinja_run *run, json_t *json, ln_jinja_value *out) {
    LN_TRY(ln_jinja_enter(run));
    switch (json_typeof(json)) {
    case JSON_OBJECT: LN_TRY(convert_object(run, json, out)); break;
    case JSON_ARRAY: LN_TRY(convert_array(run, json, out)); break;
    case JSON_STRING:
        LN_TRY(borrow(run, json_string_value(json), json_string_length(json), false, out));
        break;
    case JSON_INTEGER: *out = ln_jinja_int(json_integer_value(json)); break;
    case JSON_REAL: *out = ln_jinja_float(json_real_value(json)); break;
    case JSON_TRUE:
    case JSON_FALSE: *out = ln_jinja_bool(json_is_true(json)); break;
    case JSON_NULL: *out = ln_jinja_none(); break;
    }
    ln_jinja_leave(run);
    return LINNET_OK;
}

static bool is_one_of(const ln_jinja_string *name, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (ln_jinja_string_is(name, names[i]))
            return true;
    return false;
}

/* Variables that the host takes from the tokenizer. */
static bool is_host_token(const ln_jinja_string *name) {
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "pad_token",
                                        "sep_token", "cls_token", "mask_token"};
    return is_one_of(name, names, sizeof names / sizeof *names);
}

/* Templates write '<|' + message.role + '|>': a role of this list is part of a control token,
 * any other is text. */
static void trust_roles(ln_jinja_value messages) {
    static const char *const roles[] = {
        "system",      "user",     "assistant", "tool",     "developer",     "function",
        "ipython",     "model",    "context",   "document", "documents",     "environment",
        "observation", "platform", "tools",     "chatbot",  "tool_response",
    };
    for (size_t i = 0; messages.kind == LN_JINJA_LIST && i < messages.as.list->n_items; i++) {
        ln_jinja_value message = messages.as.list->items[i];
        ln_jinja_value *role =
            message.kind == LN_JINJA_DICT ? ln_jinja_dict_get_c(message.as.dict, "role") : NULL;
        if (role != NULL && role->kind == LN_JINJA_STRING &&
            is_one_of(role->as.string, roles, sizeof roles / sizeof *roles))
            role->as.string->buffer->whole.trusted = true;
    }
}

/* What each name of the template means outside of its own assignments. */
static ln_status bind_globals(ln_jinja_run *run) {
    const ln_jinja_program *program = run->program;
    LN_TRY(ln_jinja_alloc(run, program->n_symbols, sizeof *run->globals, &run->globals));
    for (uint32_t i = 0; i < program->n_symbols; i++) {
        const ln_jinja_string *name = program->symbols[i];
        ln_jinja_value *value = &run->globals[i];
        json_t *json = json_object_getn(run->context, ln_jinja_bytes(name), name->n_bytes);
        const ln_jinja_builtin *builtin = json == NULL ? ln_jinja_find_global(name) : NULL;
        if (builtin != NULL)
            *value = (ln_jinja_value){.kind = LN_JINJA_FUNCTION, .as.function = builtin};
        if (json == NULL)
            continue;
        LN_TRY(convert(run, json, value));
        if (value->kind == LN_JINJA_STRING && is_host_token(name))
            value->as.string->buffer->whole.trusted = true;
        if (ln_jinja_string_is(name, "messages"))
            trust_roles(*value);
    }
    return LINNET_OK;
}

/* ---- rendering -------------------------------------------------------------------------- */

static ln_status fill_output(ln_jinja_run *run, const ln_jinja_buffer *buffer,
                             ln_jinja_output *output) {
    output->spans = calloc(buffer->n_marks > 0 ? buffer->n_marks : 1, sizeof *output->spans);
    if (output->spans == NULL || !ln_strbuf_append(&output->text, buffer->data, buffer->used))
        return ln_fail(run->err, LINNET_ERR_NOMEM, "%s: out of memory", run->program->name);
    output->n_spans = output->span_capacity = buffer->n_marks;
    for (size_t i = 0, begin = 0; i < buffer->n_marks; i++) {
        output->spans[i] = (ln_jinja_span){
            .begin = begin, .end = buffer->marks[i].end, .trusted = buffer->marks[i].trusted};
        begin = buffer->marks[i].end;
    }
    return LINNET_OK;
}

static ln_status render(ln_jinja_run *run, ln_jinja_output *output) {
    ln_jinja_builder builder;
    ln_jinja_scope *scope;
    LN_TRY(bind_globals(run));
    LN_TRY(ln_jinja_builder_init(run, &builder));
    LN_TRY(ln_jinja_scope_new(run, NULL, &scope));
    run->out = &builder;
    LN_TRY(ln_jinja_exec(run, scope, &run->program->body));
    return fill_output(run, builder.buffer, output);
}

ln_status ln_jinja_render(const ln_jinja_template *compiled, json_t *context, const struct tm *now,
                          ln_jinja_output *output, ln_error *err) {
    *output = (ln_jinja_output){0};
    if (!json_is_object(context))
        return ln_fail(err, LINNET_ERR_ARGUMENT, "%s: the context is not an object",
                       compiled->program.name);
    ln_jinja_run run = {.program = &compiled->program,
                        .context = context,
                        .now = now,
                        .fuel = LN_JINJA_MAX_FUEL,
                        .line = 1,
                        .hash_seed = ln_clock_ns() ^ (uint64_t)(uintptr_t)&run,
                        .err = err};
    ln_arena_init(&run.arena);
    ln_status status = render(&run, output);
    ln_arena_free(&run.arena);
    if (status != LINNET_OK)
        ln_jinja_output_free(output);
    return status;
}
