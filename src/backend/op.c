#include "backend/op.h"

#include "base/error.h"

static const char *const names[LN_OP_COUNT] = {
    [LN_OP_EMBED] = "embed",
    [LN_OP_NORM] = "norm",
    [LN_OP_LINEAR] = "linear",
    [LN_OP_LORA_SHRINK] = "lora_shrink",
    [LN_OP_QKV] = "qkv",
    [LN_OP_LATENT] = "latent",
    [LN_OP_COMPRESS] = "compress",
    [LN_OP_INDEX] = "index",
    [LN_OP_ATTENTION] = "attention",
    [LN_OP_ROUTE] = "route",
    [LN_OP_GROUP] = "group",
    [LN_OP_COMBINE] = "combine",
    [LN_OP_POINTWISE] = "pointwise",
    [LN_OP_ROWWISE] = "rowwise",
    [LN_OP_CONV] = "conv",
    [LN_OP_SCAN] = "scan",
    [LN_OP_GATED_NORM] = "gated norm",
    [LN_OP_GATHER] = "gather",
    [LN_OP_COPY] = "copy",
    [LN_OP_SAMPLE] = "sample",
    [LN_OP_ALL_REDUCE] = "all-reduce",
    [LN_OP_RANK_GATHER] = "rank gather",
    [LN_OP_RANK_PASS] = "rank pass",
};

const char *ln_op_name(ln_op_kind kind) {
    LN_BUG_ON(kind >= LN_OP_COUNT || names[kind] == NULL);
    return names[kind];
}
