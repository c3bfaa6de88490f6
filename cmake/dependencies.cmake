# The libraries, all from the distribution. Debian 12 and Ubuntu 24.04 ship CMake files for each; where OpenBLAS
# and Highway come without (other distributions), headers and library are looked for.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)

# OpenBLAS is loaded at run time: only its cblas.h is needed here, which declares what the reference BLAS lacks.
find_package(OpenBLAS QUIET)
if(OpenBLAS_FOUND)
  set(flashbench_openblas_include ${OpenBLAS_INCLUDE_DIRS})
else()
  find_path(flashbench_openblas_include openblas_config.h PATH_SUFFIXES openblas REQUIRED)
endif()
add_library(flashbench_openblas INTERFACE)
target_include_directories(flashbench_openblas SYSTEM INTERFACE ${flashbench_openblas_include})

find_package(hwy QUIET)
if(NOT TARGET hwy::hwy)
  find_library(flashbench_hwy_library hwy REQUIRED)
  find_path(flashbench_hwy_include hwy/highway.h REQUIRED)
  add_library(hwy::hwy INTERFACE IMPORTED)
  target_include_directories(hwy::hwy SYSTEM INTERFACE ${flashbench_hwy_include})
  target_link_libraries(hwy::hwy INTERFACE ${flashbench_hwy_library})
endif()
