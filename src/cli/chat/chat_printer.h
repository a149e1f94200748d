/* Prints an answer of a chat as it comes, and keeps it for the conversation. With colour what the
 * model thinks aloud is dimmed, and the markers around it are left out; otherwise the text is
 * written as it is. */
#ifndef LN_CLI_CHAT_CHAT_PRINTER_H
#define LN_CLI_CHAT_CHAT_PRINTER_H

#include <linnet.h>
#include <stdbool.h>

#include "base/strbuf.h"
#include "cli/generate.h"
#include "text/chat/chat_text.h"
#include "text/tokenizer/tokenizer.h"

typedef struct ln_chat_printer {
    ln_cli_sink sink;                /* for ln_cli_generate */
    const ln_tokenizer *tokenizer;   /* borrowed */
    int32_t marker_ids[2];           /* of the special tokens that are markers; -1: none */
    bool shows_markers, has_colour;  /* markers are special tokens, which are kept */
    bool is_dim, ends_line, is_open; /* of what was written; stdout takes more */
    ln_chat_text parser;
    ln_strbuf text; /* what the model said, markers included */
} ln_chat_printer;

/* `prompt` is what the template rendered: a thought may have begun in it. */
void ln_chat_printer_init(ln_chat_printer *printer, const ln_tokenizer *tokenizer,
                          const char *prompt, bool has_colour);
void ln_chat_printer_free(ln_chat_printer *printer);

/* There is no more of it; false when stdout is closed. */
bool ln_chat_printer_finish(ln_chat_printer *printer);

#endif
