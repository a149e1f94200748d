#include "server/native/native_writer.h"

#include "base/clock.h"
#include "server/json/out.h"
#include "server/json/reply.h"

static const char *stop_type(const ln_choice *choice) {
    if (choice->stop_index >= 0)
        return "word";
    return choice->finish == LINNET_FINISH_LENGTH ? "limit" : "eos";
}

/* Text that was not sent, with the ids of its tokens where they are wanted. */
static void put_begin(const ln_choice *choice, bool stops, ln_strbuf *out) {
    ln_strbuf_printf(out, "{\"index\":%u,\"content\":", (unsigned)choice->index);
    ln_json_put_string(out, choice->text.data != NULL ? choice->text.data : "", choice->text.len);
    ln_strbuf_puts(out, ",\"tokens\":[");
    ln_strbuf_append(out, choice->token_ids.data, choice->token_ids.len);
    ln_strbuf_printf(out, "],\"stop\":%s,\"id_slot\":0", stops ? "true" : "false");
}

/* Tokens that the answer shows: none where only the prompt was wanted. */
static size_t n_shown(const ln_answer_writer *writer, const ln_choice *choice) {
    return writer->request->drops_output ? 0 : choice->n_output_tokens;
}

static void put_counts(const ln_answer_writer *writer, const ln_choice *choice, ln_strbuf *out) {
    const ln_usage *usage = writer->usage;
    ln_strbuf_printf(out, ",\"tokens_predicted\":%zu,\"tokens_evaluated\":%zu",
                     n_shown(writer, choice), usage->n_prompt_tokens);
}

/* How long the prompt and what came after its first token took, and the rates of both. */
static void put_timings(const ln_answer_writer *writer, const ln_choice *choice, ln_strbuf *out) {
    const ln_usage *usage = writer->usage;
    uint64_t now_ns = ln_clock_ns();
    uint64_t first_ns = writer->first_token_ns > 0 ? writer->first_token_ns : now_ns;
    size_t n_read = usage->n_prompt_tokens - usage->n_cached_tokens;
    size_t n_rest = choice->n_output_tokens > 0 ? choice->n_output_tokens - 1 : 0;
    double read_ms = (double)(first_ns - writer->begin_ns) / 1e6;
    double rest_ms = (double)(now_ns - first_ns) / 1e6;
    ln_strbuf_printf(out,
                     ",\"timings\":{\"cache_n\":%zu,\"prompt_n\":%zu,\"prompt_ms\":%.17g,"
                     "\"prompt_per_token_ms\":%.17g,\"prompt_per_second\":%.17g,"
                     "\"predicted_n\":%zu,\"predicted_ms\":%.17g,"
                     "\"predicted_per_token_ms\":%.17g,\"predicted_per_second\":%.17g}",
                     usage->n_cached_tokens, n_read, read_ms,
                     n_read > 0 ? read_ms / (double)n_read : 0.0,
                     read_ms > 0 ? 1e3 * (double)n_read / read_ms : 0.0, n_shown(writer, choice),
                     rest_ms, n_rest > 0 ? rest_ms / (double)n_rest : 0.0,
                     n_rest > 0 && rest_ms > 0 ? 1e3 * (double)n_rest / rest_ms : 0.0);
}

/* An answer, or its last chunk. */
static void put_last(const ln_answer_writer *writer, const ln_choice *choice, ln_strbuf *out) {
    const char *word = choice->stop_index >= 0 ? writer->request->stop[choice->stop_index] : "";
    put_begin(choice, true, out);
    put_counts(writer, choice, out);
    ln_strbuf_printf(out, ",\"tokens_cached\":%zu,\"truncated\":false,\"stop_type\":\"%s\"",
                     writer->usage->n_cached_tokens, stop_type(choice));
    ln_strbuf_puts(out, ",\"stopping_word\":");
    ln_json_put_text(out, word);
    ln_strbuf_puts(out, ",\"model\":");
    ln_json_put_text(out, writer->model);
    put_timings(writer, choice, out);
    ln_strbuf_putc(out, '}');
}

static void put_chunk(ln_answer_writer *writer, ln_choice *choice, ln_strbuf *out) {
    choice->is_dirty = false;
    bool has_last = choice->finish != LINNET_FINISH_NONE && choice->finish != LINNET_FINISH_ERROR;
    if (has_last || choice->text.len == 0)
        return; /* the last chunk comes at the end */
    ln_strbuf_puts(out, "data: ");
    put_begin(choice, false, out);
    put_counts(writer, choice, out);
    ln_strbuf_puts(out, "}\n\n");
    ln_strbuf_clear(&choice->text);
    ln_strbuf_clear(&choice->token_ids);
}

static void end(ln_answer_writer *writer, ln_choice *choices, size_t n_choices,
                const ln_api_error *error, ln_strbuf *out) {
    if (error->status != 0) {
        ln_strbuf_puts(out, "data: ");
        ln_reply_put_error(out, error);
        ln_strbuf_puts(out, "\n\n");
        return;
    }
    for (size_t i = 0; i < n_choices; i++) {
        ln_strbuf_puts(out, "data: ");
        put_last(writer, &choices[i], out);
        ln_strbuf_puts(out, "\n\n");
    }
}

static void put_whole(ln_answer_writer *writer, const ln_choice *choices, size_t n_choices,
                      ln_strbuf *out) {
    if (n_choices > 1)
        ln_strbuf_putc(out, '[');
    for (size_t i = 0; i < n_choices; i++) {
        if (i > 0)
            ln_strbuf_putc(out, ',');
        put_last(writer, &choices[i], out);
    }
    if (n_choices > 1)
        ln_strbuf_putc(out, ']');
}

const ln_answer_format ln_native_format = {.id_prefix = "cmpl-",
                                           .media_type = "text/event-stream",
                                           .chunk = put_chunk,
                                           .end = end,
                                           .whole = put_whole};
