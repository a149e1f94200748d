#include "text/chat/message_header.h"

#include <stdbool.h>
#include <string.h>

static const char header_end[] = "<|message|>";

static bool ends_with(const char *text, size_t n_bytes, const char *end) {
    size_t n_end = strlen(end);
    return n_bytes >= n_end && memcmp(text + n_bytes - n_end, end, n_end) == 0;
}

/* The name behind `to=`. */
static void find_recipient(const char *text, size_t n_bytes, ln_message_header *header) {
    static const char to[] = "to=", functions[] = "functions.";
    const char *end = text + n_bytes, *name = memmem(text, n_bytes, to, sizeof to - 1);
    if (name == NULL)
        return;
    name += sizeof to - 1;
    if ((size_t)(end - name) >= sizeof functions - 1 &&
        memcmp(name, functions, sizeof functions - 1) == 0)
        name += sizeof functions - 1;
    header->name = name;
    while (name + header->n_bytes < end && strchr(" \n\r\t<", name[header->n_bytes]) == NULL)
        header->n_bytes++;
}

static bool is_name(const ln_message_header *header, const char *name) {
    return header->n_bytes == strlen(name) && memcmp(header->name, name, header->n_bytes) == 0;
}

/* <|start|>assistant<|channel|>commentary to=functions.NAME <|constrain|>json<|message|> */
static ln_message_header read_channel(const char *text, size_t n_bytes) {
    static const char analysis[] = "<|channel|>analysis";
    ln_message_header header = {.kind = LN_MESSAGE_UNKNOWN};
    if (!ends_with(text, n_bytes, header_end)) {
        header.kind = n_bytes > LN_MESSAGE_MAX_HEADER ? LN_MESSAGE_NONE : LN_MESSAGE_UNKNOWN;
        return header;
    }
    bool is_analysis = memmem(text, n_bytes, analysis, sizeof analysis - 1) != NULL;
    find_recipient(text, n_bytes, &header);
    header.without_tools = is_analysis ? LN_MESSAGE_REASONING : LN_MESSAGE_TEXT;
    header.kind = header.n_bytes > 0 ? LN_MESSAGE_CALL : header.without_tools;
    return header;
}

/* <|start|>assistant to=NAME<|message|>, whose first part the prompt may end with. */
static ln_message_header read_address(const char *text, size_t n_bytes) {
    static const char *const begins[] = {
        " to=", "to=", "<|start|>assistant to=", "<|start|>assistant<|message|>", header_end};
    ln_message_header header = {.kind = LN_MESSAGE_NONE};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        size_t n_begin = strlen(begins[i]);
        if (memcmp(text, begins[i], n_bytes < n_begin ? n_bytes : n_begin) == 0 &&
            n_bytes <= LN_MESSAGE_MAX_HEADER)
            header.kind = LN_MESSAGE_UNKNOWN;
    }
    if (header.kind == LN_MESSAGE_NONE || !ends_with(text, n_bytes, header_end))
        return header;
    find_recipient(text, n_bytes - (sizeof header_end - 1), &header);
    header.kind = header.n_bytes == 0 || is_name(&header, "self") ? LN_MESSAGE_REASONING
                  : is_name(&header, "user") || is_name(&header, "commentary") ? LN_MESSAGE_TEXT
                  : is_name(&header, "developer")                              ? LN_MESSAGE_NOTE
                                                                               : LN_MESSAGE_CALLS;
    header.without_tools = header.kind == LN_MESSAGE_CALLS ? LN_MESSAGE_TEXT : header.kind;
    return header;
}

/* >>>NAME and a line break; a tool's name is one where an object follows. */
static ln_message_header read_recipient(const char *text, size_t n_bytes) {
    static const char mark[] = ">>>";
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    enum { MAX_NAME = 64 };
    ln_message_header header = {.kind = LN_MESSAGE_UNKNOWN, .name = text};
    size_t n_mark = sizeof mark - 1, at;
    if (n_bytes < n_mark && memcmp(text, mark, n_bytes) == 0)
        return header;
    if (n_bytes >= n_mark && memcmp(text, mark, n_mark) == 0)
        header.name += n_mark;
    size_t n_rest = n_bytes - (size_t)(header.name - text);
    while (header.n_bytes < n_rest && header.name[header.n_bytes] != '\0' &&
           strchr(letters, header.name[header.n_bytes]) != NULL)
        header.n_bytes++;
    at = header.n_bytes;
    if (at == n_rest && at <= MAX_NAME)
        return header;
    if (at == 0 || at > MAX_NAME || header.name[at] != '\n') {
        header.kind = LN_MESSAGE_NONE;
    } else if (is_name(&header, "all")) {
        header.kind = header.without_tools = LN_MESSAGE_TEXT;
    } else if (at + 1 < n_rest) {
        header.kind = header.name[at + 1] == '{' ? LN_MESSAGE_CALL : LN_MESSAGE_NONE;
        header.without_tools = LN_MESSAGE_NONE;
        header.n_left = 1;
    }
    return header;
}

ln_message_header ln_message_header_read(ln_message_style style, const char *text, size_t n_bytes) {
    switch (style) {
    case LN_MESSAGES_ADDRESSED: return read_address(text, n_bytes);
    case LN_MESSAGES_RECIPIENTS: return read_recipient(text, n_bytes);
    case LN_MESSAGES_NONE:
    case LN_MESSAGES_CHANNELS:
    default: return read_channel(text, n_bytes);
    }
}

size_t ln_message_marks(ln_message_style style, const char *const **marks, size_t *n_begins) {
    static const char *const channels[] = {"<|channel|>", "<|start|>", " to=functions.",
                                           "<|end|>",     "<|call|>",  "<|return|>"};
    static const char *const addressed[] = {"<|start|>", "<|eom|>", "<|eot|>"};
    static const char *const recipients[] = {">>>"};
    *n_begins = style == LN_MESSAGES_CHANNELS ? 3 : 1;
    switch (style) {
    case LN_MESSAGES_ADDRESSED: *marks = addressed; return 3;
    case LN_MESSAGES_RECIPIENTS: *marks = recipients; return 1;
    case LN_MESSAGES_NONE:
    case LN_MESSAGES_CHANNELS:
    default: *marks = channels; return 6;
    }
}
