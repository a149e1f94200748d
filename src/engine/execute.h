/* Steps on the backend: built, recorded and started, then waited for.
 *
 * Where the backend can start a step behind another one, it also chooses tokens: of rows whose
 * choice is an ln_draw with its edits, and what logprobs take comes with them. When all rows of a
 * step are such, the step that follows is that of the same sequences, with these tokens, whatever
 * they are; it is started before they are known here, and the device never waits for the host. A
 * sequence that turns out to have ended loses its row of that step. */
#ifndef LN_ENGINE_EXECUTE_H
#define LN_ENGINE_EXECUTE_H

#include "base/error.h"
#include "engine/scheduler.h"

/* Starts the scheduler's step, where none is under way. */
ln_status ln_execute_start(linnet_engine *engine, ln_error *err);

/* Starts the step behind the one that is under way; false: that is not known yet, or cannot be. */
bool ln_execute_start_next(linnet_engine *engine);

/* Waits for the first step that is under way: rows of engine->rows that are sampled have their
 * tokens, and ln_rows_logits gives the others. */
ln_status ln_execute_finish(linnet_engine *engine, ln_error *err);

/* Waits for a step that nobody asks for any more. */
void ln_execute_drop(linnet_engine *engine);

#endif
