#include "server/generation/chat_answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/hash/siphash.h"
#include "base/json/load.h"

static size_t skip_spaces(const ln_strbuf *raw, size_t at) {
    while (at < raw->len && strchr(" \t\r\n", raw->data[at]) != NULL && raw->data[at] != '\0')
        at++;
    return at;
}

/* Where the text of {"input": TEXT} begins, or the end of `raw` where that is cut ahead of it;
 * SIZE_MAX: it is no such object. */
static size_t find_input(const ln_strbuf *raw) {
    static const char *const marks[] = {"{", "\"input\"", ":", "\""};
    size_t at = 0;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        size_t n_bytes = strlen(marks[i]);
        at = skip_spaces(raw, at);
        size_t n_left = raw->len - at;
        if (strncmp(raw->data + at, marks[i], n_left < n_bytes ? n_left : n_bytes) != 0)
            return SIZE_MAX;
        at += n_left < n_bytes ? n_left : n_bytes;
    }
    return at;
}

/* What there is of the text of {"input": TEXT}, which is cut somewhere; NULL: it is no such. */
static json_t *find_cut_input(const ln_strbuf *raw) {
    enum { MAX_PART = 12 }; /* of a character, or two escapes of one */
    size_t begin = find_input(raw), end = begin;
    if (begin == SIZE_MAX || begin == raw->len)
        return begin == SIZE_MAX ? NULL : json_string("");
    while (end < raw->len && raw->data[end] != '"')
        end += raw->data[end] == '\\' ? 2 : 1;
    end = end < raw->len ? end : raw->len;
    json_t *input = NULL;
    for (size_t cut = 0; cut <= MAX_PART && begin + cut <= end && input == NULL; cut++) {
        ln_strbuf text;
        ln_strbuf_init(&text);
        ln_strbuf_putc(&text, '"');
        ln_strbuf_append(&text, raw->data + begin, end - begin - cut);
        if (ln_strbuf_putc(&text, '"'))
            input = ln_json_load_bytes(text.data, text.len, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
        ln_strbuf_free(&text);
    }
    return input;
}

/* The arguments of a custom call are {"input": TEXT}; others stay as they are. */
static void close_custom(ln_chat_answer *answer) {
    ln_answer_part *last = answer->n_parts > 0 ? &answer->parts[answer->n_parts - 1] : NULL;
    if (last == NULL || last->raw.len == 0)
        return;
    json_t *arguments = ln_json_load_bytes(last->raw.data, last->raw.len, JSON_ALLOW_NUL, NULL);
    json_t *input = json_incref(json_object_get(arguments, "input"));
    last->is_malformed = !json_is_string(input);
    if (arguments == NULL)
        input = find_cut_input(&last->raw);
    if (json_is_string(input))
        answer->failed |=
            !ln_strbuf_append(&last->text, json_string_value(input), json_string_length(input));
    else
        answer->failed |= !ln_strbuf_append(&last->text, last->raw.data, last->raw.len);
    json_decref(input);
    json_decref(arguments);
    ln_strbuf_clear(&last->raw);
}

/* The last part, when the kind goes on with it, or a new one; NULL when memory is out. */
static ln_answer_part *get_part(ln_chat_answer *answer, ln_answer_part_kind kind) {
    ln_answer_part *last = answer->n_parts > 0 ? &answer->parts[answer->n_parts - 1] : NULL;
    if (last != NULL && last->kind == kind && kind != LN_PART_CALL)
        return last;
    close_custom(answer);
    if (!ln_grow((void **)&answer->parts, &answer->capacity, answer->n_parts + 1,
                 sizeof *answer->parts)) {
        answer->failed = true;
        return NULL;
    }
    ln_answer_part *part = &answer->parts[answer->n_parts++];
    *part = (ln_answer_part){.kind = kind, .call = answer->n_calls};
    answer->n_calls += kind == LN_PART_CALL;
    ln_strbuf_init(&part->name);
    ln_strbuf_init(&part->text);
    ln_strbuf_init(&part->raw);
    return part;
}

static void append(ln_chat_answer *answer, ln_strbuf *text, const ln_chat_piece *piece) {
    answer->failed |= !ln_strbuf_append(text, piece->text, piece->n_bytes);
}

static bool is_custom(const ln_generation_request *request, const ln_chat_piece *name) {
    size_t index;
    json_t *item;
    json_array_foreach(request->custom_tools, index, item) {
        if (json_string_length(item) == name->n_bytes &&
            memcmp(json_string_value(item), name->text, name->n_bytes) == 0)
            return true;
    }
    return false;
}

static void take(void *user, const ln_chat_piece *piece) {
    ln_chat_answer *answer = user;
    ln_answer_part *part;
    if ((piece->kind == LN_PIECE_CALL || piece->kind == LN_PIECE_ARGUMENTS) &&
        answer->request->calls_once && piece->call > 0)
        return; /* not wanted */
    if (piece->kind == LN_PIECE_REASONING && answer->request->hides_reasoning)
        return;
    if (piece->kind == LN_PIECE_CONTENT && answer->request->must_call &&
        answer->parser.syntax != NULL)
        return; /* marks of a call that was cut ahead of its name */
    switch (piece->kind) {
    case LN_PIECE_CONTENT:
    case LN_PIECE_REASONING:
        part = get_part(answer, piece->kind == LN_PIECE_CONTENT ? LN_PART_TEXT : LN_PART_REASONING);
        if (part != NULL)
            append(answer, &part->text, piece);
        return;
    case LN_PIECE_CALL:
        part = get_part(answer, LN_PART_CALL);
        if (part != NULL) {
            append(answer, &part->name, piece);
            part->is_custom = is_custom(answer->request, piece);
        }
        return;
    case LN_PIECE_ARGUMENTS:
        part = answer->n_parts > 0 ? &answer->parts[answer->n_parts - 1] : NULL;
        if (part != NULL && part->kind == LN_PART_CALL)
            append(answer, part->is_custom ? &part->raw : &part->text, piece);
        return;
    }
}

static ln_parameter_type type_of(void *user, const char *tool, const char *parameter) {
    const ln_chat_answer *answer = user;
    return ln_parameter_type_of(answer->request->tools, tool, parameter);
}

static void begin(ln_chat_answer *answer, const ln_call_syntax *syntax) {
    const ln_generation_request *request = answer->request;
    ln_chat_text_init(&answer->parser, syntax,
                      request->reasoning != LN_REASONING_NONE ? request->format : NULL,
                      request->reasoning == LN_REASONING_OPEN, take, answer);
    answer->parser.hides_marker = request->hides_markers;
    answer->parser.type_of = type_of;
}

void ln_chat_answer_init(ln_chat_answer *answer, const ln_generation_request *request) {
    *answer = (ln_chat_answer){.request = request};
    begin(answer, request->syntax);
}

static void free_parts(ln_chat_answer *answer) {
    for (size_t i = 0; i < answer->n_parts; i++) {
        ln_strbuf_free(&answer->parts[i].name);
        ln_strbuf_free(&answer->parts[i].text);
        ln_strbuf_free(&answer->parts[i].raw);
    }
    answer->n_parts = answer->n_calls = 0;
}

void ln_chat_answer_free(ln_chat_answer *answer) {
    free_parts(answer);
    free(answer->parts);
    ln_chat_text_free(&answer->parser);
    ln_strbuf_free(&answer->output);
    *answer = (ln_chat_answer){0};
}

void ln_chat_answer_feed(ln_chat_answer *answer, const char *text, size_t n_bytes) {
    if (answer->request->syntax != NULL && !answer->request->streams)
        answer->failed |= !ln_strbuf_append(&answer->output, text, n_bytes);
    answer->failed |= ln_chat_text_feed(&answer->parser, text, n_bytes, NULL) != LINNET_OK;
}

/* A JSON text with numbers of few digits, as long ones do not fit into this machine's. */
static bool shorten_numbers(const ln_strbuf *text, ln_strbuf *shortened) {
    enum { MAX_DIGITS = 2 };
    bool is_string = false, is_escaped = false, is_ok = true;
    size_t n_digits = 0;
    for (size_t i = 0; i < text->len && is_ok; i++) {
        char c = text->data[i];
        if (c == '"' && !is_escaped)
            is_string = !is_string;
        is_escaped = is_string && c == '\\' && !is_escaped;
        n_digits = !is_string && c >= '0' && c <= '9' ? n_digits + 1 : 0;
        if (n_digits <= MAX_DIGITS)
            is_ok = ln_strbuf_putc(shortened, c);
    }
    return is_ok;
}

/* Arguments that are no JSON; numbers that are too large for this machine are. */
static bool is_malformed(const ln_answer_part *part) {
    json_t *arguments = NULL;
    ln_strbuf text;
    if (part->kind != LN_PART_CALL || part->is_custom)
        return part->is_malformed;
    ln_strbuf_init(&text);
    if (shorten_numbers(&part->text, &text) && text.len > 0)
        arguments = ln_json_load_bytes(text.data, text.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    bool is_json = arguments != NULL;
    json_decref(arguments);
    ln_strbuf_free(&text);
    return !is_json;
}

/* The answer anew, with no calls in it. */
static void read_as_text(ln_chat_answer *answer) {
    free_parts(answer);
    ln_chat_text_free(&answer->parser);
    begin(answer, NULL);
    answer->failed |= ln_chat_text_feed(&answer->parser, answer->output.data, answer->output.len,
                                        NULL) != LINNET_OK;
    answer->failed |= ln_chat_text_finish(&answer->parser, NULL) != LINNET_OK;
}

void ln_chat_answer_finish(ln_chat_answer *answer, bool is_cut) {
    answer->failed |= ln_chat_text_finish(&answer->parser, NULL) != LINNET_OK;
    close_custom(answer);
    for (size_t i = 0; i < answer->n_parts && answer->output.len > 0 && !is_cut; i++) {
        if (is_malformed(&answer->parts[i])) {
            read_as_text(answer);
            break;
        }
    }
    ln_strbuf_free(&answer->output);
    if (answer->n_parts == 0) /* an answer that says nothing is an empty text */
        get_part(answer, LN_PART_TEXT);
}

bool ln_answer_part_has_object(const ln_answer_part *call) {
    if (call->text.len == 0)
        return false;
    json_t *arguments = ln_json_load_bytes(call->text.data, call->text.len,
                                           JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    bool is_object = json_is_object(arguments);
    json_decref(arguments);
    return is_object;
}

/* ---- what was sent ---------------------------------------------------------------------- */

size_t ln_answer_part_count_unsent(const ln_answer_part *part) {
    return part->text.len - part->n_sent;
}

const char *ln_answer_part_get_unsent(const ln_answer_part *part) {
    return part->text.data != NULL ? part->text.data + part->n_sent : "";
}

void ln_chat_answer_note_sent(ln_chat_answer *answer, ln_answer_part *part) {
    if (answer->request->keeps_text) {
        part->n_sent = part->text.len;
    } else {
        ln_strbuf_clear(&part->text);
        part->n_sent = 0;
    }
    part->is_begun = true;
    if (answer->n_parts > 0)
        answer->n_complete = answer->n_parts - 1; /* the last may go on */
}

bool ln_chat_answer_is_pending(const ln_chat_answer *answer) {
    for (size_t i = answer->n_complete; i < answer->n_parts; i++) {
        const ln_answer_part *part = &answer->parts[i];
        if (ln_answer_part_count_unsent(part) > 0 ||
            (part->kind == LN_PART_CALL && !part->is_begun))
            return true;
    }
    return false;
}

static bool is_plain_name(const ln_strbuf *name) {
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    return name->len > 0 && strspn(name->data, allowed) >= name->len;
}

void ln_chat_answer_put_call_id(ln_strbuf *out, const ln_chat_answer *answer,
                                const ln_answer_part *call, const char *prefix, const char *id,
                                uint32_t choice) {
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    const ln_generation_request *request = answer->request;
    const ln_call_syntax *syntax = request->syntax;
    if (syntax != NULL && syntax->counts && is_plain_name(&call->name)) {
        ln_strbuf_printf(out, "%s%.*s:%zu", syntax->prefix != NULL ? syntax->prefix : "",
                         (int)call->name.len, call->name.data, request->n_past_calls + call->call);
        return;
    }
    static const uint64_t key[2] = {0x746f6f6c, 0x63616c6c}; /* no secret */
    char text[96];
    int n = snprintf(text, sizeof text, "%s/%u/%zu", id, (unsigned)choice, call->call);
    uint64_t number = ln_siphash(key, text, (size_t)n);
    ln_strbuf_puts(out, prefix);
    for (int i = 0; i < 9; i++, number /= 36)
        ln_strbuf_putc(out, digits[number % 36]);
}
