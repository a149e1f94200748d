# Writes base/module_id.h (OUT): a hash of the headers that the program and its modules share. A module
# of other sources is refused.
# usage: cmake -DSOURCE=.. -DVERSION=.. -DOUT=.. -P module_id.cmake
file(GLOB headers ${SOURCE}/include/*.h ${SOURCE}/src/base/*.h ${SOURCE}/src/format/*.h
  ${SOURCE}/src/dist/*.h ${SOURCE}/src/backend/*.h ${SOURCE}/src/backend/cuda/module.h)
list(SORT headers)
set(all "")
foreach(header ${headers})
  file(SHA256 ${header} hash)
  string(APPEND all ${hash})
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 12 hash)
file(WRITE ${OUT} "#define LN_MODULE_ID \"${VERSION}-${hash}\"\n")
