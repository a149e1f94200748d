# The web page becomes a C file: each file of web/ compressed, with its type and a tag of its contents.
# Included, it sets web_files, the C file; run by cmake -P with SOURCE and OUTPUT, it makes that.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  file(GLOB inputs CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/web/*.html ${PROJECT_SOURCE_DIR}/web/*.css
    ${PROJECT_SOURCE_DIR}/web/*.js ${PROJECT_SOURCE_DIR}/web/*.svg)
  set(web_files ${PROJECT_BINARY_DIR}/web/web_files.c)
  add_custom_command(OUTPUT ${web_files}
    COMMAND ${CMAKE_COMMAND} -D SOURCE=${PROJECT_SOURCE_DIR}/web -D OUTPUT=${web_files}
      -P ${CMAKE_CURRENT_LIST_FILE}
    DEPENDS ${inputs} ${CMAKE_CURRENT_LIST_FILE}
    COMMENT "Embedding the web page" VERBATIM)
  return()
endif()

set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")

file(GLOB inputs ${SOURCE}/*.html ${SOURCE}/*.css ${SOURCE}/*.js ${SOURCE}/*.svg)
list(SORT inputs)
get_filename_component(folder ${OUTPUT} DIRECTORY)
file(MAKE_DIRECTORY ${folder}) # Ninja has made it, Make has not
set(arrays "")
set(rows "")
set(i 0)
foreach(input ${inputs})
  get_filename_component(name ${input} NAME)
  get_filename_component(extension ${input} LAST_EXT)
  string(SUBSTRING ${extension} 1 -1 extension)
  file(SIZE ${input} n_bytes)
  file(SHA256 ${input} tag)
  string(SUBSTRING ${tag} 0 32 tag)
  file(ARCHIVE_CREATE OUTPUT ${folder}/file.gz PATHS ${input} FORMAT raw COMPRESSION GZip
    COMPRESSION_LEVEL 9)
  file(READ ${folder}/file.gz bytes HEX)
  # without the time of compression, so that a source has one output
  string(SUBSTRING "${bytes}" 0 8 begin)
  string(SUBSTRING "${bytes}" 16 -1 rest)
  set(bytes "${begin}00000000${rest}")
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "static const unsigned char file_${i}[] = {${bytes}};\n")
  string(APPEND rows "    {\"${name}\", \"${type_${extension}}\", \"\\\"${tag}\\\"\", ${n_bytes}, "
    "file_${i}, sizeof file_${i}},\n")
  math(EXPR i "${i} + 1")
endforeach()
file(REMOVE ${folder}/file.gz)
file(WRITE ${OUTPUT} "/* Made by cmake/web.cmake of the files in web/. */
#include \"server/web/web_file.h\"

${arrays}
const ln_web_file ln_web_files[] = {
${rows}};
const size_t ln_n_web_files = ${i};
")
