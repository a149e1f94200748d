/* The loose half of expressions: operators, tightest first, conditions and tuples. */
#include <string.h>

#include "text/jinja/parse.h"

ln_status ln_jinja_binary_new(ln_jinja_parser *p, ln_jinja_node_kind kind, uint32_t line,
                              ln_jinja_op op, ln_jinja_node *left, ln_jinja_node *right,
                              ln_jinja_node **node) {
    LN_TRY(ln_jinja_node_new(p, kind, line, node));
    (*node)->as.binary.op = op;
    (*node)->as.binary.left = left;
    (*node)->as.binary.right = right;
    return LINNET_OK;
}

static ln_status parse_pow(ln_jinja_parser *p, ln_jinja_node **node) {
    LN_TRY(ln_jinja_parse_unary(p, true, node));
    while (ln_jinja_at_operator(p, "**")) {
        ln_jinja_node *left = *node, *right;
        uint32_t line = ln_jinja_peek(p)->line;
        ln_jinja_advance(p);
        LN_TRY(ln_jinja_parse_unary(p, true, &right));
        LN_TRY(ln_jinja_binary_new(p, LN_JINJA_NODE_BINARY, line, LN_JINJA_POW, left, right, node));
    }
    return LINNET_OK;
}

static ln_status parse_product(ln_jinja_parser *p, ln_jinja_node **node) {
    static const struct {
        const char *text;
        ln_jinja_op op;
    } ops[] = {
        {"*", LN_JINJA_MUL}, {"/", LN_JINJA_DIV}, {"//", LN_JINJA_FLOORDIV}, {"%", LN_JINJA_MOD}};
    LN_TRY(parse_pow(p, node));
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (!ln_jinja_at_operator(p, ops[i].text))
            continue;
        ln_jinja_node *left = *node, *right;
        uint32_t line = ln_jinja_peek(p)->line;
        ln_jinja_advance(p);
        LN_TRY(parse_pow(p, &right));
        LN_TRY(ln_jinja_binary_new(p, LN_JINJA_NODE_BINARY, line, ops[i].op, left, right, node));
        i = (size_t)-1;
    }
    return LINNET_OK;
}

static ln_status parse_concat(ln_jinja_parser *p, ln_jinja_node **node) {
    LN_TRY(parse_product(p, node));
    if (!ln_jinja_at_operator(p, "~"))
        return LINNET_OK;
    ln_jinja_node *part = *node;
    LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_CONCAT, ln_jinja_peek(p)->line, node));
    LN_TRY(ln_jinja_nodes_push(p, &(*node)->as.list, part));
    while (ln_jinja_skip_operator(p, "~")) {
        LN_TRY(parse_product(p, &part));
        LN_TRY(ln_jinja_nodes_push(p, &(*node)->as.list, part));
    }
    return LINNET_OK;
}

static ln_status parse_sum(ln_jinja_parser *p, ln_jinja_node **node) {
    LN_TRY(parse_concat(p, node));
    while (ln_jinja_at_operator(p, "+") || ln_jinja_at_operator(p, "-")) {
        ln_jinja_node *left = *node, *right;
        ln_jinja_op op = ln_jinja_at_operator(p, "+") ? LN_JINJA_ADD : LN_JINJA_SUB;
        uint32_t line = ln_jinja_peek(p)->line;
        ln_jinja_advance(p);
        LN_TRY(parse_concat(p, &right));
        LN_TRY(ln_jinja_binary_new(p, LN_JINJA_NODE_BINARY, line, op, left, right, node));
    }
    return LINNET_OK;
}

/* Whether a relation stands here; consumes it. */
static bool skip_relation(ln_jinja_parser *p, ln_jinja_relation *relation) {
    static const struct {
        const char *text;
        ln_jinja_relation relation;
    } relations[] = {{"==", LN_JINJA_REL_EQ}, {"!=", LN_JINJA_REL_NE}, {"<", LN_JINJA_REL_LT},
                     {"<=", LN_JINJA_REL_LE}, {">", LN_JINJA_REL_GT},  {">=", LN_JINJA_REL_GE}};
    for (size_t i = 0; i < sizeof relations / sizeof *relations; i++)
        if (ln_jinja_skip_operator(p, relations[i].text)) {
            *relation = relations[i].relation;
            return true;
        }
    *relation = LN_JINJA_REL_IN;
    if (ln_jinja_skip_name(p, "in"))
        return true;
    if (!ln_jinja_at_name(p, "not") ||
        !ln_jinja_token_is(ln_jinja_look(p), LN_JINJA_TOKEN_NAME, "in"))
        return false;
    p->at += 2;
    *relation = LN_JINJA_REL_NOT_IN;
    return true;
}

static ln_status parse_compare(ln_jinja_parser *p, ln_jinja_node **node) {
    LN_TRY(parse_sum(p, node));
    uint32_t line = ln_jinja_peek(p)->line;
    ln_jinja_relation relation;
    ln_jinja_node *compare = NULL, *operand;
    while (skip_relation(p, &relation)) {
        if (compare == NULL) {
            LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_COMPARE, line, &compare));
            LN_TRY(ln_jinja_nodes_push(p, &compare->as.compare.operands, *node));
            *node = compare;
        }
        uint32_t n = compare->as.compare.operands.count - 1;
        if ((n & (n - 1)) == 0) { /* room for the next power of two */
            ln_jinja_relation *grown =
                ln_arena_alloc(&p->program->arena, n == 0 ? 1 : (size_t)n * 2, sizeof *grown);
            if (grown == NULL)
                return ln_jinja_parse_no_memory(p);
            if (n > 0)
                memcpy(grown, compare->as.compare.relations, n * sizeof *grown);
            compare->as.compare.relations = grown;
        }
        compare->as.compare.relations[n] = relation;
        LN_TRY(parse_sum(p, &operand));
        LN_TRY(ln_jinja_nodes_push(p, &compare->as.compare.operands, operand));
    }
    return LINNET_OK;
}

static ln_status parse_not(ln_jinja_parser *p, ln_jinja_node **node) {
    uint32_t line = ln_jinja_peek(p)->line;
    if (!ln_jinja_skip_name(p, "not"))
        return parse_compare(p, node);
    ln_jinja_node *operand;
    LN_TRY(ln_jinja_nest(p));
    LN_TRY(parse_not(p, &operand));
    p->depth--;
    return ln_jinja_binary_new(p, LN_JINJA_NODE_NOT, line, 0, operand, NULL, node);
}

static ln_status parse_and(ln_jinja_parser *p, ln_jinja_node **node) {
    LN_TRY(parse_not(p, node));
    while (ln_jinja_at_name(p, "and")) {
        ln_jinja_node *left = *node, *right;
        uint32_t line = ln_jinja_peek(p)->line;
        ln_jinja_advance(p);
        LN_TRY(parse_not(p, &right));
        LN_TRY(ln_jinja_binary_new(p, LN_JINJA_NODE_AND, line, 0, left, right, node));
    }
    return LINNET_OK;
}

static ln_status parse_or(ln_jinja_parser *p, ln_jinja_node **node) {
    LN_TRY(parse_and(p, node));
    while (ln_jinja_at_name(p, "or")) {
        ln_jinja_node *left = *node, *right;
        uint32_t line = ln_jinja_peek(p)->line;
        ln_jinja_advance(p);
        LN_TRY(parse_and(p, &right));
        LN_TRY(ln_jinja_binary_new(p, LN_JINJA_NODE_OR, line, 0, left, right, node));
    }
    return LINNET_OK;
}

/* `a if b else c`. An unknown filter in any of the three fails only when it runs. */
static ln_status parse_condition(ln_jinja_parser *p, ln_jinja_node **node) {
    LN_TRY(ln_jinja_nest(p));
    bool soft = p->soft;
    ln_jinja_node *unknown = p->unknown;
    LN_TRY(parse_or(p, node));
    while (ln_jinja_at_name(p, "if")) {
        p->soft = true;
        p->unknown = unknown;
        ln_jinja_node *then = *node;
        LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_CONDITION, ln_jinja_peek(p)->line, node));
        ln_jinja_advance(p);
        (*node)->as.condition.then = then;
        LN_TRY(parse_or(p, &(*node)->as.condition.test));
        if (ln_jinja_skip_name(p, "else"))
            LN_TRY(parse_condition(p, &(*node)->as.condition.otherwise));
    }
    p->soft = soft;
    p->depth--;
    return LINNET_OK;
}

ln_status ln_jinja_parse_expression(ln_jinja_parser *p, bool conditional, ln_jinja_node **node) {
    return conditional ? parse_condition(p, node) : parse_or(p, node);
}

ln_status ln_jinja_parse_tuple(ln_jinja_parser *p, bool conditional, const char *end_name,
                               bool parentheses, ln_jinja_node **node) {
    uint32_t line = ln_jinja_peek(p)->line;
    ln_jinja_node *tuple = NULL;
    *node = NULL;
    for (;;) {
        ln_jinja_token_kind kind = ln_jinja_peek(p)->kind;
        if (kind == LN_JINJA_TOKEN_PRINT_END || kind == LN_JINJA_TOKEN_BLOCK_END ||
            ln_jinja_at_operator(p, ")") || (end_name != NULL && ln_jinja_at_name(p, end_name)))
            break;
        ln_jinja_node *item;
        LN_TRY(ln_jinja_parse_expression(p, conditional, &item));
        if (*node == NULL)
            *node = item;
        if (tuple != NULL)
            LN_TRY(ln_jinja_nodes_push(p, &tuple->as.list, item));
        if (!ln_jinja_skip_operator(p, ","))
            break;
        if (tuple == NULL) {
            LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_TUPLE, line, &tuple));
            LN_TRY(ln_jinja_nodes_push(p, &tuple->as.list, item));
        }
    }
    if (tuple == NULL && *node == NULL) {
        if (!parentheses)
            return ln_jinja_unexpected(p, "an expression");
        LN_TRY(ln_jinja_node_new(p, LN_JINJA_NODE_TUPLE, line, &tuple));
    }
    if (tuple != NULL)
        *node = tuple;
    return LINNET_OK;
}
