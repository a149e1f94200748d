#include "server/responses/responses_writer.h"

#include "server/json/out.h"
#include "server/responses/response_object.h"

/* ---- events ----------------------------------------------------------------------------- */

static void put_event(ln_answer_writer *writer, const char *type, ln_strbuf *out) {
    ln_strbuf_printf(out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%zu", type, type,
                     writer->n_events++);
}

static void end_event(ln_strbuf *out) {
    ln_strbuf_puts(out, "}\n\n");
}

static void put_progress(ln_answer_writer *writer, const char *type, const char *status,
                         ln_strbuf *out) {
    put_event(writer, type, out);
    ln_strbuf_puts(out, ",\"response\":");
    ln_response_put(writer, status, NULL, NULL, out);
    end_event(out);
}

/* In the background it waits for its first token. */
static void begin(ln_answer_writer *writer, ln_strbuf *out) {
    bool waits = ln_response_kept(writer)->runs_in_background;
    put_progress(writer, "response.created", waits ? "queued" : "in_progress", out);
    if (waits)
        put_progress(writer, "response.queued", "queued", out);
    else
        put_progress(writer, "response.in_progress", "in_progress", out);
}

/* An event about an item: {..., "output_index": ..., "item": ...} */
static void put_item_event(ln_answer_writer *writer, const char *type, const ln_choice *choice,
                           size_t index, bool begins, ln_strbuf *out) {
    put_event(writer, type, out);
    ln_strbuf_printf(out, ",\"output_index\":%zu,\"item\":", index);
    ln_response_put_item(writer, choice, index, begins, out);
    end_event(out);
}

/* The beginning of an event about the content of an item. */
static void put_content_event(ln_answer_writer *writer, const char *type, const ln_choice *choice,
                              size_t index, ln_strbuf *out) {
    put_event(writer, type, out);
    ln_strbuf_puts(out, ",\"item_id\":");
    ln_response_put_item_id(writer, choice, index, out);
    ln_strbuf_printf(out, ",\"output_index\":%zu", index);
    if (choice->answer.parts[index].kind != LN_PART_CALL)
        ln_strbuf_puts(out, ",\"content_index\":0");
}

static void begin_item(ln_answer_writer *writer, const ln_choice *choice, size_t index,
                       ln_strbuf *out) {
    put_item_event(writer, "response.output_item.added", choice, index, true, out);
    if (choice->answer.parts[index].kind == LN_PART_CALL)
        return;
    put_content_event(writer, "response.content_part.added", choice, index, out);
    ln_strbuf_puts(out, ",\"part\":");
    ln_response_put_part(writer, choice, index, true, out);
    end_event(out);
}

static void put_delta(ln_answer_writer *writer, ln_choice *choice, size_t index, ln_strbuf *out) {
    static const char *const types[] = {[LN_PART_TEXT] = "response.output_text.delta",
                                        [LN_PART_REASONING] = "response.reasoning_text.delta",
                                        [LN_PART_CALL] = "response.function_call_arguments.delta"};
    const ln_answer_part *part = &choice->answer.parts[index];
    put_content_event(writer,
                      part->is_custom ? "response.custom_tool_call_input.delta" : types[part->kind],
                      choice, index, out);
    ln_strbuf_puts(out, ",\"delta\":");
    ln_json_put_string(out, ln_answer_part_get_unsent(part), ln_answer_part_count_unsent(part));
    if (part->kind == LN_PART_TEXT) {
        ln_strbuf_puts(out, ",\"logprobs\":");
        ln_response_put_new_logprobs(writer, choice, out);
    }
    end_event(out);
}

static void end_item(ln_answer_writer *writer, const ln_choice *choice, size_t index,
                     ln_strbuf *out) {
    static const char *const types[] = {[LN_PART_TEXT] = "response.output_text.done",
                                        [LN_PART_REASONING] = "response.reasoning_text.done",
                                        [LN_PART_CALL] = "response.function_call_arguments.done"};
    const ln_answer_part *part = &choice->answer.parts[index];
    put_content_event(writer,
                      part->is_custom ? "response.custom_tool_call_input.done" : types[part->kind],
                      choice, index, out);
    ln_strbuf_puts(out, part->is_custom              ? ",\"input\":"
                        : part->kind == LN_PART_CALL ? ",\"arguments\":"
                                                     : ",\"text\":");
    ln_json_put_string(out, part->text.data != NULL ? part->text.data : "", part->text.len);
    if (part->kind == LN_PART_CALL && !part->is_custom) {
        ln_strbuf_puts(out, ",\"name\":");
        ln_json_put_string(out, part->name.data, part->name.len);
    } else if (part->kind == LN_PART_TEXT) {
        ln_strbuf_puts(out, ",\"logprobs\":");
        ln_response_put_logprobs(writer, choice, out);
    }
    end_event(out);
    if (part->kind != LN_PART_CALL) {
        put_content_event(writer, "response.content_part.done", choice, index, out);
        ln_strbuf_puts(out, ",\"part\":");
        ln_response_put_part(writer, choice, index, false, out);
        end_event(out);
    }
    put_item_event(writer, "response.output_item.done", choice, index, false, out);
}

/* An item ends when another begins, or when all is over. */
static void put_chunk(ln_answer_writer *writer, ln_choice *choice, ln_strbuf *out) {
    ln_chat_answer *answer = &choice->answer;
    bool is_over = choice->finish != LINNET_FINISH_NONE;
    choice->is_dirty = false;
    for (size_t i = answer->n_complete; i < answer->n_parts; i++) {
        ln_answer_part *part = &answer->parts[i];
        if (!part->is_begun)
            begin_item(writer, choice, i, out);
        if (ln_answer_part_count_unsent(part) > 0)
            put_delta(writer, choice, i, out);
        ln_chat_answer_note_sent(answer, part);
        if ((i + 1 < answer->n_parts || is_over) && !part->is_ended) {
            end_item(writer, choice, i, out);
            part->is_ended = true;
        }
    }
}

/* ---- ends ------------------------------------------------------------------------------- */

/* Puts the response and keeps it. */
static void put_stored(ln_answer_writer *writer, const char *status, const ln_choice *choices,
                       const ln_api_error *error, ln_strbuf *out) {
    size_t at = out->len;
    ln_response_put(writer, status, choices, error, out);
    if (!out->failed)
        ln_response_store_answer(writer, status, choices, out->data + at);
}

static void settle(ln_answer_writer *writer, const ln_choice *choices, const ln_api_error *error,
                   bool is_cancelled, ln_strbuf *out) {
    bool has_failed = error->status != 0;
    const char *status = is_cancelled ? "cancelled"
                         : has_failed ? "failed"
                                      : ln_response_status(choices);
    put_stored(writer, status, choices, has_failed ? error : NULL, out);
}

static void end(ln_answer_writer *writer, ln_choice *choices, size_t n_choices,
                const ln_api_error *error, ln_strbuf *out) {
    (void)n_choices; /* one */
    put_event(writer,
              error->status != 0                      ? "response.failed"
              : choices->finish == LINNET_FINISH_STOP ? "response.completed"
                                                      : "response.incomplete",
              out);
    ln_strbuf_puts(out, ",\"response\":");
    settle(writer, choices, error, false, out);
    end_event(out);
}

static void put_whole(ln_answer_writer *writer, const ln_choice *choices, size_t n_choices,
                      ln_strbuf *out) {
    (void)n_choices;
    put_stored(writer, ln_response_status(choices), choices, NULL, out);
}

static void accept(ln_answer_writer *writer, ln_strbuf *out) {
    put_stored(writer, "queued", NULL, NULL, out);
}

static void run(ln_answer_writer *writer, ln_strbuf *out) {
    put_stored(writer, "in_progress", NULL, NULL, out);
    ln_strbuf_clear(out);
    put_progress(writer, "response.in_progress", "in_progress", out);
}

static void keep_events(ln_answer_writer *writer, const char *events) {
    ln_response_store_put_events(ln_response_kept(writer)->store, writer->id, events);
}

const ln_answer_format ln_responses_format = {.id_prefix = "resp_",
                                              .media_type = "text/event-stream",
                                              .begin = begin,
                                              .chunk = put_chunk,
                                              .end = end,
                                              .accept = accept,
                                              .run = run,
                                              .settle = settle,
                                              .keep_events = keep_events,
                                              .whole = put_whole};
