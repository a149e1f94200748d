#include "base/module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/module_id.h" /* written by cmake/module_id.cmake */

#ifndef LINNET_MODULE_DIRS /* where the build and the installation have modules */
#define LINNET_MODULE_DIRS ""
#endif

enum { PATH_BYTES = 4096 };

/* A look for one module. */
typedef struct search {
    const char *file;
    char *why;
    size_t why_bytes;
} search;

static void *try_open(const search *s, const char *folder, size_t n, const char *behind) {
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof path, "%.*s%s/%s", (int)n, folder, behind, s->file);
    if (n == 0 || length < 0 || (size_t)length >= sizeof path || access(path, R_OK) != 0)
        return NULL;
    void *module = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (module == NULL)
        snprintf(s->why, s->why_bytes, "%s", dlerror());
    return module;
}

/* Beside a program or library, or in lib/linnet, seen from bin, lib or lib/x86_64-linux-gnu. */
static void *try_beside(const search *s, const char *path) {
    static const char *const behind[] = {"", "/../lib/linnet", "/linnet", "/../linnet"};
    const char *slash = strrchr(path, '/');
    void *module = NULL;
    for (size_t i = 0; i < sizeof behind / sizeof *behind && slash != NULL && module == NULL; i++)
        module = try_open(s, path, (size_t)(slash - path), behind[i]);
    return module;
}

static void *open_module(const search *s) {
    char program[PATH_BYTES];
    Dl_info own;
    void *module = NULL;
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = '\0';
    snprintf(s->why, s->why_bytes, "%s is not installed", s->file);
    if ((module = try_beside(s, program)) != NULL)
        return module;
    if (dladdr(LINNET_MODULE_DIRS, &own) != 0 && own.dli_fname != NULL &&
        (module = try_beside(s, own.dli_fname)) != NULL)
        return module;
    for (const char *folder = LINNET_MODULE_DIRS; *folder != '\0' && module == NULL;) {
        size_t length = strcspn(folder, ":");
        module = try_open(s, folder, length, "");
        folder += length + (folder[length] == ':');
    }
    return module;
}

ln_module_fn ln_module_load(const char *file, const char *symbol, char *why, size_t why_bytes) {
    ln_module_fn function = NULL;
    void *module = open_module(&(search){.file = file, .why = why, .why_bytes = why_bytes});
    void *address = module != NULL ? dlsym(module, symbol) : NULL;
    if (module != NULL && address == NULL)
        snprintf(why, why_bytes, "%s has no %s", file, symbol);
    memcpy(&function, &address, sizeof function); /* ISO C has no cast to a function */
    return function;
}

const char *ln_module_id(void) {
    return LN_MODULE_ID;
}
