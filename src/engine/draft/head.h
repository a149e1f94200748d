/* A head that drafts: a layer that reads the model's hidden states and, beside each, the token
 * behind it, and says what comes after that token (multi-token prediction: Gloeckle et al., 2024;
 * DeepSeek-V3 report, section 2.2). It reads its own hidden state and draft for the one after.
 *
 * An EAGLE-3 head (Li et al., 2025) lies in a folder of its own. It reads what enters three layers
 * of the model, which a step leaves behind, and drafts from a part of the vocabulary. An assistant
 * (Gemma 4) lies in one, too; it attends to the model's keys and values and has none. A drafter of
 * blocks (DFlash) lies in one as well; its keys and values are made of what enters some layers of
 * the model, and it drafts all tokens of a sequence at once.
 *
 * Its keys and values are layers of the block pool, so forks, swap and prefixes take them along.
 * They are made right behind each step, of all tokens that the step computed and whose next token
 * is known, prompts too; in a block that a prefix hit finds, they are there. What stands at the
 * last token of such a block was made with the next token of whoever read it first, and a fork or a
 * beam may leave what belongs to another: drafts are a little worse then, and nothing else. */
#ifndef LN_ENGINE_DRAFT_HEAD_H
#define LN_ENGINE_DRAFT_HEAD_H

#include "engine/execute.h"
#include "engine/plan/plan.h"
#include "sampling/sampler.h"

typedef struct ln_draft_head {
    const ln_engine_plan *plan;  /* the engine's, as what follows; where no head drafts the rest */
    const ln_executor *executor; /* is not used */
    ln_sampler *sampler;
    const ln_spec *spec; /* by which it runs: the model's, or that of its own folder */
    const ln_activations *activations; /* likewise; these */
    ln_activations own;
    bool has_weights;
    ln_weights weights;
    void *memory, *activation_memory; /* as planned */
    int32_t *ids;        /* with tokens of its own: which of the model's they are [spec->n_vocab] */
    float *row;          /* and logits of the model's tokens [n_vocab] */
    ln_op *ops;          /* [ln_forward_max_head_ops] */
    ln_sequence **asked; /* [max_seqs] that wait for a token */
    int32_t *rows;       /* [max_tokens] of x, the hidden states that the batch reads */
    ln_step step;
    float *logits; /* of the last batch [n_logits][spec->n_vocab], the host's */
    bool has_step; /* x is what the last step of the scheduler's chunks has left */
} ln_draft_head;

/* Reserves what was planned, and loads the weights. After a failure free is called, too. */
ln_status ln_draft_head_init(ln_draft_head *head, const linnet_model *model,
                             const ln_engine_plan *plan, const ln_executor *executor,
                             ln_sampler *sampler, ln_error *err);
void ln_draft_head_free(ln_draft_head *head);
/* What was reserved. */
size_t ln_draft_head_bytes(const ln_draft_head *head);

/* Reads what the last step computed, and drafts at most `most` tokens of each sequence that
 * decodes: its n_draft. */
void ln_draft_head_propose(ln_draft_head *head, const ln_scheduler *scheduler, size_t most);

#endif
