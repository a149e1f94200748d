/* Statements. */
#include "text/jinja/parse.h"

#include <string.h>

#include "text/jinja/run.h"

/* Names that end the body being parsed; NULL after the last. */
typedef const char *const *end_names;

static ln_status parse_body(ln_jinja_parser *p, end_names ends, ln_jinja_nodes *body);

/* ---- tokens and nodes ------------------------------------------------------------------- */

ln_status ln_jinja_syntax_error(const ln_jinja_parser *p, const char *format, ...) {
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return ln_fail(p->err, LINNET_ERR_FORMAT, "%s, line %u: %s", p->program->name,
                   ln_jinja_peek(p)->line, message);
}

ln_status ln_jinja_parse_no_memory(const ln_jinja_parser *p) {
    return ln_fail(p->err, LINNET_ERR_NOMEM, "%s: out of memory", p->program->name);
}

ln_status ln_jinja_unexpected(const ln_jinja_parser *p, const char *expected) {
    const ln_jinja_token *token = ln_jinja_peek(p);
    switch (token->kind) {
    case LN_JINJA_TOKEN_END:
        return ln_jinja_syntax_error(p, "expected %s, got end of template", expected);
    case LN_JINJA_TOKEN_PRINT_END:
        return ln_jinja_syntax_error(p, "expected %s, got end of print statement", expected);
    case LN_JINJA_TOKEN_BLOCK_END:
        return ln_jinja_syntax_error(p, "expected %s, got end of statement block", expected);
    default:
        return ln_jinja_syntax_error(p, "expected %s, got '%.*s'", expected,
                                     (int)(token->n_bytes < 60 ? token->n_bytes : 60), token->text);
    }
}

const ln_jinja_token *ln_jinja_look(const ln_jinja_parser *p) {
    return &p->tokens[p->at + 1 < p->n_tokens ? p->at + 1 : p->n_tokens - 1];
}

void ln_jinja_advance(ln_jinja_parser *p) {
    if (p->at + 1 < p->n_tokens)
        p->at++;
}

bool ln_jinja_token_is(const ln_jinja_token *token, ln_jinja_token_kind kind, const char *text) {
    return token->kind == kind && token->n_bytes == strlen(text) &&
           memcmp(token->text, text, token->n_bytes) == 0;
}

bool ln_jinja_at_name(const ln_jinja_parser *p, const char *text) {
    return ln_jinja_token_is(ln_jinja_peek(p), LN_JINJA_TOKEN_NAME, text);
}

bool ln_jinja_at_operator(const ln_jinja_parser *p, const char *text) {
    return ln_jinja_token_is(ln_jinja_peek(p), LN_JINJA_TOKEN_OPERATOR, text);
}

bool ln_jinja_skip_name(ln_jinja_parser *p, const char *text) {
    bool there = ln_jinja_at_name(p, text);
    if (there)
        ln_jinja_advance(p);
    return there;
}

bool ln_jinja_skip_operator(ln_jinja_parser *p, const char *text) {
    bool there = ln_jinja_at_operator(p, text);
    if (there)
        ln_jinja_advance(p);
    return there;
}

ln_status ln_jinja_expect_operator(ln_jinja_parser *p, const char *text) {
    return ln_jinja_skip_operator(p, text) ? LINNET_OK : ln_jinja_unexpected(p, text);
}

ln_status ln_jinja_expect_name(ln_jinja_parser *p, const char *text) {
    return ln_jinja_skip_name(p, text) ? LINNET_OK : ln_jinja_unexpected(p, text);
}

ln_status ln_jinja_expect_kind(ln_jinja_parser *p, ln_jinja_token_kind kind, const char *what) {
    if (ln_jinja_peek(p)->kind != kind)
        return ln_jinja_unexpected(p, what);
    ln_jinja_advance(p);
    return LINNET_OK;
}

ln_status ln_jinja_node_new(ln_jinja_parser *p, ln_jinja_node_kind kind, uint32_t line,
                            ln_jinja_node **node) {
    *node = ln_arena_alloc(&p->program->arena, 1, sizeof **node);
    if (*node == NULL)
        return ln_jinja_parse_no_memory(p);
    (*node)->kind = kind;
    (*node)->line = line;
    return LINNET_OK;
}

ln_status ln_jinja_nodes_push(ln_jinja_parser *p, ln_jinja_nodes *nodes, ln_jinja_node *node) {
    uint32_t n = nodes->count;
    if ((n & (n - 1)) == 0) {
        ln_jinja_node **items =
            ln_arena_alloc(&p->program->arena, n == 0 ? 1 : (size_t)n * 2, sizeof *items);
        if (items == NULL)
            return ln_jinja_parse_no_memory(p);
        if (n > 0)
            memcpy(items, nodes->items, n * sizeof *items);
        nodes->items = items;
    }
    nodes->items[nodes->count++] = node;
    return LINNET_OK;
}

ln_status ln_jinja_symbol(ln_jinja_parser *p, const char *text, size_t n_bytes, uint32_t *symbol) {
    ln_jinja_program *program = p->program;
    if (ln_hashmap_get(&p->symbol_map, text, n_bytes, symbol))
        return LINNET_OK;
    *symbol = program->n_symbols;
    ln_jinja_string *name = ln_jinja_string_borrow(&program->arena, text, n_bytes, true);
    if (name == NULL || !ln_hashmap_add(&p->symbol_map, text, n_bytes, *symbol))
        return ln_jinja_parse_no_memory(p);
    program->symbols[program->n_symbols++] = name;
    return LINNET_OK;
}

ln_status ln_jinja_nest(ln_jinja_parser *p) {
    if (++p->depth > LN_JINJA_MAX_NESTING)
        return ln_jinja_syntax_error(p, "nested more than %d deep", LN_JINJA_MAX_NESTING);
    return LINNET_OK;
}

/* ---- targets and signatures ------------------------------------------------------------- */

ln_status ln_jinja_parse_name(ln_jinja_parser *p, uint32_t *symbol) {
    const ln_jinja_token *token = ln_jinja_peek(p);
    LN_TRY(ln_jinja_expect_kind(p, LN_JINJA_TOKEN_NAME, "a name"));
    static const char *const constants[] = {"true", "false", "none", "True", "False", "None"};
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (ln_jinja_token_is(token, LN_JINJA_TOKEN_NAME, constants[i]))
            return ln_jinja_syntax_error(p, "can't assign to '%s'", constants[i]);
    LN_TRY(ln_jinja_symbol(p, token->text, token->n_bytes, symbol));
    if (p->inside_for && *symbol == p->program->symbol_loop)
        return ln_jinja_syntax_error(p, "Can't assign to special loop variable in for-loop target");
    return LINNET_OK;
}

static ln_status parse_one_target(ln_jinja_parser *p, bool namespaces, ln_jinja_node **node) {
    uint32_t line = ln_jinja_peek(p)->line;
    if (ln_jinja_skip_operator(p, "(")) {
        LN_TRY(ln_jinja_nest(p));
        LN_TRY(ln_jinja_parse_target(p, NULL, false, node));
        p->depth--;
        return ln_jinja_expect_operator(p, ")");
    }
    uint32_t symbol;
    bool reference =
        namespaces && ln_jinja_token_is(ln_jinja_look(p), LN_JINJA_TOKEN_OPERATOR, ".");
    if (!reference) {
        LN_TRY(ln_jinja_parse_name(p, &symbol));
        LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_NAME, line, node));
        (*node)->as.symbol = symbol;
        return LINNET_OK;
    }
    const ln_jinja_token *token = ln_jinja_peek(p);
    LN_TRY(ln_jinja_expect_kind(p, LN_JINJA_TOKEN_NAME, "a name"));
    LN_TRY(ln_jinja_symbol(p, token->text, token->n_bytes, &symbol));
    LN_TRY(ln_jinja_expect_operator(p, "."));
    const ln_jinja_token *name = ln_jinja_peek(p);
    LN_TRY(ln_jinja_expect_kind(p, LN_JINJA_TOKEN_NAME, "a name"));
    LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_NAMESPACE_REF, line, node));
    (*node)->as.namespace_ref.symbol = symbol;
    (*node)->as.namespace_ref.name =
        ln_jinja_string_borrow(&p->program->arena, name->text, name->n_bytes, true);
    return (*node)->as.namespace_ref.name == NULL ? ln_jinja_parse_no_memory(p) : LINNET_OK;
}

ln_status ln_jinja_parse_target(ln_jinja_parser *p, const char *end_name, bool namespaces,
                                ln_jinja_node **node) {
    uint32_t line = ln_jinja_peek(p)->line;
    LN_TRY(parse_one_target(p, namespaces, node));
    if (!ln_jinja_at_operator(p, ","))
        return LINNET_OK;
    ln_jinja_node *item = *node;
    LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_TUPLE, line, node));
    LN_TRY(ln_jinja_nodes_push(p, &(*node)->as.list, item));
    while (ln_jinja_skip_operator(p, ",")) {
        if (ln_jinja_at_operator(p, ")") || ln_jinja_peek(p)->kind == LN_JINJA_TOKEN_BLOCK_END ||
            (end_name != NULL && ln_jinja_at_name(p, end_name)))
            break;
        LN_TRY(parse_one_target(p, namespaces, &item));
        LN_TRY(ln_jinja_nodes_push(p, &(*node)->as.list, item));
    }
    return LINNET_OK;
}

ln_status ln_jinja_parse_signature(ln_jinja_parser *p, ln_jinja_signature *signature) {
    ln_jinja_nodes names = {0}; /* NAME nodes, for their growth */
    LN_TRY(ln_jinja_expect_operator(p, "("));
    while (!ln_jinja_at_operator(p, ")")) {
        if (names.count > 0)
            LN_TRY(ln_jinja_expect_operator(p, ","));
        ln_jinja_node *name;
        LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_NAME, ln_jinja_peek(p)->line, &name));
        LN_TRY(ln_jinja_parse_name(p, &name->as.symbol));
        for (uint32_t i = 0; i < names.count; i++)
            if (names.items[i]->as.symbol == name->as.symbol)
                return ln_jinja_syntax_error(p, "a parameter is named twice");
        LN_TRY(ln_jinja_nodes_push(p, &names, name));
        if (ln_jinja_skip_operator(p, "=")) {
            ln_jinja_node *value;
            LN_TRY(ln_jinja_parse_expression(p, true, &value));
            LN_TRY(ln_jinja_nodes_push(p, &signature->defaults, value));
        } else if (signature->defaults.count > 0) {
            return ln_jinja_syntax_error(p, "non-default argument follows default argument");
        }
    }
    LN_TRY(ln_jinja_expect_operator(p, ")"));
    signature->n_parameters = names.count;
    signature->parameters =
        ln_arena_alloc(&p->program->arena, names.count, sizeof *signature->parameters);
    if (signature->parameters == NULL)
        return ln_jinja_parse_no_memory(p);
    for (uint32_t i = 0; i < names.count; i++)
        signature->parameters[i] = names.items[i]->as.symbol;
    return LINNET_OK;
}

/* ---- statements ------------------------------------------------------------------------- */

static ln_status end_block(ln_jinja_parser *p) {
    return ln_jinja_expect_kind(p, LN_JINJA_TOKEN_BLOCK_END, "end of statement block");
}

/* The body of a statement whose opening tag ends here, up to one of `ends` (not consumed). */
static ln_status parse_statements(ln_jinja_parser *p, end_names ends, ln_jinja_nodes *body) {
    ln_jinja_skip_operator(p, ":");
    LN_TRY(end_block(p));
    LN_TRY(ln_jinja_nest(p));
    LN_TRY(parse_body(p, ends, body));
    p->depth--;
    return LINNET_OK;
}

/* A body that ends at one name, which is consumed. Unknown filters in it fail at once, unless
 * the body belongs to an if. */
static ln_status parse_whole(ln_jinja_parser *p, const char *end, ln_jinja_nodes *body) {
    bool soft = p->soft;
    p->soft = false;
    LN_TRY(parse_statements(p, (const char *const[]){end, NULL}, body));
    p->soft = soft;
    ln_jinja_advance(p);
    return LINNET_OK;
}

static ln_status parse_if(ln_jinja_parser *p, ln_jinja_node **node) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    bool soft = p->soft;
    p->soft = true;
    ln_jinja_node *branch;
    LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_IF, ln_jinja_peek(p)->line, node));
    branch = *node;
    for (;;) {
        ln_jinja_advance(p); /* if, elif */
        LN_TRY(ln_jinja_parse_tuple(p, false, NULL, false, &branch->as.branch.test));
        LN_TRY(parse_statements(p, ends, &branch->as.branch.body));
        if (!ln_jinja_at_name(p, "elif"))
            break;
        ln_jinja_node *next;
        LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_IF, ln_jinja_peek(p)->line, &next));
        LN_TRY(ln_jinja_nodes_push(p, &branch->as.branch.otherwise, next));
        branch = next;
    }
    if (ln_jinja_skip_name(p, "else"))
        LN_TRY(parse_statements(p, (const char *const[]){"endif", NULL},
                                &branch->as.branch.otherwise));
    p->soft = soft;
    return ln_jinja_expect_name(p, "endif");
}

static ln_status parse_for(ln_jinja_parser *p, ln_jinja_node **node) {
    static const char *const ends[] = {"endfor", "else", NULL};
    LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_FOR, ln_jinja_peek(p)->line, node));
    ln_jinja_node *loop = *node;
    bool inside_for = p->inside_for, soft = p->soft;
    p->inside_for = true;
    ln_jinja_advance(p);
    LN_TRY(ln_jinja_parse_target(p, "in", false, &loop->as.loop.target));
    LN_TRY(ln_jinja_expect_name(p, "in"));
    LN_TRY(ln_jinja_parse_tuple(p, false, "recursive", false, &loop->as.loop.iterable));
    p->soft = false;
    if (ln_jinja_skip_name(p, "if"))
        LN_TRY(ln_jinja_parse_expression(p, true, &loop->as.loop.test));
    loop->as.loop.recursive = ln_jinja_skip_name(p, "recursive");
    p->loop_depth++;
    LN_TRY(parse_statements(p, ends, &loop->as.loop.body));
    p->loop_depth--;
    if (ln_jinja_skip_name(p, "else"))
        LN_TRY(
            parse_statements(p, (const char *const[]){"endfor", NULL}, &loop->as.loop.otherwise));
    p->inside_for = inside_for;
    p->soft = soft;
    return ln_jinja_expect_name(p, "endfor");
}

static ln_status parse_set(ln_jinja_parser *p, ln_jinja_node **node) {
    uint32_t line = ln_jinja_peek(p)->line;
    ln_jinja_advance(p);
    ln_jinja_node *target;
    LN_TRY(ln_jinja_parse_target(p, NULL, true, &target));
    if (ln_jinja_skip_operator(p, "=")) {
        LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_SET, line, node));
        (*node)->as.set.target = target;
        return ln_jinja_parse_tuple(p, true, NULL, false, &(*node)->as.set.value);
    }
    LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_SET_BLOCK, line, node));
    (*node)->as.block.target = target;
    LN_TRY(ln_jinja_parse_filter(p, NULL, false, &(*node)->as.block.filter));
    return parse_whole(p, "endset", &(*node)->as.block.body);
}

static ln_status parse_with(ln_jinja_parser *p, ln_jinja_node **node) {
    LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_WITH, ln_jinja_peek(p)->line, node));
    ln_jinja_advance(p);
    while (ln_jinja_peek(p)->kind != LN_JINJA_TOKEN_BLOCK_END) {
        ln_jinja_node *target, *value;
        if ((*node)->as.with.targets.count > 0)
            LN_TRY(ln_jinja_expect_operator(p, ","));
        LN_TRY(ln_jinja_parse_target(p, NULL, false, &target));
        LN_TRY(ln_jinja_expect_operator(p, "="));
        LN_TRY(ln_jinja_parse_expression(p, true, &value));
        LN_TRY(ln_jinja_nodes_push(p, &(*node)->as.with.targets, target));
        LN_TRY(ln_jinja_nodes_push(p, &(*node)->as.with.values, value));
    }
    return parse_whole(p, "endwith", &(*node)->as.with.body);
}

/* A body that becomes a function of its own: loops around it are out of reach of break. */
static ln_status parse_function_body(ln_jinja_parser *p, const char *end,
                                     ln_jinja_signature *signature) {
    struct ln_jinja_outer outer = {.signature = signature, .outer = p->outer};
    int loop_depth = p->loop_depth;
    p->outer = &outer;
    p->loop_depth = 0;
    LN_TRY(parse_whole(p, end, &signature->body));
    p->outer = outer.outer;
    p->loop_depth = loop_depth;
    return LINNET_OK;
}

static ln_status parse_macro(ln_jinja_parser *p, ln_jinja_node **node) {
    LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_MACRO, ln_jinja_peek(p)->line, node));
    ln_jinja_advance(p);
    LN_TRY(ln_jinja_parse_name(p, &(*node)->as.macro.symbol));
    LN_TRY(ln_jinja_parse_signature(p, &(*node)->as.macro.signature));
    return parse_function_body(p, "endmacro", &(*node)->as.macro.signature);
}

static ln_status parse_call_block(ln_jinja_parser *p, ln_jinja_node **node) {
    LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_CALL_BLOCK, ln_jinja_peek(p)->line, node));
    ln_jinja_advance(p);
    if (ln_jinja_at_operator(p, "("))
        LN_TRY(ln_jinja_parse_signature(p, &(*node)->as.macro.signature));
    LN_TRY(ln_jinja_parse_expression(p, true, &(*node)->as.macro.call));
    if ((*node)->as.macro.call->kind != LN_JINJA_NODE_CALL)
        return ln_jinja_syntax_error(p, "expected call");
    return parse_function_body(p, "endcall", &(*node)->as.macro.signature);
}

static ln_status parse_filter_block(ln_jinja_parser *p, ln_jinja_node **node) {
    LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_FILTER_BLOCK, ln_jinja_peek(p)->line, node));
    ln_jinja_advance(p);
    LN_TRY(ln_jinja_parse_filter(p, NULL, true, &(*node)->as.block.filter));
    return parse_whole(p, "endfilter", &(*node)->as.block.body);
}

static ln_status parse_generation(ln_jinja_parser *p, ln_jinja_node **node) {
    LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_SCOPE, ln_jinja_peek(p)->line, node));
    ln_jinja_advance(p);
    int loop_depth = p->loop_depth;
    p->loop_depth = 0;
    LN_TRY(parse_whole(p, "endgeneration", &(*node)->as.scope));
    p->loop_depth = loop_depth;
    return LINNET_OK;
}

/* A block that nothing extends: its body, where it stands. */
static ln_status parse_block(ln_jinja_parser *p, ln_jinja_node **node) {
    LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_SCOPE, ln_jinja_peek(p)->line, node));
    ln_jinja_advance(p);
    LN_TRY(ln_jinja_expect_kind(p, LN_JINJA_TOKEN_NAME, "a name"));
    ln_jinja_skip_name(p, "scoped");
    int loop_depth = p->loop_depth;
    p->loop_depth = 0;
    LN_TRY(parse_whole(p, "endblock", &(*node)->as.scope));
    p->loop_depth = loop_depth;
    if (ln_jinja_peek(p)->kind == LN_JINJA_TOKEN_NAME) /* its name again */
        ln_jinja_advance(p);
    return LINNET_OK;
}

static ln_status parse_print(ln_jinja_parser *p, ln_jinja_nodes *body) {
    uint32_t line = ln_jinja_peek(p)->line;
    ln_jinja_advance(p);
    for (bool first = true; ln_jinja_peek(p)->kind != LN_JINJA_TOKEN_BLOCK_END; first = false) {
        if (!first)
            LN_TRY(ln_jinja_expect_operator(p, ","));
        ln_jinja_node *node;
        LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_PRINT, line, &node));
        LN_TRY(ln_jinja_parse_expression(p, true, &node->as.print));
        LN_TRY(ln_jinja_nodes_push(p, body, node));
    }
    return LINNET_OK;
}

static ln_status parse_jump(ln_jinja_parser *p, ln_jinja_node **node) {
    bool is_break = ln_jinja_at_name(p, "break");
    if (p->loop_depth == 0)
        return ln_jinja_syntax_error(p, "'%s' outside loop", is_break ? "break" : "continue");
    LN_TRY(ln_jinja_node_new(p, is_break ? LN_JINJA_NODE_BREAK : LN_JINJA_NODE_CONTINUE,
                             ln_jinja_peek(p)->line, node));
    ln_jinja_advance(p);
    return LINNET_OK;
}

static ln_status refuse_statement(ln_jinja_parser *p, end_names ends) {
    static const char *const refused[] = {"include",    "import", "from", "extends",
                                          "autoescape", "trans",  "do"};
    const ln_jinja_token *token = ln_jinja_peek(p);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (ln_jinja_at_name(p, refused[i]))
            return ln_fail(p->err, LINNET_ERR_UNSUPPORTED,
                           "%s, line %u: the statement '%s' is not supported in chat templates",
                           p->program->name, token->line, refused[i]);
    return ln_jinja_syntax_error(p, "Encountered unknown tag '%.*s'%s%s%s", (int)token->n_bytes,
                                 token->text, ends != NULL ? "; expected '" : "",
                                 ends != NULL ? ends[0] : "", ends != NULL ? "'" : "");
}

/* One statement, from its name to before the end of the block. */
static ln_status parse_statement(ln_jinja_parser *p, end_names ends, ln_jinja_nodes *body) {
    static const struct {
        const char *name;
        ln_status (*parse)(ln_jinja_parser *p, ln_jinja_node **node);
    } statements[] = {
        {"if", parse_if},         {"for", parse_for},
        {"set", parse_set},       {"with", parse_with},
        {"macro", parse_macro},   {"call", parse_call_block},
        {"break", parse_jump},    {"filter", parse_filter_block},
        {"continue", parse_jump}, {"generation", parse_generation},
        {"block", parse_block},
    };
    if (ln_jinja_peek(p)->kind != LN_JINJA_TOKEN_NAME)
        return ln_jinja_unexpected(p, "a tag name");
    if (ln_jinja_at_name(p, "print"))
        return parse_print(p, body);
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (ln_jinja_at_name(p, statements[i].name)) {
            ln_jinja_node *node;
            LN_TRY(statements[i].parse(p, &node));
            return ln_jinja_nodes_push(p, body, node);
        }
    return refuse_statement(p, ends);
}

static ln_status parse_text(ln_jinja_parser *p, ln_jinja_nodes *body) {
    const ln_jinja_token *token = ln_jinja_peek(p);
    ln_jinja_node *node;
    LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_TEXT, token->line, &node));
    ln_jinja_string *text =
        ln_jinja_string_borrow(&p->program->arena, token->text, token->n_bytes, true);
    if (text == NULL)
        return ln_jinja_parse_no_memory(p);
    node->as.constant = ln_jinja_of_string(text);
    ln_jinja_advance(p);
    return ln_jinja_nodes_push(p, body, node);
}

static ln_status parse_output(ln_jinja_parser *p, ln_jinja_nodes *body) {
    ln_jinja_node *node;
    LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_PRINT, ln_jinja_peek(p)->line, &node));
    ln_jinja_advance(p);
    LN_TRY(ln_jinja_parse_tuple(p, true, NULL, false, &node->as.print));
    LN_TRY(ln_jinja_expect_kind(p, LN_JINJA_TOKEN_PRINT_END, "end of print statement"));
    return ln_jinja_nodes_push(p, body, node);
}

static ln_status parse_body(ln_jinja_parser *p, end_names ends, ln_jinja_nodes *body) {
    for (;;) {
        switch (ln_jinja_peek(p)->kind) {
        case LN_JINJA_TOKEN_END:
            if (ends == NULL)
                return LINNET_OK;
            return ln_jinja_syntax_error(p, "Unexpected end of template; expected '%s'", ends[0]);
        case LN_JINJA_TOKEN_DATA: LN_TRY(parse_text(p, body)); break;
        case LN_JINJA_TOKEN_PRINT_BEGIN: LN_TRY(parse_output(p, body)); break;
        default:
            LN_TRY(ln_jinja_expect_kind(p, LN_JINJA_TOKEN_BLOCK_BEGIN, "a statement"));
            for (end_names end = ends; end != NULL && *end != NULL; end++)
                if (ln_jinja_at_name(p, *end))
                    return LINNET_OK;
            LN_TRY(parse_statement(p, ends, body));
            LN_TRY(end_block(p));
        }
    }
}

ln_status ln_jinja_parse(ln_jinja_program *program, const ln_jinja_token *tokens, size_t n_tokens,
                         ln_error *err) {
    ln_jinja_parser p = {.program = program, .tokens = tokens, .n_tokens = n_tokens, .err = err};
    static const char *const special[] = {"loop", "caller", "varargs", "kwargs"};
    uint32_t *const symbols[] = {&program->symbol_loop, &program->symbol_caller,
                                 &program->symbol_varargs, &program->symbol_kwargs};
    size_t most = sizeof special / sizeof *special;
    for (size_t i = 0; i < n_tokens; i++)
        most += tokens[i].kind == LN_JINJA_TOKEN_NAME;
    program->symbols = ln_arena_alloc(&program->arena, most, sizeof(ln_jinja_string *));
    ln_arena scratch;
    ln_arena_init(&scratch);
    ln_status status = LINNET_OK;
    if (program->symbols == NULL || !ln_hashmap_init(&p.symbol_map, &scratch, most))
        status = ln_jinja_parse_no_memory(&p);
    for (size_t i = 0; i < sizeof special / sizeof *special && status == LINNET_OK; i++)
        status = ln_jinja_symbol(&p, special[i], strlen(special[i]), symbols[i]);
    if (status == LINNET_OK)
        status = parse_body(&p, NULL, &program->body);
    if (status == LINNET_OK && p.unknown != NULL) {
        const ln_jinja_string *name = p.unknown->as.apply.name;
        status =
            ln_fail(err, LINNET_ERR_FORMAT, "%s, line %u: No %s named '%.*s'.", program->name,
                    p.unknown->line, p.unknown->kind == LN_JINJA_NODE_FILTER ? "filter" : "test",
                    (int)name->n_bytes, ln_jinja_bytes(name));
    }
    ln_arena_free(&scratch);
    return status;
}
