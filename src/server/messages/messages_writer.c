#include "server/messages/messages_writer.h"

#include "server/json/out.h"
#include "server/json/reply.h"

/* ---- parts of a message ----------------------------------------------------------------- */

static const char *stop_reason(const ln_choice *choice) {
    if (choice->finish == LINNET_FINISH_NONE)
        return NULL;
    if (choice->finish == LINNET_FINISH_LENGTH || choice->finish == LINNET_FINISH_TIMEOUT)
        return "max_tokens";
    if (choice->answer.n_calls > 0)
        return "tool_use";
    return choice->stop_index >= 0 ? "stop_sequence" : "end_turn";
}

static void put_stop(const ln_answer_writer *writer, const ln_choice *choice, ln_strbuf *out) {
    const linnet_request_options *options = &writer->request->options;
    bool is_stopped = choice->finish == LINNET_FINISH_STOP && choice->answer.n_calls == 0 &&
                      choice->stop_index >= 0 && (size_t)choice->stop_index < options->n_stop;
    ln_strbuf_puts(out, "\"stop_reason\":");
    ln_json_put_text(out, stop_reason(choice));
    ln_strbuf_puts(out, ",\"stop_sequence\":");
    ln_json_put_text(out, is_stopped ? options->stop[choice->stop_index] : NULL);
}

/* Tokens that the prefix cache had are counted apart from the others. */
static void put_usage(const ln_answer_writer *writer, size_t n_output_tokens, ln_strbuf *out) {
    const ln_usage *usage = writer->usage;
    ln_strbuf_printf(out,
                     "\"usage\":{\"input_tokens\":%zu,\"cache_creation_input_tokens\":0,"
                     "\"cache_read_input_tokens\":%zu,\"output_tokens\":%zu}",
                     usage->n_prompt_tokens - usage->n_cached_tokens, usage->n_cached_tokens,
                     n_output_tokens);
}

static void put_head(const ln_answer_writer *writer, ln_strbuf *out) {
    ln_strbuf_printf(
        out, "{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", writer->id);
    ln_json_put_text(out, writer->model);
    ln_strbuf_puts(out, ",\"content\":[");
}

static void put_text(const char *name, const ln_answer_part *part, ln_strbuf *out) {
    ln_strbuf_printf(out, "\"%s\":", name);
    ln_json_put_string(out, ln_answer_part_get_unsent(part), ln_answer_part_count_unsent(part));
}

/* Arguments that are cut are no object, which the client must have. */
static void put_input(const ln_answer_part *call, ln_strbuf *out) {
    if (ln_answer_part_has_object(call))
        ln_strbuf_append(out, call->text.data, call->text.len);
    else
        ln_strbuf_puts(out, "{}");
}

static void put_call_head(const ln_answer_writer *writer, const ln_choice *choice,
                          const ln_answer_part *call, ln_strbuf *out) {
    ln_strbuf_puts(out, "{\"type\":\"tool_use\",\"id\":\"");
    ln_chat_answer_put_call_id(out, &choice->answer, call, "toolu_", writer->id, choice->index);
    ln_strbuf_puts(out, "\",\"name\":");
    ln_json_put_string(out, call->name.data, call->name.len);
    ln_strbuf_puts(out, ",\"input\":");
}

/* ---- a whole message -------------------------------------------------------------------- */

static void put_block(const ln_answer_writer *writer, const ln_choice *choice,
                      const ln_answer_part *part, ln_strbuf *out) {
    switch (part->kind) {
    case LN_PART_TEXT:
        ln_strbuf_puts(out, "{\"type\":\"text\",");
        put_text("text", part, out);
        break;
    case LN_PART_REASONING:
        ln_strbuf_puts(out, "{\"type\":\"thinking\",");
        put_text("thinking", part, out);
        ln_strbuf_puts(out, ",\"signature\":\"\"");
        break;
    case LN_PART_CALL:
        put_call_head(writer, choice, part, out);
        put_input(part, out);
        break;
    }
    ln_strbuf_putc(out, '}');
}

static void put_whole(ln_answer_writer *writer, const ln_choice *choices, size_t n_choices,
                      ln_strbuf *out) {
    const ln_chat_answer *answer = &choices->answer;
    (void)n_choices; /* one */
    put_head(writer, out);
    for (size_t i = 0; i < answer->n_parts; i++) {
        if (i > 0)
            ln_strbuf_putc(out, ',');
        put_block(writer, choices, &answer->parts[i], out);
    }
    ln_strbuf_puts(out, "],");
    put_stop(writer, choices, out);
    ln_strbuf_putc(out, ',');
    put_usage(writer, writer->usage->n_output_tokens, out);
    ln_strbuf_putc(out, '}');
}

/* ---- events ----------------------------------------------------------------------------- */

static void put_event(const char *type, ln_strbuf *out) {
    ln_strbuf_printf(out, "event: %s\ndata: {\"type\":\"%s\"", type, type);
}

static void end_event(ln_strbuf *out) {
    ln_strbuf_puts(out, "}\n\n");
}

static void begin(ln_answer_writer *writer, ln_strbuf *out) {
    put_event("message_start", out);
    ln_strbuf_puts(out, ",\"message\":");
    put_head(writer, out);
    ln_strbuf_puts(out, "],\"stop_reason\":null,\"stop_sequence\":null,");
    put_usage(writer, 0, out);
    ln_strbuf_putc(out, '}');
    end_event(out);
}

static void begin_block(const ln_answer_writer *writer, const ln_choice *choice, size_t index,
                        ln_strbuf *out) {
    const ln_answer_part *part = &choice->answer.parts[index];
    put_event("content_block_start", out);
    ln_strbuf_printf(out, ",\"index\":%zu,\"content_block\":", index);
    if (part->kind == LN_PART_CALL) {
        put_call_head(writer, choice, part, out);
        ln_strbuf_puts(out, "{}}");
    } else {
        ln_strbuf_puts(out, part->kind == LN_PART_TEXT
                                ? "{\"type\":\"text\",\"text\":\"\"}"
                                : "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}");
    }
    end_event(out);
}

static void put_delta(const ln_answer_part *part, size_t index, ln_strbuf *out) {
    static const char *const types[] = {[LN_PART_TEXT] = "text_delta",
                                        [LN_PART_REASONING] = "thinking_delta",
                                        [LN_PART_CALL] = "input_json_delta"};
    static const char *const names[] = {
        [LN_PART_TEXT] = "text", [LN_PART_REASONING] = "thinking", [LN_PART_CALL] = "partial_json"};
    put_event("content_block_delta", out);
    ln_strbuf_printf(out, ",\"index\":%zu,\"delta\":{\"type\":\"%s\",", index, types[part->kind]);
    put_text(names[part->kind], part, out);
    ln_strbuf_putc(out, '}');
    end_event(out);
}

static void end_block(size_t index, ln_strbuf *out) {
    put_event("content_block_stop", out);
    ln_strbuf_printf(out, ",\"index\":%zu", index);
    end_event(out);
}

/* A block ends when another begins, or when all is over. */
static void put_chunk(ln_answer_writer *writer, ln_choice *choice, ln_strbuf *out) {
    ln_chat_answer *answer = &choice->answer;
    bool is_over = choice->finish != LINNET_FINISH_NONE;
    choice->is_dirty = false;
    for (size_t i = answer->n_complete; i < answer->n_parts; i++) {
        ln_answer_part *part = &answer->parts[i];
        if (!part->is_begun)
            begin_block(writer, choice, i, out);
        if (ln_answer_part_count_unsent(part) > 0)
            put_delta(part, i, out);
        ln_chat_answer_note_sent(answer, part);
        if ((i + 1 < answer->n_parts || is_over) && !part->is_ended) {
            end_block(i, out);
            part->is_ended = true;
        }
    }
}

static void end(ln_answer_writer *writer, ln_choice *choices, size_t n_choices,
                const ln_api_error *error, ln_strbuf *out) {
    (void)n_choices;
    if (error->status != 0) {
        ln_strbuf_puts(out, "event: error\ndata: ");
        ln_reply_put_error_in(LN_DIALECT_MESSAGES, out, error, NULL);
        ln_strbuf_puts(out, "\n\n");
        return;
    }
    put_event("message_delta", out);
    ln_strbuf_puts(out, ",\"delta\":{");
    put_stop(writer, choices, out);
    ln_strbuf_puts(out, "},");
    put_usage(writer, writer->usage->n_output_tokens, out);
    end_event(out);
    put_event("message_stop", out);
    end_event(out);
}

const ln_answer_format ln_messages_format = {.id_prefix = "msg_",
                                             .media_type = "text/event-stream",
                                             .begin = begin,
                                             .chunk = put_chunk,
                                             .end = end,
                                             .whole = put_whole};
