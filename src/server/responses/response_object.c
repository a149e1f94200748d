#include "server/responses/response_object.h"

#include <string.h>

#include "server/json/out.h"

ln_responses_request *ln_response_kept(const ln_answer_writer *writer) {
    return writer->request->extra;
}

const char *ln_response_status(const ln_choice *choice) {
    switch (choice->finish) {
    case LINNET_FINISH_NONE: return "in_progress";
    case LINNET_FINISH_LENGTH:
    case LINNET_FINISH_TIMEOUT:
    case LINNET_FINISH_ERROR: return "incomplete"; /* what there is, of a response that failed */
    default: return "completed";
    }
}

/* ---- items ------------------------------------------------------------------------------ */

static const char *serial_of(const ln_answer_writer *writer) {
    const char *line = strchr(writer->id, '_');
    return line != NULL ? line + 1 : writer->id;
}

static void put_bare_id(const ln_answer_writer *writer, const ln_choice *choice, size_t index,
                        ln_strbuf *out) {
    static const char *const prefixes[] = {
        [LN_PART_TEXT] = "msg", [LN_PART_REASONING] = "rs", [LN_PART_CALL] = "fc"};
    const ln_answer_part *part = &choice->answer.parts[index];
    ln_strbuf_printf(out, "%s_%s_%zu", part->is_custom ? "ctc" : prefixes[part->kind],
                     serial_of(writer), index);
}

void ln_response_put_item_id(const ln_answer_writer *writer, const ln_choice *choice, size_t index,
                             ln_strbuf *out) {
    ln_strbuf_putc(out, '"');
    put_bare_id(writer, choice, index, out);
    ln_strbuf_putc(out, '"');
}

void ln_response_put_logprobs(const ln_answer_writer *writer, const ln_choice *choice,
                              ln_strbuf *out) {
    const ln_strbuf *column = &choice->logprobs[LN_LOGPROBS_TOKENS];
    ln_strbuf_putc(out, '[');
    if (writer->request->options.logprobs && column->len > 0)
        ln_strbuf_append(out, column->data, column->len);
    ln_strbuf_putc(out, ']');
}

void ln_response_put_new_logprobs(const ln_answer_writer *writer, ln_choice *choice,
                                  ln_strbuf *out) {
    const ln_strbuf *column = &choice->logprobs[LN_LOGPROBS_TOKENS];
    size_t begin = choice->n_sent_bytes;
    ln_strbuf_putc(out, '[');
    if (writer->request->options.logprobs && column->len > begin) {
        begin += begin > 0; /* a comma */
        ln_strbuf_append(out, column->data + begin, column->len - begin);
        choice->n_sent_bytes = column->len;
    }
    ln_strbuf_putc(out, ']');
}

static void put_text(const ln_answer_part *part, bool begins, ln_strbuf *out) {
    bool is_empty = begins || part->text.len == 0;
    ln_json_put_string(out, is_empty ? "" : part->text.data, is_empty ? 0 : part->text.len);
}

void ln_response_put_part(const ln_answer_writer *writer, const ln_choice *choice, size_t index,
                          bool begins, ln_strbuf *out) {
    const ln_answer_part *part = &choice->answer.parts[index];
    bool is_text = part->kind == LN_PART_TEXT;
    ln_strbuf_printf(out, "{\"type\":\"%s\",\"text\":", is_text ? "output_text" : "reasoning_text");
    put_text(part, begins, out);
    if (is_text) {
        ln_strbuf_puts(out, ",\"annotations\":[],\"logprobs\":");
        if (begins)
            ln_strbuf_puts(out, "[]");
        else
            ln_response_put_logprobs(writer, choice, out);
    }
    ln_strbuf_putc(out, '}');
}

static void put_call(const ln_answer_writer *writer, const ln_choice *choice,
                     const ln_answer_part *part, bool begins, ln_strbuf *out) {
    ln_strbuf_puts(out, ",\"call_id\":\"");
    ln_chat_answer_put_call_id(out, &choice->answer, part, "call_", writer->id, choice->index);
    ln_strbuf_puts(out, "\",\"name\":");
    ln_json_put_string(out, part->name.data, part->name.len);
    ln_strbuf_puts(out, part->is_custom ? ",\"input\":" : ",\"arguments\":");
    put_text(part, begins, out);
}

void ln_response_put_item(const ln_answer_writer *writer, const ln_choice *choice, size_t index,
                          bool begins, ln_strbuf *out) {
    static const char *const types[] = {[LN_PART_TEXT] = "message",
                                        [LN_PART_REASONING] = "reasoning",
                                        [LN_PART_CALL] = "function_call"};
    const ln_answer_part *part = &choice->answer.parts[index];
    /* the last one is cut where the answer is, or where that was cancelled */
    const char *status = begins                                 ? "in_progress"
                         : index + 1 < choice->answer.n_parts   ? "completed"
                         : choice->finish == LINNET_FINISH_NONE ? "incomplete"
                                                                : ln_response_status(choice);
    ln_strbuf_puts(out, "{\"id\":");
    ln_response_put_item_id(writer, choice, index, out);
    ln_strbuf_printf(out, ",\"type\":\"%s\",\"status\":\"%s\"",
                     part->is_custom ? "custom_tool_call" : types[part->kind], status);
    if (part->kind == LN_PART_CALL) {
        put_call(writer, choice, part, begins, out);
    } else {
        ln_strbuf_puts(out, part->kind == LN_PART_TEXT
                                ? ",\"role\":\"assistant\",\"content\":["
                                : ",\"summary\":[],\"encrypted_content\":null,\"content\":[");
        if (!begins)
            ln_response_put_part(writer, choice, index, false, out);
        ln_strbuf_putc(out, ']');
    }
    ln_strbuf_putc(out, '}');
}

/* ---- the object ------------------------------------------------------------------------- */

static void put_usage(const ln_usage *usage, ln_strbuf *out) {
    ln_strbuf_printf(out,
                     "{\"input_tokens\":%zu,\"input_tokens_details\":{\"cached_tokens\":%zu,"
                     "\"cache_write_tokens\":0},"
                     "\"output_tokens\":%zu,\"output_tokens_details\":{\"reasoning_tokens\":%zu},"
                     "\"total_tokens\":%zu}",
                     usage->n_prompt_tokens, usage->n_cached_tokens, usage->n_output_tokens,
                     usage->n_reasoning_tokens, usage->n_prompt_tokens + usage->n_output_tokens);
}

static void put_error(const ln_api_error *error, ln_strbuf *out) {
    ln_strbuf_puts(out, ",\"error\":");
    if (error != NULL) {
        ln_strbuf_puts(out, "{\"code\":\"server_error\",\"message\":");
        ln_json_put_text(out, error->message);
        ln_strbuf_putc(out, '}');
    } else {
        ln_strbuf_puts(out, "null");
    }
}

void ln_response_put(const ln_answer_writer *writer, const char *status, const ln_choice *choice,
                     const ln_api_error *error, ln_strbuf *out) {
    const ln_responses_request *kept = ln_response_kept(writer);
    bool is_over = choice != NULL && choice->finish != LINNET_FINISH_NONE;
    ln_strbuf_printf(out,
                     "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,"
                     "\"status\":\"%s\",\"background\":%s",
                     writer->id, (long long)writer->created_s, status,
                     kept->runs_in_background ? "true" : "false");
    put_error(error, out);
    ln_strbuf_printf(out, ",\"incomplete_details\":%s",
                     strcmp(status, "incomplete") == 0 ? "{\"reason\":\"max_output_tokens\"}"
                                                       : "null");
    ln_strbuf_puts(out, ",\"model\":");
    ln_json_put_text(out, writer->model);
    ln_strbuf_append(out, kept->echo.data, kept->echo.len);
    ln_strbuf_puts(out, ",\"output\":[");
    for (size_t i = 0; choice != NULL && i < choice->answer.n_parts; i++) {
        if (i > 0)
            ln_strbuf_putc(out, ',');
        ln_response_put_item(writer, choice, i, false, out);
    }
    ln_strbuf_puts(out, "],\"usage\":");
    if (is_over)
        put_usage(writer->usage, out);
    else
        ln_strbuf_puts(out, "null");
    ln_strbuf_putc(out, '}');
}

/* ---- what is stored --------------------------------------------------------------------- */

/* Adds the output to the items that the response answers. */
static void add_output(const ln_answer_writer *writer, const ln_choice *choice,
                       ln_item_list *items) {
    ln_strbuf id, item;
    ln_strbuf_init(&id);
    ln_strbuf_init(&item);
    for (size_t i = 0; i < choice->answer.n_parts; i++) {
        ln_strbuf_clear(&id);
        ln_strbuf_clear(&item);
        put_bare_id(writer, choice, i, &id);
        ln_response_put_item(writer, choice, i, false, &item);
        ln_item_list_add(items, 0, id.failed ? NULL : id.data, item.failed ? NULL : item.data);
    }
    ln_strbuf_free(&id);
    ln_strbuf_free(&item);
}

void ln_response_store_answer(const ln_answer_writer *writer, const char *status,
                              const ln_choice *choice, const char *json) {
    ln_responses_request *kept = ln_response_kept(writer);
    size_t n_input = kept->items.n_items;
    bool succeeds = strcmp(status, "completed") == 0 || strcmp(status, "incomplete") == 0;
    if (choice != NULL && (kept->is_stored || kept->conversation[0] != '\0'))
        add_output(writer, choice, &kept->items);
    if (kept->is_stored)
        ln_response_store_put(kept->store, writer->id, json, &kept->items, n_input);
    if (kept->conversation[0] != '\0' && succeeds)
        ln_response_store_append(kept->store, kept->conversation, &kept->items, kept->n_past);
}
