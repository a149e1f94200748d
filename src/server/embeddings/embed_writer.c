#include "server/embeddings/embed_writer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "model/model.h"
#include "server/embeddings/embed_request.h"
#include "server/json/out.h"

/* A choice's text is its vector as it lies. */
static const float *vector_of(const ln_choice *choice, size_t *n) {
    *n = choice->text.len / sizeof(float);
    return (const float *)(const void *)choice->text.data;
}

static const ln_embed_answer *answer_of(const ln_answer_writer *writer) {
    return writer->request->extra;
}

static void put_vector(const ln_choice *choice, ln_strbuf *out) {
    size_t n;
    const float *x = vector_of(choice, &n);
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i]))
            ln_strbuf_printf(out, "%s%.9g", i == 0 ? "[" : ",", (double)x[i]);
        else
            ln_strbuf_puts(out, i == 0 ? "[null" : ",null");
    ln_strbuf_putc(out, ']');
}

static void put_base64(const char *bytes, size_t n_bytes, ln_strbuf *out) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    ln_strbuf_putc(out, '"');
    for (size_t i = 0; i < n_bytes; i += 3) {
        size_t n = n_bytes - i < 3 ? n_bytes - i : 3;
        uint32_t group = (uint32_t)(unsigned char)bytes[i] << 16;
        group |= n > 1 ? (uint32_t)(unsigned char)bytes[i + 1] << 8 : 0;
        group |= n > 2 ? (unsigned char)bytes[i + 2] : 0;
        const char text[] = {digits[group >> 18], digits[group >> 12 & 63],
                             n > 1 ? digits[group >> 6 & 63] : '=',
                             n > 2 ? digits[group & 63] : '='};
        ln_strbuf_append(out, text, sizeof text);
    }
    ln_strbuf_putc(out, '"');
}

static void put_usage(const ln_answer_writer *writer, ln_strbuf *out) {
    size_t n = writer->usage->n_prompt_tokens;
    ln_strbuf_printf(out, "\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu}", n, n);
}

static void put_head(const ln_answer_writer *writer, ln_strbuf *out) {
    ln_strbuf_puts(out, "{\"id\":");
    ln_json_put_text(out, writer->id);
    ln_strbuf_printf(
        out, ",\"object\":\"list\",\"created\":%lld,\"model\":", (long long)writer->created_s);
    ln_json_put_text(out, writer->model);
    ln_strbuf_puts(out, ",\"data\":[");
}

static void put_tail(const ln_answer_writer *writer, ln_strbuf *out) {
    ln_strbuf_puts(out, "],");
    put_usage(writer, out);
    ln_strbuf_putc(out, '}');
}

static void put_vectors(const ln_answer_writer *writer, const ln_choice *choices, size_t n,
                        const char *object, const char *member, ln_strbuf *out) {
    put_head(writer, out);
    for (size_t i = 0; i < n; i++) {
        ln_strbuf_printf(out, "%s{\"index\":%zu,\"object\":\"%s\",\"%s\":", i > 0 ? "," : "", i,
                         object, member);
        if (answer_of(writer)->is_base64)
            put_base64(choices[i].text.data, choices[i].text.len, out);
        else
            put_vector(&choices[i], out);
        ln_strbuf_putc(out, '}');
    }
    put_tail(writer, out);
}

static void embeddings(ln_answer_writer *writer, const ln_choice *choices, size_t n,
                       ln_strbuf *out) {
    put_vectors(writer, choices, n, "embedding", "embedding", out);
}

static void pooling(ln_answer_writer *writer, const ln_choice *choices, size_t n, ln_strbuf *out) {
    put_vectors(writer, choices, n, "pooling", "data", out);
}

/* ---- classes ----------------------------------------------------------------------------- */

static double sigmoid(double x) {
    return 1.0 / (1.0 + exp(-x));
}

/* What config.json calls a label: its name, or LABEL_n. */
static void put_label(const ln_embed_answer *answer, size_t label, ln_strbuf *out) {
    char key[48], usual[32];
    ln_meta_value value;
    snprintf(key, sizeof key, "id2label.%zu", label);
    snprintf(usual, sizeof usual, "LABEL_%zu", label);
    if (ln_checkpoint_meta(answer->model->checkpoint, key, &value) && value.kind == LN_META_STRING)
        ln_json_put_string(out, value.string.data, value.string.bytes);
    else
        ln_json_put_text(out, usual);
}

/* Probabilities: a softmax, or of one label a sigmoid. */
static void put_probabilities(const float *x, size_t n, size_t *best, ln_strbuf *out) {
    double largest = -INFINITY, sum = 0;
    *best = 0;
    for (size_t i = 0; i < n; i++)
        if ((double)x[i] > largest) {
            largest = (double)x[i];
            *best = i;
        }
    for (size_t i = 0; i < n; i++)
        sum += exp((double)x[i] - largest);
    for (size_t i = 0; i < n; i++) {
        ln_strbuf_putc(out, i == 0 ? '[' : ',');
        ln_json_put_number(out, n == 1 ? sigmoid((double)x[0]) : exp((double)x[i] - largest) / sum);
    }
    ln_strbuf_putc(out, ']');
}

static void classes(ln_answer_writer *writer, const ln_choice *choices, size_t n, ln_strbuf *out) {
    put_head(writer, out);
    for (size_t i = 0; i < n; i++) {
        size_t n_labels, best;
        const float *x = vector_of(&choices[i], &n_labels);
        ln_strbuf_printf(out, "%s{\"index\":%zu,\"num_classes\":%zu,\"probs\":", i > 0 ? "," : "",
                         i, n_labels);
        put_probabilities(x, n_labels, &best, out);
        ln_strbuf_puts(out, ",\"label\":");
        put_label(answer_of(writer), best, out);
        ln_strbuf_putc(out, '}');
    }
    put_tail(writer, out);
}

/* ---- scores ------------------------------------------------------------------------------ */

/* Of document number `index`: the head's, between 0 and 1, or the cosine of two vectors. */
static double score(const ln_answer_writer *writer, const ln_choice *choices, size_t index) {
    const ln_embed_answer *answer = answer_of(writer);
    size_t n, n_query;
    if (answer->is_scored) {
        const float *x = vector_of(&choices[index], &n);
        return n > 0 ? sigmoid((double)x[0]) : 0;
    }
    const float *query = vector_of(&choices[answer->n_queries > 1 ? index : 0], &n_query);
    const float *x = vector_of(&choices[answer->n_queries + index], &n);
    double sum = 0;
    for (size_t i = 0; i < n && i < n_query; i++)
        sum += (double)query[i] * (double)x[i];
    return sum > 1 ? 1 : sum < -1 ? -1 : sum; /* vectors are rounded to float32 */
}

typedef struct result {
    size_t index;
    double score;
} result;

/* Best first, ties in their order. */
static int compare(const void *left, const void *right) {
    const result *a = left, *b = right;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static size_t count_documents(const ln_answer_writer *writer, size_t n_choices) {
    const ln_embed_answer *answer = answer_of(writer);
    return answer->is_scored ? n_choices : n_choices - answer->n_queries;
}

static void put_document(const json_t *document, ln_strbuf *out) {
    const json_t *text = json_object_get(document, "text");
    text = text != NULL ? text : document;
    ln_strbuf_puts(out, ",\"document\":{\"text\":");
    ln_json_put_string(out, json_string_value(text), json_string_length(text));
    ln_strbuf_putc(out, '}');
}

static void rerank(ln_answer_writer *writer, const ln_choice *choices, size_t n, ln_strbuf *out) {
    const ln_embed_answer *answer = answer_of(writer);
    size_t n_documents = count_documents(writer, n);
    result *results = calloc(n_documents, sizeof *results);
    if (results == NULL) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < n_documents; i++)
        results[i] = (result){i, score(writer, choices, i)};
    qsort(results, n_documents, sizeof *results, compare);
    ln_strbuf_puts(out, "{\"id\":");
    ln_json_put_text(out, writer->id);
    ln_strbuf_puts(out, ",\"model\":");
    ln_json_put_text(out, writer->model);
    ln_strbuf_puts(out, ",\"results\":[");
    for (size_t i = 0; i < answer->top_n; i++) {
        ln_strbuf_printf(out, "%s{\"index\":%zu", i > 0 ? "," : "", results[i].index);
        if (answer->documents != NULL)
            put_document(json_array_get(answer->documents, results[i].index), out);
        ln_strbuf_puts(out, ",\"relevance_score\":");
        ln_json_put_number(out, results[i].score);
        ln_strbuf_putc(out, '}');
    }
    free(results);
    put_tail(writer, out);
}

static void scores(ln_answer_writer *writer, const ln_choice *choices, size_t n, ln_strbuf *out) {
    put_head(writer, out);
    for (size_t i = 0; i < count_documents(writer, n); i++) {
        ln_strbuf_printf(out, "%s{\"index\":%zu,\"object\":\"score\",\"score\":", i > 0 ? "," : "",
                         i);
        ln_json_put_number(out, score(writer, choices, i));
        ln_strbuf_putc(out, '}');
    }
    put_tail(writer, out);
}

/* ---- other APIs -------------------------------------------------------------------------- */

static void ollama(ln_answer_writer *writer, const ln_choice *choices, size_t n, ln_strbuf *out) {
    ln_strbuf_puts(out, "{\"model\":");
    ln_json_put_text(out, writer->model);
    ln_strbuf_puts(out, ",\"embeddings\":[");
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            ln_strbuf_putc(out, ',');
        put_vector(&choices[i], out);
    }
    ln_strbuf_printf(
        out, "],\"total_duration\":%llu,\"load_duration\":0,\"prompt_eval_count\":%zu}",
        (unsigned long long)(ln_clock_ns() - writer->begin_ns), writer->usage->n_prompt_tokens);
}

static void ollama_old(ln_answer_writer *writer, const ln_choice *choices, size_t n,
                       ln_strbuf *out) {
    (void)writer, (void)n;
    ln_strbuf_puts(out, "{\"embedding\":");
    put_vector(&choices[0], out);
    ln_strbuf_putc(out, '}');
}

static void native(ln_answer_writer *writer, const ln_choice *choices, size_t n, ln_strbuf *out) {
    (void)writer;
    for (size_t i = 0; i < n; i++) {
        ln_strbuf_printf(out, "%s{\"index\":%zu,\"embedding\":[", i == 0 ? "[" : ",", i);
        put_vector(&choices[i], out);
        ln_strbuf_puts(out, "]}");
    }
    ln_strbuf_putc(out, ']');
}

const ln_answer_format ln_embed_format = {.id_prefix = "embd-", .whole = embeddings};
const ln_answer_format ln_embed_pooling_format = {.id_prefix = "pool-", .whole = pooling};
const ln_answer_format ln_embed_classes_format = {.id_prefix = "classify-", .whole = classes};
const ln_answer_format ln_embed_rerank_format = {.id_prefix = "rerank-", .whole = rerank};
const ln_answer_format ln_embed_score_format = {.id_prefix = "score-", .whole = scores};
const ln_answer_format ln_embed_ollama_format = {.id_prefix = "ollama-", .whole = ollama};
const ln_answer_format ln_embed_ollama_old_format = {.id_prefix = "ollama-", .whole = ollama_old};
const ln_answer_format ln_embed_native_format = {.id_prefix = "embd-", .whole = native};
