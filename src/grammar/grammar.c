#include "grammar/grammar.h"

#include <stdlib.h>

#include "base/utf8.h"
#include "grammar/compiled.h"
#include "grammar/sources.h"

static ln_status read_source(ln_grammar_builder *builder, const ln_grammar_source *source) {
    const char *text = source->text;
    size_t n_bytes = source->n_bytes;
    if (n_bytes > LN_GRAMMAR_MAX_TEXT)
        return ln_grammar_fail(builder, LINNET_ERR_LIMIT,
                               "the grammar has %zu bytes; at most %d are possible", n_bytes,
                               LN_GRAMMAR_MAX_TEXT);
    if (n_bytes > 0 && !ln_utf8_check(text, n_bytes))
        return ln_grammar_fail(builder, LINNET_ERR_ARGUMENT, "the grammar is not UTF-8");
    switch (source->kind) {
    case LINNET_GRAMMAR_JSON: return ln_grammar_read_json(builder);
    case LINNET_GRAMMAR_JSON_SCHEMA: return ln_grammar_read_schema(builder, text, n_bytes);
    case LINNET_GRAMMAR_REGEX: return ln_grammar_read_regex(builder, text, n_bytes);
    case LINNET_GRAMMAR_CHOICE: return ln_grammar_read_choice(builder, text, n_bytes);
    case LINNET_GRAMMAR_TOOLS: return ln_grammar_read_tools(builder, text, n_bytes);
    case LINNET_GRAMMAR_GBNF: return ln_grammar_read_gbnf(builder, text, n_bytes);
    case LINNET_GRAMMAR_LARK: return ln_grammar_read_lark(builder, text, n_bytes);
    case LINNET_GRAMMAR_STRUCTURAL_TAG:
        return ln_grammar_read_structural_tag(builder, text, n_bytes);
    case LINNET_GRAMMAR_NONE:
    default:
        return ln_grammar_fail(builder, LINNET_ERR_ARGUMENT, "grammar_kind is %d, which is none",
                               (int)source->kind);
    }
}

/* The start must fit the automaton's memory; later states are met when they
 * come. */
static ln_status check_start(ln_grammar *grammar, ln_error *err) {
    if (ln_automaton_start(&grammar->automaton) != LN_STATE_FULL)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_LIMIT, "the grammar can begin in too many ways");
}

static ln_status build_tables(ln_grammar *grammar, const ln_token_trie *trie, ln_error *err) {
    const ln_grammar *common = trie->common;
    return ln_dense_build(&grammar->dense, &grammar->program.arena, &grammar->program, trie,
                          common != NULL ? &common->dense : NULL,
                          common != NULL ? &common->program : NULL, err);
}

ln_status ln_grammar_compile(const ln_grammar_source *source, const ln_token_trie *trie,
                             ln_grammar **out, ln_error *err) {
    ln_grammar_builder builder;
    *out = NULL;
    ln_grammar *grammar = calloc(1, sizeof *grammar);
    if (grammar == NULL)
        return ln_fail_memory(err, "a grammar");
    ln_grammar_builder_init(&builder, err);
    builder.json_form = source->json_form;
    ln_status status = read_source(&builder, source);
    if (status == LINNET_OK)
        ln_grammar_add_reasoning(&builder, source->reasoning, builder.reasoning_format);
    if (status == LINNET_OK)
        status = builder.status;
    if (status == LINNET_OK)
        status = ln_program_compile(&grammar->program, &builder, err);
    ln_grammar_builder_free(&builder);
    if (status == LINNET_OK)
        status = ln_automaton_init(&grammar->automaton, &grammar->program, err);
    if (status == LINNET_OK)
        status = check_start(grammar, err);
    if (status == LINNET_OK && trie != NULL)
        status = build_tables(grammar, trie, err);
    atomic_init(&grammar->references, 1);
    if (status == LINNET_OK)
        *out = grammar;
    else
        ln_grammar_release(grammar);
    return status;
}

ln_status ln_grammar_share(ln_token_trie *trie, ln_grammar **common, ln_error *err) {
    /* any string, and one that is not a certain name */
    static const char schema[] =
        "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"string\"}}}";
    trie->common = NULL;
    const ln_grammar_source source = {
        .kind = LINNET_GRAMMAR_JSON_SCHEMA, .text = schema, .n_bytes = sizeof schema - 1};
    LN_TRY(ln_grammar_compile(&source, trie, common, err));
    trie->common = *common;
    return LINNET_OK;
}

ln_grammar *ln_grammar_retain(ln_grammar *grammar) {
    atomic_fetch_add(&grammar->references, 1);
    return grammar;
}

void ln_grammar_release(ln_grammar *grammar) {
    if (grammar == NULL || atomic_fetch_sub(&grammar->references, 1) > 1)
        return;
    ln_automaton_free(&grammar->automaton);
    ln_program_free(&grammar->program);
    free(grammar);
}

ln_status ln_grammar_match(ln_grammar *grammar, const char *bytes, size_t n_bytes,
                           size_t *n_accepted, bool *complete, ln_error *err) {
    ln_automaton *automaton = &grammar->automaton;
    uint32_t state = ln_automaton_start(automaton);
    *n_accepted = 0;
    *complete = false;
    for (; *n_accepted < n_bytes && state != LN_STATE_FULL; ++*n_accepted) {
        uint32_t next = ln_automaton_step(automaton, state, (uint8_t)bytes[*n_accepted]);
        if (next == LN_STATE_FULL) {
            state = ln_automaton_keep(automaton, state);
            next = ln_automaton_step(automaton, state, (uint8_t)bytes[*n_accepted]);
        }
        if (next == LN_STATE_DEAD)
            return LINNET_OK;
        state = next;
    }
    if (state == LN_STATE_FULL)
        return ln_fail(err, LINNET_ERR_LIMIT, "the grammar is too ambiguous");
    *complete = automaton->states[state].accepts;
    return LINNET_OK;
}
