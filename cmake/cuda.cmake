# Finds CUDA by itself: HAVE_CUDA is on when nvcc, a host compiler that it takes and the static
# runtime are there. Without them the library is built for CPUs alone.
option(LINNET_CUDA "build the CUDA backend where the CUDA toolkit is found" ON)
option(LINNET_CUDA_HOPPER "Hopper's own instructions; off: to try what other GPUs run on one" ON)
option(LINNET_CUDA_PTX "code that the driver translates for GPUs that are not Hopper; off: a quicker build for one" ON)
set(HAVE_CUDA OFF)
if(LINNET_CUDA AND NOT LINNET_SANITIZE AND NOT LINNET_FUZZ AND NOT LINNET_BACKEND_ONLY)
  set(CMAKE_CUDA_FLAGS_INIT "-Wno-deprecated-gpu-targets")
  set(CMAKE_CUDA_ARCHITECTURES OFF) # given below, as no release of CMake here knows 90a
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit 13)
    if(CUDAToolkit_FOUND AND TARGET CUDA::cudart_static)
      set(HAVE_CUDA ON)
    endif()
  endif()
endif()
if(HAVE_CUDA)
  message(STATUS "CUDA backend: nvcc ${CMAKE_CUDA_COMPILER_VERSION}")
  # Programs are linked as C programs: kernels and launchers need nothing of C++'s library.
  set(CMAKE_CUDA_LINKER_PREFERENCE 1)
  set(CMAKE_CUDA_LINKER_PREFERENCE_PROPAGATES 0)
  set(CMAKE_CUDA_RUNTIME_LIBRARY None)
  set(CMAKE_CUDA_IMPLICIT_LINK_LIBRARIES "")
  if(CMAKE_C_COMPILER_LAUNCHER AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
  endif()
  # Machine code for Hopper with its own instructions, or without them, and code that the driver
  # translates for Ampere and what came after. No fused multiply-add but where it is written: the
  # same sums have the same bits in every variant of a kernel.
  if(LINNET_CUDA_HOPPER)
    set(hopper_code arch=compute_90a,code=sm_90a)
  else()
    set(hopper_code arch=compute_80,code=sm_90)
  endif()
  set(LINNET_CUDA_FLAGS -std=c++17 -O3 --fmad=false
    --generate-code=${hopper_code}
    $<$<BOOL:${LINNET_CUDA_PTX}>:--generate-code=arch=compute_80,code=compute_80>
    --compiler-options -fvisibility=hidden,-fPIC,-fno-exceptions,-fno-threadsafe-statics,-Wall,-Wextra)
else()
  message(STATUS "CUDA backend: not built")
endif()
