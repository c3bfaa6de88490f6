# Finds the headers of cudnn-frontend and of cuDNN, which the implementation `cudnn` is compiled against; the library itself
# is loaded at run time, so nothing is linked.
#
# Looks in CUDNN_FRONTEND_ROOT and CUDNN_ROOT (cache or environment), in the project's .venv and the active Python
# environment (wheels nvidia-cudnn-frontend and nvidia-cudnn-cu13), in the CUDA toolkit and in the system's folders.
#
# Gives CudnnFrontend_FOUND, CudnnFrontend_VERSION and the target CudnnFrontend::headers.

set(_cudnn_site_packages)
foreach(_environment "${PROJECT_SOURCE_DIR}/.venv" "$ENV{VIRTUAL_ENV}" "$ENV{CONDA_PREFIX}")
  if(_environment)
    file(GLOB _found "${_environment}/lib/python3*/site-packages")
    list(APPEND _cudnn_site_packages ${_found})
  endif()
endforeach()

set(_cudnn_wheel_includes)
foreach(_site ${_cudnn_site_packages})
  list(APPEND _cudnn_wheel_includes "${_site}/nvidia/cudnn/include")
endforeach()

find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h
  HINTS ${CUDNN_FRONTEND_ROOT} ENV CUDNN_FRONTEND_ROOT
  PATHS ${_cudnn_site_packages}
  PATH_SUFFIXES include)
find_path(CUDNN_INCLUDE_DIR cudnn.h
  HINTS ${CUDNN_ROOT} ENV CUDNN_ROOT
  PATHS ${CUDAToolkit_INCLUDE_DIRS} ${_cudnn_wheel_includes}
  PATH_SUFFIXES include)
mark_as_advanced(CUDNN_FRONTEND_INCLUDE_DIR CUDNN_INCLUDE_DIR)

if(CUDNN_FRONTEND_INCLUDE_DIR AND EXISTS "${CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend_version.h")
  file(STRINGS "${CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend_version.h" _lines REGEX "define CUDNN_FRONTEND_(MAJOR|MINOR|PATCH)_VERSION")
  string(REGEX REPLACE ".*MAJOR_VERSION ([0-9]+).*" "\\1" _major "${_lines}")
  string(REGEX REPLACE ".*MINOR_VERSION ([0-9]+).*" "\\1" _minor "${_lines}")
  string(REGEX REPLACE ".*PATCH_VERSION ([0-9]+).*" "\\1" _patch "${_lines}")
  set(CudnnFrontend_VERSION "${_major}.${_minor}.${_patch}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CudnnFrontend
  REQUIRED_VARS CUDNN_FRONTEND_INCLUDE_DIR CUDNN_INCLUDE_DIR
  VERSION_VAR CudnnFrontend_VERSION)

if(CudnnFrontend_FOUND AND NOT TARGET CudnnFrontend::headers)
  add_library(CudnnFrontend::headers INTERFACE IMPORTED)
  set_target_properties(CudnnFrontend::headers PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${CUDNN_FRONTEND_INCLUDE_DIR};${CUDNN_INCLUDE_DIR}"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${CUDNN_FRONTEND_INCLUDE_DIR};${CUDNN_INCLUDE_DIR}")
endif()
