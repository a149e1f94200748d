#include "grammar/expr.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"

void ln_grammar_builder_init(ln_grammar_builder *builder, ln_error *err) {
    *builder = (ln_grammar_builder){.err = err, .fuel = 40 * 1000 * 1000};
    ln_arena_init(&builder->arena);
}

void ln_grammar_builder_free(ln_grammar_builder *builder) {
    ln_arena_free(&builder->arena);
    free(builder->rules);
    free((void *)builder->objects);
    builder->rules = NULL;
    builder->objects = NULL;
}

ln_status ln_grammar_fail(ln_grammar_builder *builder, ln_status status, const char *format, ...) {
    if (builder->status != LINNET_OK)
        return builder->status;
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    builder->status = status;
    return ln_fail(builder->err, status, "%s", text);
}

ln_status ln_grammar_fail_memory(ln_grammar_builder *builder) {
    return ln_grammar_fail(builder, LINNET_ERR_NOMEM, "out of memory for a grammar");
}

static void *allocate(ln_grammar_builder *builder, size_t count, size_t item_bytes) {
    void *memory = ln_arena_alloc(&builder->arena, count, item_bytes);
    if (memory == NULL)
        ln_grammar_fail_memory(builder);
    return memory;
}

static ln_expr *create(ln_grammar_builder *builder, ln_expr_kind kind) {
    if (builder->n_exprs == LN_GRAMMAR_MAX_EXPRS)
        ln_grammar_fail(builder, LINNET_ERR_LIMIT, "the grammar has more than %d parts",
                        LN_GRAMMAR_MAX_EXPRS);
    ln_expr *expr = builder->status == LINNET_OK ? allocate(builder, 1, sizeof *expr) : NULL;
    if (expr == NULL) {
        builder->failed = (ln_expr){0};
        return &builder->failed;
    }
    builder->n_exprs++;
    expr->kind = kind;
    return expr;
}

ln_expr *ln_expr_empty(ln_grammar_builder *builder) {
    return create(builder, LN_EXPR_EMPTY);
}

ln_expr *ln_expr_bytes(ln_grammar_builder *builder, const char *bytes, size_t n_bytes) {
    ln_expr *expr = create(builder, n_bytes > 0 ? LN_EXPR_BYTES : LN_EXPR_EMPTY);
    char *copy = builder->status == LINNET_OK ? allocate(builder, n_bytes + 1, 1) : NULL;
    if (copy == NULL)
        return expr;
    if (n_bytes > 0)
        memcpy(copy, bytes, n_bytes);
    expr->bytes = copy;
    expr->count = (uint32_t)n_bytes;
    return expr;
}

ln_expr *ln_expr_text(ln_grammar_builder *builder, const char *text) {
    return ln_expr_bytes(builder, text, strlen(text));
}

/* ---- many texts ------------------------------------------------------------------------------ */

static int compare_texts(const void *a, const void *b) {
    const ln_text *left = a, *right = b;
    size_t n_bytes = left->n_bytes < right->n_bytes ? left->n_bytes : right->n_bytes;
    int order = n_bytes > 0 ? memcmp(left->bytes, right->bytes, n_bytes) : 0;
    return order != 0 ? order : (left->n_bytes > right->n_bytes) - (left->n_bytes < right->n_bytes);
}

/* How far the sorted texts are alike, from byte `at` on. */
static size_t count_alike(const ln_text *texts, size_t n, size_t at) {
    const ln_text *first = &texts[0], *last = &texts[n - 1];
    size_t end = at;
    while (end < first->n_bytes && end < last->n_bytes && first->bytes[end] == last->bytes[end])
        end++;
    return end - at;
}

/* What follows byte `at` of sorted texts. Deep only where texts are long: no deeper than the root
 * of twice their bytes. */
static ln_expr *add_texts(ln_grammar_builder *builder, const ln_text *texts, size_t n, size_t at) {
    size_t n_alike = count_alike(texts, n, at), end = at + n_alike, i = 0;
    ln_expr *alike = ln_expr_bytes(builder, texts[0].bytes + at, n_alike);
    ln_expr *choice = ln_expr_list(builder, LN_EXPR_CHOICE);
    bool ends_here = texts[0].n_bytes == end;
    while (i < n && texts[i].n_bytes == end)
        i++;
    if (i == n)
        return alike;
    while (i < n && builder->status == LINNET_OK) {
        size_t begin = i;
        while (i < n && texts[i].bytes[end] == texts[begin].bytes[end])
            i++;
        ln_expr_add(builder, choice, add_texts(builder, texts + begin, i - begin, end));
    }
    ln_expr *rest = ends_here ? ln_expr_optional(builder, choice) : choice;
    return n_alike > 0 ? ln_expr_sequence(builder, alike, rest, NULL) : rest;
}

ln_expr *ln_expr_texts(ln_grammar_builder *builder, ln_text *texts, size_t n) {
    if (n == 0 || builder->status != LINNET_OK)
        return ln_expr_list(builder, LN_EXPR_CHOICE);
    qsort(texts, n, sizeof *texts, compare_texts);
    return add_texts(builder, texts, n, 0);
}

/* ---- sets of code points --------------------------------------------------------------------- */

static int compare_ranges(const void *a, const void *b) {
    const ln_range *left = a, *right = b;
    return (left->low > right->low) - (left->low < right->low);
}

/* Sorts and joins; returns how many are left. */
static size_t join(ln_range *ranges, size_t n) {
    size_t kept = 0;
    qsort(ranges, n, sizeof *ranges, compare_ranges);
    for (size_t i = 0; i < n; i++) {
        if (kept > 0 && ranges[i].low <= ranges[kept - 1].high + 1) {
            if (ranges[i].high > ranges[kept - 1].high)
                ranges[kept - 1].high = ranges[i].high;
        } else {
            ranges[kept++] = ranges[i];
        }
    }
    return kept;
}

/* What ranges[n] leave of the code points, to out[n + 1]. */
static size_t complement(const ln_range *ranges, size_t n, ln_range *out) {
    size_t kept = 0;
    uint32_t next = 0;
    for (size_t i = 0; i < n; i++) {
        if (ranges[i].low > next)
            out[kept++] = (ln_range){next, ranges[i].low - 1};
        next = ranges[i].high + 1;
    }
    if (next <= 0x10ffff)
        out[kept++] = (ln_range){next, 0x10ffff};
    return kept;
}

ln_expr *ln_expr_chars(ln_grammar_builder *builder, const ln_range *ranges, size_t n_ranges,
                       bool negated) {
    ln_expr *expr = create(builder, LN_EXPR_CHARS);
    ln_range *sorted = NULL, *result = NULL;
    if (builder->status == LINNET_OK)
        sorted = allocate(builder, n_ranges + 2, sizeof *sorted);
    if (sorted != NULL)
        result = allocate(builder, n_ranges + 3, sizeof *result);
    if (sorted == NULL || result == NULL)
        return expr;
    size_t n = 0;
    for (size_t i = 0; i < n_ranges; i++)
        if (ranges[i].low <= ranges[i].high && ranges[i].low <= 0x10ffff)
            sorted[n++] =
                (ln_range){ranges[i].low, ranges[i].high < 0x10ffff ? ranges[i].high : 0x10ffff};
    n = join(sorted, n);
    if (!negated) {
        n = complement(sorted, n, result);
        memcpy(sorted, result, n * sizeof *sorted);
    }
    sorted[n++] = (ln_range){0xd800, 0xdfff};
    n = join(sorted, n);
    expr->count = (uint32_t)complement(sorted, n, result);
    expr->ranges = result;
    return expr;
}

/* ---- structure ------------------------------------------------------------------------------- */

ln_expr *ln_expr_list(ln_grammar_builder *builder, ln_expr_kind kind) {
    return create(builder, kind);
}

void ln_expr_add(ln_grammar_builder *builder, ln_expr *list, ln_expr *part) {
    if (builder->status != LINNET_OK)
        return;
    LN_BUG_ON(part->next != NULL || part == list);
    if (list->last != NULL)
        list->last->next = part;
    else
        list->first = part;
    list->last = part;
}

static ln_expr *add_all(ln_grammar_builder *builder, ln_expr_kind kind, va_list parts) {
    ln_expr *list = create(builder, kind);
    for (ln_expr *part; (part = va_arg(parts, ln_expr *)) != NULL;)
        ln_expr_add(builder, list, part);
    return list;
}

ln_expr *ln_expr_sequence(ln_grammar_builder *builder, ...) {
    va_list parts;
    va_start(parts, builder);
    ln_expr *list = add_all(builder, LN_EXPR_SEQUENCE, parts);
    va_end(parts);
    return list;
}

ln_expr *ln_expr_choice(ln_grammar_builder *builder, ...) {
    va_list parts;
    va_start(parts, builder);
    ln_expr *list = add_all(builder, LN_EXPR_CHOICE, parts);
    va_end(parts);
    return list;
}

ln_expr *ln_expr_repeat(ln_grammar_builder *builder, ln_expr *body, uint32_t min, uint32_t max) {
    ln_expr *expr = create(builder, LN_EXPR_REPEAT);
    expr->min = min;
    expr->max = max;
    ln_expr_add(builder, expr, body);
    return expr;
}

ln_expr *ln_expr_any(ln_grammar_builder *builder, uint32_t min, uint32_t max) {
    return ln_expr_repeat(builder, ln_expr_chars(builder, NULL, 0, true), min, max);
}

ln_expr *ln_expr_optional(ln_grammar_builder *builder, ln_expr *body) {
    return ln_expr_repeat(builder, body, 0, 1);
}

ln_expr *ln_expr_rule(ln_grammar_builder *builder, uint32_t rule) {
    ln_expr *expr = create(builder, LN_EXPR_RULE);
    expr->rule = rule;
    return expr;
}

ln_expr *ln_expr_graph(ln_grammar_builder *builder, const ln_graph *graph) {
    ln_expr *expr = create(builder, LN_EXPR_GRAPH);
    expr->graph = graph;
    return expr;
}

void ln_object_add(ln_grammar_builder *builder, ln_object *object) {
    if (!ln_grow((void **)&builder->objects, &builder->object_capacity, builder->n_objects + 1,
                 sizeof *builder->objects)) {
        ln_grammar_fail_memory(builder);
        return;
    }
    object->number = (uint32_t)builder->n_objects;
    builder->objects[builder->n_objects++] = object;
}

ln_expr *ln_expr_guard(ln_grammar_builder *builder, const ln_object *object, ln_guard_kind kind,
                       uint32_t low, uint32_t high) {
    ln_expr *expr = create(builder, LN_EXPR_GUARD);
    expr->guard = (ln_guard){kind, object->number, low, high};
    return expr;
}

uint32_t ln_rule_add(ln_grammar_builder *builder, const char *name, size_t name_bytes,
                     ln_expr *body) {
    if (builder->status != LINNET_OK)
        return 0;
    if (builder->n_rules == LN_GRAMMAR_MAX_RULES) {
        ln_grammar_fail(builder, LINNET_ERR_LIMIT, "the grammar has more than %d rules",
                        LN_GRAMMAR_MAX_RULES);
        return 0;
    }
    char *copy = ln_arena_copy(&builder->arena, name, name_bytes < 80 ? name_bytes : 80);
    if (copy == NULL || !ln_grow((void **)&builder->rules, &builder->capacity, builder->n_rules + 1,
                                 sizeof *builder->rules)) {
        ln_grammar_fail_memory(builder);
        return 0;
    }
    builder->rules[builder->n_rules] =
        (ln_rule){.body = body, .name = copy, .max_count = LN_NO_LIMIT};
    return (uint32_t)builder->n_rules++;
}

uint32_t ln_rule_add_terminal(ln_grammar_builder *builder, const char *name, ln_expr *body) {
    uint32_t rule = ln_rule_add(builder, name, strlen(name), body);
    if (builder->status == LINNET_OK)
        builder->rules[rule].kind = LN_RULE_TERMINAL;
    return rule;
}
