/* /tokenize and /detokenize: text to token ids, and back. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "server/api/routes.h"
#include "server/api_task.h"
#include "server/generation/chat_request.h"
#include "server/generation/token_ids.h"
#include "server/json/out.h"

/* Ids, which are not negative, with commas between them: millions, at times. */
static void put_ids(ln_strbuf *out, const int32_t *ids, size_t n_ids) {
    char text[16];
    for (size_t i = 0; i < n_ids; i++) {
        char *begin = text + sizeof text;
        uint32_t rest = (uint32_t)ids[i];
        do
            *--begin = (char)('0' + rest % 10);
        while ((rest /= 10) > 0);
        if (i > 0)
            *--begin = ',';
        ln_strbuf_append(out, begin, (size_t)(text + sizeof text - begin));
    }
}

/* Tokens as the vocabulary has them; ill-formed UTF-8 becomes U+FFFD. */
static void put_texts(ln_strbuf *out, const ln_tokenizer *tokenizer, const int32_t *ids,
                      size_t n_ids) {
    ln_strbuf_puts(out, ",\"token_strs\":[");
    for (size_t i = 0; i < n_ids; i++) {
        ln_token_text text = ln_tokenizer_text(tokenizer, ids[i]);
        if (i > 0)
            ln_strbuf_putc(out, ',');
        ln_json_put_string(out, text.data, text.n_bytes);
    }
    ln_strbuf_putc(out, ']');
}

/* Ids with the texts of their tokens, as llama.cpp has them: bytes of parts of characters are
 * numbers. */
static void put_pieces(ln_strbuf *out, const ln_tokenizer *tokenizer, const int32_t *ids,
                       size_t n_ids) {
    for (size_t i = 0; i < n_ids; i++) {
        ln_token_text text = ln_tokenizer_text(tokenizer, ids[i]);
        ln_strbuf_printf(out, "%s{\"id\":%d,\"piece\":", i > 0 ? "," : "", (int)ids[i]);
        if (ln_utf8_check(text.data, text.n_bytes)) {
            ln_json_put_string(out, text.data, text.n_bytes);
        } else {
            for (size_t j = 0; j < text.n_bytes; j++)
                ln_strbuf_printf(out, "%c%u", j > 0 ? ',' : '[', (unsigned char)text.data[j]);
            ln_strbuf_putc(out, ']');
        }
        ln_strbuf_putc(out, '}');
    }
}

/* Which texts of tokens an answer has. */
typedef struct shown {
    bool texts;  /* token_strs, vLLM's */
    bool pieces; /* llama.cpp's */
} shown;

static bool read_shown(const ln_fields *fields, shown *shows) {
    return ln_fields_bool(fields, "return_token_strs", &shows->texts) &&
           ln_fields_bool(fields, "with_pieces", &shows->pieces);
}

static void put_answer(ln_api_task *task, shown shows, const int32_t *ids, size_t n_ids) {
    const ln_tokenizer *tokenizer = task->served->tokenizer;
    ln_strbuf_printf(&task->reply, "{\"count\":%zu,\"max_model_len\":%zu,\"tokens\":[", n_ids,
                     task->served->ctx_tokens);
    if (shows.pieces && tokenizer != NULL)
        put_pieces(&task->reply, tokenizer, ids, n_ids);
    else
        put_ids(&task->reply, ids, n_ids);
    ln_strbuf_putc(&task->reply, ']');
    if (shows.texts && tokenizer != NULL)
        put_texts(&task->reply, tokenizer, ids, n_ids);
    ln_strbuf_putc(&task->reply, '}');
}

/* A chat, as its template writes it. */
static bool tokenize_chat(ln_api_task *task, const ln_fields *fields) {
    static const char *const known[] = {"model",
                                        "messages",
                                        "tools",
                                        "add_generation_prompt",
                                        "continue_final_message",
                                        "add_special_tokens=false",
                                        "return_token_strs",
                                        "with_pieces",
                                        "chat_template_kwargs",
                                        "chat_template",
                                        NULL};
    shown shows = {0};
    if (!ln_fields_only(fields, known) || !read_shown(fields, &shows))
        return false;
    json_object_del((json_t *)(uintptr_t)fields->root, "add_special_tokens");
    json_object_del((json_t *)(uintptr_t)fields->root, "return_token_strs");
    json_object_del((json_t *)(uintptr_t)fields->root, "with_pieces");
    if (!ln_chat_request_count(task, (json_t *)(uintptr_t)fields->root))
        return false;
    put_answer(task, shows, task->request.prompts[0].ids, task->request.prompts[0].n_ids);
    return true;
}

static bool tokenize(ln_api_task *task, const ln_fields *fields) {
    static const char *const known[] = {
        "model",       "prompt",        "content",     "add_special_tokens",
        "add_special", "parse_special", "with_pieces", "return_token_strs",
        NULL};
    const char *name = ln_fields_get(fields, "content") != NULL ? "content" : "prompt";
    bool adds_special = *name == 'p', parses_special = true; /* as vLLM and llama.cpp have it */
    shown shows = {0};
    const json_t *text = ln_fields_get(fields, name);
    if (ln_fields_get(fields, "messages") != NULL)
        return tokenize_chat(task, fields);
    if (!ln_fields_only(fields, known) || !ln_api_task_check_model(task, fields) ||
        !ln_fields_bool(fields, "add_special_tokens", &adds_special) ||
        !ln_fields_bool(fields, "add_special", &adds_special) || !read_shown(fields, &shows) ||
        !ln_fields_bool(fields, "parse_special", &parses_special))
        return false;
    if (*name == 'c' && ln_fields_get(fields, "prompt") != NULL)
        return ln_api_fail(&task->error, 400, name, "content and prompt exclude each other");
    if (!json_is_string(text))
        return ln_api_fail(&task->error, 400, name, "%s is missing or not a string", name);
    int32_t *ids;
    size_t n_ids;
    linnet_error err = {0};
    if (linnet_model_encode(task->served->model, json_string_value(text), json_string_length(text),
                            adds_special, parses_special, &ids, &n_ids, &err) != LINNET_OK)
        return ln_api_fail_with(&task->error, &err, "prompt");
    put_answer(task, shows, ids, n_ids);
    linnet_free(ids);
    return true;
}

/* A token in another form that vLLM or llama.cpp takes or gives: 5.0, "5", {"id": 5, "piece": ...};
 * -1: none. */
static json_int_t id_of(const json_t *item) {
    const char *text = json_string_value(item);
    double number = json_is_real(item) ? json_real_value(item) : -1;
    const json_t *id = json_object_get(item, "id");
    if (json_is_integer(id))
        return json_integer_value(id);
    if (number >= 0 && number <= INT32_MAX && floor(number) == number)
        return (json_int_t)number;
    bool is_decimal = text != NULL && *text != '\0' && strlen(text) < 10 &&
                      strspn(text, "0123456789") == json_string_length(item);
    return is_decimal ? strtol(text, NULL, 10) : -1;
}

/* Puts ids where the list has tokens in other forms. */
static bool unify_tokens(json_t *tokens) {
    size_t index;
    json_t *item;
    json_array_foreach(tokens, index, item) {
        json_int_t id = json_is_integer(item) ? -1 : id_of(item);
        if (id >= 0 && json_array_set_new(tokens, index, json_integer(id)) != 0)
            return false;
    }
    return true;
}

static bool detokenize(ln_api_task *task, const ln_fields *fields) {
    static const char *const known[] = {"model", "tokens", "skip_special_tokens", NULL};
    bool skips_special = false;
    json_t *tokens = ln_fields_get(fields, "tokens");
    if (!ln_fields_only(fields, known) || !ln_api_task_check_model(task, fields) ||
        !ln_fields_bool(fields, "skip_special_tokens", &skips_special))
        return false;
    if (!json_is_array(tokens))
        return ln_api_fail(&task->error, 400, "tokens", "tokens is missing or not a list of ids");
    if (!unify_tokens(tokens))
        return ln_api_fail_memory(&task->error);
    int32_t *ids = NULL;
    size_t n_ids, n_bytes;
    char *text = NULL;
    linnet_error err = {0};
    bool done = ln_api_read_ids(tokens, &task->served->info, "tokens", &ids, &n_ids, &task->error);
    if (done && linnet_model_decode(task->served->model, ids, n_ids, !skips_special, &text,
                                    &n_bytes, &err) != LINNET_OK)
        done = ln_api_fail_with(&task->error, &err, "tokens");
    if (done) {
        ln_strbuf_puts(&task->reply, "{\"prompt\":"); /* vLLM's name */
        ln_json_put_string(&task->reply, text, n_bytes);
        ln_strbuf_puts(&task->reply, ",\"content\":"); /* llama.cpp's */
        ln_json_put_string(&task->reply, text, n_bytes);
        ln_strbuf_putc(&task->reply, '}');
    }
    free(ids);
    linnet_free(text);
    return done;
}

void ln_endpoint_tokenize(ln_context *context, ln_exchange *exchange) {
    static const ln_api_work work = {.read = tokenize, .answer = ln_api_task_reply};
    ln_api_task_push(context, exchange, &work);
}

void ln_endpoint_detokenize(ln_context *context, ln_exchange *exchange) {
    static const ln_api_work work = {.read = detokenize, .answer = ln_api_task_reply};
    ln_api_task_push(context, exchange, &work);
}
