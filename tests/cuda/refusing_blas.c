/* A libcublasLt that refuses products of a number of rows that is no power of two: as what a
 * program finds first, it shows that such products are made without it. The library behind it is
 * what LINNET_CUBLASLT names. A run that was refused nothing ends with status 1. */
#include <cublasLt.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static size_t n_refused;

static void *find(const char *name) {
    static void *library;
    const char *path = getenv("LINNET_CUBLASLT");
    if (library == NULL)
        library = dlopen(path != NULL ? path : "", RTLD_NOW | RTLD_LOCAL);
    void *function = library != NULL ? dlsym(library, name) : NULL;
    if (function == NULL) {
        fprintf(stderr, "no %s in LINNET_CUBLASLT\n", name);
        _exit(1);
    }
    return function;
}

__attribute__((destructor)) static void check(void) {
    if (n_refused > 0)
        return;
    fprintf(stderr, "nothing was refused\n");
    _exit(1);
}

#define FORWARD(NAME, PARAMETERS, ...)                                                             \
    cublasStatus_t CUBLASWINAPI NAME PARAMETERS {                                                  \
        return ((__typeof__(&NAME))find(#NAME))(__VA_ARGS__);                                      \
    }

FORWARD(cublasLtCreate, (cublasLtHandle_t * h), h)
FORWARD(cublasLtDestroy, (cublasLtHandle_t h), h)
FORWARD(cublasLtMatmulDescCreate,
        (cublasLtMatmulDesc_t * d, cublasComputeType_t compute, cudaDataType_t scale), d, compute,
        scale)
FORWARD(cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t d), d)
FORWARD(cublasLtMatmulDescSetAttribute,
        (cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t what, const void *value, size_t n),
        d, what, value, n)
FORWARD(cublasLtMatrixLayoutCreate,
        (cublasLtMatrixLayout_t * l, cudaDataType type, uint64_t rows, uint64_t cols, int64_t ld),
        l, type, rows, cols, ld)
FORWARD(cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t l), l)
FORWARD(cublasLtMatrixLayoutSetAttribute,
        (cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t what, const void *value,
         size_t n),
        l, what, value, n)
FORWARD(cublasLtMatrixLayoutGetAttribute,
        (cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t what, void *value, size_t n,
         size_t *written),
        l, what, value, n, written)
FORWARD(cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * p), p)
FORWARD(cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t p), p)
FORWARD(cublasLtMatmulPreferenceSetAttribute,
        (cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t what, const void *value,
         size_t n),
        p, what, value, n)
FORWARD(cublasLtMatmulAlgoGetHeuristic,
        (cublasLtHandle_t h, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a,
         cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t out,
         cublasLtMatmulPreference_t p, int wanted, cublasLtMatmulHeuristicResult_t found[],
         int *n_found),
        h, d, a, b, c, out, p, wanted, found, n_found)

cublasStatus_t CUBLASWINAPI cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t desc,
                                           const void *alpha, const void *a,
                                           cublasLtMatrixLayout_t a_layout, const void *b,
                                           cublasLtMatrixLayout_t b_layout, const void *beta,
                                           const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                                           cublasLtMatrixLayout_t d_layout,
                                           const cublasLtMatmulAlgo_t *algo, void *workspace,
                                           size_t workspace_bytes, cudaStream_t stream) {
    uint64_t n_rows = 0;
    (void)cublasLtMatrixLayoutGetAttribute(d_layout, CUBLASLT_MATRIX_LAYOUT_COLS, &n_rows,
                                           sizeof n_rows, NULL);
    if ((n_rows & (n_rows - 1)) != 0) {
        n_refused++;
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return ((__typeof__(&cublasLtMatmul))find("cublasLtMatmul"))(
        h, desc, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, algo, workspace,
        workspace_bytes, stream);
}
