/* The tight half of expressions: atoms, calls, subscripts, filters, tests and signs. */
#include <string.h>

#include "text/jinja/parse.h"
#include "text/jinja/run.h"

static ln_status new_const(ln_jinja_parser *p, uint32_t line, ln_jinja_value value,
                           ln_jinja_node **node) {
    LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_CONST, line, node));
    (*node)->as.constant = value;
    return LINNET_OK;
}

static ln_status new_string(ln_jinja_parser *p, const char *text, size_t n_bytes,
                            ln_jinja_string **string) {
    *string = ln_jinja_string_borrow(&p->program->arena, text, n_bytes, true);
    return *string == NULL ? ln_jinja_parse_no_memory(p) : LINNET_OK;
}

/* A macro whose body mentions these names is called with them. */
static void note_special(ln_jinja_parser *p, uint32_t symbol) {
    for (struct ln_jinja_outer *outer = p->outer; outer != NULL; outer = outer->outer) {
        outer->signature->uses_caller |= symbol == p->program->symbol_caller;
        outer->signature->uses_kwargs |= symbol == p->program->symbol_kwargs;
        outer->signature->uses_varargs |= symbol == p->program->symbol_varargs;
    }
}

/* ---- atoms ------------------------------------------------------------------------------ */

static ln_status parse_name_atom(ln_jinja_parser *p, ln_jinja_node **node) {
    static const struct {
        const char *name;
        ln_jinja_value value;
    } words[] = {
        {"true", {.kind = LN_JINJA_BOOL, .as.boolean = true}},
        {"True", {.kind = LN_JINJA_BOOL, .as.boolean = true}},
        {"false", {.kind = LN_JINJA_BOOL}},
        {"False", {.kind = LN_JINJA_BOOL}},
        {"none", {.kind = LN_JINJA_NONE}},
        {"None", {.kind = LN_JINJA_NONE}},
    };
    const ln_jinja_token *token = ln_jinja_peek(p);
    ln_jinja_advance(p);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (ln_jinja_token_is(token, LN_JINJA_TOKEN_NAME, words[i].name))
            return new_const(p, token->line, words[i].value, node);
    LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_NAME, token->line, node));
    LN_TRY(ln_jinja_symbol(p, token->text, token->n_bytes, &(*node)->as.symbol));
    note_special(p, (*node)->as.symbol);
    return LINNET_OK;
}

/* Adjacent literals join, as in Python. */
static ln_status parse_string_atom(ln_jinja_parser *p, ln_jinja_node **node) {
    const ln_jinja_token *first = ln_jinja_peek(p);
    size_t total = 0, n_tokens = 0;
    while (first[n_tokens].kind == LN_JINJA_TOKEN_STRING)
        total += first[n_tokens++].n_bytes;
    const char *text = first->text;
    if (n_tokens > 1) {
        char *joined = ln_arena_alloc(&p->program->arena, total + 1, 1);
        if (joined == NULL)
            return ln_jinja_parse_no_memory(p);
        size_t used = 0;
        for (size_t i = 0; i < n_tokens; i++) {
            memcpy(joined + used, first[i].text, first[i].n_bytes);
            used += first[i].n_bytes;
        }
        text = joined;
    }
    p->at += n_tokens;
    ln_jinja_string *string;
    LN_TRY(new_string(p, text, total, &string));
    return new_const(p, first->line, ln_jinja_of_string(string), node);
}

static ln_status parse_list(ln_jinja_parser *p, ln_jinja_node **node) {
    LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_LIST, ln_jinja_peek(p)->line, node));
    ln_jinja_advance(p);
    while (!ln_jinja_at_operator(p, "]")) {
        if ((*node)->as.list.count > 0)
            LN_TRY(ln_jinja_expect_operator(p, ","));
        if (ln_jinja_at_operator(p, "]"))
            break;
        ln_jinja_node *item;
        LN_TRY(ln_jinja_parse_expression(p, true, &item));
        LN_TRY(ln_jinja_nodes_push(p, &(*node)->as.list, item));
    }
    return ln_jinja_expect_operator(p, "]");
}

static ln_status parse_dict(ln_jinja_parser *p, ln_jinja_node **node) {
    LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_DICT, ln_jinja_peek(p)->line, node));
    ln_jinja_advance(p);
    while (!ln_jinja_at_operator(p, "}")) {
        if ((*node)->as.list.count > 0)
            LN_TRY(ln_jinja_expect_operator(p, ","));
        if (ln_jinja_at_operator(p, "}"))
            break;
        ln_jinja_node *key, *item;
        LN_TRY(ln_jinja_parse_expression(p, true, &key));
        LN_TRY(ln_jinja_expect_operator(p, ":"));
        LN_TRY(ln_jinja_parse_expression(p, true, &item));
        LN_TRY(ln_jinja_nodes_push(p, &(*node)->as.list, key));
        LN_TRY(ln_jinja_nodes_push(p, &(*node)->as.list, item));
    }
    return ln_jinja_expect_operator(p, "}");
}

static ln_status parse_bracket(ln_jinja_parser *p, ln_jinja_node **node) {
    LN_TRY(ln_jinja_nest(p));
    if (ln_jinja_at_operator(p, "[")) {
        LN_TRY(parse_list(p, node));
    } else if (ln_jinja_at_operator(p, "{")) {
        LN_TRY(parse_dict(p, node));
    } else {
        ln_jinja_advance(p);
        LN_TRY(ln_jinja_parse_tuple(p, true, NULL, true, node));
        LN_TRY(ln_jinja_expect_operator(p, ")"));
    }
    p->depth--;
    return LINNET_OK;
}

static ln_status parse_primary(ln_jinja_parser *p, ln_jinja_node **node) {
    const ln_jinja_token *token = ln_jinja_peek(p);
    switch (token->kind) {
    case LN_JINJA_TOKEN_NAME: return parse_name_atom(p, node);
    case LN_JINJA_TOKEN_STRING: return parse_string_atom(p, node);
    case LN_JINJA_TOKEN_INT:
        ln_jinja_advance(p);
        return new_const(p, token->line, ln_jinja_int(token->integer), node);
    case LN_JINJA_TOKEN_FLOAT:
        ln_jinja_advance(p);
        return new_const(p, token->line, ln_jinja_float(token->real), node);
    default: break;
    }
    if (ln_jinja_at_operator(p, "(") || ln_jinja_at_operator(p, "[") ||
        ln_jinja_at_operator(p, "{"))
        return parse_bracket(p, node);
    return ln_jinja_unexpected(p, "an expression");
}

/* ---- calls and subscripts --------------------------------------------------------------- */

static ln_status parse_named_arg(ln_jinja_parser *p, ln_jinja_call_args *args) {
    const ln_jinja_token *name = ln_jinja_peek(p);
    p->at += 2;
    uint32_t n = args->named.count;
    if ((n & (n - 1)) == 0) { /* room for the next power of two */
        ln_jinja_string **names =
            ln_arena_alloc(&p->program->arena, n == 0 ? 1 : (size_t)n * 2, sizeof *names);
        if (names == NULL)
            return ln_jinja_parse_no_memory(p);
        if (n > 0)
            memcpy(names, args->names, n * sizeof *names);
        args->names = names;
    }
    LN_TRY(new_string(p, name->text, name->n_bytes, &args->names[n]));
    for (uint32_t i = 0; i < n; i++)
        if (ln_jinja_string_equal(args->names[i], args->names[n]))
            return ln_jinja_syntax_error(p, "keyword argument repeated: %.*s", (int)name->n_bytes,
                                         name->text);
    ln_jinja_node *value;
    LN_TRY(ln_jinja_parse_expression(p, true, &value));
    return ln_jinja_nodes_push(p, &args->named, value);
}

static ln_status parse_call_arg(ln_jinja_parser *p, ln_jinja_call_args *args) {
    if (ln_jinja_at_operator(p, "*") && args->rest == NULL && args->rest_named == NULL) {
        ln_jinja_advance(p);
        return ln_jinja_parse_expression(p, true, &args->rest);
    }
    if (ln_jinja_at_operator(p, "**") && args->rest_named == NULL) {
        ln_jinja_advance(p);
        return ln_jinja_parse_expression(p, true, &args->rest_named);
    }
    bool named = ln_jinja_peek(p)->kind == LN_JINJA_TOKEN_NAME &&
                 ln_jinja_token_is(ln_jinja_look(p), LN_JINJA_TOKEN_OPERATOR, "=");
    if (named && args->rest_named == NULL)
        return parse_named_arg(p, args);
    if (named || args->rest != NULL || args->rest_named != NULL || args->named.count > 0)
        return ln_jinja_syntax_error(p, "invalid syntax for function call expression");
    ln_jinja_node *value;
    LN_TRY(ln_jinja_parse_expression(p, true, &value));
    return ln_jinja_nodes_push(p, &args->positional, value);
}

static ln_status parse_call_args(ln_jinja_parser *p, ln_jinja_call_args *args) {
    LN_TRY(ln_jinja_nest(p));
    LN_TRY(ln_jinja_expect_operator(p, "("));
    bool first = true;
    while (!ln_jinja_at_operator(p, ")")) {
        if (!first)
            LN_TRY(ln_jinja_expect_operator(p, ","));
        if (ln_jinja_at_operator(p, ")"))
            break;
        LN_TRY(parse_call_arg(p, args));
        first = false;
    }
    p->depth--;
    return ln_jinja_expect_operator(p, ")");
}

static ln_status parse_call(ln_jinja_parser *p, ln_jinja_node **node) {
    ln_jinja_node *callee = *node;
    LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_CALL, ln_jinja_peek(p)->line, node));
    (*node)->as.call.callee = callee;
    return parse_call_args(p, &(*node)->as.call.args);
}

static ln_status parse_dot(ln_jinja_parser *p, ln_jinja_node **node) {
    ln_jinja_node *object = *node;
    uint32_t line = ln_jinja_peek(p)->line;
    ln_jinja_advance(p);
    const ln_jinja_token *token = ln_jinja_peek(p);
    if (token->kind == LN_JINJA_TOKEN_NAME) {
        LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_ATTRIBUTE, line, node));
        (*node)->as.attribute.object = object;
        LN_TRY(new_string(p, token->text, token->n_bytes, &(*node)->as.attribute.name));
    } else if (token->kind == LN_JINJA_TOKEN_INT) {
        LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_ITEM, line, node));
        (*node)->as.item.object = object;
        LN_TRY(new_const(p, line, ln_jinja_int(token->integer), &(*node)->as.item.index));
    } else {
        return ln_jinja_unexpected(p, "name or number");
    }
    ln_jinja_advance(p);
    return LINNET_OK;
}

static bool at_slice_end(const ln_jinja_parser *p) {
    return ln_jinja_at_operator(p, "]") || ln_jinja_at_operator(p, ",");
}

/* One part of a subscript. A slice becomes a SLICE node of `object`. */
static ln_status parse_subscript_part(ln_jinja_parser *p, ln_jinja_node *object,
                                      ln_jinja_node **node) {
    uint32_t line = ln_jinja_peek(p)->line;
    ln_jinja_node *start = NULL, *stop = NULL, *step = NULL;
    if (!ln_jinja_at_operator(p, ":")) {
        LN_TRY(ln_jinja_parse_expression(p, true, &start));
        if (!ln_jinja_at_operator(p, ":")) {
            *node = start;
            return LINNET_OK;
        }
    }
    ln_jinja_advance(p);
    if (!ln_jinja_at_operator(p, ":") && !at_slice_end(p))
        LN_TRY(ln_jinja_parse_expression(p, true, &stop));
    if (ln_jinja_skip_operator(p, ":") && !at_slice_end(p))
        LN_TRY(ln_jinja_parse_expression(p, true, &step));
    LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_SLICE, line, node));
    (*node)->as.slice.object = object;
    (*node)->as.slice.start = start;
    (*node)->as.slice.stop = stop;
    (*node)->as.slice.step = step;
    return LINNET_OK;
}

static ln_status parse_subscript(ln_jinja_parser *p, ln_jinja_node **node) {
    ln_jinja_node *object = *node, *index = NULL;
    uint32_t line = ln_jinja_peek(p)->line;
    LN_TRY(ln_jinja_nest(p));
    ln_jinja_advance(p);
    if (ln_jinja_at_operator(p, "]"))
        return ln_jinja_unexpected(p, "a subscript");
    LN_TRY(parse_subscript_part(p, object, &index));
    if (ln_jinja_at_operator(p, ",")) { /* a tuple of parts */
        if (index->kind == LN_JINJA_NODE_SLICE)
            return ln_jinja_syntax_error(p, "a slice among several subscripts");
        ln_jinja_node *tuple;
        LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_TUPLE, line, &tuple));
        LN_TRY(ln_jinja_nodes_push(p, &tuple->as.list, index));
        while (ln_jinja_skip_operator(p, ",")) {
            LN_TRY(ln_jinja_parse_expression(p, true, &index));
            LN_TRY(ln_jinja_nodes_push(p, &tuple->as.list, index));
        }
        index = tuple;
    }
    p->depth--;
    LN_TRY(ln_jinja_expect_operator(p, "]"));
    if (index->kind == LN_JINJA_NODE_SLICE && index->as.slice.object == object) {
        *node = index;
        return LINNET_OK;
    }
    LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_ITEM, line, node));
    (*node)->as.item.object = object;
    (*node)->as.item.index = index;
    return LINNET_OK;
}

static ln_status parse_postfix(ln_jinja_parser *p, ln_jinja_node **node) {
    for (;;) {
        if (ln_jinja_at_operator(p, "."))
            LN_TRY(parse_dot(p, node));
        else if (ln_jinja_at_operator(p, "["))
            LN_TRY(parse_subscript(p, node));
        else if (ln_jinja_at_operator(p, "("))
            LN_TRY(parse_call(p, node));
        else
            return LINNET_OK;
    }
}

/* ---- filters and tests ------------------------------------------------------------------ */

/* A name with dots; filters of that kind exist only in extensions. */
static ln_status parse_dotted(ln_jinja_parser *p, ln_jinja_string **name) {
    const ln_jinja_token *token = ln_jinja_peek(p);
    LN_TRY(ln_jinja_expect_kind(p, LN_JINJA_TOKEN_NAME, "a name"));
    if (ln_jinja_at_operator(p, "."))
        return ln_jinja_syntax_error(p, "no filter or test has a dot in its name");
    return new_string(p, token->text, token->n_bytes, name);
}

/* An unknown name is an error at the end of the parse, unless it turns out to stand in an if. */
static void resolve(ln_jinja_parser *p, ln_jinja_node *node) {
    const ln_jinja_string *name = node->as.apply.name;
    node->as.apply.builtin =
        node->kind == LN_JINJA_NODE_FILTER ? ln_jinja_find_filter(name) : ln_jinja_find_test(name);
    if (node->as.apply.builtin == NULL && !p->soft && p->unknown == NULL)
        p->unknown = node;
}

ln_status ln_jinja_parse_filter(ln_jinja_parser *p, ln_jinja_node *operand, bool inline_start,
                                ln_jinja_node **node) {
    *node = operand;
    while (inline_start || ln_jinja_skip_operator(p, "|")) {
        inline_start = false;
        ln_jinja_node *inner = *node;
        LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_FILTER, ln_jinja_peek(p)->line, node));
        (*node)->as.apply.operand = inner;
        LN_TRY(parse_dotted(p, &(*node)->as.apply.name));
        resolve(p, *node);
        if (ln_jinja_at_operator(p, "("))
            LN_TRY(parse_call_args(p, &(*node)->as.apply.args));
    }
    return LINNET_OK;
}

/* Whether the token can be the argument of a test without parentheses. */
static bool at_test_argument(const ln_jinja_parser *p) {
    const ln_jinja_token *token = ln_jinja_peek(p);
    if (token->kind == LN_JINJA_TOKEN_NAME)
        return !ln_jinja_at_name(p, "else") && !ln_jinja_at_name(p, "or") &&
               !ln_jinja_at_name(p, "and");
    return token->kind == LN_JINJA_TOKEN_STRING || token->kind == LN_JINJA_TOKEN_INT ||
           token->kind == LN_JINJA_TOKEN_FLOAT || ln_jinja_at_operator(p, "[") ||
           ln_jinja_at_operator(p, "{");
}

static ln_status parse_test(ln_jinja_parser *p, ln_jinja_node **node) {
    ln_jinja_node *operand = *node, *argument;
    uint32_t line = ln_jinja_peek(p)->line;
    ln_jinja_advance(p);
    bool negated = ln_jinja_skip_name(p, "not");
    ln_jinja_node *test;
    LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_TEST, line, &test));
    test->as.apply.operand = operand;
    LN_TRY(parse_dotted(p, &test->as.apply.name));
    resolve(p, test);
    if (ln_jinja_at_operator(p, "(")) {
        LN_TRY(parse_call_args(p, &test->as.apply.args));
    } else if (at_test_argument(p)) {
        if (ln_jinja_at_name(p, "is"))
            return ln_jinja_syntax_error(p, "You cannot chain multiple tests with is");
        LN_TRY(parse_primary(p, &argument));
        LN_TRY(parse_postfix(p, &argument));
        LN_TRY(ln_jinja_nodes_push(p, &test->as.apply.args.positional, argument));
    }
    *node = test;
    return negated ? ln_jinja_binary_new(p, LN_JINJA_NODE_NOT, line, 0, test, NULL, node)
                   : LINNET_OK;
}

static ln_status parse_filters(ln_jinja_parser *p, ln_jinja_node **node) {
    for (;;) {
        if (ln_jinja_at_operator(p, "|"))
            LN_TRY(ln_jinja_parse_filter(p, *node, false, node));
        else if (ln_jinja_at_name(p, "is"))
            LN_TRY(parse_test(p, node));
        else if (ln_jinja_at_operator(p, "("))
            LN_TRY(parse_call(p, node));
        else
            return LINNET_OK;
    }
}

ln_status ln_jinja_parse_unary(ln_jinja_parser *p, bool with_filter, ln_jinja_node **node) {
    uint32_t line = ln_jinja_peek(p)->line;
    bool negative = ln_jinja_at_operator(p, "-");
    if (negative || ln_jinja_at_operator(p, "+")) {
        ln_jinja_node *operand;
        LN_TRY(ln_jinja_nest(p));
        ln_jinja_advance(p);
        LN_TRY(ln_jinja_parse_unary(p, false, &operand));
        LN_TRY(ln_jinja_binary_new(p, LN_JINJA_NODE_UNARY, line,
                                   negative ? LN_JINJA_SUB : LN_JINJA_ADD, operand, NULL, node));
        p->depth--;
    } else {
        LN_TRY(parse_primary(p, node));
    }
    LN_TRY(parse_postfix(p, node));
    return with_filter ? parse_filters(p, node) : LINNET_OK;
}
