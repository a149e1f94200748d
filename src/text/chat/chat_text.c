#include "text/chat/chat_text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HELD = 64 << 10, MAX_NAME = 256 };

/* Where the parser stands. A byte at a time decides, so it does not matter how
 * a text is cut. */
enum {
    AT_BEGINNING, /* white space only so far, and the beginning of <think> */
    IN_CONTENT,   /* a marker may begin */
    IN_REASONING,
    BEFORE_CALL,  /* after the marker that begins calls */
    IN_HEADER,    /* a name outside of JSON, up to its { */
    IN_OBJECT,    /* {"name": ...} */
    IN_ARGUMENTS, /* the { ... } after a header */
    AFTER_CALL,   /* what closes it, up to its closing marker */
    BETWEEN,      /* calls */
    IN_TAGGED     /* calls between tags */
};

/* In the object of a call. */
enum {
    BEFORE_KEY,
    IN_KEY,
    BEFORE_COLON,
    BEFORE_VALUE,
    IN_VALUE,
    IN_NAME,
    IN_CALL_ARGUMENTS,
    AFTER_VALUE,
};

/* ---- pieces ----------------------------------------------------------------------------- */

static void flush(ln_chat_text *c) {
    if (c->pending.len > 0) {
        ln_chat_piece piece = {.kind = c->pending_kind,
                               .call = c->n_calls > 0 ? c->n_calls - 1 : 0,
                               .text = c->pending.data,
                               .n_bytes = c->pending.len};
        c->on_piece(c->user, &piece);
    }
    ln_strbuf_clear(&c->pending);
}

static void emit(ln_chat_text *c, ln_chat_piece_kind kind, const char *text, size_t n_bytes) {
    if (n_bytes == 0)
        return;
    if (kind != c->pending_kind)
        flush(c);
    c->pending_kind = kind;
    ln_strbuf_append(&c->pending, text, n_bytes);
}

static bool is_space(char byte) {
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

/* Content after other things loses the white space before it. */
static void emit_content(ln_chat_text *c, const char *text, size_t n_bytes) {
    while (c->skips_newline && n_bytes > 0 && is_space(*text)) {
        text++;
        n_bytes--;
    }
    if (n_bytes == 0)
        return;
    c->skips_newline = false;
    emit(c, LN_PIECE_CONTENT, text, n_bytes);
}

/* A call begins: its name is known, its arguments come. */
static void announce(ln_chat_text *c) {
    flush(c);
    c->n_calls++;
    c->is_announced = true;
    ln_chat_piece piece = {.kind = LN_PIECE_CALL,
                           .call = c->n_calls - 1,
                           .text = c->name.data != NULL ? c->name.data : "",
                           .n_bytes = c->name.len};
    c->on_piece(c->user, &piece);
    emit(c, LN_PIECE_ARGUMENTS, c->arguments.data, c->arguments.len);
    ln_strbuf_clear(&c->arguments);
    ln_strbuf_clear(&c->held);
}

static void begin_object(ln_chat_text *c) {
    c->state = IN_OBJECT;
    c->object_state = BEFORE_KEY;
    c->has_name = c->is_announced = c->has_arguments = c->is_text = false;
    c->in_string = c->is_escaped = false;
    c->depth = 0;
    ln_strbuf_clear(&c->word);
    ln_strbuf_clear(&c->name);
    ln_strbuf_clear(&c->arguments);
}

/* What looked like a call is none: what was held of it is content. */
static void give_up(ln_chat_text *c) {
    if (!c->is_announced)
        emit_content(c, c->held.data, c->held.len);
    ln_strbuf_clear(&c->held);
    c->is_announced = false;
    c->state = IN_CONTENT;
}

/* ---- JSON ------------------------------------------------------------------------------- */

/* Whether a value ends with this byte. A number or word ends before the byte,
 * which is then not taken. */
typedef enum value_end { GOES_ON, ENDS_HERE, ENDED_BEFORE } value_end;

static value_end step_value(ln_chat_text *c, char byte) {
    if (c->in_string) {
        if (c->is_escaped)
            c->is_escaped = false;
        else if (byte == '\\')
            c->is_escaped = true;
        else if (byte == '"')
            c->in_string = false;
        return !c->in_string && c->depth == 0 ? ENDS_HERE : GOES_ON;
    }
    switch (byte) {
    case '"': c->in_string = true; return GOES_ON;
    case '{':
    case '[': c->depth++; return GOES_ON;
    case '}':
    case ']':
        if (c->depth == 0)
            return ENDED_BEFORE;
        return --c->depth == 0 ? ENDS_HERE : GOES_ON;
    default: return c->depth == 0 && (byte == ',' || is_space(byte)) ? ENDED_BEFORE : GOES_ON;
    }
}

/* The text of a JSON string, to `out`. */
static bool decode_string(const ln_strbuf *json, ln_strbuf *out) {
    json_t *value = json_loadb(json->data, json->len, JSON_DECODE_ANY, NULL);
    bool is_string = json_is_string(value);
    ln_strbuf_clear(out);
    if (is_string)
        ln_strbuf_append(out, json_string_value(value), json_string_length(value));
    json_decref(value);
    return is_string;
}

/* Bytes of the arguments: handed on, or kept until the name is known. Arguments
 * that are a string are the JSON in it, known when it ends. */
static void give_arguments(ln_chat_text *c, char byte) {
    if (c->is_announced && !c->is_text)
        emit(c, LN_PIECE_ARGUMENTS, &byte, 1);
    else
        ln_strbuf_putc(&c->arguments, byte);
}

static void end_arguments(ln_chat_text *c) {
    ln_strbuf text;
    c->has_arguments = true;
    if (c->is_text) {
        ln_strbuf_init(&text);
        if (decode_string(&c->arguments, &text)) {
            ln_strbuf_clear(&c->arguments);
            ln_strbuf_append(&c->arguments, text.data, text.len);
        }
        c->pending.failed |= text.failed;
        ln_strbuf_free(&text);
        c->is_text = false;
        if (c->is_announced)
            emit(c, LN_PIECE_ARGUMENTS, c->arguments.data, c->arguments.len);
    }
    if (c->has_name && !c->is_announced)
        announce(c);
}

static bool is_word(const ln_strbuf *word, const char *text) {
    return word->len == strlen(text) && memcmp(word->data, text, word->len) == 0;
}

/* After a key and its colon. */
static void begin_value(ln_chat_text *c, char byte) {
    bool is_arguments = is_word(&c->word, "\"arguments\"") || is_word(&c->word, "\"parameters\"");
    c->object_state = IN_VALUE;
    if (is_word(&c->word, "\"name\"") && byte == '"' && !c->has_name)
        c->object_state = IN_NAME;
    else if (is_arguments && !c->has_arguments && (byte == '{' || byte == '"'))
        c->object_state = IN_CALL_ARGUMENTS;
    c->is_text = c->object_state == IN_CALL_ARGUMENTS && byte == '"';
    if (c->object_state == IN_CALL_ARGUMENTS && c->has_name && !c->is_text)
        announce(c);
    ln_strbuf_clear(&c->word);
}

static bool step_object(ln_chat_text *c, char byte);

/* False when the byte cannot stand here. */
static bool step_in_value(ln_chat_text *c, char byte) {
    value_end end = step_value(c, byte);
    if (end != ENDED_BEFORE) {
        if (c->object_state == IN_CALL_ARGUMENTS)
            give_arguments(c, byte);
        else if (c->object_state == IN_NAME)
            ln_strbuf_putc(&c->word, byte);
    }
    if (end == GOES_ON)
        return c->word.len <= 6 * MAX_NAME;
    if (c->object_state == IN_CALL_ARGUMENTS)
        end_arguments(c);
    if (c->object_state == IN_NAME) {
        c->has_name = decode_string(&c->word, &c->name) && c->name.len > 0;
        if (!c->has_name)
            return false;
        if (c->has_arguments)
            announce(c);
    }
    c->object_state = AFTER_VALUE;
    return end == ENDS_HERE || step_object(c, byte);
}

/* The } of a call's object. */
static void end_object(ln_chat_text *c) {
    if (!c->is_announced && c->has_name && c->syntax != LN_TOOLS_LLAMA3) {
        ln_strbuf_puts(&c->arguments, "{}"); /* a call without arguments */
        announce(c);
    }
    if (!c->is_announced) {
        give_up(c);
        return;
    }
    c->state = c->syntax == LN_TOOLS_HERMES ? AFTER_CALL : BETWEEN;
}

/* A byte of the object of a call, which is held as well; its first { came
 * before. */
static bool step_object(ln_chat_text *c, char byte) {
    switch (c->object_state) {
    case BEFORE_KEY:
        if (is_space(byte) || byte == ',')
            return true;
        if (byte == '}') {
            end_object(c);
            return true;
        }
        if (byte != '"')
            return false;
        ln_strbuf_clear(&c->word);
        ln_strbuf_putc(&c->word, byte);
        c->object_state = IN_KEY;
        return true;
    case IN_KEY:
        ln_strbuf_putc(&c->word, byte);
        if (byte == '"')
            c->object_state = BEFORE_COLON;
        return byte != '\\' && c->word.len <= MAX_NAME;
    case BEFORE_COLON:
        if (byte == ':')
            c->object_state = BEFORE_VALUE;
        return byte == ':' || is_space(byte);
    case BEFORE_VALUE:
        if (is_space(byte))
            return true;
        begin_value(c, byte);
        return step_in_value(c, byte);
    case AFTER_VALUE:
        if (byte == ',')
            c->object_state = BEFORE_KEY;
        else if (byte == '}')
            end_object(c);
        return byte == ',' || byte == '}' || is_space(byte);
    default: return step_in_value(c, byte);
    }
}

/* ---- between calls ---------------------------------------------------------------------- */

/* Adds a byte to what is held and compares it with markers: the index of the
 * one that is complete, -1 when one may still come, -2 when none can. */
static int match(ln_chat_text *c, char byte, const char *const *markers, int n) {
    bool may_come = false;
    ln_strbuf_putc(&c->held, byte);
    for (int i = 0; i < n; i++) {
        size_t n_bytes = strlen(markers[i]);
        if (n_bytes < c->held.len || memcmp(markers[i], c->held.data, c->held.len) != 0)
            continue;
        if (n_bytes == c->held.len)
            return i;
        may_come = true;
    }
    return may_come ? -1 : -2;
}

/* Content or reasoning: bytes are handed on as soon as no marker begins with
 * them. */
static bool step_text(ln_chat_text *c, char byte, const char *marker) {
    if (marker == NULL) {
        emit_content(c, &byte, 1);
        return false;
    }
    int found = match(c, byte, &marker, 1);
    while (found == -2) {
        if (c->state == IN_REASONING)
            emit(c, LN_PIECE_REASONING, c->held.data, 1);
        else
            emit_content(c, c->held.data, 1);
        memmove(c->held.data, c->held.data + 1, --c->held.len);
        found = memcmp(marker, c->held.data, c->held.len) == 0 ? -1 : -2;
    }
    if (found == 0)
        ln_strbuf_clear(&c->held);
    return found == 0;
}

static void step(ln_chat_text *c, char byte);

/* Hands what is held to another state, from its first byte on. */
static void again(ln_chat_text *c, int state) {
    ln_strbuf held = c->held;
    ln_strbuf_init(&c->held);
    c->state = state;
    for (size_t i = 0; i < held.len; i++)
        step(c, held.data[i]);
    ln_strbuf_free(&held);
}

/* The first bytes: <think>, a call that has no marker, or content. */
static void step_beginning(ln_chat_text *c, char byte) {
    static const char *const think[] = {LN_THINK_BEGIN};
    if (c->held.len == 0 && is_space(byte)) {
        if (!c->skips_newline)
            ln_strbuf_putc(&c->word, byte); /* of content that begins with it */
        return;
    }
    if (c->held.len == 0 && c->syntax == LN_TOOLS_LLAMA3 && byte == '{') {
        begin_object(c);
        ln_strbuf_putc(&c->held, byte);
        return;
    }
    int found = match(c, byte, think, c->reasons ? 1 : 0);
    if (found == -1)
        return;
    if (found == 0) {
        ln_strbuf_clear(&c->held);
        ln_strbuf_clear(&c->word);
        c->reasons = false;
        c->skips_newline = true;
        c->state = IN_REASONING;
        return;
    }
    emit_content(c, c->word.data, c->word.len);
    ln_strbuf_clear(&c->word);
    again(c, IN_CONTENT);
}

/* ---- calls between tags ----------------------------------------------------------------- */

static const char *marker_of(const ln_chat_text *c) {
    return c->tagged != NULL ? c->tagged->begin : ln_tool_syntax_marker(c->syntax);
}

static void take_tagged_call(void *user, const char *name, size_t n_bytes) {
    ln_chat_text *c = user;
    ln_strbuf_clear(&c->name);
    ln_strbuf_append(&c->name, name, n_bytes);
    ln_strbuf_clear(&c->arguments);
    announce(c);
}

static void take_tagged_arguments(void *user, const char *json, size_t n_bytes) {
    emit(user, LN_PIECE_ARGUMENTS, json, n_bytes);
}

static bool is_text_parameter(void *user, const char *tool, const char *parameter) {
    const ln_chat_text *c = user;
    return c->is_text_parameter != NULL && c->is_text_parameter(c->user, tool, parameter);
}

static void begin_tagged(ln_chat_text *c) {
    const ln_tagged_sink sink = {c, take_tagged_call, take_tagged_arguments, is_text_parameter};
    ln_tagged_calls_free(&c->tagged_calls);
    ln_tagged_calls_init(&c->tagged_calls, c->tagged, &sink);
    c->state = IN_TAGGED;
}

/* Calls that are none are content, from their marker on; behind calls content goes on. */
static void step_tagged(ln_chat_text *c, char byte) {
    ln_tagged_result result = ln_tagged_calls_feed(&c->tagged_calls, byte);
    if (result == LN_TAGGED_GOES_ON)
        return;
    ln_strbuf rest = c->tagged_calls.held;
    ln_strbuf_init(&c->tagged_calls.held);
    c->state = IN_CONTENT;
    c->is_announced = false;
    if (result == LN_TAGGED_FAILED) {
        if (!c->hides_marker)
            emit_content(c, c->tagged->begin, strlen(c->tagged->begin));
        emit_content(c, rest.data, rest.len);
    } else {
        c->skips_newline = true;
        for (size_t i = 0; i < rest.len; i++)
            step(c, rest.data[i]);
    }
    ln_strbuf_free(&rest);
}

/* After the marker of calls, or between two: where the next one begins. */
static void step_before_call(ln_chat_text *c, char byte) {
    static const char *const deepseek[] = {LN_DEEPSEEK_CALL("begin"), LN_DEEPSEEK_CALLS("end")};
    if (c->syntax == LN_TOOLS_DEEPSEEK) {
        if (c->held.len == 0 && is_space(byte))
            return;
        int found = match(c, byte, deepseek, 2);
        if (found >= 0)
            ln_strbuf_clear(&c->held);
        if (found == 0) {
            begin_object(c);
            c->state = IN_HEADER;
        } else if (found != -1) {
            c->skips_newline = true;
            again(c, IN_CONTENT);
        }
        return;
    }
    if (is_space(byte))
        return;
    if (c->tagged != NULL && (byte != '{' || c->syntax != LN_TOOLS_HERMES)) {
        begin_tagged(c);
        step_tagged(c, byte);
        return;
    }
    if (c->syntax == LN_TOOLS_MISTRAL && byte == '[' && !c->in_list) {
        c->in_list = true;
        return;
    }
    begin_object(c);
    bool is_header = byte != '{' && c->syntax == LN_TOOLS_MISTRAL && !c->in_list;
    if (!is_header && c->syntax != LN_TOOLS_LLAMA3 && !c->hides_marker)
        ln_strbuf_puts(&c->held,
                       ln_tool_syntax_marker(c->syntax)); /* content, should there be no call */
    ln_strbuf_putc(&c->held, byte);
    if (is_header)
        c->state = IN_HEADER;
    else if (byte != '{')
        give_up(c);
}

/* The name of a call that stands before its arguments: `name[ARGS]{',
 * `name[CALL_ID]id[ARGS]{', `function<sep>name\n```json\n{', `name<sep>{'. */
static void take_header(ln_chat_text *c) {
    const char *text = c->held.data, *end = text + c->held.len - 1; /* less the { */
    const char *sep = memmem(text, c->held.len, LN_DEEPSEEK_SEP, strlen(LN_DEEPSEEK_SEP));
    if (c->syntax == LN_TOOLS_DEEPSEEK && sep != NULL) {
        const char *after = sep + strlen(LN_DEEPSEEK_SEP);
        if ((size_t)(sep - text) == 8 && memcmp(text, "function", 8) == 0)
            text = after;
        else
            end = sep;
        const char *line = memchr(text, '\n', (size_t)(end - text));
        end = line != NULL ? line : end;
    } else if (c->syntax == LN_TOOLS_MISTRAL) {
        const char *bracket = memchr(text, '[', (size_t)(end - text));
        end = bracket != NULL ? bracket : end;
    }
    while (text < end && is_space(*text))
        text++;
    while (end > text && is_space(end[-1]))
        end--;
    ln_strbuf_clear(&c->name);
    ln_strbuf_append(&c->name, text, (size_t)(end - text));
}

static void step_header(ln_chat_text *c, char byte) {
    ln_strbuf_putc(&c->held, byte);
    if (c->held.len > 4 * MAX_NAME) {
        give_up(c);
        return;
    }
    if (byte != '{')
        return;
    take_header(c);
    if (c->name.len == 0) {
        give_up(c);
        return;
    }
    announce(c);
    c->state = IN_ARGUMENTS;
    step(c, byte);
}

/* What closes a call. */
static void step_after_call(ln_chat_text *c, char byte) {
    const char *marker = c->syntax == LN_TOOLS_HERMES ? "</tool_call>" : LN_DEEPSEEK_CALL("end");
    if (c->syntax == LN_TOOLS_MISTRAL) {
        c->state = BETWEEN;
        step(c, byte);
        return;
    }
    if (c->held.len == 0 && (is_space(byte) || byte == '`'))
        return;
    int found = match(c, byte, &marker, 1);
    if (found == 0) {
        ln_strbuf_clear(&c->held);
        c->state = c->syntax == LN_TOOLS_DEEPSEEK ? BEFORE_CALL : BETWEEN;
    } else if (found == -2) { /* it is missing */
        c->is_announced = false;
        again(c, BETWEEN);
    }
}

static void step_between(ln_chat_text *c, char byte) {
    if (is_space(byte) || (byte == ';' && c->syntax == LN_TOOLS_LLAMA3))
        return;
    c->skips_newline = true;
    if (c->syntax == LN_TOOLS_MISTRAL && c->in_list && (byte == ',' || byte == ']')) {
        if (byte == ']')
            c->in_list = false;
        c->state = byte == ',' ? BEFORE_CALL : BETWEEN;
        return;
    }
    if (c->syntax == LN_TOOLS_LLAMA3 && byte == '{') {
        begin_object(c);
        ln_strbuf_putc(&c->held, byte);
        return;
    }
    c->state = IN_CONTENT;
    step(c, byte);
}

/* ---- the parser ------------------------------------------------------------------------- */

static void step(ln_chat_text *c, char byte) {
    switch (c->state) {
    case AT_BEGINNING: step_beginning(c, byte); return;
    case IN_CONTENT:
        if (step_text(c, byte, marker_of(c))) {
            c->in_list = false;
            c->state = BEFORE_CALL;
        }
        return;
    case IN_REASONING:
        if (c->skips_newline && is_space(byte) && c->held.len == 0)
            return;
        c->skips_newline = false;
        if (step_text(c, byte, LN_THINK_END)) {
            c->skips_newline = true;
            c->state = AT_BEGINNING;
        }
        return;
    case BEFORE_CALL: step_before_call(c, byte); return;
    case IN_HEADER: step_header(c, byte); return;
    case IN_OBJECT:
        if (!c->is_announced)
            ln_strbuf_putc(&c->held, byte);
        if (c->held.len > MAX_HELD || c->arguments.len > MAX_HELD || !step_object(c, byte))
            give_up(c);
        return;
    case IN_ARGUMENTS:
        emit(c, LN_PIECE_ARGUMENTS, &byte, 1);
        if (step_value(c, byte) == ENDS_HERE)
            c->state = AFTER_CALL;
        return;
    case AFTER_CALL: step_after_call(c, byte); return;
    case IN_TAGGED: step_tagged(c, byte); return;
    case BETWEEN:
    default: step_between(c, byte); return;
    }
}

void ln_chat_text_init(ln_chat_text *chat, ln_tool_syntax syntax, bool reasons, bool is_thinking,
                       ln_chat_piece_fn on_piece, void *user) {
    *chat = (ln_chat_text){.syntax = syntax,
                           .reasons = reasons,
                           .state = is_thinking ? IN_REASONING : AT_BEGINNING,
                           .skips_newline = is_thinking,
                           .on_piece = on_piece,
                           .user = user};
}

void ln_chat_text_set_tagged(ln_chat_text *chat, const ln_tagged_syntax *tagged,
                             bool (*is_text)(void *user, const char *tool, const char *parameter)) {
    chat->tagged = tagged;
    chat->is_text_parameter = is_text;
}

void ln_chat_text_free(ln_chat_text *chat) {
    ln_tagged_calls_free(&chat->tagged_calls);
    ln_strbuf_free(&chat->held);
    ln_strbuf_free(&chat->pending);
    ln_strbuf_free(&chat->word);
    ln_strbuf_free(&chat->name);
    ln_strbuf_free(&chat->arguments);
}

static ln_status check(const ln_chat_text *c, ln_error *err) {
    if (c->held.failed || c->pending.failed || c->word.failed || c->name.failed ||
        c->arguments.failed || ln_tagged_calls_has_failed(&c->tagged_calls))
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for a message");
    return LINNET_OK;
}

ln_status ln_chat_text_feed(ln_chat_text *c, const char *text, size_t n_bytes, ln_error *err) {
    for (size_t i = 0; i < n_bytes; i++) {
        LN_TRY(check(c, err));
        step(c, text[i]);
    }
    LN_TRY(check(c, err));
    flush(c);
    return LINNET_OK;
}

bool ln_chat_text_is_reasoning(const ln_chat_text *chat) {
    return chat->state == IN_REASONING;
}

ln_status ln_chat_text_finish(ln_chat_text *c, ln_error *err) {
    LN_TRY(check(c, err));
    switch (c->state) {
    case IN_REASONING: emit(c, LN_PIECE_REASONING, c->held.data, c->held.len); break;
    case IN_OBJECT:
    case IN_HEADER: give_up(c); break;
    case IN_TAGGED:
        if (!c->tagged_calls.has_called) {
            if (!c->hides_marker)
                emit_content(c, c->tagged->begin, strlen(c->tagged->begin));
            emit_content(c, c->tagged_calls.held.data, c->tagged_calls.held.len);
        }
        break;
    case AT_BEGINNING: emit_content(c, c->word.data, c->word.len); /* fall through */
    case IN_CONTENT: emit_content(c, c->held.data, c->held.len); break;
    default: break;
    }
    LN_TRY(check(c, err));
    flush(c);
    return LINNET_OK;
}
