/* Modules that are loaded at run time: what only some machines can run, such as the CUDA backend.
 */
#ifndef LN_BASE_MODULE_H
#define LN_BASE_MODULE_H

#include <stddef.h>

typedef void (*ln_module_fn)(void);

/* Loads the module of this file name and gives its one function by the name of its symbol. It is
 * looked for beside the program and beside the library that this code is part of, in lib/linnet
 * next to their folder, then where the build and the installation have modules. It stays loaded.
 * NULL: `why` says, in one sentence, what is missing. */
ln_module_fn ln_module_load(const char *file, const char *symbol, char *why, size_t why_bytes);

/* The version, and a hash of the headers that the program and its modules share; static storage. */
const char *ln_module_id(void);

#endif
