/* The functions of cuBLASLt, found when they are asked for: the program runs without the library.
 */
#ifndef LN_BACKEND_CUDA_GEMM_CUBLASLT_LIBRARY_CUH
#define LN_BACKEND_CUDA_GEMM_CUBLASLT_LIBRARY_CUH

#include <cublasLt.h>
#include <dlfcn.h>

typedef struct library {
    void *handle;
    decltype(&cublasLtCreate) create;
    decltype(&cublasLtDestroy) destroy;
    decltype(&cublasLtMatmul) matmul;
    decltype(&cublasLtMatmulDescCreate) desc_create;
    decltype(&cublasLtMatmulDescDestroy) desc_destroy;
    decltype(&cublasLtMatmulDescSetAttribute) desc_set;
    decltype(&cublasLtMatrixLayoutCreate) layout_create;
    decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
    decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
    decltype(&cublasLtMatmulPreferenceCreate) preference_create;
    decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
    decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
    decltype(&cublasLtMatmulAlgoGetHeuristic) find;
} library;

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
static const char library_name[] = "libcublasLt.so." TEXT(CUBLAS_VER_MAJOR);

template <typename T> static bool load(void *handle, const char *name, T *function) {
    *function = (T)dlsym(handle, name);
    return *function != NULL;
}

static bool load_all(library *lib) {
    void *h = lib->handle;
    return load(h, "cublasLtCreate", &lib->create) && load(h, "cublasLtDestroy", &lib->destroy) &&
           load(h, "cublasLtMatmul", &lib->matmul) &&
           load(h, "cublasLtMatmulDescCreate", &lib->desc_create) &&
           load(h, "cublasLtMatmulDescDestroy", &lib->desc_destroy) &&
           load(h, "cublasLtMatmulDescSetAttribute", &lib->desc_set) &&
           load(h, "cublasLtMatrixLayoutCreate", &lib->layout_create) &&
           load(h, "cublasLtMatrixLayoutDestroy", &lib->layout_destroy) &&
           load(h, "cublasLtMatrixLayoutSetAttribute", &lib->layout_set) &&
           load(h, "cublasLtMatmulPreferenceCreate", &lib->preference_create) &&
           load(h, "cublasLtMatmulPreferenceDestroy", &lib->preference_destroy) &&
           load(h, "cublasLtMatmulPreferenceSetAttribute", &lib->preference_set) &&
           load(h, "cublasLtMatmulAlgoGetHeuristic", &lib->find);
}

#endif
