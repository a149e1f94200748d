# linnet-cuda.so: the CUDA backend as a module that the program loads at run time
# (src/backend/cuda/module.h), and what program and module must agree in.
file(GLOB shared_headers CONFIGURE_DEPENDS include/*.h src/base/*.h src/format/*.h src/dist/*.h
  src/backend/*.h src/backend/cuda/module.h)
set(module_id ${PROJECT_BINARY_DIR}/generated/base/module_id.h)
add_custom_command(OUTPUT ${module_id}
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
    -DOUT=${module_id} -P ${PROJECT_SOURCE_DIR}/cmake/module_id.cmake
  DEPENDS ${shared_headers} cmake/module_id.cmake VERBATIM)
target_sources(ln_base PRIVATE ${module_id})
target_include_directories(ln_base PRIVATE ${PROJECT_BINARY_DIR}/generated)

# What plans launches needs no CUDA, and is tested everywhere.
file(GLOB_RECURSE cuda_c CONFIGURE_DEPENDS src/backend/cuda/*.c)
set(planner ${cuda_c})
list(FILTER planner INCLUDE REGEX "/backend/cuda/(plan/|activations/form|attention/select|ranks/(arena|card))")
list(REMOVE_ITEM cuda_c ${planner})
add_library(ln_cuda_plan OBJECT EXCLUDE_FROM_ALL ${planner})
target_link_libraries(ln_cuda_plan PUBLIC linnet_flags)

if(HAVE_CUDA)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS src/backend/cuda/*.cu)
  add_library(ln_cuda OBJECT ${sources})
  target_include_directories(ln_cuda PRIVATE include src)
  target_compile_options(ln_cuda PRIVATE ${LINNET_CUDA_FLAGS})
  add_library(linnet_cuda MODULE ${cuda_c})
  target_compile_options(linnet_cuda PRIVATE -O3)
  # of linnet_static it takes what it calls, and no library that it does not use
  target_link_libraries(linnet_cuda PRIVATE ln_cuda ln_cuda_plan linnet_static CUDA::cudart_static)
  target_link_options(linnet_cuda PRIVATE -Wl,--as-needed -Wl,-z,defs -Wl,--exclude-libs,ALL)
  set_target_properties(linnet_cuda PROPERTIES PREFIX "" OUTPUT_NAME linnet-cuda)
endif()
