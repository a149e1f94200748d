#include "text/chat/chat_text.h"

#include <string.h>

/* Where the parser stands. A byte at a time decides, so it does not matter how
 * a text is cut. */
enum {
    AT_BEGINNING, /* white space only so far, and the beginning of <think> */
    IN_CONTENT,   /* a mark may begin */
    IN_REASONING,
    IN_CALLS,
    IN_HEADER, /* of a message, where there are several */
    IN_MESSAGE
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
    if (n_bytes == 0 || c->drops_message)
        return;
    if (kind != c->pending_kind)
        flush(c);
    c->pending_kind = kind;
    ln_strbuf_append(&c->pending, text, n_bytes);
}

static bool is_space(char byte) {
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

/* Text after other things loses the white space before it. */
static void emit_text(ln_chat_text *c, ln_chat_piece_kind kind, const char *text, size_t n_bytes) {
    while (c->skips_newline && n_bytes > 0 && is_space(*text)) {
        text++;
        n_bytes--;
    }
    if (n_bytes == 0)
        return;
    c->skips_newline = false;
    emit(c, kind, text, n_bytes);
}

/* White space at the beginning is content when something follows it that is. */
static void emit_content(ln_chat_text *c, const char *text, size_t n_bytes) {
    if (n_bytes > 0 && c->blank.len > 0) {
        emit(c, LN_PIECE_CONTENT, c->blank.data, c->blank.len);
        ln_strbuf_clear(&c->blank);
    }
    emit_text(c, LN_PIECE_CONTENT, text, n_bytes);
}

/* A call begins: its name is known, its arguments come. */
static void take_call(void *user, const char *name, size_t n_bytes) {
    ln_chat_text *c = user;
    ln_strbuf_clear(&c->blank);
    flush(c);
    c->n_calls++;
    ln_chat_piece piece = {
        .kind = LN_PIECE_CALL, .call = c->n_calls - 1, .text = name, .n_bytes = n_bytes};
    c->on_piece(c->user, &piece);
}

static void take_arguments(void *user, const char *json, size_t n_bytes) {
    emit(user, LN_PIECE_ARGUMENTS, json, n_bytes);
}

static ln_parameter_type type_of(void *user, const char *tool, const char *parameter) {
    const ln_chat_text *c = user;
    return c->type_of != NULL ? c->type_of(c->user, tool, parameter) : LN_PARAMETER_UNKNOWN;
}

/* ---- marks ------------------------------------------------------------------------------ */

static void step(ln_chat_text *c, char byte);

/* Compares what is held with marks: the index of the one that is complete, -1 when one may still
 * come, -2 when none can. */
static int compare(const ln_chat_text *c, const char *const *marks, size_t n) {
    bool may_come = c->held.len == 0;
    for (size_t i = 0; i < n; i++) {
        size_t n_bytes = strlen(marks[i]);
        if (n_bytes < c->held.len || memcmp(marks[i], c->held.data, c->held.len) != 0)
            continue;
        if (n_bytes == c->held.len)
            return (int)i;
        may_come = true;
    }
    return may_come ? -1 : -2;
}

/* Text of a kind: bytes are handed on as soon as no mark begins with them. Returns the mark that
 * is complete, which is then held no more, or -1. */
static int step_text(ln_chat_text *c, char byte, ln_chat_piece_kind kind, const char *const *marks,
                     size_t n) {
    if (!ln_strbuf_putc(&c->held, byte))
        return -1;
    int found = compare(c, marks, n);
    while (found == -2) {
        if (kind == LN_PIECE_ARGUMENTS)
            emit(c, kind, c->held.data, 1);
        else
            emit_text(c, kind, c->held.data, 1);
        memmove(c->held.data, c->held.data + 1, --c->held.len);
        found = compare(c, marks, n);
    }
    if (found >= 0)
        ln_strbuf_clear(&c->held);
    return found;
}

/* ---- calls ------------------------------------------------------------------------------ */

/* Hands the bytes of a text to the parser as if they came now. */
static void again(ln_chat_text *c, ln_strbuf *text) {
    for (size_t i = 0; i < text->len; i++)
        step(c, text->data[i]);
    ln_strbuf_free(text);
}

/* Calls that are none are content, from their mark on; behind calls content goes on. */
static void end_calls(ln_chat_text *c, ln_calls_result result) {
    ln_strbuf rest = c->reader.held;
    ln_strbuf_init(&c->reader.held);
    c->state = IN_CONTENT;
    if (result == LN_CALLS_FAILED && c->was_reasoning) {
        bool is_own =
            *c->mark == '\0' && rest.len > 0; /* then it is the rest that begins with it */
        c->state = IN_REASONING;
        if (!c->hides_marker)
            emit_text(c, LN_PIECE_REASONING, c->mark, strlen(c->mark));
        emit_text(c, LN_PIECE_REASONING, rest.data, is_own ? 1 : 0);
        for (size_t i = is_own ? 1 : 0; i < rest.len; i++)
            step(c, rest.data[i]);
        ln_strbuf_free(&rest);
        return;
    }
    if (result == LN_CALLS_FAILED) {
        if (!c->hides_marker)
            emit_content(c, c->mark, strlen(c->mark));
        emit_content(c, rest.data, rest.len);
        ln_strbuf_free(&rest);
        return;
    }
    c->skips_newline = true;
    again(c, &rest);
}

static void step_calls(ln_chat_text *c, char byte) {
    ln_calls_result result = ln_call_reader_feed(&c->reader, byte);
    if (result != LN_CALLS_GO_ON)
        end_calls(c, result);
}

/* After a mark, or at a byte that needs none: ""; the reader gets marks that are a call's own. */
static void begin_calls(ln_chat_text *c, const char *mark) {
    const ln_call_sink sink = {c, take_call, take_arguments, type_of};
    bool is_own = *mark == '{' || (c->syntax->call != NULL && strcmp(mark, c->syntax->call) == 0);
    ln_call_reader_free(&c->reader);
    ln_call_reader_init(&c->reader, c->syntax, &sink);
    c->mark = is_own ? "" : mark;
    c->state = IN_CALLS;
    for (const char *at = mark; is_own && *at != '\0'; at++)
        step_calls(c, *at);
}

static bool begins_bare(const ln_chat_text *c, char byte) {
    if (c->syntax == NULL || !c->syntax->bare || c->held.len > 0)
        return false;
    return byte == '[' || (byte == '{' && c->syntax->form == LN_CALLS_JSON);
}

/* ---- reasoning and content -------------------------------------------------------------- */

/* The first bytes: reasoning, a call that has no mark, or content. */
static void step_beginning(ln_chat_text *c, char byte) {
    const char *const marks[] = {c->reasoning != NULL ? c->reasoning->begin : "",
                                 c->reasoning != NULL ? c->reasoning->end : ""};
    if (c->held.len == 0 && is_space(byte)) {
        if (!c->skips_newline)
            ln_strbuf_putc(&c->blank, byte); /* of content that begins with it */
        return;
    }
    if (begins_bare(c, byte)) {
        begin_calls(c, "");
        step_calls(c, byte);
        return;
    }
    if (!ln_strbuf_putc(&c->held, byte))
        return;
    int found = c->reasoning != NULL ? compare(c, marks, 2) : -2;
    if (found == -1)
        return;
    if (found >= 0) { /* an end that ends nothing is no content either */
        ln_strbuf_clear(&c->held);
        ln_strbuf_clear(&c->blank);
        c->reasoning = NULL;
        c->skips_newline = true;
        c->state = found == 0 ? IN_REASONING : AT_BEGINNING;
        return;
    }
    ln_strbuf held = c->held;
    ln_strbuf_init(&c->held);
    c->state = IN_CONTENT;
    again(c, &held);
}

static void begin_header(ln_chat_text *c, const char *mark) {
    ln_strbuf_clear(&c->blank);
    ln_strbuf_puts(&c->blank, mark);
    c->state = IN_HEADER;
}

static void step_content(ln_chat_text *c, char byte) {
    if (c->n_marks == 0) {
        emit_content(c, &byte, 1);
        return;
    }
    int found = step_text(c, byte, LN_PIECE_CONTENT, c->marks, c->n_marks);
    if (found < 0)
        return;
    c->was_reasoning = false;
    if ((size_t)found < c->n_begins) {
        begin_calls(c, c->marks[found]);
        return;
    }
    c->skips_newline = true;
    if ((size_t)found >= c->n_begins + c->n_dropped)
        begin_header(c, c->marks[found]);
}

/* Reasoning ends with its mark, or with a call. */
static void step_reasoning(ln_chat_text *c, char byte) {
    int found = step_text(c, byte, LN_PIECE_REASONING, c->ends, c->n_ends);
    if (found < 0)
        return;
    if ((size_t)found >= c->n_own_ends) {
        c->was_reasoning = true;
        begin_calls(c, c->ends[found]);
        return;
    }
    c->skips_newline = true;
    c->state = AT_BEGINNING;
}

/* ---- messages --------------------------------------------------------------------------- */

/* A message begins behind its header. */
static void take_header(ln_chat_text *c, ln_message_kind kind, const ln_message_header *header) {
    c->state = kind == LN_MESSAGE_CALLS ? IN_CONTENT : IN_MESSAGE;
    c->message_kind = kind == LN_MESSAGE_REASONING ? LN_PIECE_REASONING : LN_PIECE_CONTENT;
    c->skips_newline = true;
    c->drops_message = kind == LN_MESSAGE_NOTE;
    if (kind == LN_MESSAGE_CALL) {
        take_call(c, header->name, header->n_bytes);
        c->message_kind = LN_PIECE_ARGUMENTS;
    }
}

/* What was read is text, not a header; or a part of arguments, which may have such a mark in them.
 */
static void refuse_header(ln_chat_text *c, const ln_strbuf *text) {
    c->state = IN_MESSAGE;
    c->skips_newline = false;
    if (c->message_kind == LN_PIECE_ARGUMENTS) {
        emit(c, LN_PIECE_ARGUMENTS, text->data, text->len);
        return;
    }
    c->message_kind = LN_PIECE_CONTENT;
    emit_content(c, text->data, text->len);
}

static void step_header(ln_chat_text *c, char byte) {
    if (!ln_strbuf_putc(&c->blank, byte))
        return;
    const ln_message_header header = ln_message_header_read(c->style, c->blank.data, c->blank.len);
    if (header.kind == LN_MESSAGE_UNKNOWN)
        return;
    ln_message_kind kind = c->syntax != NULL ? header.kind : header.without_tools;
    ln_strbuf text = c->blank;
    ln_strbuf_init(&c->blank);
    bool is_refused = header.kind == LN_MESSAGE_NONE || kind == LN_MESSAGE_NONE;
    if (is_refused)
        refuse_header(c, &text);
    else
        take_header(c, kind, &header);
    if (header.n_left > 0 && !is_refused)
        step(c, byte);
    ln_strbuf_free(&text);
}

static void step_message(ln_chat_text *c, char byte) {
    const char *const *marks;
    size_t n_begins, n_marks = ln_message_marks(c->style, &marks, &n_begins);
    int found = step_text(c, byte, c->message_kind, marks, n_marks);
    if (found < 0)
        return;
    c->skips_newline = true;
    c->drops_message = false;
    if ((size_t)found < n_begins)
        begin_header(c, marks[found]);
    else
        c->message_kind = LN_PIECE_CONTENT;
}

/* ---- the parser ------------------------------------------------------------------------- */

static void step(ln_chat_text *c, char byte) {
    switch (c->state) {
    case AT_BEGINNING: step_beginning(c, byte); return;
    case IN_REASONING: step_reasoning(c, byte); return;
    case IN_CALLS: step_calls(c, byte); return;
    case IN_HEADER: step_header(c, byte); return;
    case IN_MESSAGE: step_message(c, byte); return;
    case IN_CONTENT:
    default: step_content(c, byte); return;
    }
}

void ln_chat_text_init(ln_chat_text *chat, const ln_call_syntax *syntax,
                       const ln_reasoning_format *reasoning, bool is_thinking,
                       ln_chat_piece_fn on_piece, void *user) {
    ln_message_style style = reasoning != NULL ? reasoning->messages : LN_MESSAGES_NONE;
    *chat = (ln_chat_text){.syntax = syntax,
                           .reasoning = is_thinking ? NULL : reasoning,
                           .style = style,
                           .state = style == LN_MESSAGES_CHANNELS ? IN_MESSAGE
                                    : style != LN_MESSAGES_NONE   ? IN_HEADER
                                    : is_thinking                 ? IN_REASONING
                                                                  : AT_BEGINNING,
                           .skips_newline = is_thinking,
                           .on_piece = on_piece,
                           .user = user};
    if (syntax != NULL)
        chat->n_begins = chat->n_marks = ln_call_syntax_begins(syntax, chat->marks);
    if (reasoning == NULL)
        return;
    chat->ends[chat->n_ends++] = reasoning->end;
    if (reasoning->also_end != NULL)
        chat->ends[chat->n_ends++] = reasoning->also_end;
    chat->n_own_ends = chat->n_ends;
    for (size_t i = 0; syntax != NULL && syntax->ends_thinking && i < chat->n_begins; i++)
        chat->ends[chat->n_ends++] = chat->marks[i];
    for (size_t i = 0; i < LN_REASONING_MAX_DROPPED; i++)
        if (reasoning->dropped[i] != NULL)
            chat->marks[chat->n_marks++] = reasoning->dropped[i];
    chat->n_dropped = chat->n_marks - chat->n_begins;
    if (style == LN_MESSAGES_ADDRESSED)
        chat->marks[chat->n_marks++] = "<|start|>";
}

void ln_chat_text_free(ln_chat_text *chat) {
    ln_call_reader_free(&chat->reader);
    ln_strbuf_free(&chat->held);
    ln_strbuf_free(&chat->blank);
    ln_strbuf_free(&chat->pending);
}

static ln_status check(const ln_chat_text *c, ln_error *err) {
    if (c->held.failed || c->pending.failed || c->blank.failed ||
        ln_call_reader_has_failed(&c->reader))
        return ln_fail_memory(err, "a message");
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
    return chat->state == IN_REASONING ||
           (chat->state == IN_MESSAGE && chat->message_kind == LN_PIECE_REASONING);
}

ln_status ln_chat_text_finish(ln_chat_text *c, ln_error *err) {
    LN_TRY(check(c, err));
    if (c->state == IN_CALLS)
        end_calls(c, ln_call_reader_finish(&c->reader));
    switch (c->state) {
    case IN_REASONING: emit_text(c, LN_PIECE_REASONING, c->held.data, c->held.len); break;
    case IN_MESSAGE: emit(c, c->message_kind, c->held.data, c->held.len); break;
    case IN_HEADER:
        if (c->style == LN_MESSAGES_RECIPIENTS && c->message_kind != LN_PIECE_ARGUMENTS)
            /* a word may be all of an answer */
            emit(c, LN_PIECE_CONTENT, c->blank.data, c->blank.len);
        break;
    case AT_BEGINNING:
        emit(c, LN_PIECE_CONTENT, c->blank.data, c->blank.len);
        ln_strbuf_clear(&c->blank); /* fall through */
    case IN_CONTENT: emit_content(c, c->held.data, c->held.len); break;
    default: break;
    }
    LN_TRY(check(c, err));
    flush(c);
    return LINNET_OK;
}
