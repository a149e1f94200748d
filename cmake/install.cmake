# What `cmake --install` puts in place. The prefix is known only then, so linnet.pc and linnet.service are written then.
if(LINNET_PYTHON) # the library in the package, and the module beside it
  install(TARGETS linnet_shared LIBRARY DESTINATION linnet/lib COMPONENT python)
  if(TARGET linnet_cuda)
    install(TARGETS linnet_cuda LIBRARY DESTINATION linnet/lib COMPONENT python)
  endif()
  foreach(package libjansson4 libpcre2-8-0 libutf8proc2 libutf8proc3 libxxhash0) # auditwheel puts them inside
    if(EXISTS /usr/share/doc/${package}/copyright)
      install(FILES /usr/share/doc/${package}/copyright RENAME ${package}.txt
        DESTINATION linnet/lib/licenses COMPONENT python)
    endif()
  endforeach()
  return()
endif()

include(GNUInstallDirs)
set(LINNET_DATA_DIR ${CMAKE_INSTALL_DATADIR}/linnet)

if(TARGET linnet)
  install(TARGETS linnet RUNTIME)
endif()
install(TARGETS linnet_static linnet_shared)
foreach(module linnet_mpi linnet_cuda)
  if(TARGET ${module})
    install(TARGETS ${module} LIBRARY DESTINATION lib/linnet)
  endif()
endforeach()
install(FILES include/linnet.h TYPE INCLUDE)
install(FILES packaging/linnet.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES packaging/linnet.bash RENAME linnet
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES packaging/linnet.zsh RENAME _linnet
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES packaging/linnet.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES models/demo.gguf DESTINATION ${LINNET_DATA_DIR}/models)
# as README.md and the documents link to one another
file(GLOB pages CONFIGURE_DEPENDS *.md)
install(FILES LICENSE ${pages} DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md" PATTERN "*.svg"
  PATTERN "*.png")
install(FILES python/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/python)
install(FILES tools/demo-model/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/tools/demo-model)
install(FILES bench/results/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/bench/results)
install(DIRECTORY deploy DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES examples/hello.c DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

include(CMakePackageConfigHelpers)
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/linnet)
configure_package_config_file(packaging/linnet-config.cmake.in ${PROJECT_BINARY_DIR}/linnet-config.cmake
  INSTALL_DESTINATION ${config_dir} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/linnet-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/linnet-config.cmake
  ${PROJECT_BINARY_DIR}/linnet-config-version.cmake DESTINATION ${config_dir})

# Not as Requires.private: pkg-config would give whoever links the shared library their flags, too.
list(JOIN DEPS_STATIC_LDFLAGS " " static_libs)
set(templates ${PROJECT_SOURCE_DIR}/packaging)
set(written ${PROJECT_BINARY_DIR})
install(CODE "
  get_filename_component(CMAKE_INSTALL_PREFIX \"\${CMAKE_INSTALL_PREFIX}\" ABSOLUTE)
  set(PROJECT_VERSION \"${PROJECT_VERSION}\")
  set(PROJECT_DESCRIPTION \"${PROJECT_DESCRIPTION}\")
  set(LINNET_STATIC_LIBS \"${static_libs}\")
  set(CMAKE_INSTALL_INCLUDEDIR \"${CMAKE_INSTALL_INCLUDEDIR}\")
  set(CMAKE_INSTALL_LIBDIR \"${CMAKE_INSTALL_LIBDIR}\")
  configure_file(\"${templates}/linnet.pc.in\" \"${written}/linnet.pc\" @ONLY)
  configure_file(\"${templates}/linnet.service.in\" \"${written}/linnet.service\" @ONLY)")
install(FILES ${written}/linnet.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${written}/linnet.service DESTINATION lib/systemd/system)
